//! In which order things leave, and what is waited for.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use serde_json::json;

use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

const PRUNE_FAILED: &str = "PruneFailed";

/// Whoever deletes a definition deletes its instances, past every admission.
#[tokio::test]
async fn a_definition_stays_as_long_as_the_deletion_of_an_instance_is_refused() {
    let case = Case::new("refused-end").await;
    let (crd, group) = definition("refused-end");
    let object = gadget(&group, &case.namespace, "precious", 1);
    let a = case.config_map("a", json!({}));
    case.install(&[crd, object.clone(), a.clone()]).await;
    let hook = Hook::start(&case, &[[&group, "gadgets"]], |request| match request.operation.as_str() {
        "DELETE" => Verdict::Deny("it is precious".to_owned()),
        _ => Verdict::Allow,
    })
    .await;

    case.change("v2", &[a]).await;

    let told = Expected::is_false("Ready", PRUNE_FAILED).saying("it is precious");
    until(&case.client, &case.name, told).await;
    let target = definition_target(&group);
    let is_there =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.deletion_timestamp.is_none());
    assert!(is_there(case.get(&target).await.as_ref()), "the definition is deleted, and its instances with it");
    assert!(is_there(case.get(&Target::of(&object).unwrap()).await.as_ref()));
    hook.end().await;
    case.until_gone(&target).await;
    case.ready().await;
}

/// The other phases may take their time: what is there by then counts, and not what was there before.
#[tokio::test]
async fn a_definition_stays_if_an_instance_is_made_while_the_others_leave() {
    let case = Case::new("late").await;
    let (crd, group) = definition("late");
    let a = case.config_map("a", json!({}));
    case.install(&[crd, case.config_map("gone", json!({})), a.clone()]).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let hook = Hook::start(&case, &[["", "configmaps"]], |request| match request.operation.as_str() {
        "DELETE" => Verdict::AtGate,
        _ => Verdict::Allow,
    })
    .await;
    case.change("v2", &[a]).await;
    hook.until_at_gate().await;
    let late = gadget(&group, &case.namespace, "late", 1);
    case.foreign(&late).await;
    hook.end().await;

    case.until_gone(&case.config_map_target("gone")).await;
    let left = Expected::is_true("Ready", "Succeeded").saying("it has instances");
    until(&case.client, &case.name, left).await;

    assert!(case.get(&Target::of(&late).unwrap()).await.is_some());
    let kept = case.get(&definition_target(&group)).await.expect("it has an instance");
    assert!(!is_owned(&kept, &case.name, &case.uid().await));
    case.delete(&definition_target(&group)).await;
}

/// A finalizer is the operator's: without it nobody takes it off.
#[tokio::test]
async fn an_operator_stays_until_its_resources_are_gone() {
    let case = Case::new("finalized").await;
    let (crd, group) = definition("finalized");
    let object = gadget(&group, &case.namespace, "held", 1);
    let (held, operator) = (Target::of(&object).unwrap(), case.in_namespace("apps/v1", "Deployment", "operator"));
    let a = case.config_map("a", json!({}));
    let v1 = [crd, object, case.workload("operator", 0), a.clone()];
    case.install(&v1).await;
    case.edit("operator", &held, json!({"metadata": {"finalizers": ["engine.test/held"]}})).await;

    case.change("v2", std::slice::from_ref(&a)).await;

    let waits = "waits for its finalizers: engine.test/held (set by \"operator\")";
    until(&case.client, &case.name, Expected::is_false("Ready", PRUNE_FAILED).saying(waits)).await;
    let operates = case.get(&operator).await.expect("who takes the finalizer off is gone");
    assert!(operates.metadata.deletion_timestamp.is_none());
    assert!(case.get(&definition_target(&group)).await.unwrap().metadata.deletion_timestamp.is_none());

    case.edit("operator", &held, json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&operator).await;
    case.until_gone(&definition_target(&group)).await;
    case.ready().await;
}

/// The same after a restart in the middle.
#[tokio::test]
async fn an_operator_stays_until_its_resources_are_gone_though_the_controller_restarts() {
    let alone = worlds::alone().await;
    let case = alone.case("finalized-restart").await;
    let (crd, group) = definition("finalized");
    let object = gadget(&group, &case.namespace, "held", 1);
    let (held, operator) = (Target::of(&object).unwrap(), case.in_namespace("apps/v1", "Deployment", "operator"));
    let a = case.config_map("a", json!({}));
    case.install(&[crd, object, case.workload("operator", 0), a.clone()]).await;
    case.edit("operator", &held, json!({"metadata": {"finalizers": ["engine.test/held"]}})).await;
    case.change("v2", std::slice::from_ref(&a)).await;
    let waits = Expected::is_false("Ready", PRUNE_FAILED).saying("engine.test/held");
    until(&case.client, &case.name, waits).await;
    alone.stop().await;
    alone.start().await;

    case.edit("user", &case.target(), json!({"metadata": {"annotations": {"note": "1"}}})).await;
    until(&case.client, &case.name, waits).await;
    assert!(case.get(&operator).await.is_some());

    case.edit("operator", &held, json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&operator).await;
    case.until_gone(&definition_target(&group)).await;
    case.ready().await;
}

/// What takes the finalizers off may be in the new version.
#[tokio::test]
async fn a_definition_that_is_being_deleted_bars_the_way_for_its_own_resources_alone() {
    let case = Case::new("ending").await;
    let (crd, group) = definition("ending");
    let object = gadget(&group, &case.namespace, "held", 1);
    let held = Target::of(&object).unwrap();
    let v1 = [crd, object];
    case.install(&v1).await;
    case.edit("operator", &held, json!({"metadata": {"finalizers": ["engine.test/held"]}})).await;
    let old = case.get(&definition_target(&group)).await.unwrap().metadata.uid;
    case.delete(&definition_target(&group)).await;
    let v2 = [v1[0].clone(), v1[1].clone(), case.workload("operator", 0)];

    case.change("v2", &v2).await;

    case.until_owned(&case.in_namespace("apps/v1", "Deployment", "operator")).await;
    assert_eq!(case.get(&definition_target(&group)).await.unwrap().metadata.uid, old, "it waits for its resource");
    case.edit("operator", &held, json!({"metadata": {"finalizers": null}})).await;
    let anew = |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.uid != old);
    case.until(&definition_target(&group), "a new definition", anew).await;
    case.ready().await;
    case.until_owned(&held).await;
}

/// A Service that leaves keeps its address until what takes its place works.
#[tokio::test]
async fn what_leaves_stays_until_the_new_version_is_healthy() {
    let case = Case::new("healthy-first").await;
    let a = case.config_map("a", json!({}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": case.namespace},
        "spec": {"selector": {"app": "w"}, "ports": [{"port": 80}]}});
    case.install(&[service, a.clone()]).await;
    let target = case.in_namespace("v1", "Service", "s");
    let address = case.get(&target).await.unwrap().data["spec"]["clusterIP"].clone();

    case.change("v2", &[a.clone(), case.workload("w", 1)]).await;
    until(&case.client, &case.name, Expected::is_false("Healthy", "Unhealthy").saying("Available: 0/1")).await;
    case.installed().await;
    let kept = case.get(&target).await.expect("the new version is not healthy");
    assert_eq!((kept.metadata.deletion_timestamp, &kept.data["spec"]["clusterIP"]), (None, &address));

    case.pivot("v3", &[a, case.workload("w", 0)]).await;
    case.until_gone(&target).await;
    case.ready().await;
}

/// It is told as long as it is there, and no longer.
#[tokio::test]
async fn what_was_left_in_the_cluster_and_deleted_by_hand_is_not_told_any_more() {
    let case = Case::new("left").await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": case.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let target = Target::of(&claim).unwrap();
    case.install(&[claim, case.config_map("a", json!({}))]).await;
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let told = Expected::is_true("Ready", "Succeeded").saying("left in the cluster");
    until(&case.client, &case.name, told).await;
    case.delete(&target).await;
    case.until_gone(&target).await;

    case.edit(
        "user",
        &case.target(),
        json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": "1"}}}),
    )
    .await;

    let is_over = |object: &DynamicObject| {
        Expected::is_true("Ready", "Succeeded").met_by(object)
            && !object.data["status"].to_string().contains("left in the cluster")
            && object.data["status"]["inventory"].get("released").is_none()
    };
    case.until(&case.target(), "nothing left", |object| object.is_some_and(is_over)).await;
}
