//! What left the bundle is neither forgotten nor let go in silence.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

use crate::engine::case::{Case, is_owned};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

fn claim(case: &Case<'_>) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": case.namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Any edit of the deployment during the upgrade makes the last write of its status a conflict.
#[tokio::test]
async fn what_was_released_is_told_though_the_deployment_was_edited_meanwhile() {
    let case = Case::new("released").await;
    case.install(&[claim(&case), case.config_map("a", json!({"x": "1"}))]).await;
    let hook = Hook::start(&case, &[["", "configmaps"]], |_| Verdict::AtGate).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    // What is pruned goes after everything is applied.
    hook.until_at_gate().await;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {"note": "1"}}})).await;
    hook.end().await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    let target = Target::of(&claim(&case)).unwrap();
    let is_free =
        |object: &DynamicObject| object.metadata.owner_references.as_ref().is_none_or(std::vec::Vec::is_empty);
    case.until(&target, "its release", |object| object.is_some_and(is_free)).await;
    let is_told = |object: &DynamicObject| {
        let status = &object.data["status"];
        status["inventory"]["released"].to_string().contains("data")
            && verbs::condition(object, "Installed").is_some_and(|condition| condition["status"] == "True")
    };
    case.until(&case.target(), "the released claim in the status", |object| object.is_some_and(is_told)).await;
}

/// The labels are how objects are found; the installed release is how they are known.
#[tokio::test]
async fn an_object_whose_labels_were_stripped_while_the_controller_was_down_is_pruned() {
    let alone = worlds::alone().await;
    let case = alone.case("labels-stripped").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    alone.stop().await;
    let target = case.config_map_target("a");
    case.edit("intruder", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}})).await;
    case.change("v2", &[case.config_map("b", json!({"x": "2"}))]).await;
    alone.start().await;
    case.until_value(&case.config_map_target("b"), "/data/x", &json!("2")).await;
    case.ready().await;
    assert!(case.get(&target).await.is_none(), "it is forgotten, with an owner reference to what is still there");
}

/// The same where the new version is ready when the controller starts: nothing puts the labels back before it is installed.
#[tokio::test]
async fn an_object_whose_labels_were_stripped_in_the_middle_of_an_upgrade_is_pruned() {
    let alone = worlds::alone().await;
    let case = alone.case("labels-half").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    let hook = Hook::start(&case, &[["", "configmaps"]], |_| Verdict::AtGate).await;
    case.change("v2", &[case.config_map("b", json!({"x": "2"}))]).await;
    hook.until_at_gate().await;
    alone.kill().await;
    hook.end().await;
    let target = case.config_map_target("a");
    case.edit("intruder", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}})).await;
    alone.start().await;
    case.until_value(&case.config_map_target("b"), "/data/x", &json!("2")).await;
    case.ready().await;
    assert!(case.get(&target).await.is_none(), "it is forgotten, with an owner reference to what is still there");
}

/// Without the owner reference it is no longer ours to delete.
#[tokio::test]
async fn an_object_that_was_disowned_while_the_controller_was_down_is_left() {
    let alone = worlds::alone().await;
    let case = alone.case("disowned").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    alone.stop().await;
    let target = case.config_map_target("a");
    let strip = json!({"metadata": {"ownerReferences": null, "labels": {
        "core.rukpak.io/owner-kind": null, "core.rukpak.io/owner-name": null}}});
    case.edit("owner", &target, strip).await;
    let before = case.get(&target).await.unwrap();
    case.change("v2", &[case.config_map("b", json!({"x": "2"}))]).await;
    alone.start().await;
    case.until_value(&case.config_map_target("b"), "/data/x", &json!("2")).await;
    case.ready().await;
    let after = case.get(&target).await.expect("it was taken out of our hands");
    assert_eq!(after.metadata.uid, before.metadata.uid);
}

/// Nor to take back: that is said, with the way out, and all else is guarded.
#[tokio::test]
async fn an_object_that_lost_its_owner_while_the_controller_was_down_keeps_nothing_else_from_being_guarded() {
    let alone = worlds::alone().await;
    let case = alone.case("lost").await;
    // The account is applied in an earlier phase than the others.
    let account = case.in_namespace("v1", "ServiceAccount", "robot");
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": case.namespace}});
    case.install(&[robot, case.config_map("changed", json!({"x": "1"})), case.config_map("gone", json!({"x": "1"}))])
        .await;
    alone.stop().await;
    case.edit("owner", &account, json!({"metadata": {"ownerReferences": null}})).await;
    let (changed, gone) = (case.config_map_target("changed"), case.config_map_target("gone"));
    case.edit("user", &changed, json!({"data": {"x": "2"}})).await;
    case.delete(&gone).await;
    alone.start().await;
    case.until_value(&changed, "/data/x", &json!("1")).await;
    case.until_value(&gone, "/data/x", &json!("1")).await;
    case.refused("ReconcileFailed", "ServiceAccount \"robot\"").await;
    let adopt = json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": case.name}}});
    case.edit("owner", &account, adopt).await;
    case.until_owned(&account).await;
    case.ready().await;
}

/// `helm.sh/resource-policy: keep` lets an object outlive its deployment, and come back to the next one of that name.
#[tokio::test]
async fn a_kept_object_is_taken_back_by_the_deployment_made_anew() {
    let case = Case::new("kept-back").await;
    let mut kept = case.config_map("kept", json!({"x": "1"}));
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    let objects = [kept, case.config_map("a", json!({"x": "1"}))];
    case.install(&objects).await;
    let target = case.config_map_target("kept");
    let before = case.get(&target).await.unwrap();
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    case.until_gone(&case.config_map_target("a")).await;
    case.install(&objects).await;
    let after = case.get(&target).await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid, "taken back, not made anew");
    // And guarded again.
    case.edit("intruder", &target, json!({"data": {"x": "2"}})).await;
    case.until_value(&target, "/data/x", &json!("1")).await;
}

/// But not by one of another name, whose it never was.
#[tokio::test]
async fn a_kept_object_is_foreign_to_a_deployment_of_another_name() {
    let case = Case::new("kept-other").await;
    let mut kept = case.config_map("kept", json!({"x": "1"}));
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    case.install(std::slice::from_ref(&kept)).await;
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    let other = case.sibling();
    let target = case.config_map_target("kept");
    let before = case.get(&target).await.unwrap().metadata.resource_version;
    other.create(&[kept]).await;
    other.refused("InstallFailed", "already exists").await;
    let after = case.get(&target).await.unwrap();
    assert_eq!(after.metadata.resource_version, before);
    assert!(!is_owned(&after, &other.name, &other.uid().await));
}
