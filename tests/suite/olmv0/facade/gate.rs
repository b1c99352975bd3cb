//! Where OLM itself runs its kinds are left to it, also where it begins again.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::json;

use super::case::Case;
use super::world::{GLOBAL, World};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_touched_before_olm_is_stopped() {
    let labels = json!({"app": "olm-operator"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "o", "image": "o.example/o:1"}]}});
    let olm = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "olm-operator", "namespace": GLOBAL},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    let world = World::beside(&[olm]).await;
    let client = world.admin().await;
    let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "c", "namespace": GLOBAL}, "spec": {"sourceType": "grpc"}});
    verbs::create(&client, &source).await.expect("it is OLM's to refuse it");
    let target = Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", GLOBAL, "c");
    let is_left = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data.get("status").is_none());
    verbs::holds_for(&client, &target, "no status", Duration::from_secs(3), is_left).await.expect("it is OLM's");

    let stop = format!("kubectl -n {GLOBAL} scale --replicas=0 deployment/olm-operator");
    let printed = world.terminal.enter(&stop).await.expect("bash runs");
    printed.of_success().expect("it is scaled");
    let is_ours = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["reason"] == "SpecInvalidError")
    };
    verbs::await_object(&client, &target, "a status", SOON, is_ours).await.expect("it is ours now");

    // Somebody starts OLM again: what changes from then on is its own.
    let start = format!("kubectl -n {GLOBAL} scale --replicas=1 deployment/olm-operator");
    world.terminal.enter(&start).await.expect("bash runs").of_success().expect("it is scaled");
    world.manager.until_logged(0, "OLM runs again").await.expect("it is said");
    let mend = json!({"spec": {"address": "localhost:1"}});
    verbs::merge(&client, &target, &mend).await.expect("the API server takes it");
    let told = "what was said before";
    verbs::holds_for(&client, &target, told, Duration::from_secs(3), is_ours).await.expect("it is OLM's");
    let printed = world.terminal.enter(&stop).await.expect("bash runs");
    printed.of_success().expect("it is scaled");
    let is_read = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["reason"] == "RegistryServerError")
    };
    verbs::await_object(&client, &target, "a status", SOON, is_read).await.expect("it is ours again");
}

/// The program goes on running, and says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn the_version_by_which_olm_installs_itself_holds_us_up_unless_we_are_told_to_take_over() {
    let version = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "packageserver", "namespace": GLOBAL},
        "spec": {"displayName": "Package Server", "install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    let source = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "c", "namespace": GLOBAL}, "spec": {"sourceType": "grpc"}});
    let world = World::beside(&[version, source]).await;
    let client = world.admin().await;
    let refusal = format!("OLM runs (ClusterServiceVersion packageserver in namespace {GLOBAL}");
    world.manager.until_logged(0, &refusal).await.expect("it is said");
    world.manager.until_logged(0, "or start with --olmv0=take-over").await.expect("so is the way out");
    let target = Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", GLOBAL, "c");
    let is_left = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data.get("status").is_none());
    verbs::holds_for(&client, &target, "no status", Duration::from_secs(3), is_left).await.expect("it is OLM's");

    world.manager.set_further_flags(&["--olmv0=take-over"]).expect("nobody panicked");
    world.manager.restart().await.expect("it starts");
    let is_ours = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["reason"] == "SpecInvalidError")
    };
    verbs::await_object(&client, &target, "a status", SOON, is_ours).await.expect("it is ours now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_of_that_name_elsewhere_holds_nobody_up() {
    let case = Case::new("gate-name").await;
    let labels = json!({"app": "olm-operator"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "o", "image": "o.example/o:1"}]}});
    case.applies(&[json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "olm-operator", "namespace": case.space},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}})])
        .await;
    case.until_object(&case.named("Deployment", "olm-operator"), "it runs", |object| {
        object.data["status"]["availableReplicas"] == 1
    })
    .await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
}
