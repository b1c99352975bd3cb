//! What others have on an object stays theirs: fields, finalizers, owners.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{SOON, deployment};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};

/// Allows that the deployment takes the object over.
async fn allow_adoption(case: &Case<'_>, target: &Target) {
    let annotation = json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": case.name}}});
    case.edit("user", target, annotation).await;
}

/// Operators made with kubebuilder are called "manager", as upstream's Helm client was once.
#[tokio::test]
async fn an_adopted_object_keeps_what_its_operator_wrote() {
    let case = Case::new("operated").await;
    let (mut crd, group) = definition("operated");
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["volume"] = json!({"type": "string"});
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let object = gadget(&group, &case.namespace, "precious", 1);
    case.foreign(&object).await;
    let target = Target::of(&object).unwrap();
    let written = json!({"metadata": {"finalizers": ["example.com/volume"], "annotations": {"volume-id": "7"}},
        "spec": {"volume": "v7", "size": 2}});
    case.edit("manager", &target, written).await;
    allow_adoption(&case, &target).await;

    case.install(&[object, case.config_map("a", json!({}))]).await;

    let after = case.until_owned(&target).await;
    assert_eq!(after.metadata.finalizers, Some(vec!["example.com/volume".to_owned()]), "its cleanup would be skipped");
    assert_eq!(after.metadata.annotations.as_ref().unwrap()["volume-id"], "7");
    assert_eq!(after.data["spec"], json!({"size": 1, "volume": "v7"}), "what the bundle declares is the bundle's");
    case.edit("manager", &target, json!({"metadata": {"finalizers": null}})).await;
    case.delete(&definition_target(&group)).await;
}

/// `kubectl apply` without `--server-side` notes in an annotation what it wrote.
#[tokio::test]
async fn a_field_of_kubectl_that_a_later_version_leaves_out_is_removed() {
    let case = Case::new("kubectl").await;
    let target = case.config_map_target("a");
    let mut object = case.config_map("a", json!({"old": "1", "own": "1", "never-ours": "1"}));
    let last = object.to_string();
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let new: DynamicObject = serde_json::from_value(object).unwrap();
    let by_kubectl = kube::api::PostParams {
        field_manager: Some("kubectl-client-side-apply".to_owned()),
        ..kube::api::PostParams::default()
    };
    target.api(&case.client).await.unwrap().create(&by_kubectl, &new).await.unwrap();
    allow_adoption(&case, &target).await;
    case.install(&[case.config_map("a", json!({"old": "1", "own": "1"}))]).await;
    case.until_owned(&target).await;

    case.pivot("v2", &[case.config_map("a", json!({"own": "2"}))]).await;

    let after = case.get(&target).await.unwrap();
    assert_eq!(after.data["data"], json!({"own": "2", "never-ours": "1"}));
}

/// The mark of what outlives its deployment is an annotation, and operators hand annotations down to what they make.
#[tokio::test]
async fn an_object_with_a_controller_of_its_own_is_not_pruned_whatever_it_copied() {
    let case = Case::new("copied").await;
    let reference = case.push("v1", &[case.config_map("a", json!({})), case.config_map("b", json!({}))]).await;
    let mut deployment = deployment(&case.name, rukpak_tests::world::image(&reference));
    deployment["spec"]["deletionPolicy"] = json!("Orphan");
    verbs::create(&case.client, &deployment).await.unwrap();
    case.installed().await;
    let original = case.get(&case.config_map_target("a")).await.unwrap();
    let owner = case.foreign(&case.config_map("controller", json!({}))).await;
    let mut copy = case.config_map("copy", json!({"mine": "yes"}));
    copy["metadata"]["labels"] = json!(original.metadata.labels);
    copy["metadata"]["annotations"] = json!(original.metadata.annotations);
    copy["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "controller",
        "uid": owner.metadata.uid, "controller": true}]);
    let copy = case.foreign(&copy).await;

    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    case.until_gone(&case.config_map_target("b")).await;

    let after = case.get(&case.config_map_target("copy")).await.expect("it is its controller's");
    assert_eq!(after.metadata.resource_version, copy.metadata.resource_version);
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_shared_namespace_that_leaves_a_bundle_goes_over_to_the_other_deployment() {
    let (one, two) = (Case::new("sharer").await, Case::new("sharer").await);
    let name = unique_name("shared-namespace");
    let target = Target::cluster("v1", "Namespace", &name);
    one.install(&[namespace(&name), one.config_map("a", json!({}))]).await;
    two.install(&[namespace(&name), two.config_map("a", json!({}))]).await;
    let before = one.get(&target).await.unwrap();

    one.pivot("v2", &[one.config_map("a", json!({}))]).await;

    let after = two.until_owned(&target).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert!(after.metadata.deletion_timestamp.is_none(), "it is being deleted under the other deployment");
    assert_eq!(one.status().await["inventory"].get("released"), None, "it has an owner");
    one.ready().await;
    two.ready().await;
    // It comes back to nobody but its owner.
    one.pivot("v3", &[namespace(&name), one.config_map("a", json!({}))]).await;
    assert!(is_owned(&two.get(&target).await.unwrap(), &two.name, &two.uid().await));
    two.delete(&two.target()).await;
    one.until_owned(&target).await;
    one.delete(&one.target()).await;
    one.until_gone(&target).await;
}

#[tokio::test]
async fn a_namespace_of_another_deployment_that_is_deleted_by_hand_comes_back() {
    let (one, two) = (Case::new("sharer").await, Case::new("sharer").await);
    let name = unique_name("used-namespace");
    let target = Target::cluster("v1", "Namespace", &name);
    one.install(&[namespace(&name), one.config_map("a", json!({}))]).await;
    two.install(&[namespace(&name), two.config_map("a", json!({}))]).await;
    let before = one.get(&target).await.unwrap().metadata.uid;
    // Nobody but the second is left to bring it back.
    one.edit("user", &one.target(), json!({"spec": {"suspend": true}})).await;
    rukpak_tests::world::until(&one.client, &one.name, verbs::Expected::is_true("Suspended", "Suspended")).await;

    two.delete(&target).await;

    let anew = |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.uid != before);
    two.until(&target, "another one", anew).await;
}
