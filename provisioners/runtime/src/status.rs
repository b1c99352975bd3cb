//! Writing a status: one merge patch that says only what differs, and only if the object is the one that was looked at.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::FIELD_MANAGER;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::api::Error;

/// The status of one cluster-scoped object during a reconcile.
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
        Self {
            api: Api::all(client.clone()),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().unwrap_or_default(),
            current: current.and_then(|status| serde_json::to_value(status).ok()).unwrap_or_else(|| json!({})),
        }
    }

    /// Makes `status` the status. Sends nothing if it is already. Returns whether it was written.
    ///
    /// # Errors
    /// A conflict if the object was changed meanwhile: the change will wake us.
    pub async fn write<S: Serialize + Sync>(&mut self, status: &S, versions: &WrittenVersions) -> Result<bool, Error> {
        let new = serde_json::to_value(status)
            .map_err(|error| Error::Unavailable(Box::new(kube::Error::SerdeError(error))))?;
        let Some(difference) = merge_difference(&self.current, &new) else { return Ok(false) };
        let patch = json!({"metadata": {"resourceVersion": self.version}, "status": difference});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.api.patch_status(&self.name, &params, &Patch::Merge(patch)).await?;
        self.version = written.resource_version().unwrap_or_default();
        versions.record(&self.uid, Some(&self.version));
        self.current = new;
        Ok(true)
    }
}

/// Remembers which version of an object our last status write made, so that a reconcile does not work on an older one.
#[derive(Default)]
pub struct WrittenVersions(Mutex<HashMap<String, u64>>);

impl WrittenVersions {
    /// Our write made `version` of the object with this UID.
    pub fn record(&self, uid: &str, version: Option<&str>) {
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), version);
        }
    }

    /// Whether `object` is older than our last write: the event of that write is still to come, and wakes us again.
    pub fn is_stale<K: Resource>(&self, object: &K) -> bool {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else { return false };
        let Ok(version) = version.parse::<u64>() else { return false };
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(&uid).is_some_and(|ours| version < *ours)
    }

    /// Whether `object` is as our last write left it: nobody touched it since.
    pub fn is_last<K: Resource>(&self, object: &K) -> bool {
        let (Some(uid), Some(version)) = (object.uid(), object.resource_version()) else { return false };
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(&uid).is_some_and(|ours| ours.to_string() == version)
    }

    /// The object is gone.
    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
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
    use super::*;

    #[test]
    fn says_only_what_differs() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": [1]});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "list": [1, 2]});
        assert_eq!(merge_difference(&old, &new), Some(json!({"b": {"d": 3}, "gone": null, "list": [1, 2]})));
        assert_eq!(merge_difference(&old, &old), None);
    }
}
