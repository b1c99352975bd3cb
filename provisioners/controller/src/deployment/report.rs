//! From what came of a pass to the status. Pure.

use std::time::Instant;

use rukpak_crds::condition::{
    ConditionStatus, Conditions, HAS_VALID_BUNDLE, HEALTHY, INSTALLED, NewCondition, READY, RECONCILING, STALLED,
    reason,
};
use rukpak_crds::{BundleDeploymentStatus, Condition};
use rukpak_plan::retry::Class;

use super::converge::{Outcome, Retry};
use super::desired::Desired;
use super::{Next, Pass, health, pivot};

/// Fields that are left to other managers, because they keep changing them (additive).
const CONTESTED: &str = "Contested";

/// The status to write, and what follows.
pub(crate) struct Report {
    pub status: BundleDeploymentStatus,
    /// Whether the desired Bundle is installed, and healthy where that counts: older Bundles can go.
    pub settled: bool,
    /// What is left to others, if that is news.
    pub contested: Option<Condition>,
    /// `Ready`, if that is news.
    pub ready: Option<Condition>,
    pub next: Next,
}

/// Turns the outcome of a pass into its status.
pub(crate) fn report(pass: &Pass, desired: &Desired, outcome: &Outcome) -> Report {
    let mut writer = Writer { pass, status: pass.status.clone() };
    writer.bundle(desired, outcome);
    writer.installed(desired, outcome);
    let healthy = writer.health(outcome);
    writer.contested(outcome);
    let standing = standing(pass, desired, outcome, &healthy);
    writer.summary(&standing);
    Report {
        settled: standing == Standing::Ready,
        contested: newly_contested(&pass.status, &writer.status),
        ready: news(&pass.status, &writer.status),
        next: next(pass, desired, outcome),
        status: writer.status,
    }
}

fn newly_contested(before: &BundleDeploymentStatus, after: &BundleDeploymentStatus) -> Option<Condition> {
    let contested = after.conditions.find(CONTESTED)?;
    let is_known = before.conditions.find(CONTESTED).is_some_and(|before| before.message == contested.message);
    (!is_known).then(|| contested.clone())
}

fn news(before: &BundleDeploymentStatus, after: &BundleDeploymentStatus) -> Option<Condition> {
    let ready = after.conditions.find(READY)?;
    let is_known = before
        .conditions
        .find(READY)
        .is_some_and(|known| (known.status, &known.message) == (ready.status, &ready.message));
    (!is_known).then(|| ready.clone())
}

/// What the summary conditions say.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Ready,
    Working { reason: &'static str, message: String },
    Retrying { reason: &'static str, message: String },
    Stalled { reason: &'static str, message: String },
}

struct Writer<'a> {
    pass: &'a Pass,
    status: BundleDeploymentStatus,
}

impl Writer<'_> {
    fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let generation = self.pass.deployment.metadata.generation;
        let new = NewCondition { type_, status, reason, message };
        self.status.conditions.set(new, generation, self.pass.now);
    }

    /// `HasValidBundle`: True while waiting, as upstream's clients rely on.
    fn bundle(&mut self, desired: &Desired, outcome: &Outcome) {
        use ConditionStatus::{False, True, Unknown};
        match (desired, outcome) {
            (Desired::Ready { .. }, Outcome::LoadFailed { message, .. }) => {
                self.set(HAS_VALID_BUNDLE, False, reason::BUNDLE_LOAD_FAILED, message);
            }
            (Desired::Unknown { message, .. }, _) => {
                self.set(HAS_VALID_BUNDLE, Unknown, reason::RECONCILE_FAILED, message);
            }
            (Desired::Waiting { bundle, .. }, _) => {
                self.set(HAS_VALID_BUNDLE, True, reason::UNPACK_PENDING, &wait(bundle));
            }
            (Desired::Failed { .. }, _) => {
                self.set(HAS_VALID_BUNDLE, False, reason::UNPACK_FAILED, &unpack_failure(desired));
            }
            (Desired::Ready { bundle, .. }, outcome) => {
                let unloadable = failed_pivot(self.pass, desired)
                    .filter(|failed| failed.reason == reason::BUNDLE_LOAD_FAILED)
                    .filter(|_| matches!(outcome, Outcome::Installed { .. }));
                if let Some(failed) = unloadable {
                    // What was guarded meanwhile is not what is desired.
                    self.set(HAS_VALID_BUNDLE, False, failed.reason, &failed.message);
                    return;
                }
                let message = format!("Successfully unpacked the {bundle} Bundle");
                self.set(HAS_VALID_BUNDLE, True, reason::UNPACK_SUCCESSFUL, &message);
            }
        }
    }

    /// `Installed`, `activeBundle` and the inventory; they keep their values while there is nothing new to say.
    fn installed(&mut self, desired: &Desired, outcome: &Outcome) {
        match outcome {
            Outcome::Nothing | Outcome::Held(_) | Outcome::Refilling | Outcome::LoadFailed { .. } => {}
            Outcome::Failed { reason, message, inventory, .. } => {
                self.status.inventory = Some(inventory.clone());
                self.set(INSTALLED, ConditionStatus::False, reason, message);
            }
            Outcome::Installed { release, inventory, .. } => {
                self.status.inventory = Some(inventory.clone());
                let is_desired = matches!(desired, Desired::Ready { release: wanted, .. } if wanted == release);
                if is_desired {
                    self.status.active_bundle = desired.bundle().map(str::to_owned);
                }
                // What the last pivot failed with stands until another one succeeds; only a repair that failed is over.
                let failed = self.status.conditions.find(INSTALLED).filter(|now| now.status == ConditionStatus::False);
                let is_held_back = failed_pivot(self.pass, desired).is_some();
                let mended = failed.is_none_or(|failed| failed.reason == reason::RECONCILE_FAILED && !is_held_back);
                if let Some(active) = self.status.active_bundle.clone().filter(|_| is_desired || mended) {
                    let message = format!("Instantiated bundle {active} successfully");
                    self.set(INSTALLED, ConditionStatus::True, reason::INSTALLATION_SUCCEEDED, &message);
                }
            }
        }
    }

    /// `Healthy`, where the gate is on. Returns the complaints.
    fn health(&mut self, outcome: &Outcome) -> Vec<String> {
        if !self.pass.context.health_gate {
            self.status.conditions.drop_type(HEALTHY);
            return Vec::new();
        }
        if self.status.conditions.is(INSTALLED, ConditionStatus::False) {
            let message = "Installed condition is false";
            self.set(HEALTHY, ConditionStatus::False, reason::INSTALLATION_STATUS_FALSE, message);
            return Vec::new();
        }
        if !matches!(outcome, Outcome::Installed { .. }) {
            return Vec::new();
        }
        let complaints = health::complaints(self.pass);
        if complaints.is_empty() {
            self.set(HEALTHY, ConditionStatus::True, reason::HEALTHY, "BundleDeployment is healthy");
        } else {
            self.set(HEALTHY, ConditionStatus::False, reason::UNHEALTHY, &complaints.join("\n"));
        }
        complaints
    }

    fn contested(&mut self, outcome: &Outcome) {
        let Outcome::Installed { .. } = outcome else { return };
        let notes = super::drift::yielded(self.pass);
        if notes.is_empty() {
            self.status.conditions.drop_type(CONTESTED);
        } else {
            self.set(CONTESTED, ConditionStatus::True, "FieldsLeftToOthers", &notes.join("\n"));
        }
    }

    /// `Ready`, `Reconciling` and `Stalled`, as kstatus reads them.
    fn summary(&mut self, standing: &Standing) {
        use ConditionStatus::{False, True, Unknown};
        let (ready, reason, message) = match standing {
            Standing::Ready => (True, reason::SUCCEEDED, self.ready_message()),
            Standing::Working { reason, message } => (Unknown, *reason, message.clone()),
            Standing::Retrying { reason, message } | Standing::Stalled { reason, message } => {
                (False, *reason, message.clone())
            }
        };
        self.set(READY, ready, reason, &message);
        match standing {
            Standing::Working { .. } => self.set(RECONCILING, True, reason::PROGRESSING, &message),
            Standing::Retrying { .. } => self.set(RECONCILING, True, reason::PROGRESSING_WITH_RETRY, &message),
            Standing::Ready | Standing::Stalled { .. } => self.status.conditions.drop_type(RECONCILING),
        }
        match standing {
            Standing::Stalled { .. } => self.set(STALLED, True, reason, &message),
            _ => self.status.conditions.drop_type(STALLED),
        }
    }

    fn ready_message(&self) -> String {
        let inventory = self.status.inventory.as_ref();
        let objects = inventory.and_then(|inventory| inventory.objects).unwrap_or_default();
        let mut message = match objects {
            1 => "1 object is installed".to_owned(),
            _ => format!("{objects} objects are installed"),
        };
        if let Some(inventory) = inventory.filter(|inventory| !inventory.released.is_empty()) {
            message.push_str("; left in the cluster, not owned any more: ");
            message.push_str(&inventory.released.join("; "));
        }
        message
    }
}

fn wait(bundle: &str) -> String {
    format!("Waiting for the {bundle} Bundle to be unpacked")
}

fn unpack_failure(desired: &Desired) -> String {
    match desired {
        Desired::Failed { bundle, message: Some(message) } => {
            format!("Failed to unpack the {bundle} Bundle: {message}")
        }
        other => format!("Failed to unpack the {} Bundle", other.bundle().unwrap_or_default()),
    }
}

/// The failed pivot that holds the desired release back.
fn failed_pivot(pass: &Pass, desired: &Desired) -> Option<super::installation::FailedPivot> {
    let Desired::Ready { release, .. } = desired else { return None };
    pass.installation.state().failed.clone().filter(|failed| failed.release == *release)
}

fn standing(pass: &Pass, desired: &Desired, outcome: &Outcome, complaints: &[String]) -> Standing {
    match (desired, outcome) {
        (_, Outcome::Failed { reason, message, retry: Retry::Class(Class::Transient | Class::Stale), .. }) => {
            Standing::Retrying { reason, message: message.clone() }
        }
        (_, Outcome::Failed { reason, message, .. }) => Standing::Stalled { reason, message: message.clone() },
        (_, Outcome::LoadFailed { message, class: Class::Invalid }) => {
            Standing::Stalled { reason: reason::BUNDLE_LOAD_FAILED, message: message.clone() }
        }
        (_, Outcome::LoadFailed { message, .. }) => {
            Standing::Retrying { reason: reason::BUNDLE_LOAD_FAILED, message: message.clone() }
        }
        (Desired::Unknown { message, class }, _) => match class {
            Class::Invalid => Standing::Stalled { reason: reason::RECONCILE_FAILED, message: message.clone() },
            _ => Standing::Retrying { reason: reason::RECONCILE_FAILED, message: message.clone() },
        },
        (Desired::Failed { .. }, _) => {
            Standing::Stalled { reason: reason::UNPACK_FAILED, message: unpack_failure(desired) }
        }
        (Desired::Waiting { bundle, why }, _) => {
            // People look at the deployment first: why its Bundle waits is said here too.
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            Standing::Working { reason: reason::UNPACK_PENDING, message: wait(bundle) + &why }
        }
        (Desired::Ready { .. }, Outcome::Nothing | Outcome::Held(_) | Outcome::Refilling) => Standing::Working {
            reason: reason::PROGRESSING,
            message: "Fetching the content again: it is not in the store".to_owned(),
        },
        (Desired::Ready { .. }, Outcome::Installed { .. }) => match failed_pivot(pass, desired) {
            Some(failed) => Standing::Stalled { reason: failed.reason, message: failed.message },
            None if complaints.is_empty() => Standing::Ready,
            None => Standing::Working { reason: reason::UNHEALTHY, message: complaints.join("\n") },
        },
    }
}

fn next(pass: &Pass, desired: &Desired, outcome: &Outcome) -> Next {
    match (desired, outcome) {
        (_, Outcome::LoadFailed { class, .. }) => match failed_pivot(pass, desired) {
            Some(failed) => {
                Next::After(pivot::unless_unsettled(pass, failed.until.saturating_duration_since(Instant::now())))
            }
            None => Next::Retry(*class),
        },
        (_, Outcome::Failed { retry: Retry::After(delay), .. }) => Next::After(*delay),
        (_, Outcome::Failed { retry: Retry::Class(class), .. }) | (Desired::Unknown { class, .. }, _) => {
            Next::Retry(*class)
        }
        (_, Outcome::Refilling) => Next::Retry(Class::Transient),
        _ => match failed_pivot(pass, desired) {
            Some(failed) => Next::After(failed.until.saturating_duration_since(Instant::now())),
            None if health::is_restless(pass) => Next::After(health::READ_INTERVAL),
            None => Next::Wait,
        },
    }
}
