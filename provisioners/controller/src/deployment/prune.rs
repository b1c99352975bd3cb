//! What left the bundle: deleted, or released where data hangs on it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, ObjectMeta};
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::{Api, ResourceExt};
use rukpak_crds::{InventoryKind, names};
use rukpak_plain::ObjectKey;
use rukpak_plan::prune::{Decision, Guard, decide};
use rukpak_plan::{Phase, fields};

use super::Pass;
use crate::cluster::{Error, Identity, Kind};

/// What was done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pruned {
    /// Objects that were deleted.
    pub deleted: Vec<String>,
    /// Objects that were let go, and why.
    pub released: Vec<String>,
}

/// An object of ours in the cluster.
pub(crate) struct Member {
    pub identity: Identity,
    pub metadata: ObjectMeta,
}

/// Objects of ours by key.
pub(crate) type Members = BTreeMap<ObjectKey, Member>;

/// The UIDs of those that we applied. The others (upstream's, for example) have to be looked at before they are written.
pub(crate) fn uids(members: &Members) -> BTreeMap<ObjectKey, String> {
    members
        .iter()
        .filter(|(_, member)| fields::applied(&member.metadata, names::FIELD_MANAGER).is_some())
        .filter_map(|(key, member)| Some((key.clone(), member.metadata.uid.clone()?)))
        .collect()
}

/// Lists everything that carries our marks, of the kinds of the inventory.
pub(crate) async fn members(pass: &Pass, kinds: &BTreeSet<InventoryKind>) -> Result<Members, Error> {
    let selector =
        format!("{}={},{}={}", names::OWNER_KIND, names::OWNER_KIND_VALUE, names::OWNER_NAME, pass.owner.name);
    let lists: Vec<_> = kinds.iter().map(|kind| list(pass, kind, &selector)).collect();
    let mut members = BTreeMap::new();
    for (kind, objects) in futures::future::try_join_all(lists).await?.into_iter().flatten() {
        for object in objects.into_iter().filter(|object| pass.owner.owns_fully(&object.metadata)) {
            let identity =
                Identity { kind: kind.clone(), namespace: object.metadata.namespace.clone(), name: object.name_any() };
            members.insert(key(&identity), Member { identity, metadata: object.metadata });
        }
    }
    Ok(members)
}

fn key(identity: &Identity) -> ObjectKey {
    ObjectKey {
        group: identity.kind.resource.group.clone(),
        kind: identity.kind.resource.kind.clone(),
        namespace: identity.namespace.clone(),
        name: identity.name.clone(),
    }
}

type Listed = (Kind, Vec<PartialObjectMeta<DynamicObject>>);

async fn list(pass: &Pass, kind: &InventoryKind, selector: &str) -> Result<Option<Listed>, Error> {
    let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let Some(found) = pass.context.cluster.kinds.get(&gvk.api_version(), &kind.kind).await? else {
        // The kind is gone, and its objects with it.
        return Ok(None);
    };
    let api = pass.context.cluster.writer.scoped(&found.resource, None);
    let params = ListParams::default().labels(selector);
    match api.list_metadata(&params).await.map_err(Error::from) {
        Ok(list) => Ok(Some((found, list.items))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Prunes every member that is not in `keep`, in the reverse order of applying.
pub(crate) async fn prune(pass: &Pass, members: Members, keep: &BTreeSet<ObjectKey>) -> Result<Pruned, Error> {
    let mut pruned = Pruned::default();
    let mut leaving: Vec<(Phase, ObjectKey, Member)> = members
        .into_iter()
        .filter(|(key, member)| !keep.contains(key) && member.metadata.deletion_timestamp.is_none())
        .map(|(key, member)| (Phase::of(&key.group, &key.kind), key, member))
        .collect();
    leaving.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (_, key, member) in leaving {
        prune_latest(pass, &key, member, &mut pruned).await?;
        pass.installation.state().objects.remove(&key);
    }
    Ok(pruned)
}

/// A status write in between makes the looked-at version an old one: look again, and decide again.
async fn prune_latest(pass: &Pass, key: &ObjectKey, member: Member, pruned: &mut Pruned) -> Result<(), Error> {
    const ATTEMPTS: usize = 5;
    let Member { identity, mut metadata } = member;
    for _ in 1..ATTEMPTS {
        let member = Member { identity: identity.clone(), metadata };
        match prune_one(pass, key, &member, pruned).await {
            Err(error) if error.is_conflict() => {}
            other => return other,
        }
        match pass.context.cluster.writer.metadata(&identity).await? {
            Some(now) if pass.owner.owns_fully(&now) && now.deletion_timestamp.is_none() => metadata = now,
            _ => return Ok(()),
        }
    }
    prune_one(pass, key, &Member { identity, metadata }, pruned).await
}

async fn prune_one(pass: &Pass, key: &ObjectKey, member: &Member, pruned: &mut Pruned) -> Result<(), Error> {
    let reason = match decide(&key.group, &key.kind, &member.metadata) {
        Decision::Delete | Decision::DeleteUnless(Guard::None | Guard::Data) => None,
        Decision::Release => Some("its data would be lost".to_owned()),
        Decision::DeleteUnless(Guard::Instances) => instances(pass, member).await?,
        Decision::DeleteUnless(Guard::Contents) => contents(pass, &member.identity.name).await?,
    };
    let writer = &pass.context.cluster.writer;
    match reason {
        None => {
            writer.delete(&member.identity, &member.metadata).await?;
            tracing::info!(deployment = %pass.owner.name, object = %member.identity, "pruned");
            pruned.deleted.push(member.identity.to_string());
        }
        Some(reason) => {
            writer.release(&member.identity, &member.metadata, &pass.owner).await?;
            tracing::warn!(deployment = %pass.owner.name, object = %member.identity, %reason, "released, not deleted");
            pruned.released.push(format!(
                "{}: {reason}; delete it by hand, or annotate it with {}=\"true\" before it leaves the bundle",
                member.identity,
                names::ALLOW_DELETION
            ));
        }
    }
    Ok(())
}

/// Whether a definition has instances, in words.
async fn instances(pass: &Pass, member: &Member) -> Result<Option<String>, Error> {
    let Some(definition) = pass.context.cluster.writer.get(&member.identity).await? else { return Ok(None) };
    let spec = &definition.body["spec"];
    let text = |pointer: &str| spec.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
    let served = spec["versions"].as_array().into_iter().flatten().find(|version| version["served"] == true);
    let Some(version) = served.and_then(|version| version["name"].as_str()) else {
        return Ok(Some("none of its versions is served, so its instances cannot be looked for".to_owned()));
    };
    let gvk = GroupVersionKind::gvk(text("/group"), version, text("/names/kind"));
    let resource = ApiResource::from_gvk_with_plural(&gvk, text("/names/plural"));
    let found = living(pass, &resource, None).await?;
    Ok(found.map(|name| format!("it has instances, {name} among them")))
}

/// Whether a namespace holds anything that would be lost with it, in words.
async fn contents(pass: &Pass, namespace: &str) -> Result<Option<String>, Error> {
    // An API that does not answer (of a broken APIService) may hold the one object that counts.
    let unseen = |error: Error| Some(format!("it cannot be seen whether it is empty: {}", crate::error::Chain(&error)));
    let resources = match namespaced_resources(&pass.context.client).await {
        Ok(resources) => resources,
        Err(error) if error.code() == 0 => return Err(error),
        Err(error) => return Ok(unseen(error)),
    };
    for resource in resources {
        match living(pass, &resource, Some(namespace)).await {
            Ok(Some(name)) => return Ok(Some(format!("it is not empty: {name} is in it"))),
            Ok(None) => {}
            Err(error) if error.code() == 0 => return Err(error),
            Err(error) => return Ok(unseen(error)),
        }
    }
    Ok(None)
}

/// The first object that is not being deleted, is not derived from another, and is not there in every namespace.
async fn living(pass: &Pass, resource: &ApiResource, namespace: Option<&str>) -> Result<Option<String>, Error> {
    let api: Api<DynamicObject> = pass.context.cluster.writer.scoped(resource, namespace);
    let mut page = ListParams::default().limit(500);
    loop {
        let list = match api.list_metadata(&page).await.map_err(Error::from) {
            Ok(list) => list,
            Err(error) if matches!(error.code(), 404 | 405) => return Ok(None),
            Err(error) => return Err(error),
        };
        let living = list.items.into_iter().find(|object| {
            let is_mere_part = namespace.is_some()
                && (is_derived(&object.metadata) || is_in_every_namespace(resource, &object.name_any()));
            object.metadata.deletion_timestamp.is_none() && !is_mere_part
        });
        if let Some(object) = living {
            return Ok(Some(format!("{} {:?}", resource.kind, object.name_any())));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(None),
        }
    }
}

/// Whether a controller makes it from another object, as Pods are made.
fn is_derived(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind != names::OWNER_KIND_VALUE)
}

fn is_in_every_namespace(resource: &ApiResource, name: &str) -> bool {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "ServiceAccount") => name == "default",
        ("", "ConfigMap") => matches!(name, "kube-root-ca.crt" | "openshift-service-ca.crt"),
        ("", "Secret") => name.starts_with("default-token-"),
        ("", "Event" | "Endpoints") | ("events.k8s.io" | "discovery.k8s.io" | "coordination.k8s.io", _) => true,
        _ => false,
    }
}

/// Every namespaced kind that can be listed, in one version of it. A group that goes away meanwhile holds nothing.
async fn namespaced_resources(client: &kube::Client) -> Result<Vec<ApiResource>, Error> {
    let mut all = read_resources("v1", client.list_core_api_resources("v1").await?);
    for group in client.list_api_groups().await?.groups {
        let Some(version) = group.preferred_version.or_else(|| group.versions.first().cloned()) else { continue };
        match client.list_api_group_resources(&version.group_version).await.map_err(Error::from) {
            Ok(list) => all.extend(read_resources(&version.group_version, list)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn read_resources(api_version: &str, list: APIResourceList) -> Vec<ApiResource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    list.resources
        .into_iter()
        .filter(|resource| resource.namespaced && resource.verbs.iter().any(|verb| verb == "list"))
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| {
            let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
            ApiResource::from_gvk_with_plural(&gvk, &resource.name)
        })
        .collect()
}
