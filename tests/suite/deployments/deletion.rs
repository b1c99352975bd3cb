//! The end of a BundleDeployment: what is deleted, objects that are kept, and no last words while it terminates.

use std::time::Duration;

use kube::api::DeleteParams;
use rukpak_tests::fixtures;
use rukpak_tests::verbs::{self, Target};
use serde_json::json;

use super::case::{Case, installed, name};

#[tokio::test]
async fn deletion_takes_every_definition_and_the_bundle() {
    let case = Case::new("p38").await;
    let source = case.push_image("v1", &fixtures::renamed_image("plain/valid", &case.name).unwrap()).await;
    case.deploy(source).await;
    let deployment = case.until(installed()).await;
    assert!(deployment.metadata.finalizers.is_none(), "a finalizer could outlive the controller that removes it");
    let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={}", case.name);
    let definitions =
        verbs::list(&case.client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", &labels).await.unwrap();
    assert_eq!(definitions.len(), 4);
    let bundle = name(&case.only_bundle().await);
    case.delete(&case.target()).await;
    for definition in &definitions {
        let target = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name(definition));
        case.until_gone(&target).await;
    }
    case.until_gone(&Target::bundle(&bundle)).await;
}

#[tokio::test]
async fn a_kept_object_outlives_its_deployment() {
    let case = Case::new("keep").await;
    let mut kept = case.config_map("kept");
    kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    case.install(&[kept, case.config_map("a")]).await;
    let before = case.get(&case.config_map_target("kept")).await;
    assert!(before.metadata.owner_references.is_none(), "{:#?}", before.metadata);
    let annotations = before.metadata.annotations.clone().unwrap_or_default();
    assert_eq!(annotations["operator-sdk/primary-resource"], format!("/{}", case.name));
    assert_eq!(annotations["operator-sdk/primary-resource-type"], "BundleDeployment.core.rukpak.io");
    case.delete(&case.target()).await;
    case.until_gone(&case.config_map_target("a")).await;
    let now = case.get(&case.config_map_target("kept")).await;
    assert_eq!(now.metadata.uid, before.metadata.uid);
    assert!(now.metadata.deletion_timestamp.is_none());
}

/// Upstream puts back what garbage collection takes away, for as long as the deletion is in the foreground.
#[tokio::test]
async fn a_terminating_deployment_is_not_applied_again() {
    let case = Case::new("foreground").await;
    case.install(&[case.config_map("held"), case.config_map("free")]).await;
    let held = case.config_map_target("held");
    let finalizer = json!({"metadata": {"finalizers": ["example.rukpak.io/hold"]}});
    verbs::merge(&case.client, &held, &finalizer).await.unwrap();
    let api = case.target().api(&case.client).await.unwrap();
    api.delete(&case.name, &DeleteParams::foreground()).await.unwrap();
    let free = case.config_map_target("free");
    case.until_gone(&free).await;
    let deployment = case.target();
    tokio::join!(
        case.holds_for(&free, "it stays away", Duration::from_secs(5), |now| now.is_none()),
        case.holds_for(&deployment, "the deployment is terminating", Duration::from_secs(5), |now| {
            now.is_some_and(|now| now.metadata.deletion_timestamp.is_some())
        }),
    );
    verbs::merge(&case.client, &held, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    case.until_gone(&held).await;
    case.until_gone(&deployment).await;
}
