//! After a failed upgrade that stored a new version of a kind: every road to the old release is open, not the way back alone.

use rukpak_tests::verbs::{Expected, Target};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, gadget};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

/// The definition with a second version, which is stored from now on.
fn with_second(definition: &Value) -> Value {
    let mut new = definition.clone();
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().expect("they are a list").push(second);
    new
}

/// A release that brings the second version and fails.
fn failing(case: &Case<'_>, definition: &Value, group: &str) -> Vec<Value> {
    let mut broken = gadget(group, &case.namespace, "broken", 0);
    broken["apiVersion"] = json!(format!("{group}/v2"));
    vec![with_second(definition), broken, case.config_map("kept", json!({"x": "2"}))]
}

/// Points the template at what was pushed before.
async fn template(case: &Case<'_>, reference: &str) {
    let source = json!({"image": {"ref": reference}});
    case.edit("user", &case.target(), json!({"spec": {"template": {"spec": {"source": source}}}})).await;
}

/// Long after a way back: whatever was lost while the controller was away is found and mended.
#[tokio::test]
async fn drift_is_repaired_after_a_way_back_over_a_stored_version_and_a_restart() {
    let alone = worlds::alone().await;
    let case = alone.case("stored-drift").await;
    let (old, group) = definition("stored");
    let v1 = [old.clone(), case.config_map("kept", json!({"x": "1"}))];
    let reference = case.push("v1", &v1).await;
    case.install(&v1).await;
    case.change("v2", &failing(&case, &old, &group)).await;
    case.refused("UpgradeFailed", "spec.size").await;
    template(&case, &reference).await;
    case.installed().await;
    alone.stop().await;
    case.delete(&case.config_map_target("kept")).await;
    alone.start().await;
    let back = case.until_owned(&case.config_map_target("kept")).await;
    assert_eq!(back.data["data"]["x"], "1");
    case.installed().await;
}

/// The same without a restart, and with the definition itself drifted.
#[tokio::test]
async fn a_definition_is_repaired_after_a_way_back_over_a_stored_version() {
    let case = Case::new("stored-crd").await;
    let (old, group) = definition("stored");
    let v1 = [old.clone(), case.config_map("kept", json!({"x": "1"}))];
    let reference = case.push("v1", &v1).await;
    case.install(&v1).await;
    case.change("v2", &failing(&case, &old, &group)).await;
    case.refused("UpgradeFailed", "spec.size").await;
    template(&case, &reference).await;
    case.installed().await;
    let target = crate::engine::case::definition_target(&group);
    case.edit("intruder", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-name": "other"}}})).await;
    let mended = case.until_owned(&target).await;
    assert_eq!(mended.data["status"]["storedVersions"], json!(["v1", "v2"]));
    case.delete(&case.config_map_target("kept")).await;
    case.until_owned(&case.config_map_target("kept")).await;
}

/// Killed in the middle of the upgrade, and sent back by the template while it was down.
#[tokio::test]
async fn an_upgrade_that_a_crash_cut_short_is_undone_by_the_template_over_a_stored_version() {
    let alone = worlds::alone().await;
    let case = alone.case("stored-crash").await;
    let (old, group) = definition("stored");
    let release = |definition: &Value, version: &str, replicas: i64| {
        let mut objects = case.config_maps(20, version);
        objects.push(definition.clone());
        objects.push(case.workload("w", replicas));
        objects.push(case.config_map("extra", json!({"version": version})));
        objects
    };
    let v1 = release(&old, "1", 2);
    let reference = case.push("v1", &v1).await;
    case.install(&v1).await;
    // Services come after ConfigMaps and before Deployments.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gate", "namespace": case.namespace},
        "spec": {"ports": [{"port": 80}]}});
    let mut v2 = release(&with_second(&old), "2", 0);
    v2.push(service.clone());
    let hook = Hook::start(&case, &[["", "services"]], |_| Verdict::AtGate).await;
    case.change("v2", &v2).await;
    hook.until_at_gate().await;
    assert_eq!(case.get(&case.config_map_target("many-0007")).await.unwrap().data["data"]["version"], "2");
    alone.kill().await;
    template(&case, &reference).await;
    hook.end().await;
    alone.start().await;
    for index in 0..20 {
        let target = case.config_map_target(&format!("many-{index:04}"));
        case.until_value(&target, "/data/version", &json!("1")).await;
    }
    case.until_gone(&Target::of(&service).unwrap()).await;
    until(&case.client, &case.name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    let live = case.get(&crate::engine::case::definition_target(&group)).await.unwrap();
    assert_eq!(live.data["status"]["storedVersions"], json!(["v1", "v2"]));
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    assert_eq!(case.get(&workload).await.unwrap().data["spec"]["replicas"], 2);
}

/// Killed after the new number of replicas was written: the old one is back by the template as well.
#[tokio::test]
async fn replicas_of_an_upgrade_that_a_crash_cut_short_are_undone_by_the_template() {
    let alone = worlds::alone().await;
    let case = alone.case("replicas-crash").await;
    let v1 = [case.workload("w", 2)];
    let reference = case.push("v1", &v1).await;
    case.install(&v1).await;
    // Custom resources come after Deployments.
    let (crd, group) = definition("late");
    let hook = Hook::start(&case, &[[group.as_str(), "gadgets"]], |_| Verdict::AtGate).await;
    case.change("v2", &[case.workload("w", 0), crd, gadget(&group, &case.namespace, "gate", 1)]).await;
    hook.until_at_gate().await;
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    assert_eq!(case.get(&workload).await.unwrap().data["spec"]["replicas"], 0);
    alone.kill().await;
    template(&case, &reference).await;
    hook.end().await;
    alone.start().await;
    let is_whole = |object: &kube::api::DynamicObject| {
        let inventory = &object.data["status"]["inventory"];
        inventory.get("pendingDigest").is_none() && inventory.get("pending").is_none()
    };
    case.until(&case.target(), "the end of the upgrade", |object| object.is_some_and(is_whole)).await;
    case.installed().await;
    assert_eq!(case.get(&workload).await.unwrap().data["spec"]["replicas"], 2);
}
