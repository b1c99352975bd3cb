//! Whether an applied object does its work: the rules of kstatus, and one of our own for APIService.
//!
//! [`assess`] looks at one object as the API server returned it; nothing is read here. The first match wins:
//!
//! 1. `apiregistration.k8s.io/v1` APIService: its `Available` condition alone (kstatus has no rule for it).
//! 2. `metadata.deletionTimestamp` is set: [`State::Terminating`].
//! 3. `metadata.generation` and `status.observedGeneration` are both there and differ: [`State::InProgress`].
//! 4. The check of the BundleDeployment (`spec.healthChecks`), where one names the object and says something of it: probes of conditions
//!    and fields. An expression language would be more; what evaluates one has no bound on the time that it takes, in a process that may
//!    do anything.
//! 5. A condition `Reconciling` is True: [`State::InProgress`]; `Stalled` is True: [`State::Failed`].
//! 6. The rule of the kind, where it has one.
//! 7. A condition `Ready`: True is [`State::Current`]; False and Unknown are [`State::InProgress`].
//! 8. [`State::Current`].
//!
//! Source of the rules and of the messages' wording: `pkg/kstatus/status` of kubernetes-sigs/cli-utils. An object that
//! does not have the shape these rules read (a `status.conditions` that is no list, say) is [`State::Unknown`], which
//! is never healthy.

mod kinds;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::Timestamp;
use rukpak_crds::{HealthCheck, HealthProbe};
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::kind::is_selected;

pub use kinds::{has_pods, has_rule, pods_of, trouble};

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

/// The first check that names an object.
pub fn check_of<'a>(checks: &'a [HealthCheck], key: &ObjectKey) -> Option<&'a HealthCheck> {
    checks.iter().find(|check| is_selected(&check.objects, key))
}

/// Whether anything but its metadata can say that an object is not healthy.
pub fn is_judged(checks: &[HealthCheck], key: &ObjectKey) -> bool {
    has_rule(&key.group, &key.kind) || check_of(checks, key).is_some()
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
    if let Some(health) = check.and_then(|check| judge(check, body, &conditions)) {
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

/// Step 4: what a check says of an object. `None` if it leaves that to the usual rules.
fn judge(check: &HealthCheck, body: &Value, conditions: &[Condition<'_>]) -> Option<Health> {
    let found = |probe: &HealthProbe| Found::of(probe, body, conditions);
    if let Some(failed) = check.failed.iter().map(found).find(|found| found.holds) {
        return Some(Health::failed(failed.to_string()));
    }
    if check.current.is_empty() {
        return None;
    }
    let unmet: Vec<String> =
        check.current.iter().map(found).filter(|found| !found.holds).map(|found| found.to_string()).collect();
    Some(if unmet.is_empty() { Health::current("Resource is current") } else { Health::in_progress(unmet.join(", ")) })
}

/// What a probe has found.
struct Found {
    /// What it looked at, in words.
    what: String,
    /// What is there.
    value: Option<String>,
    /// What is said about it.
    message: String,
    /// Whether what is there is nobody's to read who reads statuses.
    is_secret: bool,
    holds: bool,
}

impl Found {
    fn of(probe: &HealthProbe, body: &Value, conditions: &[Condition<'_>]) -> Self {
        let (what, value, message) = match (&probe.condition, &probe.json_pointer) {
            (Some(name), _) => {
                let condition = conditions.iter().find(|condition| condition.name == name);
                let message = condition.map(|condition| condition.message.to_owned()).unwrap_or_default();
                (format!("condition {name}"), condition.map(|condition| condition.status.to_owned()), message)
            }
            (None, pointer) => {
                let pointer = pointer.as_deref().unwrap_or_default();
                let message = probe.same_as.as_deref().and_then(|other| difference(body, pointer, other));
                (pointer.to_owned(), body.pointer(pointer).and_then(text), message.unwrap_or_default())
            }
        };
        let is_wanted = |value: &String| match probe.values.as_slice() {
            [] => probe.condition.is_none() || value == "True",
            values => values.contains(value),
        };
        // The message of a condition decides nothing; that of a field says how it differs from another.
        let is_same = probe.condition.is_some() || message.is_empty();
        let holds = is_same && value.as_ref().is_some_and(is_wanted);
        let is_secret = body["apiVersion"] == "v1" && body["kind"] == "Secret";
        Self { what, value, message, is_secret, holds }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, message, is_secret, .. } = self;
        match value {
            None => write!(formatter, "{what} is not there"),
            Some(_) if *is_secret => write!(formatter, "{what} is there, and not shown"),
            Some(value) if message.is_empty() => write!(formatter, "{what} is {value:?}"),
            Some(value) => write!(formatter, "{what} is {value:?}: {message}"),
        }
    }
}

/// What the field `other` is, in words, if it is not there or not as the field at `pointer` is.
fn difference(body: &Value, pointer: &str, other: &str) -> Option<String> {
    let Some(value) = body.pointer(other).and_then(text) else { return Some(format!("{other} is not there")) };
    (body.pointer(pointer) != body.pointer(other)).then(|| format!("{other} is {value:?}"))
}

/// A value as text. What is there and null counts as absent.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
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

/// An object of which the rules know the kind.
struct Object<'a> {
    /// API group, empty for the core.
    group: &'a str,
    /// API version without the group.
    version: &'a str,
    /// Kind.
    kind: &'a str,
    body: &'a Value,
}

/// One entry of `status.conditions`; a field that is missing is empty.
struct Condition<'a> {
    /// `type`.
    name: &'a str,
    /// `True`, `False`, `Unknown`; not checked.
    status: &'a str,
    /// One word, for programs.
    reason: &'a str,
    /// A sentence, for people.
    message: &'a str,
}

/// Why an object cannot be judged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum Error {
    /// No rule can be chosen.
    #[error("the object has no apiVersion or no kind")]
    Untyped,
    /// A field has a type that Kubernetes does not give it.
    #[error("{path} is not {expected}")]
    Mistyped {
        /// Path of the field, dotted.
        path: String,
        /// The type it should have.
        expected: &'static str,
    },
}

impl<'a> Object<'a> {
    fn new(body: &'a Value) -> Result<Self, Error> {
        let text = |name| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else { return Err(Error::Untyped) };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Ok(Self { group, version, kind, body })
    }

    /// The whole number at a JSON pointer; `default` when it is missing or something else, as kstatus reads counters.
    fn count(&self, pointer: &str, default: i64) -> i64 {
        self.body.pointer(pointer).and_then(Value::as_i64).unwrap_or(default)
    }

    /// The string at a JSON pointer; empty when it is missing or something else.
    fn text(&self, pointer: &str) -> &'a str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the value at a JSON pointer is `true`.
    fn flag(&self, pointer: &str) -> bool {
        self.body.pointer(pointer) == Some(&Value::Bool(true))
    }

    /// The list at a JSON pointer; empty when it is missing or something else.
    fn list(&self, pointer: &str) -> &'a [Value] {
        self.body.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn is_deleted(&self) -> Result<bool, Error> {
        let metadata = self.section("metadata")?;
        Ok(!string(metadata, "deletionTimestamp", "metadata")?.is_empty())
    }

    fn generation(&self) -> Result<Option<i64>, Error> {
        self.number("metadata", "generation")
    }

    fn observed_generation(&self) -> Result<Option<i64>, Error> {
        self.number("status", "observedGeneration")
    }

    /// `status.conditions` in its order; empty when there is none.
    fn conditions(&self) -> Result<Vec<Condition<'a>>, Error> {
        match self.section("status")?.and_then(|status| present(status, "conditions")) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().enumerate().map(|(index, entry)| condition(index, entry)).collect(),
            Some(_) => Err(mistyped("status.conditions", "a list")),
        }
    }

    fn number(&self, section: &str, name: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.section(section)?.and_then(|fields| present(fields, name)) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| mistyped(format!("{section}.{name}"), "a whole number"))
    }

    fn section(&self, name: &str) -> Result<Option<&'a Value>, Error> {
        match present(self.body, name) {
            Some(section) if !section.is_object() => Err(mistyped(name, "an object")),
            section => Ok(section),
        }
    }
}

impl Condition<'_> {
    fn is_true(&self) -> bool {
        self.status == "True"
    }

    fn is_false(&self) -> bool {
        self.status == "False"
    }
}

fn condition(index: usize, entry: &Value) -> Result<Condition<'_>, Error> {
    let path = format!("status.conditions[{index}]");
    let fields = match entry {
        Value::Null => None,
        Value::Object(_) => Some(entry),
        _ => return Err(mistyped(path, "an object")),
    };
    let field = |name| string(fields, name, &path);
    Ok(Condition {
        name: field("type")?,
        status: field("status")?,
        reason: field("reason")?,
        message: field("message")?,
    })
}

fn string<'a>(fields: Option<&'a Value>, name: &str, path: &str) -> Result<&'a str, Error> {
    let Some(value) = fields.and_then(|fields| present(fields, name)) else { return Ok("") };
    value.as_str().ok_or_else(|| mistyped(format!("{path}.{name}"), "a string"))
}

/// A field that is there and not null: the API server reads null as absent.
fn present<'a>(fields: &'a Value, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn mistyped(path: impl Into<String>, expected: &'static str) -> Error {
    Error::Mistyped { path: path.into(), expected }
}
