//! What to do next about a BundleDeployment.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::names;
use rukpak_plain::ObjectKey;

use crate::Release;
use crate::conflict::Repairs;
use crate::memory::{Failure, Installation, Memory, Stage, deadline, later};
use crate::observed::{Dependencies, Desired, Observed};
use crate::resolve::Why;

/// The finalizer by which Kubernetes orphans what an object owns (`--cascade=orphan`).
const ORPHAN: &str = "orphan";

/// What was begun is left half done for so long at most while the Bundle of another template is unpacked.
const BUNDLE_WAIT: Duration = Duration::from_mins(5);

/// What the reconcile does next. All but [`Decision::Report`] change what is remembered or the cluster, and are followed by
/// another decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: what is known is reported.
    Report,
    /// Create the Bundle that the template asks for.
    CreateBundle {
        /// Its name.
        name: String,
        /// Hash of the template.
        hash: String,
    },
    /// Compare the cluster with what the status says was applied: after a restart there is mostly nothing to do.
    Resume(Release),
    /// Apply every object of a release, and delete what is not in it.
    Install {
        /// The release.
        release: Release,
        /// Why.
        why: Why,
    },
    /// Apply some objects of the installed release again.
    Repair {
        /// The release.
        release: Release,
        /// The objects.
        objects: BTreeSet<ObjectKey>,
    },
    /// Ask whether the kinds that the installed release misses are served: only then is it applied again.
    Discover(Release),
    /// Delete what is in no release any more.
    Prune(Release),
    /// Delete everything, in the reverse order of applying: the deployment is being deleted.
    Remove,
    /// Take our finalizer off the deployment, which is being deleted: what is left to do is not ours.
    LetGo,
}

/// What shall be in the cluster, and what keeps the desired release from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The release; `None` if there is none yet.
    pub release: Option<Release>,
    /// What was asked for, by the template or by a revision; `None` if it is not known yet.
    pub wanted: Option<Release>,
    /// Whether a revision was asked for.
    pub is_rollback: bool,
    /// Why the release is not the wanted one.
    pub held: Option<Held>,
}

/// Why the wanted release is not installed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Its Bundle is not unpacked.
    NotReady,
    /// It failed a moment ago.
    Failed,
    /// Other BundleDeployments come first.
    Dependencies,
    /// The revision that was asked for is not in the history.
    RevisionNotFound(String),
}

/// What shall be in the cluster.
pub fn target(observed: &Observed, memory: &Memory, now: Timestamp) -> Target {
    // What was applied as a whole is installed, though its report may have been lost.
    let installed = memory.applied().cloned().or_else(|| observed.installed());
    let (wanted, is_rollback, held) = wanted(observed);
    let guard = |wanted, release, held| Target { release, wanted, is_rollback, held: Some(held) };
    let Some(wanted) = wanted else { return guard(None, installed, held.unwrap_or(Held::NotReady)) };
    if let Some(failure) = memory.held_upgrade(&wanted).filter(|failure| failure.is_held(now)) {
        let release = instead(observed, installed.clone(), failure);
        if release.is_some() {
            return guard(Some(wanted), release, Held::Failed);
        }
    }
    let is_ready = observed.dependencies == Dependencies::Ready;
    if !is_ready && installed.as_ref() != Some(&wanted) && !was_installed(observed) {
        return guard(Some(wanted), installed, Held::Dependencies);
    }
    Target { release: Some(wanted.clone()), wanted: Some(wanted), is_rollback, held: None }
}

/// Whether a revision is asked for that was installed before. It waits for nobody: what it depends on may be ill because of what is
/// to be undone.
fn was_installed(observed: &Observed) -> bool {
    let number = observed.rollback_to().and_then(Result::ok);
    number.and_then(|number| observed.revision(number)).is_some_and(|revision| !revision.result.is_failure())
}

/// What is asked for, by a revision or by the template, if it is known.
pub(crate) fn wanted_release(observed: &Observed) -> Option<Release> {
    wanted(observed).0
}

fn wanted(observed: &Observed) -> (Option<Release>, bool, Option<Held>) {
    match observed.rollback_to() {
        Some(Ok(number)) => match observed.revision(number).and_then(|revision| Release::read(&revision.release)) {
            Some(release) => (Some(release), true, None),
            None => (None, true, Some(Held::RevisionNotFound(number.to_string()))),
        },
        Some(Err(text)) => (None, true, Some(Held::RevisionNotFound(text))),
        None => match &observed.desired {
            Desired::Ready { release, .. } => (Some(release.clone()), false, None),
            _ => (None, false, Some(Held::NotReady)),
        },
    }
}

/// What is guarded while a failed release waits: the installed one, or the last healthy one if it is the installed one that
/// failed.
fn instead(observed: &Observed, installed: Option<Release>, failure: &Failure) -> Option<Release> {
    let is_other = |release: &Release| *release != failure.release;
    let installed = installed.filter(is_other).or_else(|| observed.installed().filter(is_other));
    installed.or_else(|| observed.last_healthy(&failure.release))
}

/// What to do next.
pub fn decide(observed: &Observed, memory: &Memory, now: Timestamp) -> Decision {
    // What is being deleted may be orphaning its objects: whatever took them back would delete them.
    if observed.deployment.metadata.deletion_timestamp.is_some() {
        return end(observed);
    }
    if observed.deployment.spec.suspend {
        return look(observed, memory);
    }
    if let Desired::Absent { bundle, hash } = &observed.desired {
        return Decision::CreateBundle { name: bundle.clone(), hash: hash.clone() };
    }
    if memory.waits_for_bundle_since().is_some_and(|since| now < later(since, BUNDLE_WAIT)) {
        return Decision::Report;
    }
    let Target { release: Some(release), held, .. } = target(observed, memory, now) else { return Decision::Report };
    if memory.is_refetching() {
        return Decision::Report;
    }
    if let Some(repair) = restore(observed, memory, now) {
        return repair;
    }
    match memory.installation() {
        Installation::Unknown if observed.was_applied(&release) => match memory.awaits_lists_until() {
            None => Decision::Resume(release),
            Some(_) => Decision::Report,
        },
        Installation::Applied { applied, .. } if *applied.release() == release => keep(observed, memory, release, now),
        _ if is_held(memory, &release, now) => Decision::Report,
        _ => {
            let why = why(observed, memory, &release, held.as_ref());
            Decision::Install { release, why }
        }
    }
}

/// What is left to do about a deployment that is being deleted. Without our finalizer, which is there on request, nothing.
fn end(observed: &Observed) -> Decision {
    if !observed.has_finalizer(names::DELETION_IN_ORDER) {
        return Decision::Report;
    }
    // Whoever deletes it without its objects wins over the policy.
    if !observed.needs_finalizer() || observed.has_finalizer(ORPHAN) {
        return Decision::LetGo;
    }
    if observed.dependants.is_empty() { Decision::Remove } else { Decision::Report }
}

/// Whether our finalizer is to be set on the deployment (`true`) or taken off; `None` where it is as its policy needs it, and where
/// nothing is written.
pub fn finalizer(observed: &Observed) -> Option<bool> {
    let is_needed = observed.needs_finalizer();
    let is_as_needed = observed.has_finalizer(names::DELETION_IN_ORDER) == is_needed;
    (!observed.deployment.spec.suspend && !is_as_needed).then_some(is_needed)
}

/// What is suspended is looked at after a restart, and not written.
fn look(observed: &Observed, memory: &Memory) -> Decision {
    let is_unknown = matches!(memory.installation(), Installation::Unknown) && memory.awaits_lists_until().is_none();
    let installed = observed.installed().filter(|installed| is_unknown && observed.was_applied(installed));
    installed.map_or(Decision::Report, Decision::Resume)
}

/// Whether an upgrade was begun whose template makes way for another one, the Bundle of which is being unpacked. Going back before it
/// is there would have the installed version run for that moment only.
pub(crate) fn is_superseded(observed: &Observed, memory: &Memory) -> bool {
    let is_under_way = matches!(observed.desired, Desired::Absent { .. } | Desired::Waiting { is_stalled: false, .. });
    let is_begun = match memory.installation() {
        Installation::Unknown => observed.pending().is_some(),
        Installation::Partial { release } => observed.installed().is_some_and(|installed| installed != *release),
        Installation::Applied { .. } => false,
    };
    is_begun && is_under_way && observed.installed().is_some() && observed.rollback_to().is_none()
}

/// CRDs that somebody has deleted, and wants back, come before an upgrade: its Plan tells what it changes in a release that is whole.
fn restore(observed: &Observed, memory: &Memory, now: Timestamp) -> Option<Decision> {
    let release = memory.applied().filter(|release| memory.makes_again() && !is_held(memory, release, now))?;
    let is_due = |key: &&ObjectKey| observed.is_in_common(key) && !is_repair_held(memory, key, now);
    let objects: BTreeSet<ObjectKey> = observed.drifted.iter().filter(is_due).cloned().collect();
    (!objects.is_empty()).then(|| Decision::Repair { release: release.clone(), objects })
}

/// What is left to do about a release whose objects were all applied.
fn keep(observed: &Observed, memory: &Memory, release: Release, now: Timestamp) -> Decision {
    let Installation::Applied { applied, pruning, differences } = memory.installation() else {
        return Decision::Report;
    };
    let is_held = is_held(memory, &release, now);
    let failed = memory.failure().map(|failure| failure.problem.stage);
    // What a repair found missing is not known to the proof yet.
    let is_missing = failed == Some(Stage::Missing) && !applied.missing().is_empty();
    let has_failed = failed.is_some_and(|stage| stage != Stage::Repair) && !is_missing;
    // A kind that was missing is served, or what was used as it is, is gone.
    let is_served = memory.is_unblocked() && !(applied.missing().is_empty() && differences.used.is_empty());
    let is_back = is_served || has_failed || !differences.unapplied(observed, &release).is_empty();
    if is_back && !is_held {
        return Decision::Install { release, why: Why::Resync };
    }
    if memory.traits().certificates_due.is_some_and(|due| due <= now) && !is_held {
        return Decision::Install { release, why: Why::Renewal };
    }
    if is_missing && !is_held {
        return Decision::Discover(release);
    }
    let objects: BTreeSet<ObjectKey> =
        observed.drifted.iter().filter(|key| !is_repair_held(memory, key, now)).cloned().collect();
    if !objects.is_empty() {
        return Decision::Repair { release, objects };
    }
    if pruning.due().is_some_and(|due| due <= now) { Decision::Prune(release) } else { Decision::Report }
}

fn is_repair_held(memory: &Memory, key: &ObjectKey, now: Timestamp) -> bool {
    memory.repairs().get(key).is_some_and(|repairs| repairs.is_held(now))
}

fn is_held(memory: &Memory, release: &Release, now: Timestamp) -> bool {
    memory.failure().is_some_and(|failure| failure.release == *release && failure.is_held(now))
}

fn why(observed: &Observed, memory: &Memory, release: &Release, held: Option<&Held>) -> Why {
    match observed.installed() {
        None => Why::First,
        Some(installed) if installed == *release => {
            // Another release was begun, and some of its objects may be there.
            let is_begun = observed.pending().is_some_and(|(pending, _)| pending != *release);
            let is_partial =
                matches!(memory.installation(), Installation::Partial { release: other } if other != release);
            if is_begun || is_partial { Why::WayBack } else { Why::Resync }
        }
        Some(_) if held == Some(&Held::Failed) => Why::WayBack,
        Some(_) if observed.rollback_to().is_some() => Why::Rollback,
        Some(_) => Why::Upgrade,
    }
}

/// When to look again although nothing happens; `None` if only a watch brings news. `now` is when it was last decided that there
/// is nothing to do.
pub fn next(observed: &Observed, memory: &Memory, now: Timestamp) -> Option<Timestamp> {
    if observed.deployment.spec.suspend {
        return memory.awaits_lists_until();
    }
    let failed_upgrade = target(observed, memory, now).wanted.and_then(|wanted| memory.held_upgrade(&wanted));
    let pruning = match memory.installation() {
        Installation::Applied { pruning, .. } => pruning.due(),
        _ => None,
    };
    let repairs = observed.drifted.iter().filter_map(|key| memory.repairs().get(key)?.not_before());
    let due = [
        memory.failure().and_then(|failure| failure.until),
        failed_upgrade.and_then(|failure| failure.until),
        pruning,
        memory.traits().certificates_due.filter(|_| memory.applied().is_some()),
    ];
    let bundle = memory.waits_for_bundle_since().map(|since| later(since, BUNDLE_WAIT));
    let due = due.into_iter().flatten().chain(repairs).chain(bundle);
    // What nothing can be done about then, such as a release whose Bundle is not unpacked, waits for news.
    let due = due.filter(|until| decide(observed, memory, now.max(*until)) != Decision::Report);
    let is_deadline_ahead = |until: &Timestamp| failed_upgrade.is_none() && *until > now;
    // `Contested` ends by itself.
    let slowed = memory.repairs().values().filter_map(Repairs::slowed_until).filter(|until| *until > now);
    let others = [memory.awaits_lists_until(), memory.status_due(), deadline(observed).filter(is_deadline_ahead)];
    due.chain(others.into_iter().flatten()).chain(slowed).min()
}

/// Whether the failure kept the wanted release from being loaded: then it is its Bundle that is called invalid.
pub(crate) fn is_load_failure(failure: &Failure) -> bool {
    failure.problem.stage == Stage::Load
}
