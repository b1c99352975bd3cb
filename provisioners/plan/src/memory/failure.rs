//! An attempt that failed, as it is remembered, or as the status tells of it after a restart; and an upgrade that failed because it
//! was not applied and healthy in time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rukpak_crds::RevisionResult;
use rukpak_crds::condition::reason;
use rukpak_crds::names::DECIDING;

use super::{Installation, Memory, later};
use crate::applied::{Objects, known_complaints};
use crate::observed::Observed;
use crate::problem::{Problem, Stage};
use crate::retry::{self, Class};
use crate::{Release, decide};

/// What a deployment asks for, as far as it decides what an attempt comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    generation: Option<i64>,
    annotations: BTreeMap<&'static str, String>,
}

impl Asked {
    fn of(observed: &Observed) -> Self {
        let annotations = DECIDING.iter().filter_map(|key| Some((*key, observed.annotation(key)?.to_owned())));
        Self { generation: observed.deployment.metadata.generation, annotations: annotations.collect() }
    }
}

/// What the conditions call a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A first installation did not end.
    InstallFailed,
    /// An upgrade did not end, or was turned back.
    UpgradeFailed,
    /// An upgrade was not applied and healthy in time.
    DeadlineExceeded,
    /// An upgrade was refused before its first write.
    UpgradeRefused,
    /// What is installed could not be kept as it is.
    ReconcileFailed,
    /// The content could not be loaded or rendered.
    LoadFailed,
    /// The deployment names no ServiceAccount, and has to.
    AccountRequired,
    /// There is no such ServiceAccount.
    AccountNotFound,
    /// The ServiceAccount lacks rights.
    RightsMissing,
    /// Somebody has to approve it first.
    ApprovalMissing,
    /// Somebody has rejected it.
    PlanRejected,
    /// The installed operator says that it must not be upgraded now.
    NotUpgradeable,
    /// No window is open for it.
    WindowClosed,
}

impl Reason {
    /// As `Installed` has it.
    pub fn installed(self) -> &'static str {
        match self {
            Self::InstallFailed => reason::INSTALL_FAILED,
            Self::UpgradeFailed | Self::DeadlineExceeded => reason::UPGRADE_FAILED,
            Self::UpgradeRefused => reason::ERROR_GETTING_RELEASE_STATE,
            Self::ReconcileFailed => reason::RECONCILE_FAILED,
            Self::LoadFailed => reason::BUNDLE_LOAD_FAILED,
            Self::AccountRequired => reason::SERVICE_ACCOUNT_REQUIRED,
            Self::AccountNotFound => reason::SERVICE_ACCOUNT_NOT_FOUND,
            Self::RightsMissing => reason::MISSING_RIGHTS,
            Self::ApprovalMissing => reason::WAITING_FOR_APPROVAL,
            Self::PlanRejected => reason::PLAN_REJECTED,
            Self::NotUpgradeable => reason::OPERATOR_CONDITION_NOT_UPGRADEABLE,
            Self::WindowClosed => reason::WAITING_FOR_WINDOW,
        }
    }

    /// As `Ready` has it.
    pub fn ready(self) -> &'static str {
        match self {
            Self::DeadlineExceeded => reason::PROGRESS_DEADLINE_EXCEEDED,
            other => other.installed(),
        }
    }
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was to be installed.
    pub release: Release,
    /// What the conditions call it.
    pub reason: Reason,
    /// What went wrong.
    pub problem: Problem,
    /// How often in a row, by the same class.
    pub attempts: u32,
    /// When the first in a row failed; `None` if the last one got no answer, which says nothing of the release.
    pub answered_since: Option<Timestamp>,
    /// When it is tried again; `None` if only a change of the deployment has it tried again.
    pub until: Option<Timestamp>,
    /// What the deployment asked for at the time.
    pub asked: Asked,
    /// Why going back failed as well, if it did.
    pub way_back: Option<String>,
}

impl Failure {
    /// A first failure, of the deployment as it is now.
    pub fn first(
        observed: &Observed,
        release: Release,
        reason: Reason,
        problem: Problem,
        until: Option<Timestamp>,
    ) -> Self {
        let asked = Asked::of(observed);
        Self { release, reason, problem, attempts: 1, answered_since: None, until, asked, way_back: None }
    }

    /// Whether it is not to be tried again yet.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    /// What people are told.
    pub fn message(&self) -> String {
        match &self.way_back {
            None => self.problem.message.clone(),
            Some(why) => {
                format!("{}; rolling back failed as well and is tried again: {why}", self.problem.message)
            }
        }
    }

    /// The deployment as it is now is tried at once, as if it had not failed before.
    pub(super) fn start_over(&mut self, observed: &Observed, now: Timestamp) {
        (self.until, self.attempts, self.answered_since) = (Some(now), 0, None);
        self.asked = Asked::of(observed);
    }

    /// Whether the deployment asks for the same still.
    pub(super) fn is_of(&self, observed: &Observed) -> bool {
        self.asked == Asked::of(observed)
    }
}

/// The failure that the status tells of the wanted release, after a restart.
pub(super) fn recorded(observed: &Observed, now: Timestamp) -> Option<Failure> {
    let release = decide::wanted_release(observed)?;
    let metadata = &observed.deployment.metadata;
    let is_same_spec = observed.status.observed_generation == metadata.generation;
    let revision = observed.status.history.first().filter(|revision| {
        is_same_spec && revision.result.is_failure() && Release::read(&revision.release).as_ref() == Some(&release)
    })?;
    let (reason, until) = match revision.result {
        RevisionResult::DeadlineExceeded => (Reason::DeadlineExceeded, None),
        // The clock may have been put back since.
        _ => (Reason::UpgradeFailed, Some(later(revision.time.min(now), retry::upgrade_delay(1)).max(now))),
    };
    let problem =
        Problem { stage: Stage::Apply, message: revision.message.clone(), class: Class::Terminal, can_go_back: true };
    Some(Failure::first(observed, release, reason, problem, until))
}

/// What is awaited of an upgrade that has a deadline: one that misses it is a failed one.
enum Awaited {
    /// The upgrade that was begun is to be applied.
    Applied(Release),
    /// The newest revision is to be healthy.
    Healthy(Release),
}

/// What is awaited, and since when.
fn awaited(observed: &Observed) -> Option<(Awaited, Timestamp)> {
    let installed = observed.installed()?;
    let wanted = decide::wanted_release(observed);
    if let Some((begun, since)) = observed.pending().filter(|(begun, _)| Some(begun) == wanted.as_ref()) {
        return (begun != installed).then_some((Awaited::Applied(begun), since));
    }
    let newest = observed.status.history.first()?;
    let is_awaited =
        Release::read(&newest.release).as_ref() == Some(&installed) && newest.result == RevisionResult::Installed;
    is_awaited.then_some((Awaited::Healthy(installed), newest.time))
}

/// When the upgrade must be applied and healthy; `None` if there is no deadline, or nothing is awaited.
///
/// It counts from the beginning of the upgrade, or from when the deadline was set or the deployment resumed if that was later.
pub fn deadline(observed: &Observed) -> Option<Timestamp> {
    let limit = observed.progress_deadline()?;
    let text = observed.deployment.spec.progress_deadline.as_ref()?;
    let counted = observed.status.progress.as_ref().filter(|progress| progress.deadline == *text)?;
    let (_, began) = awaited(observed)?;
    Some(later(began.max(counted.since), limit))
}

impl Memory {
    /// The hook that was waited for is over: what comes after it is tried at once. How often it has failed before still counts.
    pub fn learn_hook_over(&mut self, now: Timestamp) {
        if let Some(failure) =
            self.failure.as_mut().filter(|failure| matches!(failure.problem.stage, Stage::Running(_)))
        {
            failure.until = Some(now);
        }
    }

    /// Notices that an upgrade was not applied and healthy in time. Returns whether that is news.
    pub fn notice_deadline(&mut self, observed: &Observed, objects: &Objects, now: Timestamp) -> bool {
        if observed.deployment.spec.suspend {
            return false;
        }
        let Some(until) = deadline(observed).filter(|until| *until <= now) else { return false };
        let Some((awaited, _)) = awaited(observed) else { return false };
        let late = match awaited {
            Awaited::Applied(release) => self.held_up_applying(release),
            Awaited::Healthy(release) => self.held_up_healing(observed, release, objects),
        };
        let Some((release, held_up)) = late.filter(|(release, _)| self.held_upgrade(release).is_none()) else {
            return false;
        };
        let problem = Problem {
            stage: Stage::Apply,
            message: format!("progress deadline exceeded at {until}: {held_up}"),
            class: Class::Terminal,
            can_go_back: true,
        };
        // It was given its time. Only a change of the deployment has it tried again.
        self.failure.take_if(|failure| failure.release == release);
        self.failed_upgrade = Some(Failure::first(observed, release, Reason::DeadlineExceeded, problem, None));
        true
    }

    /// What keeps an upgrade from being applied: this process has tried, and can go back.
    fn held_up_applying(&self, release: Release) -> Option<(Release, String)> {
        let failure = self.failure.as_ref().filter(|failure| failure.release == release)?;
        failure.problem.can_go_back.then(|| (release, failure.problem.message.clone()))
    }

    /// What keeps the installed release from being healthy. What nobody has read is neither healthy nor late: after a restart it is
    /// looked at first, unless the way back had begun.
    fn held_up_healing(&self, observed: &Observed, release: Release, objects: &Objects) -> Option<(Release, String)> {
        // Another release that is asked for by now replaces it anyway.
        let is_wanted = decide::wanted_release(observed).as_ref() == Some(&release);
        if !is_wanted || observed.last_healthy(&release).is_none() {
            return None;
        }
        let complaints = known_complaints(objects);
        let is_known = match &self.installation {
            Installation::Applied { .. } => !complaints.is_empty(),
            Installation::Partial { .. } | Installation::Unknown => {
                self.failure.is_some() || observed.pending().is_some()
            }
        };
        let never = "it was never seen healthy";
        let held_up = if complaints.is_empty() { never.to_owned() } else { complaints.join("\n") };
        is_known.then_some((release, held_up))
    }
}
