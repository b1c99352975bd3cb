//! `spec.suspend` and the annotation that asks for a reconcile now.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::until;
use serde_json::json;

use crate::engine::case::{Case, definition, gadget};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

const REQUESTED: &str = "core.rukpak.io/reconcile-requested-at";

async fn suspend(case: &Case<'_>, suspend: bool) {
    case.edit("user", &case.target(), json!({"spec": {"suspend": suspend}})).await;
}

async fn is_suspended(case: &Case<'_>) -> DynamicObject {
    until(&case.client, &case.name, Expected::is_true("Suspended", "Suspended")).await
}

fn is_not_suspended(object: &DynamicObject) -> bool {
    verbs::condition(object, "Suspended").is_none()
}

#[tokio::test]
async fn a_suspended_deployment_is_neither_upgraded_nor_repaired() {
    let case = Case::new("suspend").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    case.ready().await;
    suspend(&case, true).await;
    is_suspended(&case).await;
    let (a, b) = (case.config_map_target("a"), case.config_map_target("b"));
    case.edit("user", &a, json!({"data": {"x": "drift"}})).await;
    case.delete(&b).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    // Proof that its events are seen: another deployment has been repaired and upgraded meanwhile.
    let other = case.sibling();
    other.install(&[case.config_map("other", json!({"x": "1"}))]).await;
    other.pivot("v2", &[case.config_map("other", json!({"x": "2"}))]).await;
    assert_eq!(case.get(&a).await.unwrap().data["data"]["x"], "drift");
    assert!(case.get(&b).await.is_none());
    let status = case.get(&case.target()).await.unwrap();
    assert!(Expected::is_true("Suspended", "Suspended").met_by(&status), "{:#}", status.data["status"]);

    suspend(&case, false).await;
    case.until_value(&a, "/data/x", &json!("2")).await;
    let ready = case.ready().await;
    assert!(is_not_suspended(&ready), "{:#}", ready.data["status"]);
    assert!(case.get(&b).await.is_none(), "it is no longer in the bundle");
}

#[tokio::test]
async fn a_deployment_that_is_suspended_from_the_beginning_installs_nothing() {
    let case = Case::new("suspend-first").await;
    let reference = case.push("v1", &[case.config_map("a", json!({"x": "1"}))]).await;
    let mut object = rukpak_tests::world::deployment(&case.name, rukpak_tests::world::image(&reference));
    object["spec"]["suspend"] = json!(true);
    case.foreign(&object).await;
    is_suspended(&case).await;
    let other = case.sibling();
    other.install(&[case.config_map("other", json!({"x": "1"}))]).await;
    assert!(case.get(&case.config_map_target("a")).await.is_none());
    suspend(&case, false).await;
    case.installed().await;
    case.until_owned(&case.config_map_target("a")).await;
}

/// Health is news of the cluster, not a write into it.
#[tokio::test]
async fn a_suspended_deployment_goes_on_reporting_health() {
    let case = Case::new("suspend-health").await;
    let (crd, group) = definition("suspend");
    let object = gadget(&group, &case.namespace, "g", 1);
    case.install(&[crd, object.clone()]).await;
    case.ready().await;
    suspend(&case, true).await;
    is_suspended(&case).await;
    let target = verbs::Target::of(&object).unwrap();
    let status =
        json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "ill"}]}});
    case.edit_sub("status", "operator", &target, status).await;
    until(&case.client, &case.name, Expected::is_false("Healthy", "Unhealthy").saying("ill")).await;
    suspend(&case, false).await;
}

#[tokio::test]
async fn a_suspended_deployment_stays_so_over_a_restart_and_goes_when_it_is_deleted() {
    let alone = worlds::alone().await;
    let case = alone.case("suspend-restart").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    suspend(&case, true).await;
    is_suspended(&case).await;
    alone.stop().await;
    case.edit("user", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    alone.start().await;
    let other = case.sibling();
    other.install(&[case.config_map("other", json!({"x": "1"}))]).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "drift");
    case.delete(&case.target()).await;
    case.until_gone(&case.config_map_target("a")).await;
}

#[tokio::test]
async fn a_requested_reconcile_is_echoed_and_ends_a_back_off() {
    let case = Case::new("request").await;
    let (crd, group) = definition("request");
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), crd, gadget(&group, &case.namespace, "bad", 0)]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    let target = case.config_map_target("a");
    let before = case.get(&target).await.unwrap().metadata.resource_version;
    for request in ["2026-01-01T00:00:00Z", "again"] {
        case.edit("user", &case.target(), json!({"metadata": {"annotations": {REQUESTED: request}}})).await;
        case.until_value(&case.target(), "/status/lastHandledReconcileAt", &json!(request)).await;
    }
    let after = case.get(&target).await.unwrap();
    assert_ne!(after.metadata.resource_version, before, "it was tried again, there and back");
    assert_eq!(after.data["data"]["x"], "1");
}

#[tokio::test]
async fn a_requested_reconcile_of_what_is_well_writes_nothing() {
    let case = Case::new("request-well").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.ready().await;
    let before = case.get(&case.config_map_target("a")).await.unwrap().metadata.resource_version;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {REQUESTED: "now"}}})).await;
    case.until_value(&case.target(), "/status/lastHandledReconcileAt", &json!("now")).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().metadata.resource_version, before);
}

/// Whoever moves away from a controller suspends, orphans, waits and deletes.
#[tokio::test]
async fn a_suspended_deployment_is_not_ready_before_its_objects_have_its_deletion_policy() {
    let case = Case::new("suspend-policy").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.ready().await;
    suspend(&case, true).await;
    is_suspended(&case).await;
    case.edit("user", &case.target(), json!({"spec": {"deletionPolicy": "Orphan"}})).await;
    let told = Expected::is_false("Ready", "Suspended").saying("spec.deletionPolicy");
    until(&case.client, &case.name, told).await;
    let owners = case.get(&case.config_map_target("a")).await.unwrap().metadata.owner_references;
    assert!(owners.is_some_and(|owners| !owners.is_empty()), "nothing is written while it is suspended");
    suspend(&case, false).await;
    case.ready().await;
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    case.stays(&case.config_map_target("a"), std::time::Duration::from_secs(2)).await;
}

/// Not at the end of a phase, which may have thousands of objects.
#[tokio::test]
async fn a_deployment_that_is_suspended_in_the_middle_of_a_phase_stops_there() {
    let case = Case::new("suspend-middle").await;
    let hook = Hook::start(&case, &[["", "configmaps"]], |_| Verdict::AtGate).await;
    case.create(&case.config_maps(100, "1")).await;
    hook.until_at_gate().await;
    suspend(&case, true).await;
    // Another deployment shows that the watch is past it: the reconcile of this one stands at the gate.
    let other = case.sibling();
    let object = rukpak_tests::world::deployment(&other.name, rukpak_tests::world::image(&other.push("v1", &[]).await));
    other.foreign(&object).await;
    let seen = |object: Option<&DynamicObject>| object.is_some_and(|object| !object.data["status"].is_null());
    other.until(&other.target(), "a status", seen).await;
    hook.open_gate();
    is_suspended(&case).await;
    let judged = hook.judged();
    assert!(judged < 50, "{judged} of 100 objects were written");
    suspend(&case, false).await;
    case.ready().await;
    hook.end().await;
}
