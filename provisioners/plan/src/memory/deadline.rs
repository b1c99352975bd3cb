//! An upgrade that is not applied and healthy in time is a failed one.

use jiff::Timestamp;
use rukpak_crds::RevisionResult;

use super::{Failure, Installation, Memory, Problem, Reason, Stage, later};
use crate::applied::{Objects, known_complaints};
use crate::observed::Observed;
use crate::retry::Class;
use crate::{Release, decide};

/// What a deadline is about.
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
            is_definite: true,
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
