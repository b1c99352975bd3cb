//! The way back from a failed upgrade: the old version is whole again, replicas, one-way fields and converted objects included.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::conversion::{Converter, version};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

/// What makes an upgrade fail after its first writes: an object that its own, new definition refuses.
fn poison(case: &Case<'_>) -> [Value; 2] {
    let (crd, group) = definition("poison");
    let object = gadget(&group, &case.namespace, "poison", 0);
    [crd, object]
}

/// The upgrade has failed and the way back has ended well.
async fn is_back(case: &Case<'_>) {
    let message = case.refused("UpgradeFailed", "spec.size").await;
    assert!(!message.contains("putting the previous version back failed"), "{message}");
    let status = case.status().await;
    for pointer in ["/inventory/pendingDigest", "/inventory/pending"] {
        assert!(status.pointer(pointer).is_none(), "{pointer} has ended: {status:#}");
    }
}

#[tokio::test]
async fn the_way_back_restores_the_old_replicas() {
    let case = Case::new("replicas").await;
    case.install(&[case.workload("w", 2)]).await;
    let [crd, object] = poison(&case);
    case.change("v2", &[case.workload("w", 0), crd, object]).await;
    is_back(&case).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["replicas"], 2, "the manifest of the old version says so");
}

#[tokio::test]
async fn the_way_back_restores_the_old_replicas_of_a_custom_resource() {
    let case = Case::new("replicas-cr").await;
    let (mut kind, group) = definition("scaled");
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"] =
        json!({"type": "integer"});
    case.foreign(&kind).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let scaled = |replicas: i64| {
        let mut object = gadget(&group, &case.namespace, "scaled", 1);
        object["spec"]["replicas"] = json!(replicas);
        object
    };
    case.install(&[scaled(2)]).await;
    let [crd, object] = poison(&case);
    case.change("v2", &[scaled(0), crd, object]).await;
    is_back(&case).await;
    let live = case.get(&Target::of(&scaled(2)).unwrap()).await.unwrap();
    assert_eq!(live.data["spec"]["replicas"], 2, "the manifest of the old version says so");
    case.delete(&case.target()).await;
    case.until_gone(&Target::of(&scaled(2)).unwrap()).await;
    case.delete(&definition_target(&group)).await;
}

#[tokio::test]
async fn a_scale_by_hand_outlives_an_upgrade_that_fails() {
    let case = Case::new("scaled-back").await;
    case.install(&[case.workload("w", 1)]).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    case.edit_sub("scale", "autoscaler", &target, json!({"spec": {"replicas": 3}})).await;
    let [crd, object] = poison(&case);
    case.change("v2", &[case.workload("w", 1), crd, object]).await;
    is_back(&case).await;
    assert_eq!(
        case.get(&target).await.unwrap().data["spec"]["replicas"],
        3,
        "neither version asked for another number"
    );
}

#[tokio::test]
async fn what_a_failed_upgrade_made_immutable_comes_back() {
    let case = Case::new("immutable").await;
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": case.namespace},
            "stringData": {"x": value}})
    };
    case.install(&[case.config_map("a", json!({"x": "1"})), secret("1"), case.workload("w", 0)]).await;
    let mut map = case.config_map("a", json!({"x": "2"}));
    map["immutable"] = json!(true);
    let mut hidden = secret("2");
    hidden["immutable"] = json!(true);
    let mut workload = case.workload("w", 0);
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/none:2");
    let [crd, object] = poison(&case);
    case.change("v2", &[map, hidden, workload, crd, object]).await;
    is_back(&case).await;
    let a = case.until_owned(&case.config_map_target("a")).await;
    assert_eq!((&a.data["data"]["x"], &a.data["immutable"]), (&json!("1"), &Value::Null));
    let s = case.until_owned(&case.in_namespace("v1", "Secret", "s")).await;
    assert_eq!((&s.data["data"]["x"], &s.data["immutable"]), (&json!("MQ=="), &Value::Null));
    let w = case.get(&case.in_namespace("apps/v1", "Deployment", "w")).await.unwrap();
    assert_eq!(w.data["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/none:1", "all of it is back");
    // It is guarded as before.
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
}

/// What no request takes back is named, and keeps nothing else from going back.
#[tokio::test]
async fn a_claim_that_a_failed_upgrade_enlarged_is_named_and_the_rest_comes_back() {
    let case = Case::new("enlarged").await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": case.name},
        "provisioner": "engine.test/none", "allowVolumeExpansion": true});
    case.foreign(&class).await;
    let claim = |size: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": case.namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": case.name,
                "resources": {"requests": {"storage": size}}}})
    };
    case.install(&[claim("1Gi"), case.workload("w", 0), case.config_map("a", json!({"x": "1"}))]).await;
    let target = case.in_namespace("v1", "PersistentVolumeClaim", "c");
    // Only what is bound may grow, and it never shrinks to what it had.
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": case.name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": case.name,
        "hostPath": {"path": "/nowhere"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": case.namespace, "name": "c"}}});
    case.foreign(&volume).await;
    case.until_value(&target, "/status/phase", &json!("Bound")).await;
    let mut workload = case.workload("w", 0);
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/none:2");
    let [crd, object] = poison(&case);
    case.change("v2", &[claim("2Gi"), workload, case.config_map("a", json!({"x": "2"})), crd, object]).await;
    let message = case.refused("UpgradeFailed", "PersistentVolumeClaim \"c\"").await;
    assert!(message.contains("spec.size"), "why it failed is said as well: {message}");
    let image = "/spec/template/spec/containers/0/image";
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    case.until_value(&workload, image, &json!("example.com/none:1")).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["resources"]["requests"]["storage"], "2Gi");
    let status = case.status().await;
    assert!(
        status["inventory"].get("pending").is_none() && status["inventory"].get("pendingDigest").is_none(),
        "{status:#}"
    );
    case.delete(&case.target()).await;
    for object in [volume, class] {
        case.delete(&Target::of(&object).unwrap()).await;
    }
}

/// An administrator enlarges a volume; the next version of the bundle knows nothing of it.
#[tokio::test]
async fn a_claim_that_was_enlarged_does_not_block_an_upgrade_that_changes_its_labels() {
    let case = Case::new("grown").await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": case.name},
        "provisioner": "engine.test/none", "allowVolumeExpansion": true});
    case.foreign(&class).await;
    let claim = |version: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": case.namespace, "labels": {"version": version}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": case.name,
                "resources": {"requests": {"storage": "1Gi"}}}})
    };
    case.install(&[claim("1")]).await;
    let target = case.in_namespace("v1", "PersistentVolumeClaim", "c");
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": case.name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "storageClassName": case.name,
        "hostPath": {"path": "/nowhere"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": case.namespace, "name": "c"}}});
    case.foreign(&volume).await;
    case.until_value(&target, "/status/capacity/storage", &json!("2Gi")).await;
    case.edit("administrator", &target, json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})).await;
    case.change("v2", &[claim("2")]).await;
    let is_upgraded = |object: &DynamicObject| object.labels().get("version").is_some_and(|version| version == "2");
    case.until(&target, "the label of version 2", |object| object.is_some_and(is_upgraded)).await;
    case.installed().await;
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["resources"]["requests"]["storage"], "2Gi");
    case.delete(&case.target()).await;
    for object in [volume, class] {
        case.delete(&Target::of(&object).unwrap()).await;
    }
}

/// Objects that were written while the new definition stood are stored as `v2`: without its conversion they would be served as `v1`
/// by name alone, and lose what only `v2` has.
#[tokio::test]
async fn the_way_back_keeps_the_conversion_of_stored_versions() {
    let case = Case::in_world(worlds::troubled().await, "conversion").await;
    let converter = Converter::start();
    let (new, group) = converter.definition("conversion", "v2");
    let mut old = new.clone();
    old["spec"]["versions"] = json!([version("v1", true)]);
    old["spec"].as_object_mut().unwrap().remove("conversion");
    case.install(&[old, case.config_map("a", json!({"x": "1"}))]).await;
    // Definitions come before ServiceAccounts: while this one is kept waiting, the new definition stands.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gate", "namespace": case.namespace}});
    let hook = Hook::start(&case, &[["", "serviceaccounts"]], |_| Verdict::AtGate).await;
    let bad = gadget(&group, &case.namespace, "bad", 0);
    case.change("v2", &[new, account, bad, case.config_map("a", json!({"x": "2"}))]).await;
    hook.until_at_gate().await;
    let (v1, v2) = (format!("{group}/v1"), format!("{group}/v2"));
    verbs::await_served(&case.client, &v2, "Gadget", SOON).await.unwrap();
    let object = json!({"apiVersion": v2, "kind": "Gadget", "metadata": {"name": "precious", "namespace": case.namespace},
        "spec": {"size": 1, "tint": "red"}});
    case.foreign(&object).await;
    hook.open_gate();
    is_back(&case).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1");
    let live = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(live.data["spec"]["conversion"]["strategy"], "Webhook", "objects of v2 are stored");
    let precious = case.in_namespace(&v1, "Gadget", "precious");
    assert_eq!(case.get(&precious).await.unwrap().data["spec"], json!({"size": 1, "colour": "red"}));
    case.edit("user", &precious, json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    assert_eq!(case.get(&precious).await.unwrap().data["spec"]["colour"], "red", "a write loses nothing");
    hook.end().await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}
