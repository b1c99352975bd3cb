//! From what is known of a set to its status. Pure; the words are operator-controller's.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use rukpak_crds::condition::{Conditions as _, HEALTHY, NewCondition, READY, reason as of_deployment};
use rukpak_crds::olm::cluster_object_set::{LifecycleState, ObservedPhase};
use rukpak_crds::olm::{ClusterObjectSet, ClusterObjectSetStatus, PROGRESSING, reason};
use rukpak_crds::{BundleDeployment, ConditionStatus};

use super::probes;
use crate::installed::BUNDLE_VERSION;

const AVAILABLE: &str = "Available";
const SUCCEEDED: &str = "Succeeded";
/// The conditions that are written here. Others are of whoever kept the set before, and nobody keeps them true any more.
const OURS: [&str; 3] = [PROGRESSING, AVAILABLE, SUCCEEDED];

const ROLLING_OUT: &str = "RollingOut";
const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const ARCHIVED: &str = "Archived";
const PROBES_SUCCEEDED: &str = "ProbesSucceeded";
const PROBE_FAILURE: &str = "ProbeFailure";
const RECONCILING: &str = "Reconciling";

/// What is said of an object that somebody else has.
const COLLISION: &str = "cannot be imported into the current release";

/// What came of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The set, or what it names, has to be changed.
    Blocked(String),
    /// It failed, and is tried again.
    Retrying(String),
    /// All phases have a BundleDeployment, but for those without objects.
    Phases {
        /// How they are.
        states: Vec<PhaseState>,
        /// What they hold.
        observed: Vec<ObservedPhase>,
    },
    /// Its objects are being deleted.
    Archiving,
    /// Its objects are gone.
    Archived,
}

impl Report {
    /// Whether nothing is left to be done.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Archived => true,
            Self::Phases { states, .. } => states.iter().all(|phase| phase.state == State::Complete),
            Self::Blocked(_) | Self::Retrying(_) | Self::Archiving => false,
        }
    }
}

/// A phase, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhaseState {
    /// Its place in the spec.
    pub index: usize,
    pub name: String,
    pub state: State,
}

/// How the objects of a phase are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// They are on their way, or wait for the phase before.
    Working,
    /// They are there, and not all of them are as they are asked to be.
    Unhealthy(String),
    /// They are not as they are declared, and do not become so by themselves.
    Failed(String),
    /// They are there, and as they are asked to be.
    Complete,
}

/// How the phase of a BundleDeployment is.
pub(super) fn phase(index: usize, name: &str, deployment: &BundleDeployment) -> PhaseState {
    PhaseState { index, name: name.to_owned(), state: state(deployment) }
}

fn state(deployment: &BundleDeployment) -> State {
    let is_current = |status: &&rukpak_crds::BundleDeploymentStatus| {
        status.observed_generation.is_some() && status.observed_generation == deployment.metadata.generation
    };
    let Some(status) = deployment.status.as_ref().filter(is_current) else { return State::Working };
    let (ready, health) = (status.conditions.find(READY), status.conditions.find(HEALTHY));
    match (ready.map(|ready| ready.status), health) {
        (Some(ConditionStatus::True), None) => State::Failed(
            "rukpak-controller does not look at health: its feature gate BundleDeploymentHealth is off".to_owned(),
        ),
        (Some(ConditionStatus::True), Some(_)) => State::Complete,
        (_, Some(health)) if health.reason == of_deployment::UNHEALTHY => State::Unhealthy(health.message.clone()),
        (Some(ConditionStatus::False), _) => {
            State::Failed(ready.map(|ready| ready.message.clone()).unwrap_or_default())
        }
        _ => State::Working,
    }
}

/// When the set has to have succeeded; `None` if it may take any time, or has.
pub(super) fn deadline(set: &ClusterObjectSet) -> Option<Timestamp> {
    if set.spec.lifecycle_state == LifecycleState::Archived || has_succeeded(set) {
        return None;
    }
    let minutes = set.spec.progress_deadline_minutes?;
    set.creation_timestamp()?.0.checked_add(SignedDuration::from_mins(minutes.into())).ok()
}

/// Whether its objects were gone already when it was last looked at.
pub(super) fn is_archived(set: &ClusterObjectSet) -> bool {
    let progress = set.status.as_ref().and_then(|status| status.conditions.find(PROGRESSING));
    progress.is_some_and(|progress| progress.reason == ARCHIVED)
}

fn has_succeeded(set: &ClusterObjectSet) -> bool {
    set.status.as_ref().is_some_and(|status| status.conditions.is(SUCCEEDED, ConditionStatus::True))
}

/// The version of the bundle that the set is of; of what users make, its number.
fn version(set: &ClusterObjectSet) -> String {
    set.annotations().get(BUNDLE_VERSION).cloned().unwrap_or_else(|| set.spec.revision.to_string())
}

/// What a condition says: its status, reason and message.
type Said = (ConditionStatus, &'static str, String);

pub(super) fn status(set: &ClusterObjectSet, report: &Report, now: Timestamp) -> ClusterObjectSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    status.conditions.retain(|condition| OURS.contains(&condition.type_.as_str()));
    let has_succeeded = has_succeeded(set) || (report.is_over() && *report != Report::Archived);
    let mut progress = progress(set, report, has_succeeded);
    if let (Some(until), Some(minutes)) = (deadline(set), set.spec.progress_deadline_minutes)
        && until <= now
        && !has_succeeded
        && progress.0 == ConditionStatus::True
    {
        let message = format!("Revision has not rolled out for {minutes} minute(s). Last status: {}", progress.2);
        progress = (ConditionStatus::False, PROGRESS_DEADLINE_EXCEEDED, message);
    }
    let mut set_condition = |type_: &str, (status_, reason, message): &Said| {
        let new = NewCondition { type_, status: *status_, reason, message };
        status.conditions.set(new, set.metadata.generation, now);
    };
    set_condition(PROGRESSING, &progress);
    set_condition(AVAILABLE, &availability(set, report));
    if has_succeeded {
        let said = (ConditionStatus::True, reason::SUCCEEDED, "Revision succeeded rolling out.".to_owned());
        set_condition(SUCCEEDED, &said);
    }
    if let Report::Phases { observed, .. } = report {
        status.observed_phases.clone_from(observed);
    }
    status
}

fn progress(set: &ClusterObjectSet, report: &Report, has_succeeded: bool) -> Said {
    use ConditionStatus::{False, True};
    let states = match report {
        Report::Blocked(message) => return (False, reason::BLOCKED, message.clone()),
        Report::Retrying(message) => return (True, reason::RETRYING, message.clone()),
        Report::Archiving => {
            return (True, ROLLING_OUT, "waiting until the objects of the revision are gone".to_owned());
        }
        Report::Archived => return (False, ARCHIVED, "revision is archived".to_owned()),
        Report::Phases { states, .. } => states,
    };
    if let Some(failure) = states.iter().find_map(failure) {
        return (True, reason::RETRYING, failure);
    }
    let version = version(set);
    if has_succeeded {
        (True, reason::SUCCEEDED, format!("Revision {version} has rolled out."))
    } else {
        (True, ROLLING_OUT, rolling_out(&version))
    }
}

fn rolling_out(version: &str) -> String {
    format!("Revision {version} is rolling out.")
}

/// What is wrong with a phase, if something is.
fn failure(phase: &PhaseState) -> Option<String> {
    let State::Failed(message) = &phase.state else { return None };
    Some(if message.contains(COLLISION) {
        format!("revision object collisions in phase {}\n{message}", phase.index)
    } else {
        format!("phase {:?}: {message}", phase.name)
    })
}

fn availability(set: &ClusterObjectSet, report: &Report) -> Said {
    use ConditionStatus::{False, True, Unknown};
    let states = match report {
        Report::Blocked(message) | Report::Retrying(message) => return (Unknown, RECONCILING, message.clone()),
        Report::Archiving | Report::Archived => return (Unknown, ARCHIVED, "revision is archived".to_owned()),
        Report::Phases { states, .. } => states,
    };
    let unhealthy = states.iter().filter_map(|phase| match &phase.state {
        State::Unhealthy(message) => Some(probes::told(message, &set.spec.progression_probes)),
        State::Working | State::Failed(_) | State::Complete => None,
    });
    let unhealthy: Vec<String> = unhealthy.collect();
    if !unhealthy.is_empty() {
        return (False, PROBE_FAILURE, unhealthy.join("\n"));
    }
    if let Some(failure) = states.iter().find_map(failure) {
        return (Unknown, RECONCILING, failure);
    }
    if report.is_over() {
        (True, PROBES_SUCCEEDED, "Objects are available and pass all probes.".to_owned())
    } else if has_succeeded(set) {
        (Unknown, RECONCILING, "waiting until the objects are looked at again".to_owned())
    } else {
        (False, ROLLING_OUT, rolling_out(&version(set)))
    }
}

#[cfg(test)]
mod tests {
    use rukpak_crds::Condition;
    use serde_json::{Value, json};

    use super::*;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn set(spec: &Value, succeeded: bool) -> ClusterObjectSet {
        let mut set = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": "s", "generation": 3, "creationTimestamp": CREATED},
            "spec": {"lifecycleState": "Active", "revision": 2, "collisionProtection": "Prevent"},
            "status": {"conditions": [{"type": "Other", "status": "True", "reason": "R", "message": "", "lastTransitionTime": CREATED}]},
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            set["spec"][key] = value.clone();
        }
        if succeeded {
            set["status"]["conditions"][0]["type"] = json!("Succeeded");
        }
        serde_json::from_value(set).unwrap()
    }

    fn phases(states: &[State]) -> Report {
        let states = states.iter().enumerate();
        let states = states.map(|(index, state)| PhaseState { index, name: format!("p{index}"), state: state.clone() });
        Report::Phases { states: states.collect(), observed: Vec::new() }
    }

    fn said(set: &ClusterObjectSet, report: &Report, minutes: i64) -> Vec<String> {
        let now: Timestamp = CREATED.parse().unwrap();
        let status = status(set, report, now + SignedDuration::from_mins(minutes));
        let text = |condition: &Condition| {
            let Condition { type_, status, reason, message, .. } = condition;
            format!("{type_} {status:?} {reason} {message}")
        };
        status.conditions.iter().map(text).collect()
    }

    #[test]
    fn phases_are_told_in_upstreams_words() {
        let (fresh, done) = (set(&json!({}), false), set(&json!({}), true));
        assert_eq!(
            said(&fresh, &phases(&[State::Complete, State::Working]), 0),
            [
                "Progressing True RollingOut Revision 2 is rolling out.",
                "Available False RollingOut Revision 2 is rolling out."
            ]
        );
        let whole = [
            "Progressing True Succeeded Revision 2 has rolled out.",
            "Available True ProbesSucceeded Objects are available and pass all probes.",
            "Succeeded True Succeeded Revision succeeded rolling out.",
        ];
        assert_eq!(said(&fresh, &phases(&[State::Complete, State::Complete]), 0), whole);
        assert_eq!(said(&fresh, &phases(&[]), 0), whole, "there is nothing to do");
        let ill = phases(&[State::Unhealthy("(/v1, Kind=Pod)(n/p): object InProgress: no".to_owned()), State::Working]);
        assert_eq!(said(&fresh, &ill, 0)[1], "Available False ProbeFailure Object Pod.v1 n/p: no");
        assert_eq!(said(&fresh, &ill, 0)[0], "Progressing True RollingOut Revision 2 is rolling out.");
        let mut later = said(&done, &ill, 0);
        later.sort();
        assert_eq!(later[0], "Available False ProbeFailure Object Pod.v1 n/p: no");
        assert_eq!(later[1], "Progressing True Succeeded Revision 2 has rolled out.", "it was rolled out all the same");
    }

    #[test]
    fn failures_and_ends_are_told() {
        let fresh = set(&json!({}), false);
        let taken = phases(&[State::Complete, State::Failed(format!("x exists and {COLLISION}: y"))]);
        let words = format!("revision object collisions in phase 1\nx exists and {COLLISION}: y");
        assert_eq!(
            said(&fresh, &taken, 0),
            [format!("Progressing True Retrying {words}"), format!("Available Unknown Reconciling {words}")]
        );
        let refused = phases(&[State::Failed("no".to_owned())]);
        assert_eq!(said(&fresh, &refused, 0)[0], "Progressing True Retrying phase \"p0\": no");
        assert_eq!(said(&fresh, &Report::Blocked("b".to_owned()), 0)[0], "Progressing False Blocked b");
        assert_eq!(
            said(&fresh, &Report::Archived, 0),
            ["Progressing False Archived revision is archived", "Available Unknown Archived revision is archived"]
        );
    }

    #[test]
    fn a_deadline_passes_and_counts_no_more_after_success() {
        let spec = json!({"progressDeadlineMinutes": 10});
        let (fresh, done) = (set(&spec, false), set(&spec, true));
        let working = phases(&[State::Working]);
        assert!(said(&fresh, &working, 9)[0].starts_with("Progressing True RollingOut"));
        let late = "Progressing False ProgressDeadlineExceeded Revision has not rolled out for 10 minute(s). Last status: Revision 2 is \
                    rolling out.";
        assert_eq!(said(&fresh, &working, 10)[0], late);
        assert!(
            said(&fresh, &phases(&[State::Complete]), 11)[0].starts_with("Progressing True Succeeded"),
            "late is not never"
        );
        assert!(said(&fresh, &Report::Blocked("b".to_owned()), 11)[0].starts_with("Progressing False Blocked"));
        assert_eq!(deadline(&done), None);
        assert_eq!(deadline(&set(&json!({"progressDeadlineMinutes": 10, "lifecycleState": "Archived"}), false)), None);
    }

    #[test]
    fn a_phase_is_what_its_deployment_says_of_this_generation() {
        let of = |observed: i64, conditions: Value| {
            let deployment = json!({
                "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "d", "generation": 2},
                "spec": {"provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
                "status": {"observedGeneration": observed, "conditions": conditions},
            });
            state(&serde_json::from_value(deployment).unwrap())
        };
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": CREATED});
        let (ready, well) = (condition("Ready", "True", "Succeeded"), condition("Healthy", "True", "Healthy"));
        assert_eq!(of(2, json!([ready, well])), State::Complete);
        assert_eq!(of(1, json!([ready, well])), State::Working);
        assert!(matches!(of(2, json!([ready])), State::Failed(_)), "nobody looks at health");
        let (works, ill) = (condition("Ready", "Unknown", "Unhealthy"), condition("Healthy", "False", "Unhealthy"));
        assert_eq!(of(2, json!([works, ill])), State::Unhealthy("m".to_owned()));
        let waits = condition("Ready", "Unknown", "DependencyNotReady");
        assert_eq!(of(2, json!([waits])), State::Working);
        let (refused, none) =
            (condition("Ready", "False", "InstallFailed"), condition("Healthy", "False", "InstallationStatusFalse"));
        assert_eq!(of(2, json!([refused, none])), State::Failed("m".to_owned()));
    }
}
