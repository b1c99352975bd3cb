//! The rules of a BundleDeployment for objects whose kind has none: probes of conditions and fields.
//!
//! An expression language would be more; what evaluates one has no bound on the time that it takes, in a process that may do anything.

use std::fmt;

use rukpak_crds::{HealthCheck, HealthProbe};
use rukpak_plain::ObjectKey;
use serde_json::Value;

use super::Health;
use super::object::Condition;
use crate::kind::is_selected;

/// The first check that names an object.
pub fn check_of<'a>(checks: &'a [HealthCheck], key: &ObjectKey) -> Option<&'a HealthCheck> {
    checks.iter().find(|check| is_selected(&check.objects, key))
}

/// What a check says of an object; `None` if it leaves that to the usual rules.
pub(super) fn judge(check: &HealthCheck, body: &Value, conditions: &[Condition<'_>]) -> Option<Health> {
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
                (pointer.to_owned(), body.pointer(pointer).and_then(text), String::new())
            }
        };
        let holds = value.as_ref().is_some_and(|value| match probe.values.as_slice() {
            [] => probe.condition.is_none() || value == "True",
            values => values.contains(value),
        });
        Self { what, value, message, holds }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, message, .. } = self;
        match value {
            None => write!(formatter, "{what} is not there"),
            Some(value) if message.is_empty() => write!(formatter, "{what} is {value:?}"),
            Some(value) => write!(formatter, "{what} is {value:?}: {message}"),
        }
    }
}

/// A value as text. What is there and null counts as absent.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::{State, assess_by};
    use super::*;

    fn check(current: &Value, failed: &Value) -> HealthCheck {
        serde_json::from_value(json!({"group": "example.com", "kind": "Db", "current": current, "failed": failed}))
            .unwrap()
    }

    fn health(check: &HealthCheck, status: &Value) -> Health {
        let object =
            json!({"apiVersion": "example.com/v1", "kind": "Db", "metadata": {"generation": 2}, "status": status});
        assess_by(&object, Some(check), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn an_object_is_healthy_when_all_probes_hold_and_failed_when_one_says_so() {
        let check = check(
            &json!([{"condition": "Up"}, {"jsonPointer": "/status/phase", "values": ["Running", "Idle"]},
                    {"jsonPointer": "/status/endpoint"}, {"jsonPointer": "/status/members", "values": ["3"]}]),
            &json!([{"condition": "Up", "values": ["Never"]}, {"jsonPointer": "/status/phase", "values": ["Broken"]}]),
        );
        let up = |status: &str| json!([{"type": "Up", "status": status, "message": "so it is"}]);
        let whole = json!({"conditions": up("True"), "phase": "Idle", "endpoint": "a", "members": 3});
        assert_eq!(health(&check, &whole), Health::current("Resource is current"));
        let missing = "condition Up is not there, /status/phase is not there, /status/endpoint is not there, /status/members is not there";
        assert_eq!(health(&check, &json!({})), Health::in_progress(missing));
        let mut down = whole.clone();
        down["conditions"] = up("False");
        assert_eq!(health(&check, &down), Health::in_progress("condition Up is \"False\": so it is"));
        down["phase"] = json!("Broken");
        assert_eq!(health(&check, &down), Health::failed("/status/phase is \"Broken\""));
        down["conditions"] = up("Never");
        assert_eq!(health(&check, &down), Health::failed("condition Up is \"Never\": so it is"));
        // What was observed of an earlier generation says nothing.
        let mut old = whole;
        old["observedGeneration"] = json!(1);
        assert_eq!(health(&check, &old).state, State::InProgress);
    }

    #[test]
    fn without_probes_for_health_the_usual_rules_hold() {
        let check = check(&json!([]), &json!([{"jsonPointer": "/status/phase", "values": ["Broken"]}]));
        assert_eq!(health(&check, &json!({"phase": "Broken"})).state, State::Failed);
        let not_ready = json!({"conditions": [{"type": "Ready", "status": "False", "message": "not yet"}]});
        assert_eq!(health(&check, &not_ready), Health::in_progress("not yet"));
    }

    #[test]
    fn the_first_check_that_names_an_object_counts() {
        let of = |more: Value| {
            let mut check = json!({"group": "example.com", "kind": "Db"});
            check.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<HealthCheck>(check).unwrap()
        };
        let checks = [of(json!({"name": "a"})), of(json!({"namespace": "n"})), of(json!({}))];
        let found = |namespace: &str, name: &str| {
            let (group, kind) = ("example.com".to_owned(), "Db".to_owned());
            let key = ObjectKey { group, kind, namespace: Some(namespace.to_owned()), name: name.to_owned() };
            check_of(&checks, &key).and_then(|found| checks.iter().position(|check| check == found))
        };
        assert_eq!((found("n", "a"), found("n", "b"), found("m", "b")), (Some(0), Some(1), Some(2)));
        let other = ObjectKey { group: String::new(), kind: "Db".into(), namespace: None, name: "a".into() };
        assert!(check_of(&checks, &other).is_none());
    }
}
