//! What is in no release any more: deleted, or left in the cluster without an owner where data hangs on it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::ReleasedObject;
use rukpak_plain::ObjectKey;
use rukpak_plan::memory::{Installation, Pruning, later};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::{Phase, Plan, Release, Step};
use rukpak_runtime::error::Chain;

use super::apply::Bases;
use super::guards::{Going, reason_to_keep};
use super::members::{self, Member, Members};
use crate::cluster::Error;
use crate::deployment::observe::Run;

/// An object that leaves, and why it is left in the cluster if it is.
struct Leaving {
    key: ObjectKey,
    member: Member,
    keep: Option<String>,
}

/// So often it is asked again what hangs on an object before it is left in the cluster for want of an answer: some 15 s.
const QUESTIONS: u32 = 5;

/// Prunes every member that is not in `keep`, in the reverse order of applying. What is guarded is decided before the first
/// object goes: the operator that answers for its instances may be among them.
pub(super) async fn prune(run: &mut Run, mut members: Members, bases: &Bases, keep: &BTreeSet<ObjectKey>) -> Pruning {
    let mut failed = Vec::new();
    let mut stripped = Vec::new();
    for step in unmarked(bases, &members, keep) {
        match find(run, step).await {
            Ok(found) => stripped.extend(found.map(|member| (step.key.clone(), member))),
            Err(error) => failed.push(format!("{}: {}", step.identity, Chain(&error))),
        }
    }
    members.objects.extend(stripped);
    for leaving in decide(run, &mut members, keep, &mut failed).await {
        let identity = leaving.member.identity.to_string();
        if let Err(error) = remove(run, leaving).await {
            failed.push(format!("{identity}: {}", Chain(&error)));
        }
    }
    failed.extend(members.why.take());
    pending(run, &failed, members)
}

/// What becomes of each object that leaves; into `unknown` goes of what it could not be found out yet.
async fn decide(
    run: &Run,
    members: &mut Members,
    keep: &BTreeSet<ObjectKey>,
    unknown: &mut Vec<String>,
) -> Vec<Leaving> {
    let mut leaving: Vec<(Phase, ObjectKey, Member)> = std::mem::take(&mut members.objects)
        .into_iter()
        .filter(|(key, member)| !keep.contains(key) && member.metadata.deletion_timestamp.is_none())
        .map(|(key, member)| (Phase::of(&key.group, &key.kind), key, member))
        .collect();
    leaving.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let is_asked_again = attempts(run) < QUESTIONS;
    let (mut decided, mut going) = (Vec::with_capacity(leaving.len()), Going::new());
    for (_, key, member) in leaving {
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
        decided.push(Leaving { key, member, keep });
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
    let keep: BTreeSet<ObjectKey> = run.tracker.tracked().objects.keys().cloned().collect();
    let pruned = prune(run, members, &Bases::default(), &keep).await;
    if let Installation::Applied { applied, pruning, .. } = &mut run.memory.installation
        && applied.release() == release
    {
        *pruning = pruned;
    }
}

/// Objects that the release before has and no list has shown: somebody may have taken our labels off.
fn unmarked<'a>(
    bases: &'a Bases,
    members: &'a Members,
    keep: &'a BTreeSet<ObjectKey>,
) -> impl Iterator<Item = &'a Step> {
    let plans: Vec<&Plan> = [&bases.installed, &bases.begun].into_iter().flatten().collect();
    plans.into_iter().flat_map(|plan| plan.steps.values()).filter(|step| {
        let is_unlisted =
            members.unlisted.iter().any(|kind| kind.group == step.key.group && kind.kind == step.key.kind);
        !keep.contains(&step.key) && !members.objects.contains_key(&step.key) && !is_unlisted
    })
}

/// The object, if our owner reference is still on it.
async fn find(run: &Run, step: &Step) -> Result<Option<Member>, Error> {
    let metadata = run.context.cluster.writer.metadata(&step.identity).await?;
    let ours = metadata.filter(|metadata| run.owner.is_controller(metadata));
    Ok(ours.map(|metadata| Member { identity: step.identity.clone(), metadata }))
}

/// A status write in between makes the looked-at version an old one: look again, and go on if it is still ours.
async fn remove(run: &mut Run, leaving: Leaving) -> Result<(), Error> {
    const ATTEMPTS: usize = 5;
    let Leaving { key, mut member, keep } = leaving;
    for attempt in 1.. {
        match remove_one(run, &member, keep.as_deref()).await {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
            // The upgrade itself may have ended the version in which the object was listed.
            Ok(false) if attempt < ATTEMPTS && follow_version(run, &mut member).await? => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
        match run.context.cluster.writer.metadata(&member.identity).await? {
            Some(now) if is_still_ours(run, &now) => member.metadata = now,
            _ => break,
        }
    }
    run.tracker.tracked().objects.remove(&key);
    Ok(())
}

/// An object that is not found may be there in another version: whether there is one.
async fn follow_version(run: &Run, member: &mut Member) -> Result<bool, Error> {
    let kind = member.identity.kind.inventory();
    if !kind.group.contains('.') {
        return Ok(false);
    }
    run.context.cluster.kinds.forget(&kind.group);
    let unserved = BTreeSet::from([kind.version.clone()]);
    let served = run.context.cluster.kinds.any_version(&kind, &unserved).await?;
    let is_other = served.is_some();
    if let Some(served) = served {
        member.identity.kind = served;
    }
    Ok(is_other)
}

fn is_still_ours(run: &Run, metadata: &ObjectMeta) -> bool {
    (run.owner.is_controller(metadata) || run.owner.owns_fully(metadata)) && metadata.deletion_timestamp.is_none()
}

/// Whether the object was there.
async fn remove_one(run: &mut Run, member: &Member, keep: Option<&str>) -> Result<bool, Error> {
    let writer = &run.context.cluster.writer;
    let Some(reason) = keep else {
        let was_there = writer.delete(&member.identity, &member.metadata).await?;
        if was_there {
            tracing::info!(deployment = %run.owner.name, object = %member.identity, "object pruned");
        }
        return Ok(was_there);
    };
    writer.release(&member.identity, &member.metadata, &run.owner).await?;
    tracing::warn!(deployment = %run.owner.name, object = %member.identity, %reason, "object orphaned: it stays in the cluster without an owner");
    let kind = member.identity.kind.inventory();
    let object = ReleasedObject {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        namespace: member.identity.namespace.clone().unwrap_or_default(),
        name: member.identity.name.clone(),
        reason: reason.to_owned(),
    };
    // Remembered until a status says so, whatever becomes of this reconcile.
    run.memory.released.push(object.clone());
    run.observed.status.inventory.get_or_insert_default().released.push(object);
    Ok(true)
}
