//! Where OLM itself runs its kinds are left to it.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::json;

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
}
