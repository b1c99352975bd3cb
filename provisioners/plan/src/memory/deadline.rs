//! An upgrade that is not healthy in time is a failed one.

use jiff::Timestamp;
use rukpak_crds::RevisionResult;

use super::{Installation, Memory, Problem, Stage, later};
use crate::observed::Observed;
use crate::retry::Class;
use crate::{Release, decide};

impl Memory {
    /// Whether it is known that the installed release is not healthy. After a restart it may have become so unseen: it is looked
    /// at first, unless the way back had begun.
    fn knows_health(&self, observed: &Observed, complaints: &[String]) -> bool {
        match &self.installation {
            Installation::Applied { .. } => !complaints.is_empty(),
            Installation::Partial { .. } | Installation::Unknown => {
                self.failure.is_some() || observed.pending().is_some()
            }
        }
    }

    /// Notices that the newest revision was not healthy in time. Returns whether that is news.
    pub fn notice_deadline(&mut self, observed: &Observed, complaints: &[String], now: Timestamp) -> bool {
        let Some(until) = deadline(observed).filter(|until| *until <= now) else { return false };
        let Some(release) = observed.installed().filter(|release| self.held_upgrade(release).is_none()) else {
            return false;
        };
        // Another release that is asked for by now replaces it anyway.
        let is_wanted = decide::wanted_release(observed).as_ref() == Some(&release);
        let is_left_alone = observed.deployment.spec.suspend || !self.knows_health(observed, complaints);
        if !is_wanted || is_left_alone || observed.last_healthy(&release).is_none() {
            return false;
        }
        let held_up =
            if complaints.is_empty() { "it was never seen healthy".to_owned() } else { complaints.join("\n") };
        let problem = Problem {
            stage: Stage::Apply,
            message: format!("progress deadline exceeded at {until}: {held_up}"),
            class: Class::Terminal,
            is_definite: true,
            can_go_back: true,
        };
        let mut failure = self.upgrade_failure(observed, release, problem, true, now);
        // It was given its time. Only a change of the deployment has it tried again.
        failure.until = Timestamp::MAX;
        self.failed_upgrade = Some(failure);
        true
    }
}

/// When the installed revision must be healthy; `None` if there is no deadline, or it was healthy.
pub fn deadline(observed: &Observed) -> Option<Timestamp> {
    let limit = observed.progress_deadline()?;
    let installed = observed.installed()?;
    let revision = observed.status.history.first()?;
    let is_awaited =
        Release::read(&revision.release).as_ref() == Some(&installed) && revision.result == RevisionResult::Installed;
    is_awaited.then(|| later(revision.time, limit))
}
