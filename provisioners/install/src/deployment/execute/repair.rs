//! What is installed stays as it was applied. After a restart: if the cluster has what the status says was applied, there is nothing to do
//! but to remember it. Later: drifted objects are applied again, without a conflict over fields that somebody insists on.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use kube::Resource;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::{Inventory, InventoryKind};
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{Applied, Objects};
use rukpak_plan::kind::is_crd;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::opt_out::Ignored;
use rukpak_plan::plan::Missing;
use rukpak_plan::resolve::{Basis, Why};
use rukpak_plan::{Fingerprint, Identity, Phase, Plan, Release, Step, fields, opt_out, owner};
use rukpak_runtime::events::{EventType, News};
use serde_json::Value;

use super::apply::{Failed, note, note_paused, once_served, served};
use super::prepare::{self, Prepared};
use super::put::{self, Known, Outcome, is_namespace, still_wanted};
use super::{health, rights, used_name};
use crate::cluster::Written;
use crate::deployment::observe::{Run, View};
use crate::metrics;
use crate::render_memory::Purpose;

/// So many objects are repaired at once.
const PARALLEL: usize = 16;
/// Reason of the Event about them, which names so many.
const DRIFT_REPAIRED: &str = "DriftRepaired";
const NAMED: usize = 3;

/// Takes what the watches show as what is installed, if its digest is the one in the status.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn resume(view: &mut View, release: &Release) {
    let now = view.reads.now();
    view.memory.begin_resuming(now);
    let inventory = view.observed.inventory();
    let Some(missing) = still_missing(view, &inventory).await else { return differs(view, release) };
    let mut kinds = Vec::new();
    for kind in &inventory.kinds {
        match view.reads.kinds.any_version(kind, &BTreeSet::new()).await {
            Ok(Some(kind)) => kinds.push(kind),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(deployment = %view.owner.name, kind = %kind.kind, %error, "cannot look up a kind");
                return differs(view, release);
            }
        }
    }
    let ids: BTreeSet<(String, String)> =
        kinds.iter().map(|kind| (kind.resource.group.clone(), kind.resource.kind.clone())).collect();
    view.tracker.tracked().awaited_kinds.clone_from(&ids);
    view.reads.dependents.ensure(&kinds);
    if !view.reads.dependents.are_listed(&ids) {
        if !view.memory.await_lists(now) {
            differs(view, release);
        }
        return;
    }
    view.tracker.tracked().awaited_kinds.clear();
    let observed = view.reads.dependents.of(&view.owner);
    let mut objects = health::adopt(view, observed).await;
    // What is there in another version than the declared one cannot be applied.
    for key in missing.iter().flat_map(|missing| missing.keys(&view.reads.settings.system_namespace)) {
        objects.remove(&key);
    }
    // In the order in which an installation tells of them.
    let shared: BTreeSet<_> = view.reads.dependents.shared(&view.owner).iter().map(Identity::key).collect();
    let used: Vec<String> = shared.iter().map(used_name).collect();
    let renderer = view.renderer_using(release, &used);
    let resumed = Applied::resumed(&inventory, release, &renderer, &objects, missing);
    // What is there is looked at, even if it is not as it was left, and the content to repair it is missing.
    take_up(view, objects);
    match resumed {
        Some(applied) => {
            view.memory.learn_resumed(&view.observed, applied, now);
            resume_shared(view, &shared, used);
        }
        None => differs(view, release),
    }
}

/// Takes up objects as the watches have shown them. What these have told since, while health was read, was news for nobody.
fn take_up(view: &View, objects: Objects) {
    let mut tracked = view.tracker.tracked();
    let shown: Vec<_> = objects.iter().map(|(key, object)| (key.clone(), object.fingerprint.uid.clone())).collect();
    tracked.objects = objects;
    for (key, uid) in shown {
        match view.reads.dependents.get(&key) {
            Some(seen) => tracked.note_seen(&view.owner, &key, &seen.owner, &seen.fingerprint),
            None => tracked.note_lost(&key, &uid),
        };
    }
}

/// What is used with others was not applied: its end is drift, as after an installation.
fn resume_shared(view: &mut View, keys: &BTreeSet<ObjectKey>, used: Vec<String>) {
    for key in keys {
        view.reads.trackers.block(&view.owner.name, key);
    }
    view.memory.learn_used(used);
}

/// What the status says is missing, if it still is: `None` if a kind is served by now, or nobody can say.
async fn still_missing(view: &View, inventory: &Inventory) -> Option<Vec<Missing>> {
    // From now on the CRD of a kind wakes us.
    view.tracker.tracked().missing_groups = inventory.missing.iter().map(|object| object.group.clone()).collect();
    let mut missing = Vec::with_capacity(inventory.missing.len());
    for object in &inventory.missing {
        let (group, version, kind) = (object.group.clone(), object.version.clone(), object.kind.clone());
        let kind = InventoryKind { group, version, kind };
        match view.reads.kinds.any_version(&kind, &BTreeSet::new()).await {
            Ok(found) if found.as_ref().is_none_or(|found| found.resource.version != kind.version) => {
                missing.push(Missing::read(object, found));
            }
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!(deployment = %view.owner.name, kind = %kind.kind, %error, "cannot look up a kind");
                return None;
            }
        }
    }
    Some(missing)
}

fn differs(view: &mut View, release: &Release) {
    tracing::info!(deployment = %view.owner.name, "objects differ from what was applied; applying all of them again");
    view.tracker.tracked().awaited_kinds.clear();
    view.memory.learn_differs(release);
}

/// How a repair ended.
pub(super) enum Ended {
    /// What could be repaired is; the memory knows what could not.
    Done,
    /// All objects have to be applied.
    NeedsInstall(Why),
    /// The deployment was changed or deleted meanwhile: the next reconcile knows more.
    Superseded,
}

/// Repairs `objects` of the installed release, in the order of applying: a namespace may have gone with all that was in it.
#[tracing::instrument(level = "debug", skip_all, fields(rukpak.objects = objects.len()))]
pub(super) async fn repair(run: &mut Run, release: &Release, objects: BTreeSet<ObjectKey>) -> Ended {
    let Ok(Prepared { plan, memory: _memory, .. }) = prepare::plan(run, release, Why::Repair, Purpose::Install).await
    else {
        // What is wrong with the content is told by an installation, which fetches it again where that helps.
        return Ended::NeedsInstall(Why::Resync);
    };
    run.view.tracker.tracked().missing_groups = plan.missing_groups();
    // A certificate whose Secret was lost is made again, and then whatever trusts it has to be applied as well.
    let authorities = run.view.memory.authorities();
    if authorities.is_some() && plan.authorities.as_ref() != authorities {
        return Ended::NeedsInstall(Why::Renewal);
    }
    let drifted = plan.steps.values().filter(|step| objects.contains(&step.key));
    if let Err(problem) = rights::check_some(run, drifted).await {
        return refuse(&mut run.view, &plan, objects, problem);
    }
    let mut left = objects;
    for phase in Phase::ALL {
        let steps: Vec<&Step> = plan.phase(phase).filter(|step| left.remove(&step.key)).collect();
        if steps.is_empty() {
            continue;
        }
        let (failed, is_lost) = repair_phase(run, &steps).await;
        let failed = Failed(failed);
        if failed.is_superseded() {
            refresh_proof(&mut run.view);
            return Ended::Superseded;
        }
        if !failed.0.is_empty() {
            return give_up(&mut run.view, &plan, &failed);
        }
        // Which objects are somebody else's is noted where all are applied.
        if is_lost {
            return Ended::NeedsInstall(Why::Resync);
        }
        if phase == Phase::Crds {
            served(run, &steps).await;
        }
    }
    // What the plan does not have cannot be repaired: its kind is not served.
    let is_missing = {
        let mut tracked = run.view.tracker.tracked();
        tracked.drifted.retain(|key| !left.contains(key));
        let (missing, declined): (Vec<_>, Vec<_>) = left.into_iter().partition(|key| tracked.objects.contains_key(key));
        tracked.declined.extend(declined);
        !missing.is_empty()
    };
    if is_missing {
        run.view.memory.learn_missing(release.clone(), &plan.missing, run.view.reads.now());
    }
    refresh_proof(&mut run.view);
    Ended::Done
}

/// Nothing was written: every object keeps its back-off.
fn refuse(view: &mut View, plan: &Plan, objects: BTreeSet<ObjectKey>, problem: Problem) -> Ended {
    let now = view.reads.now();
    for key in objects {
        view.memory.repairs_of(&key).failed(problem.class, now);
    }
    view.memory.learn_unrepaired(&view.observed, plan.release.clone(), problem, now);
    Ended::Done
}

/// Objects stay drifted that could not be repaired, and are looked at again after their back-off.
fn give_up(view: &mut View, plan: &Plan, failed: &Failed) -> Ended {
    // Something that is not ours, and that no watch shows, went with it: all has to be applied.
    if failed.is_not_found() {
        return Ended::NeedsInstall(Why::Resync);
    }
    let problem =
        Problem { stage: Stage::Repair, message: failed.message(), class: failed.class(), can_go_back: false };
    refresh_proof(view);
    view.memory.learn_unrepaired(&view.observed, plan.release.clone(), problem, view.reads.now());
    Ended::Done
}

/// Fingerprints of repaired objects are new, and the digest over them.
fn refresh_proof(view: &mut View) {
    let tracked = view.tracker.tracked();
    // What was inherited is not somebody else's any more.
    let is_shared = |key: &&ObjectKey| is_namespace(key) || is_crd(key);
    let own: BTreeSet<String> = tracked.objects.keys().filter(is_shared).map(used_name).collect();
    view.memory.learn_objects(&own, &tracked.objects, view.reads.now());
    if tracked.drifted.is_empty() {
        view.memory.learn_repaired();
    }
}

/// Repairs objects that do not need one another. Returns what failed, and whether one of them is somebody else's now.
async fn repair_phase(run: &mut Run, steps: &[&Step]) -> (Vec<put::Error>, bool) {
    let reads: Vec<_> = steps.iter().map(|step| read(&run.view, step)).collect();
    let live = futures::stream::iter(reads).buffered(PARALLEL).collect::<Vec<_>>().await;
    for (step, live) in steps.iter().zip(&live) {
        if let Ok(Some(live)) = live
            && !is_paused(&run.view, step, Some(live))
        {
            count(&mut run.view, step, live);
        }
    }
    let writes: Vec<_> = steps.iter().zip(live).map(|(step, live)| one(run, step, live)).collect();
    let results = futures::stream::iter(writes).buffered(PARALLEL).collect::<Vec<_>>().await;
    let (mut failed, mut put_back, now) = (Vec::new(), Vec::new(), run.view.reads.now());
    let is_lost = results.iter().flatten().any(|repaired| matches!(repaired, Repaired::Lost));
    for (step, result) in steps.iter().zip(results) {
        if let Ok(repaired) = &result {
            run.view.memory.learn_paused(&step.key, matches!(repaired, Repaired::Paused));
        }
        let repairs = run.view.memory.repairs_of(&step.key);
        match result {
            Ok(Repaired::Applied { is_changed, is_restored, set }) => {
                repairs.repaired(is_changed, set, now);
                if is_restored {
                    metrics::count_repair(rukpak_runtime::metrics::Outcome::Succeeded);
                    put_back.push(*step);
                }
            }
            Ok(Repaired::Paused | Repaired::Lost | Repaired::Used | Repaired::Going) => {
                repairs.repaired(false, None, now);
            }
            Err(error) => {
                metrics::count_repair(rukpak_runtime::metrics::Outcome::Failed);
                repairs.failed(error.class(), now);
                failed.push(error);
            }
        }
    }
    tell(run, &put_back);
    (failed, is_lost)
}

async fn read(view: &View, step: &Step) -> Result<Option<Written>, put::Error> {
    let live = view.reads.reader.get(&step.identity).await;
    live.map_err(|source| put::Error::Refused { what: step.identity.to_string(), origin: step.origin.clone(), source })
}

/// Counts the fields that others took; those taken too often are relinquished.
fn count(view: &mut View, step: &Step, live: &Written) {
    let repairs = view.memory.repairs_of(&step.key);
    let Some(set) = repairs.set().cloned() else { return };
    let mut taken = fields::taken(&set, &live.metadata, FIELD_MANAGER);
    let ignored = Ignored::of(&view.observed.deployment.spec, &step.key);
    if !ignored.is_empty() {
        let body = step.body();
        taken.retain(|field| !ignored.covers(&field.path, Some(&body)));
    }
    for field in repairs.count(taken, view.reads.now()) {
        tracing::warn!(deployment = %view.owner.name, object = %step.identity, field = %field.words(),
            manager = %field.manager, "field relinquished: another manager keeps changing it");
    }
}

/// Whether the object is left as it is: its manifest says so, or the object that is ours.
fn is_paused(view: &View, step: &Step, live: Option<&Written>) -> bool {
    let says = |live: &Written| view.owner.owns_fully(&live.metadata) && opt_out::is_paused(&live.metadata);
    step.is_paused || live.is_some_and(says)
}

/// What came of one object.
enum Repaired {
    /// It was applied.
    Applied {
        /// Whether it was written, and be it only to give a field up.
        is_changed: bool,
        /// Whether it was not as it should be.
        is_restored: bool,
        /// Our set of fields afterwards.
        set: Option<Value>,
    },
    /// It is left as it is on request.
    Paused,
    /// It was ours, and is somebody else's now, who made it again first.
    Lost,
    /// It is somebody else's, as before.
    Used,
    /// It is being deleted, and stays so.
    Going,
}

/// Whether the write changed more than who owns which field: replicas that were scaled are given up, and stay. Annotations that are not
/// declared are written by others, and may be while it is on its way.
fn is_different(before: &Written, after: &Written, declared: &Value) -> bool {
    let ours = |object: &Written| -> BTreeMap<String, String> {
        let annotations = object.metadata.annotations.iter().flatten();
        let ours = annotations.filter(|(name, _)| {
            name.starts_with("core.rukpak.io/") || declared["metadata"]["annotations"].get(name.as_str()).is_some()
        });
        ours.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let (was, is) = (&before.metadata, &after.metadata);
    let is_same = (&was.uid, &was.labels, &was.owner_references) == (&is.uid, &is.labels, &is.owner_references)
        && ours(before) == ours(after);
    let (was, is) = (fields(&before.body), fields(&after.body));
    !is_same || !was.eq(is)
}

/// Everything but the status, which others write.
fn fields(body: &Value) -> impl Iterator<Item = (&String, &Value)> {
    body.as_object().into_iter().flatten().filter(|(field, _)| *field != "status")
}

/// Tells of the objects that were restored.
fn tell(run: &Run, repaired: &[&Step]) {
    let named: Vec<String> = repaired.iter().take(NAMED).map(|step| step.identity.to_string()).collect();
    if named.is_empty() {
        return;
    }
    let more = match repaired.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("Changed or deleted by others, and repaired: {}{more}", named.join(", "));
    let news = News { type_: EventType::Normal, reason: DRIFT_REPAIRED.to_owned(), message };
    run.context.events.tell_seldom(run.view.observed.deployment.object_ref(&()), &news);
}

async fn one(run: &Run, step: &Step, live: Result<Option<Written>, put::Error>) -> Result<Repaired, put::Error> {
    let live = live?;
    if is_paused(&run.view, step, live.as_ref()) {
        let owned = live.filter(|live| run.view.owner.owns_fully(&live.metadata));
        let fingerprint = owned.map(|live| Fingerprint::of(&live.metadata, &run.view.owner, FIELD_MANAGER));
        note_paused(run, step, fingerprint).await;
        return Ok(Repaired::Paused);
    }
    let is_going = live.as_ref().is_none_or(|live| live.metadata.deletion_timestamp.is_some());
    if is_going && run.view.memory.leaves_deleted(&run.view.observed, &step.key) {
        // It may be gone before the write, which would make it again. As long as the watch shows it, its end is still to be told.
        let mut inbox = run.view.tracker.tracked();
        if run.view.reads.dependents.get(&step.key).is_some() {
            inbox.drifted.remove(&step.key);
        }
        return Ok(Repaired::Going);
    }
    let uid = live.as_ref().and_then(|live| live.metadata.uid.clone());
    let tracked = run.view.tracker.tracked().objects.get(&step.key).map(|tracked| tracked.fingerprint.clone());
    // The same object, whatever metadata it lost; another one of that name, or one that something else controls, has to show whose it is.
    let is_free =
        |live: &Written| owner::controller(&live.metadata).is_none_or(|other| other.uid == run.view.owner.uid);
    let known = live
        .as_ref()
        .filter(|live| is_free(live) && uid.is_some() && uid.as_ref() == tracked.as_ref().map(|tracked| &tracked.uid))
        .map(|live| Known { uid: uid.clone().unwrap_or_default(), version: live.metadata.resource_version.clone() });
    let is_owned = live.as_ref().is_some_and(|live| run.view.owner.owns_fully(&live.metadata));
    // What somebody applied in our name may be another of our controllers' that knows a newer spec.
    let is_as_applied = live.as_ref().zip(tracked.as_ref()).is_some_and(|(live, tracked)| {
        tracked.is_of_same_apply(&Fingerprint::of(&live.metadata, &run.view.owner, FIELD_MANAGER))
    });
    if !is_owned || !is_as_applied {
        still_wanted(run, step).await?;
    }
    let relinquished = run.view.memory.relinquished(&step.key);
    let ignored = Ignored::of(&run.view.observed.deployment.spec, &step.key);
    let basis = Basis { why: Why::Repair, installed: Some(step.body()), relinquished, ignored, is_forced: false };
    match once_served(run, step, known, &basis).await? {
        Outcome::Applied(written, _) => {
            let version = |object: &Written| object.metadata.resource_version.clone();
            let is_other = live.as_ref().is_none_or(|live| version(live) != version(&written));
            // What is inherited was not ours before, and has not drifted.
            let is_changed = is_other && tracked.is_some();
            let is_restored = is_changed && live.is_none_or(|live| is_different(&live, &written, &step.body()));
            if is_restored {
                tracing::info!(deployment = %run.view.owner.name, object = %step.identity, "drift repaired");
            }
            note(run, step, &written);
            let set = fields::applied(&written.metadata, FIELD_MANAGER).cloned();
            Ok(Repaired::Applied { is_changed, is_restored, set })
        }
        Outcome::Paused(fingerprint) => {
            note_paused(run, step, fingerprint).await;
            Ok(Repaired::Paused)
        }
        Outcome::Used | Outcome::Replaceable => {
            let mut inbox = run.view.tracker.tracked();
            inbox.drifted.remove(&step.key);
            let was_ours = inbox.objects.remove(&step.key).is_some();
            Ok(if was_ours { Repaired::Lost } else { Repaired::Used })
        }
    }
}
