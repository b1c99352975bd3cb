//! What heals by itself. The numbers are those of operator-controller's scenarios.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::Expected;
use serde_json::json;

use super::case::{Case, catalog, installed, is_observed, retrying, rolled_out, text};
use super::world::World;

fn is_version(object: &DynamicObject) -> bool {
    object.data["data"]["version"] == "1.0.0"
}

/// 29, 33, 34, 76: with the catalog, and without.
#[tokio::test]
async fn objects_are_restored_also_when_no_catalog_answers_any_more() {
    let case = Case::new("healed").await;
    case.install(&["1.0.0"], json!({})).await;
    case.delete(&case.settings()).await;
    case.until_object(&case.settings(), "it comes back", is_version).await;

    case.delete(&catalog(&case.name)).await;
    case.until_gone(&catalog(&case.name)).await;
    case.merge_into(&case.settings(), &json!({"data": {"version": "changed"}})).await;
    case.until_object(&case.settings(), "it is restored", is_version).await;
    let unknown = |object: &DynamicObject| {
        let found = rukpak_tests::verbs::condition(object, "Deprecated");
        found.is_some_and(|condition| condition["reason"] == "DeprecationStatusUnknown")
    };
    let object = case.until_object(&case.extension(), "no catalog data", unknown).await;
    assert!(rolled_out().met_by(&object) && installed().met_by(&object), "{:#}", object.data);
    // The configuration can be changed still.
    let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    case.merge_into(&case.extension(), &json!({"spec": {"install": none}})).await;
    case.until_object(&case.extension(), "the new spec", |object| is_observed(object) && rolled_out().met_by(object))
        .await;
    // Another version cannot be had without a catalog.
    case.ask(json!({"version": "2.0.0"})).await;
    let object = case.until_at(&case.extension(), retrying("no bundles found for package")).await;
    assert!(installed().met_by(&object));
}

/// The Bundle of a version that came back by a rollback was deleted long ago, and a restarted program remembers nothing.
#[tokio::test]
async fn an_extension_knows_its_version_after_a_rollback_and_a_restart() {
    let world = World::new().await;
    let case = Case::within(&world, "rolled-back").await;
    case.install(&["1.0.0", "1.1.0"], json!({"version": "1.0.0"})).await;
    case.ask(json!({"version": "1.1.0"})).await;
    case.until_version("1.1.0").await;
    let template = |object: &DynamicObject| object.data["spec"]["template"].clone();
    let asked_for = template(&case.get(&case.target()).await);

    case.merge(&json!({"spec": {"rollbackTo": 1}})).await;
    let is_back = |object: &DynamicObject| text(object, "/status/install/bundle/version") == "1.0.0";
    case.until_object(&case.extension(), "version 1.0.0", is_back).await;
    let kept = Expected::is_true("Progressing", "RollingOut").saying("spec.rollbackTo");
    case.until_at(&case.extension(), kept).await;
    world.manager.kill().await.expect("it runs");
    world.manager.restart().await.expect("it starts");
    world.manager.wait_ready().await.expect("it is ready");
    let knows =
        |object: Option<&DynamicObject>| object.is_some_and(|object| is_back(object) && installed().met_by(object));
    case.holds_for(&case.extension(), "version 1.0.0", Duration::from_secs(10), knows).await;
    assert_eq!(template(&case.get(&case.target()).await), asked_for, "nothing else is chosen meanwhile");

    case.merge(&json!({"spec": {"rollbackTo": null}})).await;
    case.until_version("1.1.0").await;
}

/// 30: the namespace comes later.
#[tokio::test]
async fn an_extension_waits_for_its_namespace() {
    let case = Case::new("later").await;
    case.offer(&["1.0.0"]).await;
    case.create(&case.object(&json!({}), &json!({}))).await;
    case.until_at(&case.extension(), retrying("error for resolved bundle")).await;
    case.make_space().await;
    case.until_version("1.0.0").await;
}

/// 31: an object of somebody else is in the way, until it is gone.
#[tokio::test]
async fn an_object_of_somebody_else_is_not_taken_and_waited_for() {
    let case = Case::new("conflict").await;
    case.offer(&["1.0.0"]).await;
    case.make_space().await;
    let metadata = json!({"name": "settings", "namespace": case.space()});
    case.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mine": "x"}})).await;
    case.create(&case.object(&json!({}), &json!({}))).await;
    let object = case.until_at(&case.extension(), retrying("already exists")).await;
    assert!(!installed().met_by(&object));
    assert_eq!(case.get(&case.settings()).await.data["data"], json!({"mine": "x"}));
    case.delete(&case.settings()).await;
    case.until_version("1.0.0").await;
}

/// An event of a catalog that says nothing new is answered by nothing.
#[tokio::test]
async fn nothing_is_written_while_nothing_changes() {
    let case = Case::new("quiet").await;
    case.install(&["1.0.0"], json!({})).await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    // The extension tells of its health last, after the BundleDeployment.
    case.until_at(&case.extension(), Expected::is_true("Available", "ProbesSucceeded")).await;
    let before = [case.get(&case.extension()).await, case.get(&case.target()).await];
    case.merge_into(&catalog(&case.name), &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    for (target, before) in [case.extension(), case.target()].iter().zip(&before) {
        let is_same = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| object.metadata.resource_version == before.metadata.resource_version)
        };
        case.holds_for(target, "nothing is written", Duration::from_secs(1), is_same).await;
    }
}
