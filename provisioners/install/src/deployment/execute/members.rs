//! The objects of ours that are in the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, VersionMatch};
use kube::core::PartialObjectMeta;
use rukpak_crds::{InventoryKind, names};
use rukpak_plain::ObjectKey;
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::memory::Installation;
use rukpak_plan::prune::{Leaving, Pruning};
use rukpak_plan::resolve::Why;
use rukpak_plan::{Fingerprint, Identity, Kind, Owner, Plan, Step, fields, opt_out};
use rukpak_runtime::error::Chain;
use tokio::time::timeout;

use super::bases::Bases;
use super::put::Known;
use crate::cluster::Error;
use crate::deployment::observe::View;

/// Objects of ours, and the kinds that could not be asked for.
#[derive(Default)]
pub(super) struct Members {
    /// Those that were listed.
    pub objects: BTreeMap<ObjectKey, Leaving>,
    /// Those of kinds of which nothing leaves, as the watches saw them last.
    watched: BTreeMap<ObjectKey, Fingerprint>,
    /// Kinds that could not be listed: objects of them may be left when the others are pruned.
    pub unlisted: Vec<InventoryKind>,
    /// Why the first of them could not.
    pub why: Option<String>,
}

impl Members {
    /// The object, if it is one that we applied. The others (upstream's, for example) have to be looked at before they are
    /// written.
    pub fn known(&self, key: &ObjectKey) -> Option<Known> {
        if let Some(Fingerprint { uid, version, .. }) = self.watched.get(key) {
            return Some(Known { uid: uid.clone(), version: version.map(|version| version.to_string()) });
        }
        let metadata = &self.objects.get(key)?.metadata;
        fields::applied(metadata, names::FIELD_MANAGER)?;
        Some(Known { uid: metadata.uid.clone()?, version: metadata.resource_version.clone() })
    }

    /// The fingerprint of the object of `owner`, unless it is being deleted.
    pub fn fingerprint(&self, key: &ObjectKey, owner: &Owner) -> Option<Fingerprint> {
        if let Some(watched) = self.watched.get(key) {
            return Some(watched.clone());
        }
        let Leaving { metadata, .. } = self.objects.get(key)?;
        let is_leaving = metadata.deletion_timestamp.is_some();
        (!is_leaving).then(|| Fingerprint::of(metadata, owner, names::FIELD_MANAGER))
    }

    /// Whether the object is left as it is: its manifest says so, or the object that is there.
    pub fn is_paused(&self, step: &Step) -> bool {
        let is_live = |object: &Leaving| object.metadata.deletion_timestamp.is_none();
        step.is_paused
            || self.watched.get(&step.key).is_some_and(Fingerprint::is_paused)
            || self.objects.get(&step.key).is_some_and(|object| is_live(object) && opt_out::is_paused(&object.metadata))
    }
}

/// Finds what is there before `plan` is applied. A kind that cannot be listed stops nothing but its own pruning.
pub(super) async fn before(view: &View, kinds: &BTreeSet<InventoryKind>, why: Why, plan: &Plan) -> Members {
    let (mut watched, mut others) = (BTreeMap::new(), BTreeSet::new());
    for kind in kinds {
        match staying(view, kind, plan) {
            Some(objects) => watched.extend(objects),
            None => drop(others.insert(kind.clone())),
        }
    }
    // Without any kind at all, list() would look for what RukPak v0.16 has left.
    if others.is_empty() && !kinds.is_empty() {
        return Members { watched, ..Members::default() };
    }
    Members { watched, ..list(view, &others, why).await }
}

/// The objects of a kind as its watch saw them last, where that is as good as a list: each write of the release before was
/// answered, the watch shows what was written and nothing else, and `plan` has all of it. So no object is deleted because of it; a
/// write names UID and version; and what a watch that is late has not told yet is repaired when it does.
fn staying(view: &View, kind: &InventoryKind, plan: &Plan) -> Option<BTreeMap<ObjectKey, Fingerprint>> {
    if !is_clean(view) {
        return None;
    }
    let mut watched = view.reads.dependents.of_kind(&view.owner, kind)?;
    let tracked = view.tracker.tracked();
    let written = tracked.objects.iter().filter(|(key, _)| key.group == kind.group && key.kind == kind.kind);
    let mut count = 0;
    for (key, object) in written {
        count += 1;
        let seen = watched.get_mut(key).filter(|seen| seen.is_owned() && plan.steps.contains_key(key))?;
        if seen.version? < object.fingerprint.version? {
            seen.clone_from(&object.fingerprint);
        }
    }
    (count == watched.len()).then_some(watched)
}

/// Whether each write of the release before was answered.
fn is_clean(view: &View) -> bool {
    let is_applied = matches!(view.memory.installation(), Installation::Applied { pruning: Pruning::Done, .. });
    is_applied && !view.memory.is_upgrade_held()
}

/// Lists everything of ours, of the kinds that were ever used.
pub(super) async fn list(view: &View, kinds: &BTreeSet<InventoryKind>, why: Why) -> Members {
    let mut members = Members::default();
    let mut kinds = kinds.clone();
    if why == Why::First && kinds.is_empty() && is_of_upstream(view).await {
        kinds = all_kinds(view).await;
    }
    let selector =
        format!("{}={},{}={}", names::OWNER_KIND, names::OWNER_KIND_VALUE, names::OWNER_NAME, view.owner.name);
    let lists: Vec<_> = by_kind(&kinds).into_iter().map(|kind| list_kind(view, kind, &selector)).collect();
    for (kind, listed) in futures::future::join_all(lists).await {
        match listed {
            Ok(None) => {}
            Ok(Some((kind, objects))) => {
                for object in objects.into_iter().filter(|object| view.owner.owns_fully(&object.metadata)) {
                    let (namespace, name) = (object.metadata.namespace.clone(), object.name_any());
                    let identity = Identity { kind: kind.clone(), namespace, name };
                    members
                        .objects
                        .insert(identity.key(), Leaving { identity, metadata: Arc::new(stripped(object.metadata)) });
                }
            }
            Err(error) => {
                let text = format!("{} cannot be listed: {}", kind.kind, Chain(&error));
                tracing::warn!(deployment = %view.owner.name, kind = %kind.kind, group = %kind.group, %error,
                    "cannot list the objects of a kind");
                members.why.get_or_insert(text);
                members.unlisted.push(kind);
            }
        }
    }
    members
}

/// Without what nobody reads here, which is most of it: what others wrote, and what `kubectl apply` noted. Lists are held until
/// everything is applied.
fn stripped(mut metadata: ObjectMeta) -> ObjectMeta {
    if let Some(entries) = &mut metadata.managed_fields {
        entries.retain(|entry| entry.manager.as_deref() == Some(names::FIELD_MANAGER));
    }
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    metadata
}

/// One entry a kind: objects are the same in every version.
fn by_kind(kinds: &BTreeSet<InventoryKind>) -> Vec<InventoryKind> {
    let mut by_kind: BTreeMap<(&str, &str), &InventoryKind> = BTreeMap::new();
    for kind in kinds {
        by_kind.insert((&kind.group, &kind.kind), kind);
    }
    by_kind.into_values().cloned().collect()
}

type Listed = Option<(Kind, Vec<PartialObjectMeta<DynamicObject>>)>;

/// `None` if no version of the kind is served: it is gone, and its objects with it.
async fn list_kind(view: &View, kind: InventoryKind, selector: &str) -> (InventoryKind, Result<Listed, Error>) {
    let listed = async {
        let mut unserved = BTreeSet::new();
        loop {
            let Some(found) = view.reads.kinds.any_version(&kind, &unserved).await? else { return Ok(None) };
            let listed = match reached(view, &kind) {
                Some(version) => cached(view, &found, selector, version).await,
                None => list_version(view, &found, selector).await,
            };
            match listed {
                // Discovery lags behind: what it says of the group is forgotten, and another version is asked for.
                Err(error) if error.is_not_found() => {
                    view.reads.kinds.forget(&kind.group);
                    unserved.insert(found.resource.version.clone());
                }
                Err(error) => return Err(error),
                Ok(objects) => return Ok(Some((found, objects))),
            }
        }
    };
    let listed = listed.await;
    (kind, listed)
}

/// What a list has to have reached to be as good here as one that the API server reads from etcd, which reads every object of the
/// kind, whoever they are of: an upgrade would cost as much as the cluster is large.
///
/// Only where each write of the release before was answered, and a watch tells of what comes later. A bundle with more objects than
/// a page is listed page by page, which no cache does.
fn reached(view: &View, kind: &InventoryKind) -> Option<u64> {
    if !is_clean(view) {
        return None;
    }
    let tracked = view.tracker.tracked();
    let mut newest = view.reads.dependents.newest(kind)?;
    let of_kind = tracked.objects.iter().filter(|(key, _)| key.group == kind.group && key.kind == kind.kind);
    for (count, (_, object)) in of_kind.enumerate() {
        newest = newest.max(object.fingerprint.version.filter(|_| count < PAGE as usize)?);
    }
    Some(newest)
}

/// A list from the API server's cache, once that has reached `version`.
async fn cached(
    view: &View,
    kind: &Kind,
    selector: &str,
    version: u64,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, Error> {
    let params = ListParams::default().labels(selector).matching(VersionMatch::NotOlderThan).at(&version.to_string());
    let listed = timeout(CACHE_TIME, view.reads.reader.list_metadata(&kind.resource, None, &params)).await;
    match listed {
        Ok(Ok(list)) => return Ok(list.items),
        Ok(Err(error)) if error.is_not_found() => return Err(error),
        Ok(Err(error)) => tracing::debug!(deployment = %view.owner.name, kind = %kind.resource.kind, %error,
            "the API server's cache refuses; reading from etcd"),
        Err(_) => tracing::debug!(deployment = %view.owner.name, kind = %kind.resource.kind,
            "the API server's cache does not answer; reading from etcd"),
    }
    list_version(view, kind, selector).await
}

async fn list_version(
    view: &View,
    kind: &Kind,
    selector: &str,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, Error> {
    let mut objects = Vec::new();
    let mut page = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let list = view.reads.reader.list_metadata(&kind.resource, None, &page).await?;
        objects.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// A cache waits for a version for three seconds at most. One that has not answered by then cannot be filled: objects of the kind cannot
/// be converted.
const CACHE_TIME: Duration = Duration::from_secs(10);

/// Objects of a page: a list of one deployment mostly fits.
const PAGE: u32 = 1_000;

/// Whether RukPak v0.16 has installed this deployment: it had a status before that was done, and Helm keeps its releases in Secrets.
async fn is_of_upstream(view: &View) -> bool {
    view.observed.deployment.status.is_some() && helm_releases(view, Some(1)).await.is_ok_and(|found| !found.is_empty())
}

/// Helm's releases of a deployment that RukPak v0.16 installed, by their labels; so many at most.
pub(in crate::deployment) async fn helm_releases(view: &View, limit: Option<u32>) -> Result<Vec<Leaving>, Error> {
    let Some(kind) = view.reads.kinds.get("v1", "Secret").await? else { return Ok(Vec::new()) };
    let namespace = &view.reads.settings.system_namespace;
    let labels = format!("owner=helm,name={}", view.owner.name);
    let params = ListParams { limit, ..ListParams::default().labels(&labels) };
    let list = view.reads.reader.list_metadata(&kind.resource, Some(namespace), &params).await?;
    let found = list.items.into_iter().map(|secret| {
        let identity = Identity { kind: kind.clone(), namespace: Some(namespace.clone()), name: secret.name_any() };
        Leaving { identity, metadata: Arc::new(secret.metadata) }
    });
    Ok(found.collect())
}

/// Every kind that can be listed: upstream kept no inventory.
async fn all_kinds(view: &View) -> BTreeSet<InventoryKind> {
    match view.reads.kinds.listable().await {
        Ok(kinds) => kinds.iter().map(Kind::inventory).collect(),
        Err(error) => {
            tracing::warn!(deployment = %view.owner.name, %error,
                "cannot find out what RukPak v0.16 has installed: objects that are not in the bundle stay");
            BTreeSet::new()
        }
    }
}

/// The objects of `plan` that need no write: the installed release declares them alike, and they stand as they were applied.
///
/// Without the proof that the installed release was applied, as it would be applied now, there are none: what was begun and not
/// finished is applied whole.
pub(super) fn settled(view: &View, plan: &Plan, members: &Members, bases: &Bases) -> BTreeSet<ObjectKey> {
    let (Some(installed), Installation::Applied { applied, differences, .. }) =
        (&bases.installed, view.memory.installation())
    else {
        return BTreeSet::new();
    };
    let tracked = view.tracker.tracked();
    let renderer = view.renderer(&installed.release);
    let is_proven = *applied.release() == installed.release
        && applied.proves(&view.renderer_using(&installed.release, &differences.used), &tracked.objects)
        && view.renderer(&plan.release) == renderer
        && !differences.has_other_proxy(&view.observed, &installed.release)
        // What stays as it is has to be told again, which takes a write.
        && differences.kept.is_empty();
    if !is_proven {
        return BTreeSet::new();
    }
    let stands = |key: &ObjectKey| {
        let (Some(now), Some(applied)) = (members.fingerprint(key, &view.owner), tracked.objects.get(key)) else {
            return false;
        };
        applied.fingerprint.drift(&now) == Drift::None && !now.is_paused()
    };
    // What is left as it is has to be told again, too.
    let unchanged = plan.steps.values().filter(|step| !bases.is_changed(step) && !step.is_paused).map(|step| &step.key);
    unchanged.filter(|key| stands(key) && !view.memory.is_contested(key)).cloned().collect()
}
