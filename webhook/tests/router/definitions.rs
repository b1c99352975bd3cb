//! Updates of CRDs that a bundle installed.

use rukpak_webhook::CRD_PATH;
use serde_json::{Value, json};

use crate::support::Known;
use crate::{allowed, ask, denied, of_kind};

fn definition(required: &[&str]) -> Value {
    let properties = json!({"a": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": required, "properties": properties}}});
    json!({
        "metadata": {"name": "as.example.com", "uid": "d-1",
                     "labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "d"}},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        "status": {"storedVersions": ["v1"]},
    })
}

fn of_definition(old: &Value, new: &Value) -> Value {
    of_kind(("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "UPDATE", old, new)
}

const START: &str = "failed to validate safety of UPDATE for CRD \"as.example.com\" (NOTE: to disable this validation, set the \
                     \"core.rukpak.io/safe-crd-upgrade-validation\" annotation to \"false\" on the CRD): ";

fn object(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"namespace": "n", "name": name}, "spec": spec})
}

#[tokio::test]
async fn definitions_break_no_object() {
    let question = |new: &Value| of_definition(&definition(&[]), new);
    let good = object("good", &json!({"a": 1}));
    // The bad one is on another page.
    let objects = vec![vec![good.clone()], vec![object("bad", &json!({"b": "secret"}))]];
    let known = Known { objects, definition: Some(definition(&[])), ..Known::default() };
    let heading = "error validating existing CRs against new CRD's schema for \"as.example.com\": ";
    let response = ask(&known, CRD_PATH, question(&definition(&["a"]))).await;
    let broken =
        "existing custom object n/bad failed validation for new schema version v1 (the log of rukpak-webhook says why)";
    assert_eq!(response, denied(403, &format!("{START}{heading}{broken}")));

    // Nothing to look at, nobody to blame, nothing to check.
    assert_eq!(ask(&known, CRD_PATH, question(&definition(&[]))).await, allowed());
    let fine = Known { objects: vec![vec![good]], ..known.clone() };
    assert_eq!(ask(&fine, CRD_PATH, question(&definition(&["a"]))).await, allowed());
    let unchecked = Known { unchecked: vec!["d"], ..known.clone() };
    assert_eq!(ask(&unchecked, CRD_PATH, question(&definition(&["a"]))).await, allowed());
    let mut annotated = definition(&["a"]);
    annotated["metadata"]["annotations"] = json!({"core.rukpak.io/safe-crd-upgrade-validation": "false"});
    assert_eq!(ask(&known, CRD_PATH, question(&annotated)).await, allowed());
    for operation in ["CREATE", "DELETE"] {
        let mut other = question(&definition(&["a"]));
        other["operation"] = json!(operation);
        assert_eq!(ask(&known, CRD_PATH, other).await, allowed());
    }

    let silent = Known { is_silent: true, ..known.clone() };
    let response = ask(&silent, CRD_PATH, question(&definition(&["a"]))).await;
    assert_eq!(response["status"]["code"], 500);
    let text = response["status"]["message"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("{START}{heading}cannot get customresourcedefinition \"as.example.com\"")),
        "{text}"
    );
    let response = ask(&known, CRD_PATH, question(&json!({"metadata": {"name": "x"}}))).await;
    assert_eq!(response["status"]["code"], 400);
    assert!(response["status"]["message"].as_str().unwrap().starts_with("failed to decode CRD \"x\": "), "{response}");
}

/// Whoever can reach the port can send a review: what it says is there is not believed.
#[tokio::test]
async fn a_forged_review_lists_nothing_and_learns_nothing() {
    let objects = vec![vec![object("token", &json!({"data": "hunter2"}))]];
    let known = Known { objects, definition: Some(definition(&[])), ..Known::default() };
    let schema = json!({"type": "object", "properties": {"data": {"type": "object", "properties": {"token": {"type": "string", "pattern": "^A"}}}}});
    let secrets = |schema: &Value| {
        json!({
            "metadata": {"name": "secrets", "uid": "d-1"},
            "spec": {"group": "", "scope": "Namespaced", "names": {"plural": "secrets", "kind": "Secret"},
                     "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        })
    };
    let mut of_real_name = secrets(&json!({"type": "object"}));
    of_real_name["metadata"] = json!({"name": "as.example.com", "uid": "guessed"});
    let mut of_real_uid = of_real_name.clone();
    of_real_uid["metadata"]["uid"] = json!("d-1");
    let mut nameless = of_real_name.clone();
    nameless["metadata"] = json!({"name": "../../../api/v1/secrets?x="});
    let mut other_version = definition(&["other"]);
    other_version["spec"]["names"]["plural"] = json!("secrets");
    for old in [
        secrets(&json!({"type": "object"})),
        of_real_name,
        of_real_uid,
        nameless,
        other_version,
        json!({}),
        Value::Null,
    ] {
        let response = ask(&known, CRD_PATH, of_definition(&old, &secrets(&schema))).await;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let why = "the CRD in the cluster is not the one that this update begins with: try again";
        let text = START.replace("\"as.example.com\"", &format!("{name:?}"));
        assert_eq!(response, denied(409, &format!("{text}{why}")), "{old}");
    }
    let read = || known.log.lock().unwrap().clone();
    let log = read();
    assert!(!log.iter().any(|read| read.starts_with("objects") || read.starts_with("deployment")), "{log:?}");

    // Nor does whoever knows the CRD get more listed than that defines.
    let mut new = secrets(&schema);
    new["metadata"] = definition(&[])["metadata"].clone();
    ask(&known, CRD_PATH, of_definition(&definition(&[]), &new)).await;
    let log = read();
    let listed: Vec<_> = log.iter().filter(|read| read.starts_with("objects")).collect();
    assert_eq!(listed, ["objects example.com/as"]);
}
