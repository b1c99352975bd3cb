//! `spec.deletionPolicy`, and a deletion that explains itself.

use kube::api::{DeleteParams, DynamicObject};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::{SOON, deployment, image};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::worlds::{self, until_collected};

/// Creates the deployment with a policy, and waits until it is installed.
pub async fn install_with(case: &Case<'_>, policy: &str, objects: &[Value]) {
    let reference = case.push("v1", objects).await;
    let mut object = deployment(&case.name, image(&reference));
    object["spec"]["deletionPolicy"] = json!(policy);
    verbs::create(&case.client, &object).await.expect("the API server agrees");
    case.installed().await;
}

/// Whether garbage collection would take it.
fn is_owned_by(object: &DynamicObject, uid: &str) -> bool {
    object.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

async fn remove(case: &Case<'_>) {
    let uid = case.uid().await;
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    until_collected(case, &case.name, &uid).await;
}

#[tokio::test]
async fn objects_outlive_a_deployment_whose_policy_is_orphan_and_come_back_to_the_next() {
    let case = Case::new("orphan-policy").await;
    let objects = [case.config_map("a", json!({"x": "1"})), case.workload("w", 0)];
    install_with(&case, "Orphan", &objects).await;
    let uid = case.uid().await;
    let target = case.config_map_target("a");
    let before = case.get(&target).await.unwrap();
    assert!(!is_owned_by(&before, &uid), "{:?}", before.metadata.owner_references);
    assert_eq!(before.metadata.labels.as_ref().unwrap()["core.rukpak.io/owner-name"], case.name);
    // It is guarded and pruned as any other.
    case.edit("intruder", &target, json!({"data": {"x": "2"}})).await;
    case.until_value(&target, "/data/x", &json!("1")).await;
    case.pivot("v2", &objects[..1]).await;
    case.until_gone(&case.in_namespace("apps/v1", "Deployment", "w")).await;
    remove(&case).await;
    assert_eq!(case.get(&target).await.expect("it outlives it").metadata.uid, before.metadata.uid);
    install_with(&case, "Orphan", &objects).await;
    assert_eq!(case.get(&target).await.unwrap().metadata.uid, before.metadata.uid, "taken back");
}

#[tokio::test]
async fn definitions_alone_outlive_a_deployment_whose_policy_keeps_them() {
    let case = Case::new("keep-crds").await;
    let (crd, group) = definition("keep");
    install_with(&case, "KeepCRDs", &[crd, case.config_map("a", json!({"x": "1"}))]).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let precious = gadget(&group, &case.namespace, "precious", 1);
    case.foreign(&precious).await;
    let target = definition_target(&group);
    let before = case.get(&target).await.unwrap();
    remove(&case).await;
    case.until_gone(&case.config_map_target("a")).await;
    assert_eq!(case.get(&target).await.expect("it is kept").metadata.uid, before.metadata.uid);
    assert!(case.get(&Target::of(&precious).unwrap()).await.is_some(), "and so are its instances");
    case.delete(&target).await;
}

/// The policy counts that the spec has when it is deleted, whatever it was when the objects were made.
#[tokio::test]
async fn a_policy_that_changes_changes_what_outlives() {
    let case = Case::new("policy-changes").await;
    let objects = [case.config_map("a", json!({"x": "1"}))];
    install_with(&case, "Delete", &objects).await;
    let (uid, target) = (case.uid().await, case.config_map_target("a"));
    case.edit("user", &case.target(), json!({"spec": {"deletionPolicy": "Orphan"}})).await;
    case.until(&target, "its freedom", |object| object.is_some_and(|object| !is_owned_by(object, &uid))).await;
    case.edit("user", &case.target(), json!({"spec": {"deletionPolicy": "Delete"}})).await;
    case.until(&target, "its owner", |object| object.is_some_and(|object| is_owned_by(object, &uid))).await;
    case.delete(&case.target()).await;
    case.until_gone(&target).await;
}

#[tokio::test]
async fn a_policy_that_changes_while_the_controller_is_down_changes_what_outlives() {
    let alone = worlds::alone().await;
    let case = alone.case("policy-restart").await;
    install_with(&case, "Delete", &[case.config_map("a", json!({"x": "1"}))]).await;
    let (uid, target) = (case.uid().await, case.config_map_target("a"));
    for (policy, is_owned) in [("Orphan", false), ("Delete", true)] {
        alone.stop().await;
        case.edit("user", &case.target(), json!({"spec": {"deletionPolicy": policy}})).await;
        alone.start().await;
        let wanted = |object: &DynamicObject| is_owned_by(object, &uid) == is_owned;
        case.until(&target, policy, |object| object.is_some_and(wanted)).await;
    }
}

#[tokio::test]
async fn a_policy_that_does_not_exist_is_refused() {
    let case = Case::new("policy-none").await;
    let reference = case.push("v1", &[case.config_map("a", json!({}))]).await;
    let mut object = deployment(&case.name, image(&reference));
    object["spec"]["deletionPolicy"] = json!("Perhaps");
    let denial = verbs::create_expecting_denial(&case.client, &object).await.unwrap();
    assert!(denial.message.contains("deletionPolicy"), "{}", denial.message);
}

/// What a foreground deletion waits for is named: object and finalizer.
#[tokio::test]
async fn a_deletion_names_the_object_and_the_finalizer_that_it_waits_for() {
    let case = Case::new("explains").await;
    case.install(&[case.config_map("held", json!({})), case.config_map("free", json!({}))]).await;
    let held = case.config_map_target("held");
    case.edit("user", &held, json!({"metadata": {"finalizers": ["engine.test/hold"]}})).await;
    let api = case.target().api(&case.client).await.unwrap();
    api.delete(&case.name, &DeleteParams::foreground()).await.unwrap();
    let explained = |object: &DynamicObject| {
        verbs::condition(object, "Deleting").is_some_and(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            condition["status"] == "True"
                && message.contains("\"held\"")
                && message.contains("engine.test/hold (set by \"user\")")
        })
    };
    case.until(&case.target(), "the explanation", |object| object.is_some_and(explained)).await;
    case.edit("user", &held, json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&held).await;
    case.until_gone(&case.target()).await;
}
