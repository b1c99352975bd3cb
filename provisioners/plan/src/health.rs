//! Whether an applied object does its work: the rules of kstatus, and one of our own for APIService.
//!
//! [`assess`] looks at one object as the API server returned it; nothing is read here. The first match wins:
//!
//! 1. `apiregistration.k8s.io/v1` APIService: its `Available` condition alone (kstatus has no rule for it).
//! 2. `metadata.deletionTimestamp` is set: [`State::Terminating`].
//! 3. `metadata.generation` and `status.observedGeneration` are both there and differ: [`State::InProgress`].
//! 4. The check of the BundleDeployment (`spec.healthChecks`), where one names the object and says something of it.
//! 5. A condition `Reconciling` is True: [`State::InProgress`]; `Stalled` is True: [`State::Failed`].
//! 6. The rule of the kind, where it has one.
//! 7. A condition `Ready`: True is [`State::Current`]; False and Unknown are [`State::InProgress`].
//! 8. [`State::Current`].
//!
//! Source of the rules and of the messages' wording: `pkg/kstatus/status` of kubernetes-sigs/cli-utils. An object that
//! does not have the shape these rules read (a `status.conditions` that is no list, say) is [`State::Unknown`], which
//! is never healthy.

mod check;
mod kinds;
mod object;
#[cfg(test)]
mod tests;
mod trouble;

use std::fmt;

use jiff::Timestamp;
use rukpak_crds::HealthCheck;
use serde_json::Value;

pub use check::check_of;
use object::{Condition, Error, Object};
pub use trouble::trouble;

/// How far an object is, in the names of kstatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It is as its spec asks. The only healthy state.
    Current,
    /// Its controller is still at work, or has not looked yet.
    InProgress,
    /// It will not become current without a change.
    Failed,
    /// It is being deleted.
    Terminating,
    /// It is not in the cluster. Never from [`assess`]: for the reader of the object to report.
    NotFound,
    /// It cannot be told: the object is malformed, or (reported by its reader) could not be read.
    Unknown,
}

/// The state of one object and why it is so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// How far the object is.
    pub state: State,
    /// The reason, for people. Empty when it comes from a condition without a message.
    pub message: String,
}

impl Health {
    /// A state with its reason.
    pub fn new(state: State, message: impl Into<String>) -> Self {
        Self { state, message: message.into() }
    }

    /// Whether the object counts as healthy: it is [`State::Current`].
    pub fn is_healthy(&self) -> bool {
        self.state == State::Current
    }

    fn current(message: impl Into<String>) -> Self {
        Self::new(State::Current, message)
    }

    fn in_progress(message: impl Into<String>) -> Self {
        Self::new(State::InProgress, message)
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(State::Failed, message)
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Current => "Current",
            Self::InProgress => "InProgress",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::NotFound => "NotFound",
            Self::Unknown => "Unknown",
        })
    }
}

/// The health of `object`, a whole Kubernetes object with `apiVersion`, `kind` and `status`, at the time `now`.
///
/// The time matters to one rule only: a Pod has 15 seconds after its creation to be scheduled. Any JSON is accepted;
/// one without `apiVersion` and `kind` (as the items of a list come) is [`State::Unknown`]: no rule can be chosen.
pub fn assess(object: &Value, now: Timestamp) -> Health {
    assess_by(object, None, now)
}

/// The same, where a BundleDeployment has a check for the object.
pub fn assess_by(object: &Value, check: Option<&HealthCheck>, now: Timestamp) -> Health {
    compute(object, check, now).unwrap_or_else(|error| Health::new(State::Unknown, error.to_string()))
}

/// Whether the body of an object of this kind can change its health.
///
/// False for the kinds of Kubernetes itself that have neither conditions nor an observed generation, and so no state
/// but [`State::Current`] and, told by their metadata alone, [`State::Terminating`]. True for every other kind.
pub fn has_rule(group: &str, kind: &str) -> bool {
    !matches!(
        (group, kind),
        ("", "ConfigMap" | "Secret" | "ServiceAccount" | "LimitRange" | "ResourceQuota" | "Endpoints" | "PodTemplate")
            | ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
            | ("apps", "ControllerRevision")
            | ("batch", "CronJob")
            | ("coordination.k8s.io", "Lease")
            | ("discovery.k8s.io", "EndpointSlice")
            | ("networking.k8s.io", "IngressClass" | "NetworkPolicy")
            | ("node.k8s.io", "RuntimeClass")
            | ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("storage.k8s.io", "CSIDriver" | "StorageClass")
    )
}

/// Whether objects of this kind make Pods.
pub fn has_pods(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") | ("batch", "Job"))
}

/// The labels of the Pods of `object`, if it is a workload that makes some, as a label selector.
pub fn pods_of(object: &Value) -> Option<String> {
    let (group, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let group = group.split_once('/').map(|(group, _)| group).filter(|group| has_pods(group, kind));
    let labels = object.pointer("/spec/selector/matchLabels").filter(|_| group.is_some())?.as_object()?;
    let labels: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

/// One line of the message of a false `Healthy` condition.
///
/// `(<group>/<version>, Kind=<kind>)(<namespace>/<name>): object <state>: <message>`. The group of core kinds is empty
/// (`/v1`); without a namespace, or with an empty one, the second part is `(<name>)`. As upstream writes them, the
/// lines of an APIService and of an object that could not be read or judged ([`State::NotFound`], [`State::Unknown`])
/// have the message alone after the first colon.
pub fn line(group: &str, version: &str, kind: &str, namespace: Option<&str>, name: &str, health: &Health) -> String {
    let place = namespace.filter(|namespace| !namespace.is_empty()).map(|namespace| format!("{namespace}/"));
    let key = format!("({group}/{version}, Kind={kind})({}{name})", place.unwrap_or_default());
    let Health { state, message } = health;
    let message_only = matches!(state, State::NotFound | State::Unknown) || kinds::is_api_service(group, version, kind);
    if message_only { format!("{key}: {message}") } else { format!("{key}: object {state}: {message}") }
}

fn compute(body: &Value, check: Option<&HealthCheck>, now: Timestamp) -> Result<Health, Error> {
    let object = Object::new(body)?;
    if kinds::is_api_service(object.group, object.version, object.kind) {
        return Ok(kinds::api_service(&object.conditions()?));
    }
    if object.is_deleted()? {
        return Ok(Health::new(State::Terminating, "Resource scheduled for deletion"));
    }
    if let Some(health) = generation(&object)? {
        return Ok(health);
    }
    let conditions = object.conditions()?;
    if let Some(health) = check.and_then(|check| check::judge(check, body, &conditions)) {
        return Ok(health);
    }
    Ok(standard_conditions(&conditions)
        .or_else(|| kinds::by_kind(&object, &conditions, now))
        .or_else(|| ready(&conditions))
        .unwrap_or_else(|| Health::current("Resource is current")))
}

/// Step 3. Without one of the two numbers there is nothing to compare.
fn generation(object: &Object<'_>) -> Result<Option<Health>, Error> {
    let Some(generation) = object.generation()? else { return Ok(None) };
    Ok(object.observed_generation()?.filter(|observed| *observed != generation).map(|observed| {
        let kind = object.kind;
        Health::in_progress(format!("{kind} generation is {generation}, but latest observed generation is {observed}"))
    }))
}

/// Step 5, in the order of the list.
fn standard_conditions(conditions: &[Condition<'_>]) -> Option<Health> {
    conditions.iter().filter(|condition| condition.is_true()).find_map(|condition| match condition.name {
        "Reconciling" => Some(Health::in_progress(condition.message)),
        "Stalled" => Some(Health::failed(condition.message)),
        _ => None,
    })
}

/// Step 7. A status that is none of the three says nothing.
fn ready(conditions: &[Condition<'_>]) -> Option<Health> {
    conditions.iter().filter(|condition| condition.name == "Ready").find_map(|condition| match condition.status {
        "True" => Some(Health::current("Resource is Ready")),
        "False" | "Unknown" => Some(Health::in_progress(condition.message)),
        _ => None,
    })
}
