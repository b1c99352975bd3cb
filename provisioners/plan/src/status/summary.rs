//! `Ready`, `Reconciling` and `Stalled`: what all that is known comes down to, as kstatus reads it.

use rukpak_crds::Inventory;
use rukpak_crds::condition::{ConditionStatus, Conditions, READY, RECONCILING, STALLED, reason};
use rukpak_crds::names::DELETION_IN_ORDER;

use super::{SUSPENDED, Writer, bounded, deleted_text, released_text};
use crate::decide::{Held, is_load_failure};
use crate::memory::{Failure, Installation, POLICY, Reason, Stage, deadline};
use crate::observed::{Dependencies, Desired};
use crate::prune::Pruning;
use crate::retry::Class;

/// What is deleted is mostly gone after so many looks: some seconds.
const GOING: u32 = 3;

/// What the summary conditions say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Summary {
    Ready,
    Working { reason: &'static str, message: String },
    Retrying { reason: &'static str, message: String },
    Stalled { reason: &'static str, message: String },
}

impl Writer<'_> {
    pub(super) fn summary(&self) -> Summary {
        if self.observed.deployment.spec.suspend && !self.is_applied() {
            let message = "spec.suspend is true: what is asked for is not installed".to_owned();
            return Summary::Stalled { reason: SUSPENDED, message };
        }
        if let Some(summary) = self.unapplied() {
            return summary;
        }
        let failed = || if self.is_told_by_bundle() { None } else { self.failed() };
        if let Some(summary) = self.held().or_else(failed) {
            return summary;
        }
        match &self.observed.desired {
            _ if self.target.is_rollback => {}
            Desired::Unknown { message, class } => {
                let (reason, message) = (reason::RECONCILE_FAILED, message.clone());
                return match class {
                    Class::Terminal => Summary::Stalled { reason, message },
                    _ => Summary::Retrying { reason, message },
                };
            }
            desired @ Desired::Failed { .. } => {
                return Summary::Stalled { reason: reason::UNPACK_FAILED, message: unpack_failure(desired) };
            }
            Desired::Absent { bundle, .. } => {
                return Summary::Working { reason: reason::UNPACK_PENDING, message: wait(bundle) };
            }
            Desired::Waiting { bundle, why, is_stalled } => {
                // People look at the deployment first: why its Bundle waits is said here too.
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let (reason, message) = (reason::UNPACK_PENDING, wait(bundle) + &why);
                return if *is_stalled {
                    Summary::Stalled { reason, message }
                } else {
                    Summary::Working { reason, message }
                };
            }
            Desired::Ready { .. } => {}
        }
        self.observed_summary()
    }

    /// Whether all objects of what is asked for are in the cluster, as far as is known.
    pub(super) fn is_applied(&self) -> bool {
        let applied = match self.memory.installation() {
            Installation::Unknown => self.observed.installed(),
            _ => self.memory.applied().cloned(),
        };
        applied.is_some() && self.target.wanted == applied
    }

    /// What a suspension keeps from the objects although they are those that are asked for. Who sets a deletion policy waits for
    /// `Ready` before the deployment is deleted.
    fn unapplied(&self) -> Option<Summary> {
        let Installation::Applied { applied, differences, .. } = self.memory.installation() else { return None };
        if !self.observed.deployment.spec.suspend {
            return None;
        }
        let mut fields = differences.unapplied(self.observed, applied.release());
        // With `InOrder` the objects are as with `Delete`: after a restart only the finalizer tells which of the two was carried out.
        let lacks_finalizer = self.observed.needs_finalizer() && !self.observed.has_finalizer(DELETION_IN_ORDER);
        if lacks_finalizer && !fields.contains(&POLICY) {
            fields.insert(0, POLICY);
        }
        if fields.is_empty() {
            return None;
        }
        let message = format!("spec.suspend is true: the objects do not have the new {} yet", fields.join(" and "));
        Some(Summary::Stalled { reason: SUSPENDED, message })
    }

    /// Whether the Bundle says better why there is no content: it waits for somebody.
    fn is_told_by_bundle(&self) -> bool {
        let waits_for_somebody = matches!(&self.observed.desired, Desired::Waiting { is_stalled: true, .. });
        waits_for_somebody && self.failure().is_some_and(is_load_failure)
    }

    /// What keeps the wanted release from being tried.
    fn held(&self) -> Option<Summary> {
        match self.target.held.as_ref()? {
            Held::RevisionNotFound(revision) => {
                let known: Vec<String> =
                    self.status.history.iter().map(|revision| revision.revision.to_string()).collect();
                let message = format!(
                    "revision {revision} is not in the history: it has {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                );
                Some(Summary::Stalled { reason: reason::REVISION_NOT_FOUND, message })
            }
            Held::Dependencies => Some(match &self.observed.dependencies {
                Dependencies::Cycle(path) => {
                    let message = format!("spec.dependsOn goes in a circle: {}", path.join(" -> "));
                    Summary::Stalled { reason: reason::DEPENDENCY_CYCLE, message }
                }
                Dependencies::NotReady(message) => {
                    Summary::Working { reason: reason::DEPENDENCY_NOT_READY, message: message.clone() }
                }
                Dependencies::Ready => return None,
            }),
            Held::NotReady | Held::Failed => None,
        }
    }

    fn failed(&self) -> Option<Summary> {
        let failure = self.failure()?;
        let is_upgrade = self.memory.held_upgrade(&failure.release).is_some();
        let mut message = failure.message();
        if matches!(failure.problem.stage, Stage::Running(_)) {
            return Some(Summary::Working { reason: reason::PROGRESSING, message });
        }
        if is_upgrade && let Some(what) = self.still_installed(failure) {
            message.push_str(&what);
        }
        let reason = match failure.reason {
            Reason::DeadlineExceeded => Reason::DeadlineExceeded.ready(),
            Reason::ApprovalMissing => return Some(Summary::Working { reason: reason::WAITING_FOR_APPROVAL, message }),
            Reason::NotUpgradeable => {
                return Some(Summary::Working { reason: reason::OPERATOR_CONDITION_NOT_UPGRADEABLE, message });
            }
            Reason::WindowClosed if failure.until.is_none() => {
                return Some(Summary::Stalled { reason: reason::WAITING_FOR_WINDOW, message });
            }
            Reason::WindowClosed => return Some(Summary::Working { reason: reason::WAITING_FOR_WINDOW, message }),
            Reason::PlanRejected => return Some(Summary::Stalled { reason: reason::PLAN_REJECTED, message }),
            _ if failure.problem.stage == Stage::Migrate => reason::MIGRATION_FAILED,
            _ if self.awaits_kinds(failure) && !is_upgrade => reason::REQUIRED_RESOURCE_NOT_FOUND,
            _ if self.target.is_rollback && is_upgrade => reason::ROLLBACK_REFUSED,
            reason => reason.ready(),
        };
        let is_retried = matches!(failure.problem.class, Class::Transient | Class::Conflict);
        let goes_back = failure.way_back.is_some();
        Some(if is_retried || goes_back {
            Summary::Retrying { reason, message }
        } else {
            Summary::Stalled { reason, message }
        })
    }

    /// Whether it failed because something that the bundle needs is not in the cluster.
    fn awaits_kinds(&self, failure: &Failure) -> bool {
        failure.problem.stage == Stage::Missing || self.memory.waits_for_kinds(&failure.release)
    }

    /// What runs although an upgrade failed, for those who read only this.
    fn still_installed(&self, failure: &Failure) -> Option<String> {
        let bundle = self.status.active_bundle.as_ref().filter(|_| self.memory.applied().is_some())?;
        Some(match failure.problem.stage {
            Stage::Apply | Stage::Running(_) | Stage::Migrate | Stage::Missing | Stage::Repair => {
                format!("; {bundle} is installed again")
            }
            Stage::Ask
            | Stage::Load
            | Stage::Unnamed
            | Stage::Account
            | Stage::Rights
            | Stage::Check
            | Stage::Unapproved
            | Stage::NotUpgradeable
            | Stage::Closed(_)
            | Stage::Rejected => {
                format!("; nothing was changed: {bundle} stays installed")
            }
        })
    }

    fn observed_summary(&self) -> Summary {
        match self.memory.installation() {
            _ if self.memory.is_refetching() => Summary::Working {
                reason: reason::PROGRESSING,
                message: "Fetching the content again: it is not in the store".to_owned(),
            },
            Installation::Applied { pruning: Pruning::Pending { message, is_failed, attempts, .. }, .. } => {
                let message = message.clone();
                if *is_failed || *attempts > GOING {
                    Summary::Retrying { reason: reason::PRUNE_FAILED, message }
                } else {
                    Summary::Working { reason: reason::PROGRESSING, message }
                }
            }
            Installation::Applied { .. } if !self.deleted.is_empty() => Summary::Stalled {
                reason: reason::DEFINITION_DELETED,
                message: deleted_text(&bounded(&self.deleted, ", ")),
            },
            Installation::Applied { .. } if self.is_known_unhealthy && self.is_late() => Summary::Stalled {
                reason: reason::PROGRESS_DEADLINE_EXCEEDED,
                message: bounded(&self.complaints, "\n"),
            },
            Installation::Applied { pruning: Pruning::Awaiting { .. }, .. }
                if self.complaints.is_empty() || !self.observed.health_gate =>
            {
                let message = "objects that left the bundle stay until it is healthy".to_owned();
                Summary::Working { reason: reason::PROGRESSING, message }
            }
            Installation::Applied { .. } if self.complaints.is_empty() || !self.observed.health_gate => Summary::Ready,
            Installation::Applied { .. } => {
                Summary::Working { reason: reason::UNHEALTHY, message: bounded(&self.complaints, "\n") }
            }
            _ => Summary::Working { reason: reason::PROGRESSING, message: self.unseen().to_owned() },
        }
    }

    /// Why nothing is known of the health of the objects.
    pub(super) fn unseen(&self) -> &'static str {
        match self.memory.installation() {
            Installation::Partial { .. } if self.is_doubted => {
                "the objects are not as they were installed, and have not been applied again yet"
            }
            Installation::Partial { .. } => "not every object is applied yet",
            _ => "the objects have not been looked at since the controller started",
        }
    }

    /// Whether the installed release was not healthy in time, and there is none to go back to.
    fn is_late(&self) -> bool {
        !self.observed.deployment.spec.suspend && deadline(self.observed).is_some_and(|until| until <= self.now)
    }

    /// `Ready`, `Reconciling` and `Stalled`, as kstatus reads them.
    pub(super) fn summarise(&mut self, summary: &Summary) {
        use ConditionStatus::{False, True, Unknown};
        let (ready, reason, message) = match summary {
            Summary::Ready => (True, reason::SUCCEEDED, self.ready_message()),
            Summary::Working { reason, message } => (Unknown, *reason, message.clone()),
            Summary::Retrying { reason, message } | Summary::Stalled { reason, message } => {
                (False, *reason, message.clone())
            }
        };
        self.set(READY, ready, reason, &message);
        match summary {
            Summary::Working {
                reason:
                    reason @ (reason::DEPENDENCY_NOT_READY
                    | reason::WAITING_FOR_APPROVAL
                    | reason::OPERATOR_CONDITION_NOT_UPGRADEABLE
                    | reason::WAITING_FOR_WINDOW),
                ..
            } => {
                self.set(RECONCILING, True, reason, &message);
            }
            Summary::Working { .. } => self.set(RECONCILING, True, reason::PROGRESSING, &message),
            Summary::Retrying { .. } => self.set(RECONCILING, True, reason::PROGRESSING_WITH_RETRY, &message),
            Summary::Ready | Summary::Stalled { .. } => self.status.conditions.drop_type(RECONCILING),
        }
        match summary {
            Summary::Stalled { .. } => self.set(STALLED, True, reason, &message),
            _ => self.status.conditions.drop_type(STALLED),
        }
    }

    /// What is left as it is because it says so, of the release and of what left it.
    fn paused(&self) -> Vec<String> {
        let Installation::Applied { pruning, differences, .. } = self.memory.installation() else { return Vec::new() };
        let declared = differences.paused.iter().map(ToString::to_string);
        let held = match pruning {
            Pruning::Held { objects } => Some(objects),
            _ => None,
        };
        let leaving = held.into_iter().flatten().map(|key| format!("{key} (which left the bundle)"));
        declared.chain(leaving).collect()
    }

    fn ready_message(&self) -> String {
        let default = Inventory::default();
        let inventory = self.status.inventory.as_ref().unwrap_or(&default);
        let mut message = match inventory.objects.unwrap_or_default() {
            1 => "1 object is installed".to_owned(),
            objects => format!("{objects} objects are installed"),
        };
        if !inventory.released.is_empty() {
            let lines: Vec<String> = inventory.released.iter().map(released_text).collect();
            message.push_str("; left in the cluster, not owned any more: ");
            message.push_str(&bounded(&lines, "; "));
        }
        if let Installation::Applied { differences, .. } = self.memory.installation()
            && !differences.used.is_empty()
        {
            message.push_str("; used as they are, and not changed: ");
            message.push_str(&bounded(&differences.used, ", "));
        }
        let paused = self.paused();
        if !paused.is_empty() {
            message.push_str("; left as they are, for their annotation core.rukpak.io/reconcile says \"disabled\": ");
            message.push_str(&bounded(&paused, ", "));
        }
        if let Some(kept) = self.kept() {
            message.push_str("; ");
            message.push_str(&kept);
        }
        message
    }
}

pub(super) fn wait(bundle: &str) -> String {
    format!("Waiting for the {bundle} Bundle to be unpacked")
}

pub(super) fn unpack_failure(desired: &Desired) -> String {
    match desired {
        Desired::Failed { bundle, message: Some(message) } => {
            format!("Failed to unpack the {bundle} Bundle: {message}")
        }
        other => format!("Failed to unpack the {} Bundle", other.bundle().unwrap_or_default()),
    }
}
