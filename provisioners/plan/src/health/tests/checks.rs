//! The checks of a BundleDeployment.

use jiff::Timestamp;
use rukpak_crds::HealthCheck;
use rukpak_plain::ObjectKey;
use serde_json::{Value, json};

use super::super::{Health, State, assess_by, check_of, is_judged};

fn check(current: &Value, failed: &Value) -> HealthCheck {
    serde_json::from_value(json!({"group": "example.com", "kind": "Db", "current": current, "failed": failed})).unwrap()
}

fn health(check: &HealthCheck, status: &Value) -> Health {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Db", "metadata": {"generation": 2}, "status": status});
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
fn a_field_is_compared_with_another() {
    let check = check(&json!([{"jsonPointer": "/status/ready", "sameAs": "/status/wanted"}]), &json!([]));
    assert_eq!(health(&check, &json!({"ready": 3, "wanted": 3})), Health::current("Resource is current"));
    for (status, message) in [
        (json!({"ready": 2, "wanted": 3}), "/status/ready is \"2\": /status/wanted is \"3\""),
        (json!({"ready": "3", "wanted": 3}), "/status/ready is \"3\": /status/wanted is \"3\""),
        (json!({"ready": 3}), "/status/ready is \"3\": /status/wanted is not there"),
        (json!({"wanted": 3}), "/status/ready is not there"),
        (json!({"ready": null, "wanted": null}), "/status/ready is not there"),
    ] {
        assert_eq!(health(&check, &status), Health::in_progress(message), "{status}");
    }
}

#[test]
fn what_a_secret_holds_is_not_told() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "aHVzaA==", "b": "eA=="}});
    let of = |probe: Value| assess_by(&secret, Some(&check(&json!([probe]), &json!([]))), Timestamp::UNIX_EPOCH);
    for probe in
        [json!({"jsonPointer": "/data/a", "values": ["eA=="]}), json!({"jsonPointer": "/data/a", "sameAs": "/data/b"})]
    {
        assert_eq!(of(probe), Health::in_progress("/data/a is there, and not shown"));
    }
    assert_eq!(of(json!({"jsonPointer": "/data/c"})), Health::in_progress("/data/c is not there"));
    assert_eq!(of(json!({"jsonPointer": "/data/b", "values": ["eA=="]})), Health::current("Resource is current"));
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

#[test]
fn an_object_without_a_rule_is_judged_where_a_check_names_it() {
    let named = json!({"kind": "ConfigMap", "name": "named", "current": [{"jsonPointer": "/data/x"}]});
    let checks: Vec<HealthCheck> = serde_json::from_value(json!([named])).unwrap();
    let key = |kind: &str, name: &str| ObjectKey {
        group: String::new(),
        kind: kind.into(),
        namespace: Some("n".into()),
        name: name.into(),
    };
    assert!(is_judged(&checks, &key("ConfigMap", "named")) && is_judged(&checks, &key("Service", "other")));
    assert!(!is_judged(&checks, &key("ConfigMap", "other")));
}
