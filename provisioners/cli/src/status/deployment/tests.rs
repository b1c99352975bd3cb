use serde_json::{Value, json};

use super::*;

fn deployment(metadata: &Value, status: &Value) -> BundleDeployment {
    let mut object = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": "pump", "generation": 3},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-plain", "source": {"type": "image", "image": {"ref": "a"}}}}},
        "status": status,
    });
    object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": type_, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn shown(deployment: &BundleDeployment) -> String {
    let mut out = Vec::new();
    text(&mut out, Palette::of(&tempfile::tempfile().unwrap()), deployment).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn conditions_and_revisions_have_a_line_each() {
    let revision = json!({"revision": 1, "contentDigest": "sha256:00", "result": "Healthy", "time": "2026-01-01T00:00:00Z", "bundle": "pump-1"});
    let status = json!({
        "observedGeneration": 3, "activeBundle": "pump-1", "inventory": {"objects": 1}, "history": [revision],
        "conditions": [condition("Ready", "True", "1 object\nis installed")],
    });
    let deployment = deployment(&json!({}), &status);
    let wanted = "\
pump: pump-1, 1 object
CONDITION   STATUS   REASON   MESSAGE
Ready       True     Ready    1 object is installed

REVISION   RESULT    SINCE                  BUNDLE   MESSAGE
1          Healthy   2026-01-01T00:00:00Z   pump-1   -
";
    assert_eq!(shown(&deployment), wanted);
    assert!(is_ready(&deployment));
}

#[test]
fn a_deletion_says_what_it_waits_for() {
    let waits = "waiting until these objects are gone: ConfigMap default/held waits for its finalizers: a.test/hold (set by \"user\")";
    let status = json!({"observedGeneration": 3, "conditions": [condition("Ready", "True", ""), condition("Deleting", "True", waits)]});
    let deployment = deployment(&json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), &status);
    let shown = shown(&deployment);
    assert!(shown.contains("it is being deleted\n") && shown.contains(waits), "{shown}");
    assert!(!is_ready(&deployment));
}

#[test]
fn what_nobody_has_looked_at_is_not_ready() {
    let young = deployment(&json!({}), &json!(null));
    assert!(shown(&young).contains("does a controller serve class \"core-rukpak-io-plain\"?"));
    let stale =
        deployment(&json!({}), &json!({"observedGeneration": 2, "conditions": [condition("Ready", "True", "")]}));
    assert!(shown(&stale).contains("has not seen the last change"));
    assert!(!is_ready(&young) && !is_ready(&stale));
}
