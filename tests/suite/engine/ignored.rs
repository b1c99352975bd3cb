//! Fields that `spec.ignoreDifferences` leaves to others: written when an object is created, and never again.

use kube::api::{Patch, PatchParams};
use rukpak_tests::verbs::{Target, condition};
use serde_json::{Value, json};

use crate::engine::case::Case;

async fn ignore(case: &Case<'_>, rules: Value) {
    case.edit("user", &case.target(), json!({"spec": {"ignoreDifferences": rules}})).await;
    let status = case.get(&case.target()).await.expect("it is there");
    let generation = status.metadata.generation;
    let seen = json!(generation);
    case.until_value(&case.target(), "/status/observedGeneration", &seen).await;
    case.ready().await;
}

async fn theirs(case: &Case<'_>, target: &Target, patch: Value) {
    case.edit("others", target, patch).await;
}

/// As an injector or an updater of images needs it, which would be fought until the controller gives up.
#[tokio::test]
async fn a_field_that_a_rule_names_is_written_when_the_object_is_created_and_never_again() {
    let case = Case::new("ignored").await;
    let map = |x: &str| case.config_map("a", json!({"x": x, "y": x}));
    let workload = |a: &str| {
        let mut workload = case.workload("w", 0);
        workload["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = json!(a);
        workload
    };
    let a = case.config_map_target("a");
    case.install(&[map("1"), workload("1")]).await;
    let w = case.in_namespace("apps/v1", "Deployment", "w");
    let image = "/spec/template/spec/containers/0/image";
    ignore(
        &case,
        json!([
            {"kind": "ConfigMap", "namespace": case.namespace, "name": "a", "jsonPointers": ["/data/x"]},
            {"group": "apps", "kind": "Deployment", "jsonPointers": [image]},
        ]),
    )
    .await;

    // It is ours still, and nobody has changed it.
    case.pivot("v2", &[map("2"), workload("2")]).await;
    let live = case.until_value(&a, "/data/y", &json!("2")).await;
    assert_eq!(live.data["data"]["x"], "1");

    for round in 0..5 {
        theirs(&case, &a, json!({"data": {"x": format!("theirs {round}")}})).await;
    }
    theirs(&case, &a, json!({"data": {"y": "theirs"}})).await;
    let live = case.until_value(&a, "/data/y", &json!("2")).await;
    assert_eq!(live.data["data"]["x"], "theirs 4");
    let containers = json!([{"name": "main", "image": "theirs:1", "env": [{"name": "A", "value": "theirs"}]}]);
    theirs(&case, &w, json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    let value = "/spec/template/spec/containers/0/env/0/value";
    let live = case.until_value(&w, value, &json!("2")).await;
    assert_eq!(live.data.pointer(image), Some(&json!("theirs:1")));
    let ready = case.ready().await;
    let fields = condition(&ready, "Contested").map(|found| found["message"].to_string()).unwrap_or_default();
    assert!(!fields.contains(".data.x") && !fields.contains(".image"), "{fields}");

    case.pivot("v3", &[map("3"), workload("3")]).await;
    let live = case.until_value(&a, "/data/y", &json!("3")).await;
    assert_eq!(live.data["data"]["x"], "theirs 4");
    let live = case.until_value(&w, value, &json!("3")).await;
    assert_eq!(live.data.pointer(image), Some(&json!("theirs:1")));

    case.delete(&a).await;
    case.until_value(&a, "/data/x", &json!("3")).await;

    theirs(&case, &a, json!({"data": {"x": "theirs"}})).await;
    ignore(&case, json!(null)).await;
    case.until_value(&a, "/data/x", &json!("3")).await;
    case.until_value(&w, image, &json!("example.com/none:1")).await;
}

/// Somebody who writes a path otherwise is told so at once.
#[tokio::test]
async fn a_rule_that_is_no_pointer_is_refused() {
    let case = Case::new("ignored-wrong").await;
    case.install(&[case.config_map("a", json!({}))]).await;
    let rules = json!([{"kind": "ConfigMap", "jsonPointers": [".data.x"]}]);
    let patch = Patch::Merge(json!({"spec": {"ignoreDifferences": rules}}));
    let api = case.target().api(&case.client).await.expect("the kind is served");
    let refusal = api.patch(&case.name, &PatchParams::default(), &patch).await.expect_err("it is no JSON pointer");
    assert!(refusal.to_string().contains("spec.ignoreDifferences[0].jsonPointers[0]"), "{refusal}");
}
