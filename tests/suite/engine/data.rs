//! Pruning loses no data.

use axum::http::{Method, StatusCode};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{Fault, Rule};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};
use crate::engine::worlds;

const ALLOW: &str = "core.rukpak.io/allow-deletion";

/// What the status says was left in the cluster, in the words of `Ready`.
async fn released(case: &Case<'_>) -> Vec<String> {
    let status = case.status().await;
    let objects = status["inventory"]["released"].as_array().cloned().unwrap_or_default();
    let line = |object: &Value| {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let place = match text("namespace").as_str() {
            "" => String::new(),
            namespace => format!(" in namespace {namespace:?}"),
        };
        format!(
            "{} {:?}{place}: {}; deleting it loses that: by hand, or before it leaves the bundle with the annotation {ALLOW}=\"true\"",
            text("kind"),
            text("name"),
            text("reason")
        )
    };
    objects.iter().map(line).collect()
}

async fn is_let_go(case: &Case<'_>, target: &Target) {
    let object = case.get(target).await.unwrap_or_else(|| panic!("{target} is gone"));
    assert!(object.metadata.deletion_timestamp.is_none(), "{target} is being deleted");
    assert!(object.metadata.owner_references.unwrap_or_default().is_empty(), "garbage collection would take {target}");
    let labels = object.metadata.labels.unwrap_or_default();
    assert!(!labels.keys().any(|key| key.starts_with("core.rukpak.io/owner")), "{labels:?}");
}

#[tokio::test]
async fn a_definition_with_instances_is_released() {
    let case = Case::new("instances").await;
    let (crd, group) = definition("instances");
    let a = case.config_map("a", json!({}));
    case.install(&[crd.clone(), a.clone()]).await;
    let instance = gadget(&group, &case.namespace, "precious", 1);
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.foreign(&instance).await;
    case.pivot("v2", std::slice::from_ref(&a)).await;
    let target = definition_target(&group);
    is_let_go(&case, &target).await;
    assert!(case.get(&Target::of(&instance).unwrap()).await.is_some());
    let line = format!(
        "CustomResourceDefinition \"gadgets.{group}\": it has instances, Gadget \"precious\" among them; deleting it loses that: by \
         hand, or before it leaves the bundle with the annotation {ALLOW}=\"true\""
    );
    assert_eq!(released(&case).await, std::slice::from_ref(&line));
    let ready = case.ready().await;
    let message = verbs::condition(&ready, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("left in the cluster, not owned any more: ") && message.contains(&line), "{message}");

    // The version that has it may come back and take it again.
    case.pivot("v3", &[crd, a]).await;
    let uid = case.uid().await;
    assert!(is_owned(&case.get(&target).await.unwrap(), &case.name, &uid));
    assert_eq!(released(&case).await, Vec::<String>::new());
    assert!(case.get(&Target::of(&instance).unwrap()).await.is_some());
    case.delete(&case.target()).await;
    case.until_gone(&target).await;
}

#[tokio::test]
async fn a_definition_without_instances_goes_and_so_does_one_that_may() {
    let case = Case::new("empty").await;
    let (empty, empty_group) = definition("empty");
    let (mut full, full_group) = definition("allowed");
    full["metadata"]["annotations"] = json!({ALLOW: "true"});
    let a = case.config_map("a", json!({}));
    case.install(&[empty, full, a.clone()]).await;
    verbs::await_served(&case.client, &format!("{full_group}/v1"), "Gadget", SOON).await.unwrap();
    case.foreign(&gadget(&full_group, &case.namespace, "g", 1)).await;
    case.pivot("v2", &[a]).await;
    case.until_gone(&definition_target(&empty_group)).await;
    case.until_gone(&definition_target(&full_group)).await;
    assert_eq!(released(&case).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_definition_goes_with_the_bundles_own_instances() {
    let case = Case::new("own").await;
    let (crd, group) = definition("own");
    let a = case.config_map("a", json!({}));
    case.install(&[crd, gadget(&group, &case.namespace, "g", 1), a.clone()]).await;
    case.pivot("v2", &[a]).await;
    case.until_gone(&definition_target(&group)).await;
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_namespace_goes_only_when_nothing_is_in_it() {
    let case = Case::new("spaces").await;
    let (full, empty) = (format!("{}-full", case.name), format!("{}-empty", case.name));
    let mut own = case.config_map("own", json!({}));
    own["metadata"]["namespace"] = json!(empty);
    let a = case.config_map("a", json!({}));
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": empty}});
    case.install(&[namespace(&full), namespace(&empty), own, account, a.clone()]).await;
    // The cluster deletes it with its ServiceAccount: it is nobody's data.
    let token = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {
        "name": "robot-token", "namespace": empty, "annotations": {"kubernetes.io/service-account.name": "robot"}}});
    case.foreign(&token).await;
    let precious = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "precious", "namespace": full}});
    case.foreign(&precious).await;
    case.pivot("v2", &[a]).await;
    case.until_gone(&Target::cluster("v1", "Namespace", &empty)).await;
    is_let_go(&case, &Target::cluster("v1", "Namespace", &full)).await;
    let lines = released(&case).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with(&format!("Namespace {full:?}: it is not empty: Secret \"precious\" is in it; ")),
        "{lines:?}"
    );
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    assert!(case.get(&Target::of(&precious).unwrap()).await.is_some());
    case.delete(&Target::cluster("v1", "Namespace", &full)).await;
}

/// A list that is refused for a moment is no reason to leave an object behind for good.
#[tokio::test]
async fn a_namespace_whose_contents_cannot_be_seen_for_a_moment_goes_all_the_same() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "unseen").await;
    let space = format!("{}-space", case.name);
    let a = case.config_map("a", json!({}));
    case.install(&[namespace(&space), a.clone()]).await;
    let turn = worlds::PROXY.lock().await;
    let lists = format!("/namespaces/{space}/");
    let refusal = Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, String::new());
    proxy.add(Rule::on(&lists, refusal).method(Method::GET).times(2));
    case.pivot("v2", &[a]).await;
    case.until_gone(&Target::cluster("v1", "Namespace", &space)).await;
    let asked = proxy.count(&lists);
    proxy.mend();
    drop(turn);
    assert!(asked > 2, "{asked} lists went through the proxy");
    assert_eq!(released(&case).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_claim_is_released_unless_it_may_go() {
    let case = Case::new("claims").await;
    let claim = |name: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": case.namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let a = case.config_map("a", json!({}));
    case.install(&[claim("kept"), claim("allowed"), a.clone()]).await;
    let allowed = case.in_namespace("v1", "PersistentVolumeClaim", "allowed");
    case.edit("user", &allowed, json!({"metadata": {"annotations": {ALLOW: "true"}}})).await;
    case.pivot("v2", std::slice::from_ref(&a)).await;
    case.until_gone(&allowed).await;
    let kept = case.in_namespace("v1", "PersistentVolumeClaim", "kept");
    is_let_go(&case, &kept).await;
    let lines = released(&case).await;
    let start = format!("PersistentVolumeClaim \"kept\" in namespace {:?}: its data would be lost; ", case.namespace);
    assert!(lines.len() == 1 && lines[0].starts_with(&start), "{lines:?}");
    // A failed pivot back does not make it less released; a good one takes it back.
    case.pivot("v3", &[claim("kept"), a]).await;
    case.until_owned(&kept).await;
    case.delete(&case.target()).await;
    case.until_gone(&kept).await;
}
