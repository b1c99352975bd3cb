//! What `kubectl describe` shows of a deployment's life.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{bundle, deployment, image, until};
use serde_json::json;

use crate::engine::case::Case;

#[tokio::test]
async fn each_step_of_a_deployments_life_is_an_event() {
    let case = Case::new("events").await;
    let object = |text: &str| case.config_map("a", json!({"x": text}));
    case.install(&[object("1")]).await;
    let told = case.told("InstallationSucceeded").await;
    assert_eq!((told.tone.as_str(), told.count), ("Normal", 1));
    let bundle = case.status().await["activeBundle"].as_str().expect("a name").to_owned();
    assert_eq!(told.message, format!("Instantiated bundle {bundle} successfully"));

    case.pivot("v2", &[object("2")]).await;
    assert_eq!(case.told("UpgradeSucceeded").await.count, 1);

    case.delete(&case.config_map_target("a")).await;
    case.until_owned(&case.config_map_target("a")).await;
    let told = case.told("DriftRepaired").await;
    assert!(told.tone == "Normal" && told.message.contains("\"a\""), "{told:?}");

    let unusable =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "No", "namespace": case.namespace}});
    case.change("v3", &[object("3"), unusable]).await;
    until(&case.client, &case.name, Expected::is_false("Installed", "ErrorGettingReleaseState")).await;
    let told = case.told("ErrorGettingReleaseState").await;
    assert!(told.tone == "Warning" && told.count == 1, "{told:?}");

    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    assert_eq!(case.told("RollbackSucceeded").await.tone, "Normal");

    // What was installed from it says that it was unpacked.
    let about = format!("involvedObject.name={bundle},reason=UnpackSuccessful");
    let unpacked = Api::<Event>::all(case.client.clone()).list(&ListParams::default().fields(&about)).await;
    assert!(unpacked.expect("the API server agrees").items.is_empty());
}

#[tokio::test]
async fn a_bundle_without_a_deployment_has_an_event_when_it_is_unpacked() {
    let case = Case::new("alone").await;
    let reference = case.push("v1", &[case.config_map("a", json!({"x": "1"}))]).await;
    verbs::create(&case.client, &bundle(&case.name, image(&reference))).await.expect("the API server agrees");
    let told = case.told_of(&Target::bundle(&case.name), "UnpackSuccessful").await;
    assert!(told.tone == "Normal" && told.message.starts_with("Unpacked sha256:"), "{told:?}");
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_an_event_of_bundle_and_deployment() {
    let case = Case::new("no-image").await;
    let reference = format!("{}/bundles/{}:v1", case.world.registry.host(), case.name);
    verbs::create(&case.client, &deployment(&case.name, image(&reference))).await.expect("the API server agrees");
    let of_deployment = case.told("UnpackPending").await;

    let of_case = format!("core.rukpak.io/owner-name={}", case.name);
    let bundles = verbs::list(&case.client, "core.rukpak.io/v1alpha1", "Bundle", &of_case).await.expect("a list");
    let bundle = bundles[0].metadata.name.clone().expect("a name");
    let of_bundle = case.told_of(&Target::bundle(&bundle), "UnpackPending").await;
    for told in [of_deployment, of_bundle] {
        assert_eq!((told.tone.as_str(), told.count), ("Warning", 1), "not for each attempt: {told:?}");
        assert!(told.message.contains("the registry answered 404 Not Found"), "{told:?}");
    }
}
