//! An attempt that failed, as it is remembered, or as the status tells of it after a restart.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rukpak_crds::RevisionResult;
use rukpak_crds::condition::reason;

use super::later;
use crate::observed::Observed;
use crate::retry::{self, Class};
use crate::{Release, decide};

/// Which part of an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The API server or the store could not be asked.
    Ask,
    /// The content could not be loaded or rendered.
    Load,
    /// Nothing was written: a kind is missing, a CRD would break data, the dry run was refused.
    Check,
    /// Nothing was written: the ServiceAccount whose rights are to be used does not exist.
    Account,
    /// Nothing was written: it lacks rights.
    Rights,
    /// Some objects may have been written.
    Apply,
    /// Everything was applied, and drifted objects could not be repaired.
    Repair,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// When.
    pub stage: Stage,
    /// In words.
    pub message: String,
    /// When it is worth trying again.
    pub class: Class,
    /// Whether the failure cannot be otherwise next time unless something is changed. A definite failure in the middle of an
    /// upgrade is what brings the release before back.
    pub is_definite: bool,
    /// Whether the release before can be installed again.
    pub can_go_back: bool,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was to be installed.
    pub release: Release,
    /// Reason of the condition.
    pub reason: &'static str,
    /// What went wrong.
    pub problem: Problem,
    /// How often in a row, by the same class.
    pub attempts: u32,
    /// When it is tried again.
    pub until: Timestamp,
    /// Generation of the BundleDeployment at the time.
    pub generation: Option<i64>,
    /// Its annotations at the time: some of them say what is allowed.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Why going back failed as well, if it did.
    pub way_back: Option<String>,
}

impl Failure {
    /// A first failure, of the deployment as it is now.
    pub fn first(
        observed: &Observed,
        release: Release,
        reason: &'static str,
        problem: Problem,
        until: Timestamp,
    ) -> Self {
        let metadata = &observed.deployment.metadata;
        let (generation, annotations) = (metadata.generation, metadata.annotations.clone());
        Self { release, reason, problem, attempts: 1, until, generation, annotations, way_back: None }
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

    /// It is about the deployment as it is now.
    pub(super) fn look_at(&mut self, observed: &Observed) {
        let metadata = &observed.deployment.metadata;
        (self.generation, self.annotations) = (metadata.generation, metadata.annotations.clone());
    }

    /// Whether nobody has changed the deployment since.
    pub(super) fn is_of(&self, observed: &Observed) -> bool {
        let metadata = &observed.deployment.metadata;
        self.generation == metadata.generation && self.annotations == metadata.annotations
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
    let until = match revision.result {
        RevisionResult::DeadlineExceeded => Timestamp::MAX,
        _ => later(revision.time, retry::upgrade_delay(1)).max(now),
    };
    let problem = Problem {
        stage: Stage::Apply,
        message: revision.message.clone(),
        class: Class::Terminal,
        is_definite: true,
        can_go_back: true,
    };
    Some(Failure::first(observed, release, reason::UPGRADE_FAILED, problem, until))
}
