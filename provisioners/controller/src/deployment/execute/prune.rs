//! What is in no release any more: deleted, or left in the cluster without an owner where data hangs on it.

use std::collections::BTreeSet;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::ReleasedObject;
use rukpak_plain::ObjectKey;
use rukpak_plan::declared::{self, Declared};
use rukpak_plan::memory::{Installation, Pruning, later};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::{Identity, Phase, Plan, Release, Step};
use rukpak_runtime::error::Chain;

use super::apply::Bases;
use super::guards::{Going, reason_to_keep};
use super::members::{self, Member, Members};
use crate::cluster::Error;
use crate::deployment::observe::Run;

/// An object that leaves, and why it is left in the cluster if it is.
struct Leaving {
    phase: Phase,
    key: ObjectKey,
    member: Member,
    keep: Option<String>,
}

/// So many objects of a phase are removed at once.
const PARALLEL: usize = 16;
/// So often it is asked again what hangs on an object before it is left in the cluster for want of an answer: some 15 s.
const QUESTIONS: u32 = 5;

/// Prunes every member that is not `declared`, in the reverse order of applying. What is guarded is decided before the first
/// object goes: the operator that answers for its instances may be among them.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn prune(run: &mut Run, mut members: Members, bases: &Bases, declared: &Declared) -> Pruning {
    let mut failed = Vec::new();
    let mut stripped = Vec::new();
    for step in unmarked(bases, &members, declared) {
        match find(run, step).await {
            Ok(found) => stripped.extend(found.map(|member| (step.key.clone(), member))),
            Err(error) => failed.push(format!("{}: {}", step.identity, Chain(&error))),
        }
    }
    members.objects.extend(stripped);
    let leaving = decide(run, &mut members, declared, &mut failed).await;
    for of_phase in leaving.chunk_by(|a, b| a.phase == b.phase) {
        let removals: Vec<_> = of_phase.iter().map(|leaving| remove(run, leaving)).collect();
        let removed = futures::stream::iter(removals).buffered(PARALLEL).collect::<Vec<_>>().await;
        for (leaving, removed) in of_phase.iter().zip(removed) {
            match removed {
                Ok(released) => note(run, &leaving.key, released),
                Err(error) => failed.push(format!("{}: {}", leaving.member.identity, Chain(&error))),
            }
        }
    }
    failed.extend(members.why.take());
    pending(run, &failed, members)
}

/// Remembers what was left without an owner until a status says so, whatever becomes of this reconcile.
fn note(run: &mut Run, key: &ObjectKey, released: Option<ReleasedObject>) {
    run.tracker.tracked().objects.remove(key);
    if let Some(object) = released {
        run.memory.released.push(object.clone());
        run.observed.status.inventory.get_or_insert_default().released.push(object);
    }
}

/// What becomes of each object that leaves; into `unknown` goes of what it could not be found out yet.
async fn decide(run: &Run, members: &mut Members, declared: &Declared, unknown: &mut Vec<String>) -> Vec<Leaving> {
    let applied = run.tracker.tracked().uids().into_values().collect();
    let metadata = members.objects.iter().map(|(key, member)| (key, &member.metadata));
    let leaving = declared::leaving(metadata, declared, &applied);
    let is_asked_again = attempts(run) < QUESTIONS;
    let (mut decided, mut going) = (Vec::with_capacity(leaving.len()), Going::new());
    for key in leaving {
        let Some(member) = members.objects.remove(&key) else { continue };
        let keep = match reason_to_keep(run, &key, &member, &going).await {
            Ok(keep) => keep,
            Err(unseen) if unseen.is_transient && is_asked_again => {
                unknown.push(format!("{}: {}", member.identity, unseen.why));
                continue;
            }
            // What cannot be found out is as good as data.
            Err(unseen) => Some(unseen.why),
        };
        if keep.is_none() {
            going.insert(key.clone());
        }
        decided.push(Leaving { phase: Phase::of(&key.group, &key.kind), key, member, keep });
    }
    decided
}

/// How often pruning has failed in a row.
fn attempts(run: &Run) -> u32 {
    match &run.memory.installation {
        Installation::Applied { pruning: Pruning::Pending { attempts, .. }, .. } => *attempts,
        _ => 0,
    }
}

fn pending(run: &Run, failed: &[String], members: Members) -> Pruning {
    if failed.is_empty() {
        return Pruning::Done;
    }
    let attempts = attempts(run).saturating_add(1);
    let message = format!("objects that left the bundle could not be deleted: {}", failed.join("; "));
    tracing::warn!(deployment = %run.owner.name, detail = message, "pruning failed; will retry");
    let until = later(Timestamp::now(), retry::delay(Class::Transient, attempts));
    Pruning::Pending { message, unlisted: members.unlisted, attempts, until }
}

/// Prunes again what could not be pruned when the release was installed. Nothing is loaded or applied for it.
pub(super) async fn again(run: &mut Run, release: &Release) {
    let kinds = run.observed.inventory().kinds.into_iter().collect();
    let members = members::list(run, &kinds, Why::Resync).await;
    let Installation::Applied { differences, .. } = &run.memory.installation else { return };
    let system_namespace = &run.context.system_namespace;
    let declared = declared::of_installed(&run.tracker.tracked().objects, &differences.missing, system_namespace);
    let pruned = prune(run, members, &Bases::default(), &declared).await;
    if let Installation::Applied { applied, pruning, .. } = &mut run.memory.installation
        && applied.release() == release
    {
        *pruning = pruned;
    }
}

/// Objects that the release before has and no list has shown: somebody may have taken our labels off.
fn unmarked<'a>(bases: &'a Bases, members: &'a Members, declared: &'a Declared) -> impl Iterator<Item = &'a Step> {
    let plans: Vec<&Plan> = [&bases.installed, &bases.begun].into_iter().flatten().collect();
    plans.into_iter().flat_map(|plan| plan.steps.values()).filter(|step| {
        let is_unlisted =
            members.unlisted.iter().any(|kind| kind.group == step.key.group && kind.kind == step.key.kind);
        !declared.contains(&step.key) && !members.objects.contains_key(&step.key) && !is_unlisted
    })
}

/// The object, if our owner reference is still on it.
async fn find(run: &Run, step: &Step) -> Result<Option<Member>, Error> {
    let metadata = run.context.cluster.reader.metadata(&step.identity).await?;
    let ours = metadata.filter(|metadata| run.owner.is_controller(metadata));
    Ok(ours.map(|metadata| Member { identity: step.identity.clone(), metadata }))
}

/// A status write in between makes the looked-at version an old one: look again, and go on if it is still ours. Returns what is left
/// in the cluster without an owner.
async fn remove(run: &Run, leaving: &Leaving) -> Result<Option<ReleasedObject>, Error> {
    const ATTEMPTS: usize = 5;
    let Leaving { member, keep, .. } = leaving;
    let (mut identity, mut metadata) = (member.identity.clone(), member.metadata.clone());
    let mut released = None;
    for attempt in 1.. {
        match remove_one(run, &identity, &metadata, keep.as_deref()).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            // The upgrade itself may have ended the version in which the object was listed.
            Ok(Removed::Absent) if attempt < ATTEMPTS && follow_version(run, &mut identity).await? => {}
            Err(error) => return Err(error),
            Ok(Removed::Released(object)) => {
                released = Some(object);
                break;
            }
            Ok(Removed::Deleted | Removed::Absent) => break,
        }
        match run.context.cluster.reader.metadata(&identity).await? {
            Some(now) if is_still_ours(run, &now) => metadata = now,
            _ => break,
        }
    }
    Ok(released)
}

/// An object that is not found may be there in another version: whether there is one.
async fn follow_version(run: &Run, identity: &mut Identity) -> Result<bool, Error> {
    let kind = identity.kind.inventory();
    if !kind.group.contains('.') {
        return Ok(false);
    }
    run.context.cluster.kinds.forget(&kind.group);
    let unserved = BTreeSet::from([kind.version.clone()]);
    let served = run.context.cluster.kinds.any_version(&kind, &unserved).await?;
    let is_other = served.is_some();
    if let Some(served) = served {
        identity.kind = served;
    }
    Ok(is_other)
}

fn is_still_ours(run: &Run, metadata: &ObjectMeta) -> bool {
    (run.owner.is_controller(metadata) || run.owner.owns_fully(metadata)) && metadata.deletion_timestamp.is_none()
}

/// What became of an object that leaves.
enum Removed {
    Deleted,
    /// It was not there.
    Absent,
    Released(ReleasedObject),
}

async fn remove_one(
    run: &Run,
    identity: &Identity,
    metadata: &ObjectMeta,
    keep: Option<&str>,
) -> Result<Removed, Error> {
    let writer = &run.objects;
    let Some(reason) = keep else {
        if !writer.delete(identity, metadata).await? {
            return Ok(Removed::Absent);
        }
        tracing::info!(deployment = %run.owner.name, object = %identity, "object pruned");
        return Ok(Removed::Deleted);
    };
    writer.release(identity, metadata, &run.owner).await?;
    tracing::warn!(deployment = %run.owner.name, object = %identity, %reason, "object orphaned: it stays in the cluster without an owner");
    let kind = identity.kind.inventory();
    Ok(Removed::Released(ReleasedObject {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        namespace: identity.namespace.clone().unwrap_or_default(),
        name: identity.name.clone(),
        reason: reason.to_owned(),
    }))
}
