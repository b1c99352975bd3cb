//! Objects that are in the cluster and not in the bundle: pruned, or released where their data would be lost.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, ListParams};
use rukpak_crds::names::{DISABLED, RECONCILE};
use rukpak_plain::ObjectKey;
use rukpak_plan::prune::{Decision, Guard, NONE_SERVED, decide, instances as instances_of, would_be_lost};
use rukpak_plan::{Phase, opt_out};

use super::report::{Action, Change, Report};
use super::target::Target;
use crate::cluster::{Cluster, Error};
use crate::output::chain;

/// Objects are listed this many at a time.
const PAGE: u32 = 500;

/// Says what becomes of every object that leaves, in the order in which they go.
pub(super) async fn all(cluster: &Cluster, target: &Target<'_>, report: &mut Report) {
    let mut leaving = Vec::new();
    for kind in target.kinds() {
        let Some(deployment) = target.deployment else { break };
        match cluster.owned(deployment, kind).await {
            Ok(objects) => {
                let objects = objects.into_iter().flatten();
                leaving.extend(objects.map(|object| (key(&object, &kind.group), object)));
            }
            Err(error) => report.unknown.push(format!("objects of kind {}: {}", kind.kind, chain(&error))),
        }
    }
    leaving
        .retain(|(key, object)| !target.plan.steps.contains_key(key) && object.metadata.deletion_timestamp.is_none());
    leaving.sort_by(|(a, _), (b, _)| phase(b).cmp(&phase(a)).then_with(|| a.cmp(b)));
    let mut going = BTreeSet::new();
    for (key, object) in leaving {
        if opt_out::is_paused(&object.metadata) {
            report
                .remarks
                .push(format!("{key} left the bundle and stays: its annotation {RECONCILE} says {DISABLED:?}"));
            continue;
        }
        match reason_to_keep(cluster, &key, &object, &going).await {
            Ok(None) => {
                report.changes.push(Change::of_key(&key, Action::Delete));
                going.insert(key);
            }
            Ok(Some(reason)) => report.changes.push(Change::of_key(&key, Action::Orphan).because(reason)),
            Err(error) => report.unknown.push(format!("{key}: {}", chain(&error))),
        }
    }
}

fn phase(key: &ObjectKey) -> Phase {
    Phase::of(&key.group, &key.kind)
}

fn key(object: &DynamicObject, group: &str) -> ObjectKey {
    ObjectKey {
        group: group.to_owned(),
        kind: object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default(),
        namespace: object.metadata.namespace.clone(),
        name: object.name_any(),
    }
}

/// Why an object is left in the cluster and not deleted; `None` if it is deleted.
async fn reason_to_keep(
    cluster: &Cluster,
    key: &ObjectKey,
    object: &DynamicObject,
    going: &BTreeSet<ObjectKey>,
) -> Result<Option<String>, Error> {
    match decide(&key.group, &key.kind, &object.metadata) {
        Decision::Delete | Decision::DeleteUnless(Guard::None | Guard::Data) => Ok(None),
        Decision::Release => Ok(Some("its data would be lost".to_owned())),
        Decision::DeleteUnless(Guard::Instances) => instances(cluster, key, going).await,
        Decision::DeleteUnless(Guard::Contents) => {
            for kind in cluster.namespaced_kinds().await? {
                if let Some(name) = living(cluster, &kind.resource, Some(&key.name), going).await? {
                    return Ok(Some(format!("it is not empty: {name} is in it")));
                }
            }
            Ok(None)
        }
    }
}

/// Whether a CRD has instances, in words.
async fn instances(cluster: &Cluster, key: &ObjectKey, going: &BTreeSet<ObjectKey>) -> Result<Option<String>, Error> {
    let Some(kind) = cluster.kind("apiextensions.k8s.io/v1", &key.kind).await? else { return Ok(None) };
    let identity = rukpak_plan::Identity { kind, namespace: None, name: key.name.clone() };
    let Some(crd) = cluster.live(&identity).await? else { return Ok(None) };
    let Some(resource) = instances_of(&crd.data) else { return Ok(Some(NONE_SERVED.to_owned())) };
    let found = living(cluster, &resource, None, going).await?;
    Ok(found.map(|name| format!("it has instances, {name} among them")))
}

/// The first object that would be lost, in words.
async fn living(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    going: &BTreeSet<ObjectKey>,
) -> Result<Option<String>, Error> {
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = match cluster.metadata_page(resource, namespace, &page).await {
            Err(Error::Refused(status)) if matches!(status.code, 404 | 405) => return Ok(None),
            other => other?,
        };
        let mut objects = list.items.iter();
        let found = objects.find(|object| {
            would_be_lost(&resource.group, &resource.kind, &object.metadata, namespace.is_some(), going)
        });
        if let Some(object) = found {
            return Ok(Some(format!("{} {:?}", resource.kind, object.name_any())));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(None),
        }
    }
}
