//! The way back: OLM's objects are made again, and what was taken over becomes theirs. Each write is one that can be made twice.
//!
//! ```text
//! let go     the Subscription has the BundleDeployment no more, where it has stayed (`stay`)
//! version    the ClusterServiceVersion is there again, and what OLM made under names of its own
//! release    the BundleDeployment goes without its objects, after whoever has it
//! mark       each object becomes OLM's again
//! clean      what the bundle has under names of its own goes
//! subscribe  OperatorGroup, Subscription and InstallPlan are there again
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use rukpak_crds::ConditionStatus;
use rukpak_crds::condition::Conditions as _;
use rukpak_crds::names::OWNER_NAME;
use rukpak_plan::owner;
use rukpak_plan::status::SUSPENDED;
use serde_json::{Value, json};

use super::super::{Done, release, remove};
use super::forward::{await_gone, rewrite};
use super::record::{Record, Reference, State};
use super::stay;
use crate::answer::DEPLOYMENTS;
use crate::cluster::{Cluster, Dependents, owner_labels};
use crate::failure::Failure;
use crate::wait::{self, Step, Wait};

/// What a BundleDeployment leaves behind, besides its objects, that nobody else would remove.
const REMAINS: [(&str, &str); 3] =
    [("core.rukpak.io/v1alpha1", "Bundle"), ("core.rukpak.io/v1alpha1", PLAN), ("apps/v1", "ControllerRevision")];
/// It is no object of a bundle, and so has no label of the owner's kind.
const PLAN: &str = "Plan";

/// Does all of it, or what is left of it.
pub(super) async fn go_back(
    cluster: &Cluster,
    record: &Record,
    (timeout, system_namespace): (Duration, &str),
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    record.note(cluster, State::Back).await?;
    if record.stays {
        stay::let_go(cluster, record, done).await?;
    }
    // What is taken over is there still, and may own others.
    let taken = record.taken.iter().map(|left| left.object.uid.clone());
    let mut uids: BTreeMap<String, String> = taken.map(|uid| (uid.clone(), uid)).collect();
    again(cluster, &record.csv, (&mut uids, timeout), done).await?;
    for object in &record.removed {
        again(cluster, object, (&mut uids, timeout), done).await?;
    }
    let name = record.deployment.name_any();
    if let Some(deployment) = cluster.deployment(&name).await? {
        release(cluster, deployment, done).await?;
    }
    without_owner(cluster, record, done).await?;
    without_objects(cluster, &name, timeout, done).await?;
    for left in &record.taken {
        let Some(identity) = left.object.identity(cluster).await? else { continue };
        rewrite(cluster, &identity, |live| Ok(Some(left.marks.come_back(&live.metadata, &uids)))).await?;
        done.push(Done { object: left.object.name(), action: "given back" });
    }
    clean(cluster, record, system_namespace, done).await?;
    subscribe(cluster, record, (&mut uids, timeout), done).await?;
    record.delete(cluster).await
}

/// Makes an object again as it was, unless there is one of its name; notes its UID.
async fn again(
    cluster: &Cluster,
    object: &Value,
    (uids, timeout): (&mut BTreeMap<String, String>, Duration),
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let reference = Reference::of_value(object);
    let Some(identity) = reference.identity(cluster).await? else { return Ok(()) };
    let wanted = owned_anew(object, uids);
    let mut made = cluster.create_any(&identity, &wanted).await?;
    if made.metadata.deletion_timestamp.is_some() {
        // It was being deleted when the way back began.
        await_gone(cluster, &identity, &made.uid().unwrap_or_default(), timeout).await?;
        made = cluster.create_any(&identity, &wanted).await?;
    }
    let uid = made.uid().unwrap_or_default();
    if !object["status"].is_null() && made.data["status"].is_null() {
        cluster.merge_status(&identity, &object["status"]).await?;
    }
    let finalizers = &object["metadata"]["finalizers"];
    if finalizers.is_array() && *finalizers != json!(made.finalizers()) {
        cluster.merge_any(&identity, &json!({"metadata": {"uid": uid, "finalizers": finalizers}})).await?;
    }
    let owners = &wanted["metadata"]["ownerReferences"];
    if owners.is_array() && *owners != json!(made.metadata.owner_references) {
        // One that is not there any more is on its way to take the object along.
        cluster.merge_any(&identity, &json!({"metadata": {"uid": uid, "ownerReferences": owners}})).await?;
    }
    if uid != reference.uid {
        done.push(Done { object: reference.name(), action: "created" });
    }
    uids.insert(reference.uid, uid);
    Ok(())
}

/// The object with the owners that there are again in the place of those that it had. An owner that is not there any more would take it
/// along.
fn owned_anew(object: &Value, uids: &BTreeMap<String, String>) -> Value {
    let mut wanted = object.clone();
    let Some(owners) = wanted.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return wanted;
    };
    owners.retain(|owner| {
        owner["kind"] != "ClusterServiceVersion" || uids.contains_key(owner["uid"].as_str().unwrap_or(""))
    });
    for owner in owners {
        if let Some(uid) = owner["uid"].as_str().and_then(|uid| uids.get(uid)) {
            owner["uid"] = json!(uid);
        }
    }
    wanted
}

/// Deletes the object that was to have the BundleDeployment, and has it no more: it would make another one.
async fn without_owner(cluster: &Cluster, record: &Record, done: &mut Vec<Done>) -> Result<(), Failure> {
    let Some(owner) = record.owner.as_ref().map(Reference::of_value) else { return Ok(()) };
    let Some(identity) = owner.identity(cluster).await? else { return Ok(()) };
    let Some(live) = cluster.live(&identity).await? else { return Ok(()) };
    remove(cluster, &identity, &live.uid().unwrap_or_default(), done).await
}

/// Deletes the BundleDeployment; its objects lose their owner and stay.
async fn without_objects(
    cluster: &Cluster,
    name: &str,
    timeout: Duration,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let Some(deployment) = cluster.deployment(name).await? else { return Ok(()) };
    if deployment.metadata.deletion_timestamp.is_none() {
        suspend(cluster, name, timeout).await?;
    }
    let kind = cluster.kind("core.rukpak.io/v1alpha1", "BundleDeployment").await?;
    let kind = kind.ok_or_else(|| Failure::unknown("the cluster serves no BundleDeployment any more"))?;
    cluster.delete(name, &DeleteParams::orphan()).await?;
    let identity = super::olm::identity(&kind, None, name);
    await_gone(cluster, &identity, &deployment.uid().unwrap_or_default(), timeout).await?;
    done.push(Done { object: format!("{DEPLOYMENTS}/{name}"), action: "deleted without its objects" });
    Ok(())
}

/// Waits until the controller writes nothing for the BundleDeployment any more: an owner reference that it adds while that is deleted
/// would take the object along.
async fn suspend(cluster: &Cluster, name: &str, timeout: Duration) -> Result<(), Failure> {
    let generation = cluster.merge(name, &json!({"spec": {"suspend": true}})).await?.metadata.generation;
    let wait = Wait { name, timeout, goal: "suspended", goes_on: "the way back stands still" };
    let suspended = wait::watch(cluster, &wait, |found| {
        let Some(found) = found else { return Step::Done };
        let status = found.status.as_ref().filter(|status| status.observed_generation >= generation);
        if status.is_some_and(|status| status.conditions.is(SUSPENDED, ConditionStatus::True)) {
            return Step::Done;
        }
        Step::Wait(format!("waiting for the condition {SUSPENDED}"))
    });
    suspended.await.map(drop)
}

/// Removes what the BundleDeployment made, and what it was made of.
async fn clean(
    cluster: &Cluster,
    record: &Record,
    system_namespace: &str,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let name = record.deployment.name_any();
    for made in &record.made {
        let Some(identity) = made.identity(cluster).await? else { continue };
        let Some(live) = cluster.live(&identity).await? else { continue };
        let is_left = live.labels().get(OWNER_NAME) == Some(&name) && owner::controller(&live.metadata).is_none();
        if is_left {
            remove(cluster, &identity, &live.uid().unwrap_or_default(), done).await?;
        }
    }
    for (version, kind) in REMAINS {
        let Some(kind) = cluster.kind(version, kind).await? else { continue };
        let namespace = kind.namespaced.then_some(system_namespace);
        let is_plan = kind.resource.kind == PLAN;
        let labels = if is_plan { format!("{OWNER_NAME}={name}") } else { owner_labels(&name) };
        for found in cluster.metadata_of(&kind, namespace, &labels).await? {
            let identity = super::olm::identity(&kind, found.metadata.namespace.as_deref(), &found.name_any());
            cluster.delete_any(&identity, &found.uid().unwrap_or_default(), Dependents::Go).await?;
        }
    }
    Ok(())
}

/// Has OLM follow the package again.
async fn subscribe(
    cluster: &Cluster,
    record: &Record,
    (uids, timeout): (&mut BTreeMap<String, String>, Duration),
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    let group = Reference::of_value(&record.group);
    // A second OperatorGroup would stop all operators of the namespace.
    if let Some(identity) = group.identity(cluster).await?
        && cluster.all_of(&identity.kind, Some(&record.namespace), "").await?.is_empty()
    {
        again(cluster, &record.group, (&mut *uids, timeout), done).await?;
    }
    again(cluster, &record.subscription, (&mut *uids, timeout), done).await?;
    if let Some(plan) = &record.plan {
        again(cluster, plan, (&mut *uids, timeout), done).await?;
    }
    if record.stays { stay::say_again(cluster, record).await } else { Ok(()) }
}
