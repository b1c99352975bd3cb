//! Objects that are left as they are on request: `core.rukpak.io/reconcile: disabled`, on the object or in the manifest.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{Expected, Target};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::engine::case::Case;
use crate::engine::worlds;

const LEFT: &str = "left as they are, for their annotation core.rukpak.io/reconcile says \"disabled\": ";

fn annotation(value: &Value) -> Value {
    json!({"metadata": {"annotations": {"core.rukpak.io/reconcile": value}}})
}

async fn pause(case: &Case<'_>, target: &Target) {
    case.edit("admin", target, annotation(&json!("disabled"))).await;
    until_named(case, "").await;
}

/// Until the status says that ConfigMap "a" is left as it is, with these words behind its name.
async fn until_named(case: &Case<'_>, more: &str) {
    let message = format!("{LEFT}ConfigMap \"{}/a\"{more}", case.namespace);
    until(&case.client, &case.name, Expected::is_true("Ready", "Succeeded").saying(&message)).await;
}

async fn value(case: &Case<'_>, target: &Target) -> Value {
    case.get(target).await.expect("it is there").data["data"]["x"].clone()
}

/// An administrator who mends something by hand needs the controller to keep its hands off that alone.
#[tokio::test]
async fn an_object_that_says_so_is_neither_repaired_nor_upgraded_nor_pruned() {
    let case = Case::new("paused").await;
    let map = |name: &str, x: &str| case.config_map(name, json!({"x": x}));
    let (a, b) = (case.config_map_target("a"), case.config_map_target("b"));
    case.install(&[map("a", "1"), map("b", "1")]).await;

    pause(&case, &a).await;
    case.edit("admin", &a, json!({"data": {"x": "by hand"}})).await;
    // Proof that it was seen: what drifts after it is repaired.
    case.edit("intruder", &b, json!({"data": {"x": "2"}})).await;
    case.until_value(&b, "/data/x", &json!("1")).await;
    assert_eq!(value(&case, &a).await, "by hand");

    case.edit("admin", &a, annotation(&json!(null))).await;
    case.until_value(&a, "/data/x", &json!("1")).await;

    pause(&case, &a).await;
    case.pivot("v2", &[map("a", "2"), map("b", "2")]).await;
    assert_eq!((value(&case, &a).await, value(&case, &b).await), (json!("1"), json!("2")));
    until_named(&case, "").await;

    case.pivot("v3", &[map("b", "3")]).await;
    until_named(&case, " (which left the bundle)").await;
    assert_eq!(value(&case, &a).await, "1");

    case.edit("admin", &a, annotation(&json!("enabled"))).await;
    case.until_gone(&a).await;
    let tells_nothing = |object: &DynamicObject| !object.data["status"].to_string().contains("left as they are");
    case.until(&case.target(), "a status that tells of nothing", |object| object.is_some_and(tells_nothing)).await;
    case.ready().await;
}

/// The author of a bundle can hand an object over without deleting it, and bring one that is not made yet.
#[tokio::test]
async fn an_object_whose_manifest_says_so_is_declared_and_not_written() {
    let alone = worlds::alone().await;
    let case = alone.case("paused-manifest").await;
    let map = |name: &str, x: &str| case.config_map(name, json!({"x": x}));
    let paused = |name: &str, x: &str| {
        let mut map = map(name, x);
        map["metadata"]["annotations"] = json!({"core.rukpak.io/reconcile": "disabled"});
        map
    };
    let (a, b, c) = (case.config_map_target("a"), case.config_map_target("b"), case.config_map_target("c"));
    case.install(&[map("a", "1"), map("b", "1")]).await;

    case.pivot("v2", &[paused("a", "2"), map("b", "2"), paused("c", "2")]).await;
    until_named(&case, "").await;
    assert_eq!(value(&case, &a).await, "1");
    assert!(case.get(&c).await.is_none(), "it was created");

    case.edit("admin", &a, json!({"data": {"x": "by hand"}})).await;
    alone.stop().await;
    alone.start().await;
    case.edit("intruder", &b, json!({"data": {"x": "3"}})).await;
    case.until_value(&b, "/data/x", &json!("2")).await;
    until_named(&case, "").await;
    assert_eq!(value(&case, &a).await, "by hand");

    case.pivot("v3", &[map("a", "3"), map("b", "3"), map("c", "3")]).await;
    for target in [&a, &b, &c] {
        case.until_value(target, "/data/x", &json!("3")).await;
    }
    case.ready().await;
}
