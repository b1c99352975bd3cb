//! From a content to a cluster that has exactly it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use rukpak_crds::condition::reason;
use rukpak_crds::{Inventory, InventoryKind};
use rukpak_plain::ObjectKey;
use rukpak_plan::retry::Class;
use rukpak_plan::{Mark, MarksDigest};

use super::apply::{self, Before, Failed};
use super::desired::Desired;
use super::load;
use super::plan::{self, NoPlan, Plan};
use super::preflight;
use super::prune::{self, Members, Pruned};
use super::release::Release;
use super::{Error, Pass, drift, health, pivot};

/// What shall be in the cluster after the pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing is known to install yet.
    Nothing,
    /// The desired Bundle's.
    Desired(Release),
    /// What is installed already: the desired Bundle is not ready, or failed to install a moment ago.
    Installed(Release),
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// There was nothing to do anything with.
    Nothing,
    /// The last attempt failed a moment ago and nothing changed since; this is how long to wait. The status stays.
    Held(Duration),
    /// The content is not in the store at the moment; its Bundle has been asked to fetch it again.
    Refilling,
    /// The content cannot be loaded.
    LoadFailed { message: String, class: Class },
    /// The target is in the cluster, whole.
    Installed { release: Release, inventory: Inventory },
    /// It is not. After a pivot the previous content is (or will be) back.
    Failed { reason: &'static str, message: String, retry: Retry, inventory: Inventory },
}

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// As failures of this class are.
    Class(Class),
    /// After this long at the earliest.
    After(Duration),
}

/// How long a restart waits for the first lists of its watches before it applies everything anew.
const SYNC_PATIENCE: Duration = Duration::from_secs(30);

/// Decides what to converge to. No I/O.
pub(crate) fn choose(pass: &Pass, desired: &Desired) -> Target {
    let installed = installed(pass);
    match desired {
        Desired::Ready { release, .. } if is_suspended(pass, release) => {
            installed.map_or_else(|| Target::Desired(release.clone()), Target::Installed)
        }
        Desired::Ready { release, .. } => Target::Desired(release.clone()),
        _ => installed.map_or(Target::Nothing, Target::Installed),
    }
}

/// What the status says is installed.
pub(crate) fn installed(pass: &Pass) -> Option<Release> {
    Release::read(pass.status.inventory.as_ref()?)
}

/// Whether a pivot to `release` failed a moment ago and nothing changed since.
fn is_suspended(pass: &Pass, release: &Release) -> bool {
    let state = pass.installation.state();
    state.failed.as_ref().is_some_and(|failed| {
        failed.release == *release
            && failed.generation == pass.deployment.metadata.generation
            && failed.annotations == pass.deployment.metadata.annotations
            && failed.until > Instant::now()
    })
}

/// Makes the cluster have exactly the target.
///
/// # Errors
/// Only if the write-ahead inventory cannot be written: then nothing else was.
pub(crate) async fn converge(pass: &mut Pass, target: Target) -> Result<Outcome, Error> {
    let release = match &target {
        Target::Nothing => return Ok(Outcome::Nothing),
        Target::Desired(release) | Target::Installed(release) => release.clone(),
    };
    recall(pass, &release).await;
    let (complete, renewal) = {
        let state = pass.installation.state();
        let complete = state.complete && state.release.as_ref() == Some(&release);
        (complete, complete && state.certificates_due.is_some_and(|due| due <= SystemTime::now()))
    };
    let drifted = complete && drift::any(pass);
    if complete && !drifted && !renewal {
        health::refresh(pass).await;
        return Ok(settled(pass, &release));
    }
    aim(pass, &release);
    if let Some(remaining) = held(pass).filter(|_| !drifted && !renewal) {
        return Ok(Outcome::Held(remaining));
    }
    let rendered = match load::load(pass, &release).await {
        Ok(rendered) => rendered,
        Err(load::Error::Lost(why)) => return Ok(refill(pass, &why).await),
        Err(error @ (load::Error::Certificates(_) | load::Error::Interrupted(_))) => {
            return Ok(interrupted(pass, &error));
        }
        Err(error) => {
            let message = crate::error::Chain(&error).to_string();
            let class = if matches!(error, load::Error::Format(_)) { Class::Invalid } else { Class::Transient };
            if pivot::is_pivot(pass, &release) {
                return Ok(pivot::unloadable(pass, &release, message, class));
            }
            return Ok(Outcome::LoadFailed { message, class });
        }
    };
    let plan = match plan::plan(pass, release.clone(), &rendered).await {
        Ok(plan) => plan,
        Err(no_plan) => return Ok(unplanned(pass, &no_plan, &release)),
    };
    if matches!(target, Target::Desired(_)) {
        let mut state = pass.installation.state();
        state.missing_groups.clear();
        state.waiting.clear();
    }
    if drifted && !renewal && has_same_certificates(pass, &plan) {
        return Ok(repair(pass, &plan).await);
    }
    install(pass, plan).await
}

fn aim(pass: &Pass, release: &Release) {
    let mut state = pass.installation.state();
    if state.aimed.as_ref() != Some(release) {
        state.aimed = Some(release.clone());
        state.hold_until = None;
    }
}

/// How long a failed attempt is still to be waited for. Our own status write wakes us, and must not be taken for a reason to try
/// again; whoever touches the deployment, on the other hand, wants it tried now.
fn held(pass: &Pass) -> Option<Duration> {
    if !pass.context.written.is_last(&*pass.deployment) {
        return None;
    }
    let until = pass.installation.state().hold_until?;
    until.checked_duration_since(Instant::now()).filter(|remaining| !remaining.is_zero())
}

/// After a restart: if the cluster has what the status says was applied, there is nothing to do but to remember it.
async fn recall(pass: &Pass, release: &Release) {
    let Some(inventory) = &pass.status.inventory else { return };
    let known = pass.installation.state().release.is_some();
    let Some(digest) = &inventory.applied_digest else { return };
    if known || Release::read(inventory).as_ref() != Some(release) || inventory.pending_digest.is_some() {
        return;
    }
    let mut kinds = Vec::new();
    for kind in &inventory.kinds {
        let api_version = api_version(kind);
        match pass.context.cluster.kinds.get(&api_version, &kind.kind).await {
            Ok(Some(kind)) => kinds.push(kind),
            Ok(None) => {}
            Err(_) => return,
        }
    }
    pass.context.dependents.ensure(&kinds);
    if !pass.context.dependents.synced(&kinds, SYNC_PATIENCE).await {
        return;
    }
    let observed = pass.context.dependents.of(&pass.owner);
    let marks: BTreeMap<ObjectKey, Mark> =
        observed.iter().map(|(key, observed)| (key.clone(), observed.mark.clone())).collect();
    if MarksDigest::of(&release.content.to_string(), &renderer(pass, release), &marks) == *digest {
        health::adopt(pass, release, observed).await;
        pass.installation.state().certificates_due = inventory.certificates_renewal.map(SystemTime::from);
    }
}

pub(crate) fn api_version(kind: &InventoryKind) -> String {
    if kind.group.is_empty() { kind.version.clone() } else { format!("{}/{}", kind.group, kind.version) }
}

/// Has lost or damaged content fetched again by the Bundles' pins. They wake us when it is there.
pub(super) async fn refill(pass: &Pass, why: &rukpak_store::Error) -> Outcome {
    tracing::warn!(deployment = %pass.owner.name, error = %crate::error::Chain(why), "content has to be fetched again");
    for bundle in super::desired::owned(pass) {
        crate::bundle::distrust(&kube::ResourceExt::name_any(&*bundle), &pass.context).await;
    }
    Outcome::Refilling
}

fn unplanned(pass: &Pass, no_plan: &NoPlan, release: &Release) -> Outcome {
    let message = no_plan.message();
    let is_missing = matches!(no_plan, NoPlan::Missing(_));
    pass.installation.state().missing_groups = no_plan.groups();
    if is_missing && pivot::is_pivot(pass, release) {
        return pivot::refused(pass, release, message, true);
    }
    let (reason, message) = if is_missing {
        (reason::INSTALL_FAILED, format!("required resource not found: {message}"))
    } else {
        (reason::RECONCILE_FAILED, message)
    };
    // A definition that is there but not served yet says nothing when it is; look again soon, then ever less often.
    let class = Class::Transient;
    Outcome::Failed { reason, message, retry: Retry::Class(class), inventory: inventory(pass) }
}

/// Whether the plan's certificates are those that were applied. One whose Secret was lost is made anew, and then whatever
/// trusts it has to be applied as well.
fn has_same_certificates(pass: &Pass, plan: &Plan) -> bool {
    pass.installation.state().authorities == plan.authorities
}

/// Puts drifted objects back, and nothing else.
async fn repair(pass: &Pass, plan: &Plan) -> Outcome {
    if let Err(failed) = drift::repair(pass, plan).await {
        let (retry, message) = (Retry::Class(failed.class()), failed.message());
        return Outcome::Failed { reason: reason::RECONCILE_FAILED, message, retry, inventory: inventory(pass) };
    }
    health::refresh(pass).await;
    settled(pass, &plan.release)
}

/// Installs `plan`, or pivots to it from what is installed.
async fn install(pass: &mut Pass, plan: Plan) -> Result<Outcome, Error> {
    let before = inventory(pass);
    let had: BTreeSet<InventoryKind> = before.kinds.iter().cloned().collect();
    let kinds: BTreeSet<InventoryKind> = had.iter().cloned().chain(plan.inventory()).collect();
    let previous = match pivot::previous(pass, &plan).await {
        Ok(previous) => previous,
        Err(outcome) => return Ok(outcome),
    };
    let members = match prune::members(pass, &had).await {
        Ok(members) => members,
        Err(error) => return Ok(interrupted(pass, &error)),
    };
    let uids = prune::uids(&members);
    let bodies = previous.as_ref().map(|previous| &previous.steps);
    let known = Before { uids: &uids, bodies };
    // First, for it tells every finding; the API server would tell some of them.
    if let Err(refused) = preflight::definitions(pass, &plan, &known).await {
        return Ok(unsafe_upgrade(pass, &plan, refused));
    }
    if pivot::is_pivot(pass, &plan.release)
        && let Err(failed) = apply::dry_run(pass, &plan, &known).await
    {
        return Ok(pivot::refused(pass, &plan.release, failed.message(), failed.is_transient()));
    }
    intend(pass, kinds.clone(), &plan).await?;
    begin(pass, &plan);
    match apply_and_prune(pass, &plan, members, &known).await {
        Ok(pruned) => finish(pass, &plan, kinds, pruned).await,
        Err(failed) => Ok(pivot::fall_back(pass, &plan, previous, &kinds, failed).await),
    }
}

/// Definitions would break what is in the cluster: nothing was written.
fn unsafe_upgrade(pass: &Pass, plan: &Plan, refused: preflight::Refused) -> Outcome {
    let preflight::Refused { message, is_transient } = refused;
    if pivot::is_pivot(pass, &plan.release) {
        return pivot::refused(pass, &plan.release, message, is_transient);
    }
    let class = if is_transient { Class::Transient } else { Class::Invalid };
    Outcome::Failed { reason: reason::INSTALL_FAILED, message, retry: Retry::Class(class), inventory: inventory(pass) }
}

/// Writes ahead: the kinds that will be used, and the content that is about to be installed.
async fn intend(pass: &mut Pass, kinds: BTreeSet<InventoryKind>, plan: &Plan) -> Result<(), Error> {
    let mut status = pass.status.clone();
    let inventory = status.inventory.get_or_insert_default();
    inventory.kinds = kinds.into_iter().collect();
    if Release::read(inventory).as_ref() != Some(&plan.release) {
        inventory.pending_digest = Some(plan.release.content.to_string());
    }
    pass.write(status).await
}

pub(super) fn begin(pass: &Pass, plan: &Plan) {
    let mut state = pass.installation.state();
    if state.release.as_ref() != Some(&plan.release) {
        state.contests.clear();
    }
    state.release = Some(plan.release.clone());
    state.certificates_due = plan.certificates_due;
    state.authorities.clone_from(&plan.authorities);
    state.complete = false;
    state.suspects.clear();
}

/// Applies every step, then prunes what was there before and is not in the plan.
pub(super) async fn apply_and_prune(
    pass: &Pass,
    plan: &Plan,
    members: Members,
    before: &Before<'_>,
) -> Result<Pruned, Failed> {
    apply::apply(pass, plan, before).await?;
    pass.context.dependents.ensure(&plan.kinds());
    let keep: BTreeSet<ObjectKey> = plan.steps.keys().cloned().collect();
    prune::prune(pass, members, &keep).await.map_err(|source| {
        let origin = "no longer in the bundle".to_owned();
        Failed(vec![super::put::Error::Refused { what: "pruning".to_owned(), origin, source }])
    })
}

/// The target is in the cluster: the store keeps its content for as long as it is installed.
async fn finish(pass: &Pass, plan: &Plan, kinds: BTreeSet<InventoryKind>, pruned: Pruned) -> Result<Outcome, Error> {
    {
        let mut state = pass.installation.state();
        state.objects.retain(|key, _| plan.steps.contains_key(key));
        state.complete = true;
        state.failed.take_if(|failed| failed.release == plan.release);
        state.interrupted = None;
    }
    load::keep(pass.context.store.clone(), pass.owner.name.clone(), plan.release.content.clone())
        .await
        .map_err(Error::Store)?;
    let mut inventory = settled_inventory(pass, &plan.release);
    inventory.kinds = kinds.into_iter().collect();
    pivot::note_released(&mut inventory, pruned, &plan.steps);
    Ok(Outcome::Installed { release: plan.release.clone(), inventory })
}

fn settled(pass: &Pass, release: &Release) -> Outcome {
    Outcome::Installed { release: release.clone(), inventory: settled_inventory(pass, release) }
}

fn settled_inventory(pass: &Pass, release: &Release) -> Inventory {
    let state = pass.installation.state();
    let marks: BTreeMap<ObjectKey, Mark> =
        state.objects.iter().map(|(key, applied)| (key.clone(), applied.mark.clone())).collect();
    let mut inventory = Inventory {
        pending_digest: None,
        applied_digest: Some(MarksDigest::of(&release.content.to_string(), &renderer(pass, release), &marks)),
        objects: i64::try_from(marks.len()).ok(),
        // Whole seconds, as all times of the API.
        certificates_renewal: state
            .certificates_due
            .and_then(|due| Timestamp::try_from(due).ok())
            .and_then(|due| Timestamp::from_second(due.as_second()).ok()),
        ..inventory(pass)
    };
    release.write(&mut inventory);
    inventory
}

/// What makes the objects of a release: part of the digest over the installation.
fn renderer(pass: &Pass, release: &Release) -> String {
    release.renderer(pass.context.bundle_certificates)
}

pub(super) fn inventory(pass: &Pass) -> Inventory {
    pass.status.inventory.clone().unwrap_or_default()
}

pub(super) fn interrupted(pass: &Pass, error: &(dyn std::error::Error + 'static)) -> Outcome {
    Outcome::Failed {
        reason: reason::RECONCILE_FAILED,
        message: crate::error::Chain(error).to_string(),
        retry: Retry::Class(Class::Transient),
        inventory: inventory(pass),
    }
}
