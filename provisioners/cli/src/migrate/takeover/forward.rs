//! The take-over itself: from OLM's objects to a BundleDeployment that has them. Each write is one that can be made twice.
//!
//! ```text
//! record     what was before                          nothing is lost from here on
//! mark       each object leaves OLM                    the garbage collector has nothing to do with the ClusterServiceVersion any more
//! create     the BundleDeployment, which takes them    waits until it has all of them
//! leave      Subscription, ClusterServiceVersion, and what OLM made under names of its own, go
//! hand over  to the PlatformOperator or ClusterExtension, or to the Subscription, which stays then (`stay`)
//! ```

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_crds::condition::{Conditions as _, INSTALLED};
use rukpak_crds::names::ADOPT_BY;
use rukpak_crds::olmv0::installation::FIELD_MANAGER;
use rukpak_crds::{BundleDeployment, ConditionStatus};
use rukpak_plan::{Identity, Plan, owner};
use serde_json::{Value, json};

use super::super::{Done, hand, remove};
use super::marks::owners;
use super::olm::CLEANUP;
use super::record::{Left, Record, Reference, State};
use super::{stay, version};
use crate::answer::DEPLOYMENTS;
use crate::cluster::{Cluster, Dependents, Error};
use crate::failure::Failure;
use crate::wait::{self, Progress, Step, Wait};

/// An object that others write all the time is read again this often.
const ATTEMPTS: usize = 8;

/// Does all of it, or what is left of it.
pub(super) async fn take_over(
    cluster: &Cluster,
    record: &Record,
    plan: &Plan,
    timeout: Duration,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    if is_handed_over(cluster, record).await? {
        // From then on the BundleDeployment may have another version.
        return record.note(cluster, State::Done).await;
    }
    for left in &record.taken {
        mark(cluster, record, left, plan).await?;
    }
    let deployment = create(cluster, record, done).await?;
    let deployment = installed(cluster, &deployment, timeout).await?;
    for left in &record.taken {
        has_taken(cluster, record, &deployment, left).await?;
        done.push(Done { object: left.object.name(), action: "taken over" });
    }
    leave(cluster, record, &deployment, timeout, done).await?;
    if record.stays {
        stay::hand(cluster, record, &deployment, done).await?;
    } else if let Some(owner) = &record.owner {
        hand(cluster, &deployment.name_any(), owner, done).await?;
    }
    record.note(cluster, State::Done).await
}

/// Whether all but the last note was done before.
async fn is_handed_over(cluster: &Cluster, record: &Record) -> Result<bool, Failure> {
    let deployment = cluster.deployment(&record.deployment.name_any()).await?;
    if record.stays {
        return Ok(deployment.is_some_and(|deployment| version::is_handed_over(&deployment)));
    }
    let Some(owner) = record.owner.as_ref().map(Reference::of_value) else { return Ok(false) };
    let controller = deployment.as_ref().and_then(|deployment| owner::controller(&deployment.metadata));
    Ok(controller.is_some_and(|controller| (&controller.kind, &controller.name) == (&owner.kind, &owner.name)))
}

/// Has an object leave OLM, unless it has.
async fn mark(cluster: &Cluster, record: &Record, left: &Left, plan: &Plan) -> Result<(), Failure> {
    let Some(identity) = left.object.identity(cluster).await? else { return Ok(()) };
    let name = record.deployment.name_any();
    let body = plan.steps.get(&identity.key()).map_or(Value::Null, rukpak_plan::Step::body);
    rewrite(cluster, &identity, |live| {
        if live.annotations().get(ADOPT_BY) == Some(&name) {
            return Ok(None);
        }
        if let Some(owner) = owner::controller(&live.metadata).filter(|owner| !left.marks.owners.contains(owner)) {
            return Err(Failure::no(format!("{identity} is controlled by {} {:?} by now", owner.kind, owner.name)));
        }
        Ok(Some(left.marks.leave(live, &body, &name)))
    })
    .await
}

/// Merges what `patch` makes of an object as it is, and reads it again as long as others are faster. Nothing is done where it is not
/// there, or there is no patch.
pub(super) async fn rewrite(
    cluster: &Cluster,
    identity: &Identity,
    patch: impl Fn(&DynamicObject) -> Result<Option<Value>, Failure>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(live) = cluster.live(identity).await? else { return Ok(()) };
        let Some(patch) = patch(&live)? else { return Ok(()) };
        match cluster.merge_any(identity, &patch).await {
            Ok(_) => return Ok(()),
            // Its status was written meanwhile.
            Err(Error::Refused(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::unknown(format!("{identity} keeps being changed by others; run the command again")))
}

async fn create(cluster: &Cluster, record: &Record, done: &mut Vec<Done>) -> Result<BundleDeployment, Failure> {
    let name = record.deployment.name_any();
    let deployment = match cluster.deployment(&name).await? {
        Some(found) => found,
        // Who follows it writes all of it, and takes back what it has once written.
        None if record.stays => cluster.create_as(FIELD_MANAGER, &record.deployment).await?,
        None => cluster.create(&record.deployment).await?,
    };
    let wanted = &record.deployment.spec;
    if (&deployment.spec.template, &deployment.spec.config) != (&wanted.template, &wanted.config) {
        return Err(Failure::no(format!("bundledeployment {name:?} already exists and asks for something else")));
    }
    done.push(Done { object: format!("{DEPLOYMENTS}/{name}"), action: "created" });
    Ok(deployment)
}

/// Waits until the BundleDeployment has installed all that it asks for, be it healthy or not.
async fn installed(
    cluster: &Cluster,
    deployment: &BundleDeployment,
    timeout: Duration,
) -> Result<BundleDeployment, Failure> {
    let (name, generation) = (deployment.name_any(), deployment.metadata.generation);
    let goes_on = format!("the installation of bundledeployment {name:?} goes on");
    let wait = Wait { name: &name, timeout, goal: "installed", goes_on: &goes_on };
    let found = wait::watch(cluster, &wait, |found| {
        let Some(found) = found else {
            return Step::Give(Failure::no(format!("bundledeployment {name:?} was deleted meanwhile")));
        };
        let status = found.status.as_ref().filter(|status| status.observed_generation >= generation);
        if status.is_some_and(|status| status.conditions.is(INSTALLED, ConditionStatus::True)) {
            return Step::Done;
        }
        match Progress::of(found, generation) {
            Progress::Stalled { reason, message } => Step::Give(
                Failure::no(format!("bundledeployment {name:?} is not installed: {reason}: {message}"))
                    .hint("mend it and run the command again, or go back by --back"),
            ),
            Progress::Working(line) => Step::Wait(line),
            Progress::Ready => Step::Wait("waiting for the condition Installed".to_owned()),
        }
    });
    found.await?.ok_or_else(|| Failure::no_deployment(&name))
}

/// Refuses to go on where an object is not the BundleDeployment's, or would go with the ClusterServiceVersion.
async fn has_taken(
    cluster: &Cluster,
    record: &Record,
    deployment: &BundleDeployment,
    left: &Left,
) -> Result<(), Failure> {
    let Some(identity) = left.object.identity(cluster).await? else { return Ok(()) };
    let live = cluster.live(&identity).await?;
    let is_ours = live.as_ref().is_some_and(|live| {
        Some(&owner::claimed(&live.metadata).uid) == deployment.metadata.uid.as_ref()
            && !owners(&live.metadata).any(|owner| left.marks.owners.iter().any(|left| left.uid == owner.uid))
    });
    if is_ours {
        return Ok(());
    }
    let text = format!("{identity} is not taken over: nothing of OLM is removed as long as that is so");
    Err(Failure::no(text).hint(format!("rukpakctl status {}", record.deployment.name_any())))
}

/// Removes what is left of OLM's.
async fn leave(
    cluster: &Cluster,
    record: &Record,
    deployment: &BundleDeployment,
    timeout: Duration,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    if record.stays {
        stay::speak(cluster, record, deployment).await?;
    } else {
        // Before the ClusterServiceVersion, or OLM would look for another one once it runs again.
        go(cluster, &Reference::of_value(&record.subscription), done).await?;
        version(cluster, record, timeout, done).await?;
    }
    for object in &record.removed {
        go(cluster, &Reference::of_value(object), done).await?;
    }
    for object in &record.swept {
        go(cluster, object, done).await?;
    }
    Ok(())
}

async fn go(cluster: &Cluster, object: &Reference, done: &mut Vec<Done>) -> Result<(), Failure> {
    let Some(identity) = object.identity(cluster).await? else { return Ok(()) };
    remove(cluster, &identity, &object.uid, done).await
}

/// Deletes the ClusterServiceVersion alone: whatever still names it as its owner stays.
async fn version(cluster: &Cluster, record: &Record, timeout: Duration, done: &mut Vec<Done>) -> Result<(), Failure> {
    let object = Reference::of_value(&record.csv);
    let Some((identity, live)) = object.find(cluster).await? else { return Ok(()) };
    if live.finalizers().iter().any(|finalizer| finalizer == CLEANUP) {
        let others: Vec<&String> = live.finalizers().iter().filter(|finalizer| *finalizer != CLEANUP).collect();
        let metadata = json!({"uid": object.uid, "resourceVersion": live.resource_version(), "finalizers": others});
        cluster.merge_any(&identity, &json!({ "metadata": metadata })).await?;
    }
    cluster.delete_any(&identity, &object.uid, Dependents::Stay).await?;
    await_gone(cluster, &identity, &object.uid, timeout).await?;
    done.push(Done { object: object.name(), action: "deleted" });
    Ok(())
}

/// Waits until the garbage collector is done with an object that is deleted without its dependents.
pub(super) async fn await_gone(
    cluster: &Cluster,
    identity: &Identity,
    uid: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    if let Ok(gone) = tokio::time::timeout(timeout, cluster.until_gone(identity, uid)).await {
        return Ok(gone?);
    }
    let seconds = timeout.as_secs();
    let text =
        format!("{identity} is still there after {seconds} s: the garbage collector has not released its objects");
    Err(Failure::unknown(text).hint("run the command again"))
}
