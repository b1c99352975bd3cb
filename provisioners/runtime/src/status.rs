//! Writing a status: one merge patch that says only what differs, and only if the object is the one that was looked at.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::FIELD_MANAGER;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::api::Error;
use crate::lock::lock;

/// The status of one object during a reconcile.
pub struct StatusWriter<K> {
    api: Api<K>,
    name: String,
    uid: String,
    version: String,
    current: Value,
}

impl<K> StatusWriter<K>
where
    K: Resource<Scope = kube::core::ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    /// For `object`, whose status is `current`.
    pub fn new<S: Serialize>(client: &Client, object: &K, current: Option<&S>) -> Self {
        Self::by(Api::all(client.clone()), object, current)
    }
}

impl<K> StatusWriter<K>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    /// For `object`, which is in a namespace, and whose status is `current`.
    pub fn within<S: Serialize>(client: &Client, object: &K, current: Option<&S>) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        Self::by(Api::namespaced(client.clone(), &namespace), object, current)
    }
}

impl<K> StatusWriter<K>
where
    K: Resource + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    fn by<S: Serialize>(api: Api<K>, object: &K, current: Option<&S>) -> Self {
        Self {
            api,
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().unwrap_or_default(),
            current: current.and_then(|status| serde_json::to_value(status).ok()).unwrap_or_else(|| json!({})),
        }
    }

    /// Makes `status` the status. Sends nothing if it is already. Returns whether it was written.
    ///
    /// # Errors
    /// A conflict if the object was changed meanwhile: the change will wake us. Not found if it is gone: it is stale until the watch has
    /// told so.
    pub async fn write<S: Serialize + Sync>(&mut self, status: &S, versions: &WrittenVersions) -> Result<bool, Error> {
        let new = serde_json::to_value(status)
            .map_err(|error| Error::Unavailable(Box::new(kube::Error::SerdeError(error))))?;
        let Some(difference) = merge_difference(&self.current, &new) else { return Ok(false) };
        let patch = json!({"metadata": {"resourceVersion": self.version}, "status": difference});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.api.patch_status(&self.name, &params, &Patch::Merge(patch)).await.map_err(Error::from);
        let written = written.inspect_err(|error| {
            if error.is_gone(&self.name) {
                versions.record_gone::<K>(&self.uid);
            }
        })?;
        self.version = written.resource_version().unwrap_or_default();
        versions.record(&written);
        self.current = new;
        Ok(true)
    }
}

/// Remembers which version of an object our last write made, so that a reconcile does not work on an older one.
#[derive(Default)]
pub struct WrittenVersions(Mutex<HashMap<String, Written>>);

/// Our last write of an object.
struct Written {
    kind: Cow<'static, str>,
    version: u64,
    at: Instant,
    /// Whether a list that was begun later has shown the object. From then on an older version is no late event: the API server went
    /// back to an earlier state, as after a backup was restored.
    is_shown: bool,
}

impl WrittenVersions {
    /// Our write made `object`.
    pub fn record<K: Resource<DynamicType: Default>>(&self, object: &K) {
        let version = object.resource_version().and_then(|version| version.parse().ok());
        let (Some(uid), Some(version)) = (object.uid(), version) else { return };
        self.insert::<K>(uid, version);
    }

    /// The API server does not have the object with this UID any more, and the watch has not told so yet: whatever is shown of it is
    /// stale, until a list shows it again.
    pub fn record_gone<K: Resource<DynamicType: Default>>(&self, uid: &str) {
        self.insert::<K>(uid.to_owned(), u64::MAX);
    }

    fn insert<K: Resource<DynamicType: Default>>(&self, uid: String, version: u64) {
        let kind = K::kind(&K::DynamicType::default()).into_owned().into();
        lock(&self.0).insert(uid, Written { kind, version, at: Instant::now(), is_shown: false });
    }

    /// Whether `object` is older than our last write: the event of that write is still to come, and wakes us again.
    pub fn is_stale<K: Resource>(&self, object: &K) -> bool {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else { return false };
        let Ok(version) = version.parse::<u64>() else { return false };
        lock(&self.0).get(&uid).is_some_and(|ours| version < ours.version && !ours.is_shown)
    }

    /// Whether `object` is as our last write left it: nobody touched it since.
    pub fn is_last<K: Resource>(&self, object: &K) -> bool {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else { return false };
        lock(&self.0).get(&uid).is_some_and(|ours| ours.version.to_string() == version)
    }

    /// A list that was begun at `since` has shown `live`, and no other object of the kind. What went while nobody watched is
    /// forgotten.
    pub fn listed<K: Resource<DynamicType: Default>>(&self, since: Instant, live: &[Arc<K>]) {
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let live: HashSet<String> = live.iter().filter_map(|object| object.uid()).collect();
        let mut all = lock(&self.0);
        all.retain(|uid, ours| ours.kind != kind || ours.at > since || live.contains(uid));
        for ours in all.values_mut().filter(|ours| ours.kind == kind && ours.at <= since) {
            ours.is_shown = true;
        }
    }

    /// The object is gone.
    pub fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

/// The JSON merge patch (RFC 7396) from `old` to `new`; `None` if they are equal.
fn merge_difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (key, value) in new {
        let difference = match old.get(key) {
            Some(before) => merge_difference(before, value),
            None => Some(value.clone()),
        };
        if let Some(difference) = difference {
            patch.insert(key.clone(), difference);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::{Namespace, Pod};

    use super::*;

    fn namespace(uid: &str, version: u64) -> Arc<Namespace> {
        let metadata = json!({"name": uid, "uid": uid, "resourceVersion": version.to_string()});
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).expect("a Namespace"))
    }

    /// As after a backup of etcd was restored.
    #[test]
    fn an_older_version_is_no_late_event_once_a_list_has_shown_it() {
        let written = WrittenVersions::default();
        let before = Instant::now();
        written.record(&*namespace("a", 7));
        assert!(written.is_stale(&*namespace("a", 5)), "the event of our write is still to come");

        // A list that was begun before the write may be older than it.
        written.listed(before.checked_sub(Duration::from_secs(1)).unwrap(), &[namespace("a", 5)]);
        assert!(written.is_stale(&*namespace("a", 5)));
        written.listed(Instant::now(), &[namespace("a", 5)]);
        assert!(!written.is_stale(&*namespace("a", 5)), "the API server went back");
        assert!(!written.is_last(&*namespace("a", 5)) && written.is_last(&*namespace("a", 7)));
        written.record(&*namespace("a", 6));
        assert!(written.is_stale(&*namespace("a", 5)), "what is written after that counts again");
    }

    #[test]
    fn an_object_that_is_gone_is_stale_until_the_watch_shows_what_is_there() {
        let written = WrittenVersions::default();
        written.record_gone::<Namespace>("a");
        written.record_gone::<Namespace>("b");
        assert!(written.is_stale(&*namespace("a", 7)), "the event of its deletion is still to come");

        written.listed(Instant::now(), &[namespace("a", 5)]);
        assert!(!written.is_stale(&*namespace("a", 5)), "it is there again, as after a backup was restored");
        assert!(!written.is_stale(&*namespace("b", 5)), "nothing is known of what no list shows");
    }

    #[test]
    fn versions_of_objects_that_went_while_nobody_watched_are_forgotten() {
        let written = WrittenVersions::default();
        for uid in ["a", "b"] {
            written.record(&*namespace(uid, 7));
        }
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"uid": "c", "resourceVersion": "7"}})).expect("a Pod");
        written.record(&pod);
        written.listed(Instant::now(), &[namespace("b", 7)]);
        let mut known: Vec<String> = lock(&written.0).keys().cloned().collect();
        known.sort();
        assert_eq!(known, ["b", "c"], "other kinds were not listed");
    }

    #[test]
    fn says_only_what_differs() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": [1]});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "list": [1, 2]});
        assert_eq!(merge_difference(&old, &new), Some(json!({"b": {"d": 3}, "gone": null, "list": [1, 2]})));
        assert_eq!(merge_difference(&old, &old), None);
    }
}
