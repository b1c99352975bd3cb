//! The order of evaluation, the lines; in the modules: one row a rule of a kind, the checks of a BundleDeployment, and what
//! holds for any JSON.

mod any;
mod checks;
mod kinds;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::State::{Current, Failed, InProgress, NotFound, Terminating, Unknown};
use super::{Health, State, assess, has_rule, line};

const NOW: &str = "2024-05-06T07:08:30Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// `kind` is `<apiVersion> <Kind>`; every row: spec, status, state, message.
fn check(kind: &str, rows: &[(Value, Value, State, &str)]) {
    for (spec, status, state, message) in rows {
        let metadata = json!({"name": "x", "generation": 2});
        expect(kind, &json!({"metadata": metadata, "spec": spec, "status": status}), *state, message);
    }
}

fn expect(kind: &str, fields: &Value, state: State, message: &str) {
    let (api_version, kind) = kind.split_once(' ').unwrap();
    let mut object = fields.clone();
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    assert_eq!(assess(&object, now()), Health::new(state, message), "{object:#}");
}

/// A status with one condition: type, status, reason, message.
fn condition(name: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"conditions": [{"type": name, "status": status, "reason": reason, "message": message}]})
}

fn with(mut status: Value, name: &str, value: &str, reason: &str) -> Value {
    status["conditions"] = condition(name, value, reason, "")["conditions"].clone();
    status
}

#[test]
fn deletion_comes_first() {
    let deleted = json!({
        "metadata": {"deletionTimestamp": NOW, "generation": 2},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Stalled", "status": "True"}]},
    });
    for kind in ["v1 Secret", "v1 Namespace", "apps/v1 Deployment", "example.io/v1 Thing"] {
        expect(kind, &deleted, Terminating, "Resource scheduled for deletion");
    }
}

#[test]
fn then_the_generation() {
    let stalled = json!([{"type": "Stalled", "status": "True", "message": "stuck"}]);
    let text = "Thing generation is 2, but latest observed generation is 1";
    check(
        "example.io/v1 Thing",
        &[
            (json!({}), json!({"observedGeneration": 1, "conditions": stalled}), InProgress, text),
            (json!({}), json!({"observedGeneration": 2, "conditions": stalled}), Failed, "stuck"),
            (json!({}), json!({"conditions": stalled}), Failed, "stuck"),
        ],
    );
    expect("example.io/v1 Thing", &json!({"status": {"observedGeneration": 1}}), Current, "Resource is current");
}

#[test]
fn then_the_standard_conditions_before_the_kind() {
    let both = |first: &str, second: &str| {
        json!({"conditions": [
            {"type": first, "status": "True", "message": first}, {"type": second, "status": "True", "message": second},
        ]})
    };
    check(
        "batch/v1 CronJob",
        &[
            (json!({}), both("Reconciling", "Stalled"), InProgress, "Reconciling"),
            (json!({}), both("Stalled", "Reconciling"), Failed, "Stalled"),
            (json!({}), condition("Stalled", "False", "", "no"), Current, "Resource is always ready"),
        ],
    );
}

#[test]
fn unknown_kinds_go_by_ready() {
    check(
        "example.io/v1 Thing",
        &[
            (json!({}), json!({}), Current, "Resource is current"),
            (json!({}), Value::Null, Current, "Resource is current"),
            (json!({}), condition("Ready", "True", "", "m"), Current, "Resource is Ready"),
            (json!({}), condition("Ready", "False", "", "not yet"), InProgress, "not yet"),
            (json!({}), condition("Ready", "Unknown", "", "lost"), InProgress, "lost"),
            (json!({}), condition("Ready", "Perhaps", "", "m"), Current, "Resource is current"),
            (json!({}), condition("Other", "False", "", "m"), Current, "Resource is current"),
        ],
    );
    // The group decides, not the kind alone.
    check("example.io/v1 Pod", &[(json!({}), json!({}), Current, "Resource is current")]);
}

#[test]
fn malformed_objects_are_never_current() {
    for body in [json!(null), json!([]), json!({}), json!({"kind": "Pod"}), json!({"apiVersion": "v1", "kind": 3})] {
        assert_eq!(assess(&body, now()), Health::new(Unknown, "the object has no apiVersion or no kind"), "{body}");
    }
    check(
        "example.io/v1 Thing",
        &[
            (json!({}), json!("fine"), Unknown, "status is not an object"),
            (json!({}), json!({"observedGeneration": "2"}), Unknown, "status.observedGeneration is not a whole number"),
            (json!({}), json!({"conditions": {}}), Unknown, "status.conditions is not a list"),
            (json!({}), json!({"conditions": [null, "Ready"]}), Unknown, "status.conditions[1] is not an object"),
            (
                json!({}),
                json!({"conditions": [{"type": "Ready", "status": true}]}),
                Unknown,
                "status.conditions[0].status is not a string",
            ),
        ],
    );
    let deleted = json!({"metadata": {"deletionTimestamp": 7}});
    expect("v1 Secret", &deleted, Unknown, "metadata.deletionTimestamp is not a string");
}

#[test]
fn lines() {
    let health = |state| Health::new(state, "why");
    let rows = [
        (line("", "v1", "Pod", Some("ns"), "p", &health(Failed)), "(/v1, Kind=Pod)(ns/p): object Failed: why"),
        (
            line("apps", "v1", "Deployment", Some("ns"), "d", &health(InProgress)),
            "(apps/v1, Kind=Deployment)(ns/d): object InProgress: why",
        ),
        (
            line("", "v1", "Namespace", None, "n", &health(Terminating)),
            "(/v1, Kind=Namespace)(n): object Terminating: why",
        ),
        (line("", "v1", "Namespace", Some(""), "n", &health(NotFound)), "(/v1, Kind=Namespace)(n): why"),
        (line("", "v1", "Pod", Some("ns"), "p", &health(Unknown)), "(/v1, Kind=Pod)(ns/p): why"),
        (
            line("apiregistration.k8s.io", "v1", "APIService", None, "v1.x", &health(InProgress)),
            "(apiregistration.k8s.io/v1, Kind=APIService)(v1.x): why",
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(line, expected);
    }
}

/// A kind without a rule is current whatever its spec and its other status fields say; only metadata may change that.
#[test]
fn kinds_without_a_rule() {
    let without = [
        ("", "Secret"),
        ("", "ConfigMap"),
        ("", "ServiceAccount"),
        ("", "LimitRange"),
        ("", "ResourceQuota"),
        ("batch", "CronJob"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "StorageClass"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ];
    for (group, kind) in without {
        assert!(!has_rule(group, kind), "{group}/{kind}");
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        let body = json!({"apiVersion": api_version, "kind": kind, "status": {"phase": "Lost", "hard": {"pods": "1"}}});
        assert!(assess(&body, now()).is_healthy(), "{body}");
    }
    let with = [("", "Pod"), ("", "Service"), ("", "Namespace"), ("apps", "Deployment"), ("example.io", "Secret")];
    for (group, kind) in with {
        assert!(has_rule(group, kind), "{group}/{kind}");
    }
}
