//! From one version to the next: what it replaces, what becomes of it when it is refused, and the way back when it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rukpak_crds::condition::reason;
use rukpak_crds::{Inventory, InventoryKind};
use rukpak_plain::ObjectKey;
use rukpak_plan::retry::{self, Class};

use super::apply::{Before, Failed};
use super::converge::{Outcome, Retry, apply_and_prune, begin, installed, interrupted, inventory, refill};
use super::installation::FailedPivot;
use super::plan::{self, NoPlan, Plan, Step};
use super::preflight;
use super::prune::{self, Pruned};
use super::put::keep_stored;
use super::release::Release;
use super::{Pass, desired, load};

/// An API server that goes away in the middle of a pivot is waited for this often, before the way back is tried.
const PATIENCE: u32 = 5;

/// Whether another release than `release` is installed.
pub(crate) fn is_pivot(pass: &Pass, release: &Release) -> bool {
    installed(pass).is_some_and(|installed| installed != *release)
}

/// The plan of the release that a pivot replaces: what it falls back to. Content that the store lost is fetched again first,
/// as long as there is a Bundle that can; without one, or where a kind of it is gone, the pivot goes on and cannot be undone.
pub(crate) async fn previous(pass: &Pass, plan: &Plan) -> Result<Option<Plan>, Outcome> {
    let Some(release) = installed(pass).filter(|release| *release != plan.release) else { return Ok(None) };
    let rendered = match load::load(pass, &release).await {
        Ok(rendered) => rendered,
        Err(load::Error::Lost(why)) if desired::unpacked(pass, &release.content) => {
            return Err(refill(pass, &why).await);
        }
        Err(error @ (load::Error::Store(_) | load::Error::Certificates(_) | load::Error::Interrupted(_))) => {
            return Err(interrupted(pass, &error));
        }
        Err(error) => {
            tracing::warn!(deployment = %pass.owner.name, error = %crate::error::Chain(&error),
                "the installed content cannot be loaded: this pivot cannot be undone");
            return Ok(None);
        }
    };
    match plan::plan(pass, release, &rendered).await {
        Ok(plan) => Ok(Some(plan)),
        Err(NoPlan::Discovery(error)) => Err(interrupted(pass, &error)),
        Err(missing @ NoPlan::Missing(_)) => {
            tracing::warn!(deployment = %pass.owner.name, missing = %missing.message(), "this pivot cannot be undone");
            Ok(None)
        }
    }
}

/// A pivot that ended before its first write. The installed version is guarded until it is tried again.
pub(crate) fn refused(pass: &Pass, release: &Release, message: String, is_transient: bool) -> Outcome {
    let delay =
        if is_transient { pass.context.failures.next_delay(&pass.owner.uid, Class::Transient) } else { retry::PIVOT };
    suspend(pass, release, reason::ERROR_GETTING_RELEASE_STATE, &message, delay);
    let retry = Retry::After(unless_unsettled(pass, delay));
    Outcome::Failed { reason: reason::ERROR_GETTING_RELEASE_STATE, message, retry, inventory: inventory(pass) }
}

/// A pivot to what cannot be loaded, mostly because of the settings. The installed version is guarded until it is tried again.
pub(crate) fn unloadable(pass: &Pass, release: &Release, message: String, class: Class) -> Outcome {
    let delay = match class {
        Class::Invalid => retry::PIVOT,
        class => pass.context.failures.next_delay(&pass.owner.uid, class),
    };
    suspend(pass, release, reason::BUNDLE_LOAD_FAILED, &message, delay);
    Outcome::LoadFailed { message, class }
}

/// What drifted meanwhile, or was never looked at since a restart, cannot wait that long.
pub(crate) fn unless_unsettled(pass: &Pass, delay: Duration) -> Duration {
    let state = pass.installation.state();
    if state.complete && state.suspects.is_empty() { delay } else { Duration::ZERO }
}

fn suspend(pass: &Pass, release: &Release, reason: &'static str, message: &str, delay: Duration) {
    pass.installation.state().failed = Some(FailedPivot {
        release: release.clone(),
        generation: pass.deployment.metadata.generation,
        annotations: pass.deployment.metadata.annotations.clone(),
        until: Instant::now() + delay,
        reason,
        message: message.to_owned(),
    });
}

/// A first installation keeps what it has; a pivot puts the previous content back.
pub(crate) async fn fall_back(
    pass: &Pass,
    plan: &Plan,
    previous: Option<Plan>,
    kinds: &BTreeSet<InventoryKind>,
    failed: Failed,
) -> Outcome {
    let mut message = failed.message();
    if failed.is_not_found() {
        message.insert_str(0, "required resource not found: ");
    }
    let mut inventory = inventory(pass);
    let reason = if installed(pass).is_some() { reason::UPGRADE_FAILED } else { reason::INSTALL_FAILED };
    let previous = match previous {
        Some(previous) if !(failed.is_unavailable() && is_patient(pass, &plan.release)) => previous,
        _ => {
            return Outcome::Failed { reason, message, retry: Retry::Class(failed.class()), inventory };
        }
    };
    // Why is said once, with the status.
    tracing::warn!(deployment = %pass.owner.name, "the pivot failed; putting the previous version back");
    let retry = match put_back(pass, &previous, kinds).await {
        Ok(pruned) => {
            inventory.pending_digest = None;
            note_released(&mut inventory, pruned, &previous.steps);
            Retry::After(retry::PIVOT)
        }
        Err(again) => {
            message.push_str("; putting the previous version back failed as well and will be tried again: ");
            message.push_str(&again);
            Retry::Class(Class::Transient)
        }
    };
    suspend(pass, &plan.release, reason, &message, retry::PIVOT);
    Outcome::Failed { reason, message, retry, inventory }
}

/// Whether a pivot that the API server's absence interrupted is simply to go on when it is back.
fn is_patient(pass: &Pass, release: &Release) -> bool {
    let mut state = pass.installation.state();
    let times = match &state.interrupted {
        Some((interrupted, times)) if interrupted == release => times + 1,
        _ => 1,
    };
    state.interrupted = Some((release.clone(), times));
    times <= PATIENCE
}

async fn put_back(pass: &Pass, previous: &Plan, kinds: &BTreeSet<InventoryKind>) -> Result<Pruned, String> {
    let mut previous = previous.clone();
    keep_stored_versions(pass, &mut previous).await?;
    let previous = &previous;
    begin(pass, previous);
    let members = prune::members(pass, kinds).await.map_err(|error| crate::error::Chain(&error).to_string())?;
    let uids = prune::uids(&members);
    let pruned = apply_and_prune(pass, previous, members, &Before { uids: &uids, bodies: None })
        .await
        .map_err(|failed| failed.message())?;
    let mut state = pass.installation.state();
    state.objects.retain(|key, _| previous.steps.contains_key(key));
    state.complete = true;
    Ok(pruned)
}

/// What the failed version has stored since is not to be lost on the way back.
async fn keep_stored_versions(pass: &Pass, plan: &mut Plan) -> Result<(), String> {
    for step in plan.steps.values_mut().filter(|step| preflight::is_definition(step)) {
        let live = pass.context.cluster.writer.get(&step.identity).await;
        let Some(live) = live.map_err(|error| crate::error::Chain(&error).to_string())? else { continue };
        let (with_stored, kept) = keep_stored(step, &live);
        if !kept.is_empty() {
            tracing::warn!(deployment = %pass.owner.name, object = %step.identity, versions = %kept.join(", "),
                "versions of the failed pivot stay, for objects may be stored in them");
        }
        *step = with_stored;
    }
    Ok(())
}

/// Adds what was released, and takes out what the new content has taken back.
pub(crate) fn note_released(inventory: &mut Inventory, pruned: Pruned, steps: &BTreeMap<ObjectKey, Step>) {
    let is_back = |line: &str| steps.values().any(|step| line.starts_with(&format!("{}: ", step.identity)));
    inventory.released.retain(|line| !is_back(line));
    inventory.released.extend(pruned.released);
}
