//! What is remembered of a deployment from one reconcile to the next. A new process remembers nothing and resumes from the status.

mod failure;
mod notes;
mod resume;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use rukpak_content::Digest;
use rukpak_crds::{BundleProperty, DeletionPolicy, IgnoredDifference, ReleasedObject, ServiceAccountReference};
use rukpak_plain::ObjectKey;

use crate::applied::Applied;
use crate::approval::Question;
use crate::conflict::Repairs;
use crate::fields::Taken;
use crate::missing::{Missing, missing_text};
use crate::observed::Observed;
use crate::opt_out::Ignored;
use crate::prune::Pruning;
use crate::record::Records;
use crate::resolve::Why;
use crate::retry::{self, Class};
use crate::rewrite::Rewrite;
use crate::{Format, Plan, Release, decide};

pub use self::failure::{Asked, Failure, Reason, deadline};
pub use crate::problem::{Problem, Stage};

/// Owned by the reconcile that runs. What belongs together is changed together, here and below: others tell what they learn.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// How the cluster stands to a release.
    installation: Installation,
    /// What that release has beside its objects.
    traits: Traits,
    /// The last attempt at what is to be in the cluster failed; it is repeated.
    failure: Option<Failure>,
    /// The last attempt at another release than the installed one failed; the installed one is guarded meanwhile.
    failed_upgrade: Option<Failure>,
    /// Objects that were repaired lately.
    repairs: BTreeMap<ObjectKey, Repairs>,
    /// Why nothing more is done in this reconcile.
    pause: Pause,
    /// Something came in this reconcile that was waited for, and nothing was written since.
    is_unblocked: bool,
    /// A reconcile was asked for: what somebody has deleted is made again, until nothing is left to repair.
    makes_again: bool,
    /// Since when the first lists of watches are waited for, after a restart.
    resuming_since: Option<Timestamp>,
    /// Since when an upgrade that was begun waits for the Bundle of the template that came after it.
    waits_for_bundle_since: Option<Timestamp>,
    /// The contents that the store keeps for the deployment.
    kept_contents: Option<BTreeSet<Digest>>,
    /// The releases of RukPak v0.16 were asked to be deleted, and there are none any more.
    has_no_helm_releases: bool,
    /// The Bundle that was created last, and when.
    created_bundle: Option<(String, Timestamp)>,
    /// Objects that were left in the cluster, as long as no status says so.
    released: Vec<ReleasedObject>,
    /// When the last reconcile began, to notice a clock that was put back.
    looked_at: Option<Timestamp>,
    /// A release that was refused because nobody serves these kinds: its content need not be loaded to find that they are still
    /// missing.
    waits_for_kinds: Option<(Release, Vec<Missing>)>,
    /// Which stored objects were migrated already, by the name of their CRD.
    rewrites: BTreeMap<String, Rewrite>,
    /// The records of releases.
    pub(crate) records: Records,
    /// Whether the release that is asked for may be installed, and what was answered.
    question: Option<Box<Question>>,
    /// What a status says some seconds later.
    told: told::Told,
}

/// What the release that was begun or applied last has beside its objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traits {
    /// When the certificates of its webhooks are to be looked at again.
    pub certificates_due: Option<Timestamp>,
    /// Stands for its authorities; `None` also after a restart.
    pub authorities: Option<Digest>,
    /// What its bundle provides and requires.
    pub properties: Vec<BundleProperty>,
    /// The Namespace that was made for it.
    pub namespace: Option<String>,
}

/// Why nothing more is done in a reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pause {
    /// There is no reason.
    #[default]
    None,
    /// Content has to be fetched again before anything goes on.
    Content,
    /// The first lists of watches are waited for, until then at most.
    Lists(Timestamp),
}

/// How the cluster stands to a release.
#[derive(Clone, Debug, Default)]
pub enum Installation {
    /// It was not looked at since the process started.
    #[default]
    Unknown,
    /// Every object of the release was applied.
    Applied {
        /// The proof.
        applied: Applied,
        /// Whether what had to go is gone.
        pruning: Pruning,
        /// What is otherwise than the release asks for.
        differences: Box<Differences>,
    },
    /// Some objects of the release may have been written.
    Partial {
        /// The release.
        release: Release,
    },
}

/// What is otherwise than a release asks for, although all of its objects were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Namespaces of others that are used as they are.
    pub used: Vec<String>,
    /// What stays as it is in the cluster, a line an object.
    pub kept: Vec<String>,
    /// What is left as it is because it says so.
    pub paused: BTreeSet<ObjectKey>,
    /// What becomes of the objects when the deployment is deleted.
    pub policy: DeletionPolicy,
    /// Whose rights they were applied with, if not the controller's.
    pub account: Option<Box<ServiceAccountReference>>,
    /// What was left to others by rule.
    pub ignored: Vec<IgnoredDifference>,
    /// Stands for the proxy that operators were told of.
    pub proxy: Option<Digest>,
}

/// A field that may not be carried out yet.
pub(crate) const POLICY: &str = "spec.deletionPolicy";

impl Differences {
    /// What was otherwise when the objects of `release` were applied: fields of the spec, and the proxy of the cluster.
    ///
    /// Another account has the objects applied again, though they stay what they are: whether it may keep them is found out before
    /// the next write, not at it.
    pub fn unapplied(&self, observed: &Observed, release: &Release) -> Vec<&'static str> {
        let spec = &observed.deployment.spec;
        let is_other_policy = spec.deletion_policy.unwrap_or_default() != self.policy;
        let is_other_account = spec.service_account.as_ref() != self.account.as_deref();
        let fields = [
            (POLICY, is_other_policy),
            ("spec.serviceAccount", is_other_account),
            ("spec.ignoreDifferences", spec.ignore_differences != self.ignored),
            ("proxy of the cluster", self.has_other_proxy(observed, release)),
        ];
        fields.into_iter().filter(|(_, is_other)| *is_other).map(|(field, _)| field).collect()
    }

    /// Whether the operators of `release` were told of another proxy than the cluster has now. No other format has operators.
    pub fn has_other_proxy(&self, observed: &Observed, release: &Release) -> bool {
        release.format == Format::Registry && observed.proxy != self.proxy
    }
}

/// An upgrade that meets what may pass is continued for so long before the release before comes back, from the first such answer in
/// a row on: how long it was interrupted, or the API server away, is no reason to go back.
pub const FORWARD_FOR: Duration = Duration::from_mins(5);

/// The first lists of watches take so long at most, mostly: the status keeps what it says.
const SILENCE: Duration = Duration::from_secs(3);
/// A Bundle that is unpacked by then is not waited for in the status: that would be one write more for every installation.
const SOON: Duration = Duration::from_secs(1);

impl Memory {
    /// At the beginning of a reconcile: what the news in `observed` end, and what a restart has to be told by the status.
    pub fn refresh(&mut self, observed: &Observed, now: Timestamp) {
        self.follow_clock(now);
        self.makes_again |= observed.is_requested() && !observed.deployment.spec.suspend;
        if observed.is_unblocked || observed.is_requested() {
            self.failed_upgrade = None;
            self.repairs.values_mut().for_each(Repairs::release);
        }
        if let Some(failure) = &mut self.failure {
            // Only once for a change: as long as nothing is written, the deployment stays touched.
            let is_changed = observed.is_touched && !failure.is_of(observed);
            if is_changed || observed.is_unblocked || observed.is_requested() {
                failure.start_over(observed, now);
            }
        }
        self.waits_for_bundle_since =
            decide::is_superseded(observed, self).then(|| self.waits_for_bundle_since.unwrap_or(now));
        self.pause = Pause::None;
        self.is_unblocked = observed.is_unblocked;
        self.failed_upgrade.take_if(|failure| !failure.is_of(observed));
        if matches!(self.installation, Installation::Unknown) && self.failed_upgrade.is_none() {
            self.failed_upgrade = failure::recorded(observed, now);
        }
        self.forget_ignored(observed);
        self.repairs.retain(|_, repairs| !repairs.is_over(now));
        if matches!(self.installation, Installation::Unknown) && self.repairs.is_empty() {
            self.recall_contested(observed);
            self.forget_ignored(observed);
        }
        self.recall_missing(now);
    }

    /// What the installed release misses, it misses still when nothing is to be said any more of an upgrade that failed meanwhile.
    fn recall_missing(&mut self, now: Timestamp) {
        let Installation::Applied { applied, .. } = &self.installation else { return };
        if self.failure.is_none() && self.failed_upgrade.is_none() && !applied.missing().is_empty() {
            let (release, missing) = (applied.release().clone(), applied.missing().to_vec());
            self.learn_missing(release, &missing, now);
        }
    }

    /// What a rule leaves to others is contested no more.
    fn forget_ignored(&mut self, observed: &Observed) {
        for (key, repairs) in &mut self.repairs {
            let ignored = Ignored::of(&observed.deployment.spec, key);
            repairs.forget(|path| ignored.covers(path, None));
        }
    }

    /// If the clock was put back, all that is remembered is put back as far: a wait of seconds would take as long as the clock jumped.
    fn follow_clock(&mut self, now: Timestamp) {
        let last = self.looked_at.replace(now).unwrap_or(now);
        let Some(step) = Duration::try_from(last.duration_since(now)).ok().filter(|step| !step.is_zero()) else {
            return;
        };
        let back = |time: &mut Timestamp| *time = time.checked_sub(step).unwrap_or(Timestamp::MIN);
        for failure in self.failure.iter_mut().chain(&mut self.failed_upgrade) {
            failure.until.iter_mut().chain(&mut failure.answered_since).for_each(back);
        }
        self.repairs.values_mut().for_each(|repairs| repairs.put_back(back));
        self.told.put_back(back);
        if let Installation::Applied { pruning: Pruning::Pending { until, .. } | Pruning::Awaiting { until }, .. } =
            &mut self.installation
        {
            back(until);
        }
        self.resuming_since.iter_mut().chain(&mut self.waits_for_bundle_since).for_each(back);
        self.created_bundle.iter_mut().for_each(|(_, created)| back(created));
    }

    /// Fields that were left to others before a restart still are.
    fn recall_contested(&mut self, observed: &Observed) {
        let mut fields: BTreeMap<ObjectKey, Vec<Taken>> = BTreeMap::new();
        for field in observed.inventory().contested {
            let namespace = Some(field.namespace).filter(|namespace| !namespace.is_empty());
            let key = ObjectKey { group: field.group, kind: field.kind, namespace, name: field.name };
            let taken = Taken { manager: field.manager, subresource: String::new(), path: field.path };
            fields.entry(key).or_default().push(taken);
        }
        self.repairs = fields.into_iter().map(|(key, fields)| (key, Repairs::relinquishing(fields))).collect();
    }

    /// Until when nothing is said: of a cluster that the watches are just beginning to show after a restart, and of a Bundle that was
    /// just created and may be unpacked in a moment.
    pub fn silent_until(&self, observed: &Observed, now: Timestamp) -> Option<Timestamp> {
        let lists = self.awaits_lists_until().and(self.resuming_since).map(|since| later(since, SILENCE));
        let bundle = self.created_bundle.as_ref().filter(|(name, _)| observed.desired.is_just_created(name));
        let bundle = bundle.map(|(_, created)| later(*created, SOON));
        lists.max(bundle).filter(|until| *until > now)
    }

    /// The release that every object of was applied, if so.
    pub fn applied(&self) -> Option<&Release> {
        match &self.installation {
            Installation::Applied { applied, .. } => Some(applied.release()),
            Installation::Unknown | Installation::Partial { .. } => None,
        }
    }

    /// The failed upgrade that holds back `release`.
    pub fn held_upgrade(&self, release: &Release) -> Option<&Failure> {
        self.failed_upgrade.as_ref().filter(|failure| failure.release == *release)
    }

    /// Every object of a release is in the cluster.
    pub fn learn_applied(&mut self, applied: Applied, pruning: Pruning, differences: Differences, now: Timestamp) {
        self.failed_upgrade.take_if(|failure| failure.release == *applied.release());
        if let Some(upgrade) = &mut self.failed_upgrade {
            upgrade.way_back = None;
        }
        self.learn_missing(applied.release().clone(), applied.missing(), now);
        self.pause = Pause::None;
        self.installation = Installation::Applied { applied, pruning, differences: Box::new(differences) };
    }

    /// These kinds of the installed release are not served.
    pub fn learn_missing(&mut self, release: Release, missing: &[Missing], now: Timestamp) {
        let blocking: Vec<&Missing> = missing.iter().filter(|missing| !missing.is_optional()).collect();
        if blocking.is_empty() {
            self.failure = None;
            return;
        }
        let before = self.failure.take();
        let attempts = before.as_ref().map_or(1, |failure| failure.attempts.saturating_add(1));
        let class = Class::Transient;
        let message = format!("required resource not found: {}", missing_text(&blocking));
        let problem = Problem { stage: Stage::Missing, message, class, can_go_back: false };
        self.failure = Some(Failure {
            release,
            reason: Reason::ReconcileFailed,
            until: Some(later(now, retry::delay(class, attempts))),
            problem,
            attempts,
            answered_since: None,
            asked: before.map(|failure| failure.asked).unwrap_or_default(),
            way_back: None,
        });
    }

    /// The installed release is healthy: what left the bundle may go.
    pub fn learn_healthy(&mut self, now: Timestamp) {
        if let Installation::Applied { pruning: Pruning::Awaiting { until }, .. } = &mut self.installation {
            *until = now.min(*until);
        }
    }

    /// An object that was waited for is gone, or one that was left as it is may go: the others may follow.
    pub fn learn_gone(&mut self, now: Timestamp) {
        match &mut self.installation {
            Installation::Applied { pruning: Pruning::Pending { until, .. }, .. } => *until = now.min(*until),
            Installation::Applied { pruning: pruning @ Pruning::Held { .. }, .. } => {
                *pruning = Pruning::Awaiting { until: now };
            }
            _ => {}
        }
    }

    /// An attempt at `release` failed. What may pass is tried again; a definite failure in the middle of an upgrade holds the
    /// upgrade back, and the release before comes back.
    pub fn learn_failed(
        &mut self,
        observed: &Observed,
        (release, why): (Release, Why),
        problem: Problem,
        now: Timestamp,
    ) {
        let installed = observed.installed();
        let is_upgrade = matches!(why, Why::Upgrade | Why::Rollback);
        let was_written = matches!(problem.stage, Stage::Apply | Stage::Running(_) | Stage::Migrate | Stage::Missing);
        if was_written {
            self.installation = Installation::Partial { release: release.clone() };
        }
        // The next attempt at what is under way may stop before its first write.
        let is_begun = was_written || observed.pending().is_some_and(|(pending, _)| pending == release);
        let before = self.failure.take().filter(|failure| failure.release == release);
        let answered_since = (!matches!(problem.stage, Stage::Ask | Stage::Running(_)))
            .then(|| before.as_ref().and_then(|failure| failure.answered_since).unwrap_or(now));
        let is_in_time = answered_since.is_none_or(|since| now < later(since, FORWARD_FOR));
        let may_pass = !problem.is_definite() && is_in_time;
        let is_put_off = problem.stage.is_put_off();
        let goes_on = (was_written && !problem.can_go_back) || (is_begun && may_pass && !is_put_off);
        if why == Why::WayBack
            && let Some(upgrade) = &mut self.failed_upgrade
        {
            upgrade.way_back = Some(problem.message.clone());
        }
        if is_upgrade && !goes_on {
            self.failed_upgrade = Some(self.upgrade_failure(observed, release, problem, is_begun, now));
            return;
        }
        let reason = match problem.stage {
            Stage::Ask if !is_upgrade => Reason::ReconcileFailed,
            Stage::Load => Reason::LoadFailed,
            Stage::Unnamed => Reason::AccountRequired,
            Stage::Account => Reason::AccountNotFound,
            Stage::Rights => Reason::RightsMissing,
            Stage::Unapproved => Reason::ApprovalMissing,
            Stage::Rejected => Reason::PlanRejected,
            Stage::NotUpgradeable => Reason::NotUpgradeable,
            Stage::Closed(_) => Reason::WindowClosed,
            _ if is_upgrade => Reason::UpgradeFailed,
            _ if installed.is_none() => Reason::InstallFailed,
            _ => Reason::ReconcileFailed,
        };
        let before = before.filter(|failure| failure.problem.class == problem.class);
        let attempts = before.map_or(1, |failure| failure.attempts.saturating_add(1));
        let until = problem.stage.tried_again(later(now, retry::delay(problem.class, attempts)));
        let first = Failure::first(observed, release, reason, problem, until);
        self.failure = Some(Failure { attempts, answered_since, ..first });
    }

    /// Drifted objects of the installed release could not be repaired. Each has a back-off of its own.
    pub fn learn_unrepaired(&mut self, observed: &Observed, release: Release, problem: Problem, now: Timestamp) {
        let until = observed.drifted.iter().filter_map(|key| self.repairs.get(key)?.not_before()).min().unwrap_or(now);
        let reason = match problem.stage {
            Stage::Unnamed => Reason::AccountRequired,
            Stage::Account => Reason::AccountNotFound,
            Stage::Rights => Reason::RightsMissing,
            _ => Reason::ReconcileFailed,
        };
        let problem = Problem { stage: Stage::Repair, ..problem };
        self.failure = Some(Failure::first(observed, release, reason, problem, Some(until)));
    }

    /// Whether the installed operator has kept the upgrade to `release` from beginning.
    pub fn is_held_by_operator(&self, release: &Release) -> bool {
        self.held_upgrade(release).is_some_and(|failure| failure.problem.stage == Stage::NotUpgradeable)
    }

    /// An OperatorCondition has changed: the upgrade that it may have held up is tried at once.
    pub fn learn_condition_changed(&mut self) {
        self.failed_upgrade.take_if(|failure| failure.problem.stage == Stage::NotUpgradeable);
    }

    /// Nothing has drifted any more.
    pub fn learn_repaired(&mut self) {
        self.makes_again = false;
        self.failure.take_if(|failure| failure.problem.stage == Stage::Repair);
    }

    /// `is_begun`: objects were written, and going back writes them again. That is not done every few minutes.
    fn upgrade_failure(
        &mut self,
        observed: &Observed,
        release: Release,
        problem: Problem,
        is_begun: bool,
        now: Timestamp,
    ) -> Failure {
        let before = self.failed_upgrade.take().filter(|before| {
            before.release == release && before.is_of(observed) && before.problem.is_definite() == problem.is_definite()
        });
        let attempts = before.map_or(1, |before| before.attempts.saturating_add(1));
        let is_slow = problem.is_definite() || is_begun;
        let delay = if is_slow { retry::upgrade_delay(attempts) } else { retry::delay(problem.class, attempts) };
        let reason = match problem.stage {
            Stage::Ask => Reason::ReconcileFailed,
            Stage::Load => Reason::LoadFailed,
            Stage::Check => Reason::UpgradeRefused,
            Stage::Unnamed => Reason::AccountRequired,
            Stage::Account => Reason::AccountNotFound,
            Stage::Rights => Reason::RightsMissing,
            Stage::Unapproved => Reason::ApprovalMissing,
            Stage::Rejected => Reason::PlanRejected,
            Stage::NotUpgradeable => Reason::NotUpgradeable,
            Stage::Closed(_) => Reason::WindowClosed,
            Stage::Apply | Stage::Running(_) | Stage::Migrate | Stage::Missing | Stage::Repair => Reason::UpgradeFailed,
        };
        let until = problem.stage.tried_again(later(now, delay));
        Failure { attempts, ..Failure::first(observed, release, reason, problem, until) }
    }

    /// From now on objects of the plan's release may be written.
    pub fn learn_begun(&mut self, observed: &Observed, plan: &Plan) {
        // What came has been used: what is missing still is not asked for again in this reconcile.
        self.is_unblocked = false;
        let release = &plan.release;
        if self.applied() != Some(release) && observed.installed().as_ref() != Some(release) {
            self.repairs.clear();
        }
        self.traits = Traits {
            certificates_due: plan.certificates_due.and_then(|due| Timestamp::try_from(due).ok()),
            authorities: plan.authorities.clone(),
            properties: plan.properties.clone(),
            namespace: plan.namespace.clone(),
        };
        self.installation = Installation::Partial { release: release.clone() };
    }

    /// Returns the other release that decides about what is sent for `release`: the one that it replaces, or on the way back the one that
    /// was begun in its place, of which objects may be there. `None` also where nothing tells of it.
    pub fn release_before(&self, observed: &Observed, release: &Release, why: Why) -> Option<Release> {
        let is_other = |other: &Release| other != release;
        match why {
            Why::Upgrade | Why::Rollback => observed.installed().filter(is_other),
            Why::WayBack => {
                // Once the way back itself was begun, the status names that.
                let begun = observed.pending().map(|(begun, _)| begun).filter(is_other);
                begun.or_else(|| self.failed_upgrade.as_ref().map(|failure| failure.release.clone()).filter(is_other))
            }
            Why::First | Why::Resync | Why::Renewal | Why::Repair => None,
        }
    }

    /// Whether the authorities of the release's certificates are where clients look for them: all was applied, and nothing has drifted
    /// since.
    pub fn has_published(&self, observed: &Observed, release: &Release) -> bool {
        self.applied() == Some(release) && observed.drifted.is_empty()
    }
}

/// `now` and then `delay`; the end of time if that is sooner.
pub fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
