//! What is in no release any more: deleted, or left in the cluster without an owner where data hangs on it. What is sent next is
//! decided by [`Pass`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use rukpak_crds::ReleasedObject;
use rukpak_crds::names::ADOPT_BY;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{self, Declared, complaints};
use rukpak_plan::memory::{Installation, later};
use rukpak_plan::owner;
use rukpak_plan::prune::{self, Answer, End, Guard, HEALTHY_WITHIN, Leaving, Order, Outcome, Pass, Pruning, Request};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::{self, Class};
use rukpak_plan::{Identity, Kind, Plan, Release, Step};
use rukpak_runtime::error::Chain;

use super::bases::Bases;
use super::members::{self, Members};
use super::{Superseded, used_name};
use crate::cluster::{Deleted, Error, Propagation};
use crate::deployment::observe::{Run, View};

/// So many objects of a phase are removed at once.
const PARALLEL: usize = 16;
/// So often it is asked again what hangs on an object before it is left in the cluster for want of an answer: some 15 s.
const QUESTIONS: u32 = 5;
/// A watch that is late shows by then what a list has shown.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// So many objects are named that are waited for.
const NAMED: usize = 5;

/// Prunes every member that is not `declared`, or has that wait until the release that was applied is healthy. What replaces a release
/// that failed does not wait: what failed may be what keeps it from becoming healthy.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn prune(
    run: &mut Run,
    members: Members,
    bases: &Bases,
    declared: &Declared,
    why: Why,
) -> Result<Pruning, Superseded> {
    let Found { mut leaving, stripped, failed } = find_leaving(&run.view, &members, bases, declared).await;
    let has_stripped = !stripped.is_empty();
    leaving.extend(stripped);
    if !leaving.is_empty() && why != Why::WayBack && is_ill(&run.view) {
        tracing::debug!(deployment = %run.view.owner.name, objects = leaving.len(), "what left the bundle stays until the release is healthy");
        return Ok(Pruning::Awaiting { until: later(run.view.reads.now(), HEALTHY_WITHIN) });
    }
    // The others were listed before the first write, which made sure of that.
    if has_stripped {
        run.confirm().await?;
    }
    remove(run, leaving, failed, members).await
}

/// What leaves when a release is installed.
pub(super) struct Found {
    /// Members that the release does not declare.
    pub leaving: Vec<Leaving>,
    /// What no list has shown: somebody has taken our labels off, or they are those of another owner.
    pub stripped: Vec<Leaving>,
    /// Why some of it could not be read.
    pub failed: Vec<String>,
}

/// Finds what leaves when a release that declares `declared` is installed. A Plan tells of the same objects that are pruned later.
pub(super) async fn find_leaving(view: &View, members: &Members, bases: &Bases, declared: &Declared) -> Found {
    let (mut stripped, mut failed) = (Vec::new(), Vec::new());
    for step in unmarked(bases, members, declared) {
        match find(view, &step.identity).await {
            Ok(found) => stripped.extend(found),
            Err(error) => failed.push(format!("{}: {}", step.identity, Chain(&error))),
        }
    }
    find_shared(view, |key| declared.contains(key), members, &mut stripped, &mut failed).await;
    Found { leaving: leaving(view, members, declared), stripped, failed }
}

/// Prunes what waited for the health of the release, or could not be pruned when it was installed. Nothing is loaded or applied for it.
pub(super) async fn again(run: &mut Run, release: &Release) -> Result<(), Superseded> {
    let members = members::list(&run.view, &run.view.kinds(), Why::Resync).await;
    let Installation::Applied { applied, differences, .. } = run.view.memory.installation() else { return Ok(()) };
    let system_namespace = &run.view.reads.settings.system_namespace;
    let mut declared = applied.declared(&run.view.tracker.tracked().objects, system_namespace);
    declared.extend(differences.paused.iter().cloned());
    let used = differences.used.clone();
    let mut leaving = leaving(&run.view, &members, &declared);
    let mut failed = Vec::new();
    // What is used as it is was not applied.
    let is_declared = |key: &ObjectKey| declared.contains(key) || used.contains(&used_name(key));
    find_shared(&run.view, is_declared, &members, &mut leaving, &mut failed).await;
    if !leaving.is_empty() {
        run.confirm().await?;
    }
    let pruned = remove(run, leaving, failed, members).await?;
    run.view.memory.learn_pruned(release, pruned);
    Ok(())
}

/// Whether it is known that the objects are not healthy.
fn is_ill(view: &View) -> bool {
    view.observed.is_health_known() && !complaints(&view.tracker.tracked().objects).is_empty()
}

/// Returns the members that leave.
fn leaving(view: &View, members: &Members, declared: &Declared) -> Vec<Leaving> {
    // What was applied of a release that is still to be replaced may leave with it.
    let applied = view.tracker.tracked().uids().into_iter().filter(|(key, _)| declared.contains(key));
    let applied = applied.map(|(_, uid)| uid).collect();
    let metadata = members.objects.iter().map(|(key, member)| (key, &*member.metadata));
    let leaving = applied::leaving(metadata, declared, &applied);
    leaving.iter().filter_map(|key| members.objects.get(key).cloned()).collect()
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
async fn find(view: &View, identity: &Identity) -> Result<Option<Leaving>, Error> {
    let metadata = view.reads.reader.metadata(identity).await?;
    let ours = metadata.filter(|metadata| view.owner.is_controller(metadata) || view.owner.is_sharer(metadata));
    Ok(ours.map(|metadata| Leaving { identity: identity.clone(), metadata: Arc::new(metadata) }))
}

/// What we share and do not declare: the labels on it are those of whoever leads it, so no list of ours shows it.
async fn find_shared(
    view: &View,
    is_declared: impl Fn(&ObjectKey) -> bool,
    members: &Members,
    found: &mut Vec<Leaving>,
    failed: &mut Vec<String>,
) {
    for identity in view.reads.dependents.shared(&view.owner) {
        let key = identity.key();
        let is_known = members.objects.contains_key(&key) || found.iter().any(|known| known.identity.key() == key);
        if is_declared(&key) || is_known {
            continue;
        }
        match find(view, &identity).await {
            Ok(shared) => found.extend(shared),
            Err(error) => failed.push(format!("{identity}: {}", Chain(&error))),
        }
    }
}

/// Removes what leaves, as far as it goes now.
async fn remove(
    run: &mut Run,
    leaving: Vec<Leaving>,
    mut failed: Vec<String>,
    members: Members,
) -> Result<Pruning, Superseded> {
    let (attempts, unanswered) = match run.view.memory.installation() {
        Installation::Applied { pruning: Pruning::Pending { attempts, unanswered, .. }, .. } => {
            (attempts.saturating_add(1), *unanswered)
        }
        _ => (1, 0),
    };
    let before = run.view.tracker.tracked().leaving.clone();
    let begun = Pass::new(run.view.owner.clone(), leaving, unanswered < QUESTIONS).wait_for(&members.unlisted, &before);
    let outcome = pass(run, begun).await;
    if outcome.is_superseded {
        return Err(Superseded);
    }
    failed.extend(outcome.failed);
    failed.extend(members.why);
    {
        let mut tracked = run.view.tracker.tracked();
        tracked.leaving = outcome.waiting.iter().map(|(key, _)| key.clone()).collect();
        tracked.held.clone_from(&outcome.paused);
    }
    if failed.is_empty() && outcome.waiting.is_empty() {
        return Ok(if outcome.paused.is_empty() { Pruning::Done } else { held(&run.view, outcome.paused) });
    }
    let mut texts = Vec::new();
    if !failed.is_empty() {
        let detail = failed.join("; ");
        tracing::warn!(deployment = %run.view.owner.name, detail, "pruning failed; will retry");
        texts.push(format!("objects that left the bundle could not be deleted: {detail}"));
    }
    if !outcome.waiting.is_empty() {
        let named: Vec<&str> = outcome.waiting.iter().take(NAMED).map(|(_, why)| why.as_str()).collect();
        let others = if outcome.waiting.len() > NAMED { "; and others" } else { "" };
        texts.push(format!(
            "waiting until these objects, which left the bundle, are gone: {}{others}",
            named.join("; ")
        ));
    }
    Ok(Pruning::Pending {
        message: texts.join("; "),
        is_failed: !failed.is_empty(),
        unlisted: members.unlisted,
        attempts,
        unanswered: if outcome.is_unanswered { unanswered.saturating_add(1) } else { 0 },
        until: later(run.view.reads.now(), retry::delay(Class::Transient, attempts)),
    })
}

/// Objects that stay because they say so. One that said it no more before it was noted would tell nobody.
fn held(view: &View, objects: BTreeSet<ObjectKey>) -> Pruning {
    let says = |key: &ObjectKey| view.reads.dependents.get(key).is_none_or(|seen| seen.fingerprint.is_paused());
    if objects.iter().all(says) {
        return Pruning::Held { objects };
    }
    Pruning::Awaiting { until: later(view.reads.now(), LOOK_AGAIN) }
}

/// Sends what a pass asks for, and tells it what came of that.
pub(super) async fn pass(run: &mut Run, mut pass: Pass) -> Outcome {
    let mut released = Vec::new();
    let sender = &*run;
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < PARALLEL {
            let Some(order) = pass.next_order() else { break };
            under_way.push(send(sender, order));
        }
        let Some((id, answer)) = under_way.next().await else { break };
        let Some((leaving, end)) = pass.answer(id, answer) else { continue };
        sender.view.tracker.tracked().objects.remove(&leaving.identity.key());
        if let End::Released { reason } = end {
            released.push(prune::released(&leaving.identity, reason));
        }
    }
    drop(under_way);
    note(&mut run.view, released);
    pass.outcome()
}

/// Remembers what was left without an owner until a status says so, whatever becomes of this reconcile.
fn note(view: &mut View, released: Vec<ReleasedObject>) {
    if !released.is_empty() {
        view.memory.learn_released(released.iter().cloned());
        let inventory = view.draft.inventory.get_or_insert_default();
        prune::add_released(&mut inventory.released, released);
    }
}

async fn send(run: &Run, Order { id, object, request }: Order) -> (usize, Answer) {
    let Leaving { identity, metadata } = &object;
    if !run.view.is_current() {
        return (id, Answer::Wanted(false));
    }
    let answer = match request {
        Request::Ask { guard, going } => would_lose(&run.view, identity, guard, &going).await,
        Request::Look => match run.view.reads.reader.metadata(identity).await {
            Ok(seen) => Answer::Seen(seen.map(Box::new)),
            Err(error) => refused(&error),
        },
        Request::Delete => match run.objects.delete(identity, metadata, Propagation::Background).await {
            Ok(Deleted::Absent) => Answer::Absent,
            Ok(deleted) => {
                tracing::info!(deployment = %run.view.owner.name, object = %identity, "object pruned");
                if deleted == Deleted::Gone { Answer::Done } else { Answer::Accepted }
            }
            Err(error) => refused(&error),
        },
        Request::Release { reason } => {
            let released = written(run.objects.release(identity, metadata, &run.view.owner).await);
            if released == Answer::Done {
                tracing::warn!(deployment = %run.view.owner.name, object = %identity, %reason,
                    "object orphaned: it stays in the cluster without an owner");
            }
            released
        }
        Request::HandOver => {
            let living = match without_dead_owners(run, metadata).await {
                Ok(living) => living,
                Err(error) => return (id, refused(&error)),
            };
            if !run.view.owner.is_shared(&living) {
                return (id, Answer::Alone(Box::new(living)));
            }
            let handed_over = written(run.objects.hand_over(identity, &living, &run.view.owner).await);
            if handed_over == Answer::Done {
                tracing::info!(deployment = %run.view.owner.name, object = %identity,
                    "object left to the BundleDeployments that share it");
            }
            handed_over
        }
        Request::AskWanted => match run.is_wanted().await {
            Ok(is_wanted) => Answer::Wanted(is_wanted),
            Err(error) => refused(&error),
        },
        Request::FollowVersion => match served(&run.view, identity).await {
            Ok(found) => Answer::Version(found),
            Err(error) => refused(&error),
        },
    };
    (id, answer)
}

/// Without owner references to BundleDeployments that are gone, or are being deleted: garbage collection takes them off later, and the
/// object with them.
async fn without_dead_owners(run: &Run, metadata: &ObjectMeta) -> Result<ObjectMeta, Error> {
    let mut living = metadata.clone();
    for other in owner::owners(metadata).filter(|other| other.uid != run.view.owner.uid) {
        let found = run.context.cluster.deployment(&other.name).await?;
        let is_alive =
            found.is_some_and(|found| found.uid.as_ref() == Some(&other.uid) && found.deletion_timestamp.is_none());
        if !is_alive {
            living.owner_references.iter_mut().for_each(|all| all.retain(|reference| reference.uid != other.uid));
        }
    }
    Ok(living)
}

fn written(result: Result<(), Error>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(error) if error.is_not_found() => Answer::Absent,
        Err(error) => refused(&error),
    }
}

fn refused(error: &Error) -> Answer {
    let why = Chain(error).to_string();
    if error.is_conflict() { Answer::Conflict(why) } else { Answer::Refused(why) }
}

/// An object that is not found may be there in another version of its kind.
async fn served(view: &View, identity: &Identity) -> Result<Option<Identity>, Error> {
    let kind = identity.kind.inventory();
    view.reads.kinds.forget(&kind.group);
    let unserved = BTreeSet::from([kind.version.clone()]);
    let served = view.reads.kinds.any_version(&kind, &unserved).await?;
    Ok(served.map(|kind| Identity { kind, ..identity.clone() }))
}

/// Whether anything would be lost with an object. `going`: objects that are about to be deleted, or are.
async fn would_lose(view: &View, identity: &Identity, guard: Guard, going: &BTreeSet<ObjectKey>) -> Answer {
    let (what, lost) = match guard {
        Guard::None | Guard::Data => return Answer::WouldLose(None),
        Guard::Instances => ("it has instances", instances(view, identity, going).await),
        // An API that does not answer (of a broken APIService) may hold the one object that counts.
        Guard::Contents => ("it is empty", contents(view, &identity.name, going).await),
    };
    match lost {
        Ok(lost) => Answer::WouldLose(lost),
        Err(error) => Answer::Unseen {
            why: format!("it cannot be seen whether {what}: {}", Chain(&error)),
            is_transient: error.is_transient(),
        },
    }
}

/// Whether a CRD has instances, in words.
async fn instances(view: &View, crd: &Identity, going: &BTreeSet<ObjectKey>) -> Result<Option<String>, Error> {
    let Some(crd) = view.reads.reader.get(crd).await? else { return Ok(None) };
    let Some(resource) = prune::instances(&crd.body) else { return Ok(Some(prune::NONE_SERVED.to_owned())) };
    let found = living(view, &resource, None, going).await?;
    Ok(found.map(|name| format!("it has instances, {name} among them")))
}

/// Whether a namespace holds anything that would be lost with it, in words.
async fn contents(view: &View, namespace: &str, going: &BTreeSet<ObjectKey>) -> Result<Option<String>, Error> {
    for kind in view.reads.kinds.listable().await?.iter().filter(|kind| kind.namespaced) {
        if let Some(name) = living(view, &kind.resource, Some(namespace), going).await? {
            return Ok(Some(format!("it is not empty: {name} is in it")));
        }
    }
    Ok(None)
}

/// The first object that is not being deleted, is not derived from another, and is not there in every namespace.
async fn living(
    view: &View,
    resource: &ApiResource,
    namespace: Option<&str>,
    going: &BTreeSet<ObjectKey>,
) -> Result<Option<String>, Error> {
    let mut page = ListParams::default().limit(500);
    loop {
        let list = match view.reads.reader.list_metadata(resource, namespace, &page).await {
            Ok(list) => list,
            Err(error) if matches!(error.code(), 404 | 405) => return Ok(None),
            Err(error) => return Err(error),
        };
        let living = list.items.into_iter().find(|object: &kube::core::PartialObjectMeta<DynamicObject>| {
            prune::would_be_lost(&resource.group, &resource.kind, &object.metadata, namespace.is_some(), going)
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

/// Takes off the list what was deleted, or has become somebody's, meanwhile. What cannot be seen stays on it.
pub(crate) async fn look_at_released(view: &mut View) {
    let listed = view.draft.inventory.clone().unwrap_or_default().released;
    for object in listed {
        if !is_left(view, &object).await {
            view.memory.forget_released(|known| prune::is_same_object(known, &object));
            if let Some(inventory) = &mut view.draft.inventory {
                inventory.released.retain(|known| !prune::is_same_object(known, &object));
            }
        }
    }
}

/// Whether the object is there as we left it: with the annotation by which we may have it again.
async fn is_left(view: &View, object: &ReleasedObject) -> bool {
    let found = async {
        let Some(kind) = kind(view, object).await? else { return Ok(None) };
        let namespace = Some(object.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let identity = Identity { kind, namespace, name: object.name.clone() };
        view.reads.reader.metadata(&identity).await
    };
    match found.await {
        Ok(Some(metadata)) => metadata.annotations.is_some_and(|all| all.get(ADOPT_BY) == Some(&view.owner.name)),
        Ok(None) => false,
        Err(_) => true,
    }
}

async fn kind(view: &View, object: &ReleasedObject) -> Result<Option<Kind>, crate::cluster::Error> {
    let ReleasedObject { group, version, kind, .. } = object;
    let kind = rukpak_crds::InventoryKind { group: group.clone(), version: version.clone(), kind: kind.clone() };
    view.reads.kinds.any_version(&kind, &std::collections::BTreeSet::new()).await
}
