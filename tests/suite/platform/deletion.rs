//! The end of a PlatformOperator: garbage collection takes what it brought, and nothing is made anew meanwhile.

use kube::api::DeleteParams;
use rukpak_tests::verbs::Expected;
use serde_json::json;

use super::case::{Case, installed, uid};

/// Holds an object that is being deleted, until the test lets go.
const HOLD: &str = "example.rukpak.io/hold";

/// Deletes an installed PlatformOperator; its deployment and content go, and no deployment comes.
async fn deleted(parameters: DeleteParams) {
    let case = Case::new("deleted").await;
    case.install(&["1.0.0"], None).await;
    let recording = case.record(&case.deployment()).await;
    case.delete_as(&case.target(), &parameters).await;
    // News of every kind, while it ends.
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    for target in [case.target(), case.deployment(), case.settings(), case.definition()] {
        case.until_gone(&target).await;
    }
    let seen = recording.until("the end of the deployment", |seen| seen.deleted).await;
    assert!(seen.iter().all(|seen| !seen.added), "made anew: {seen:#?}");
    sentinel().await;
    assert!(recording.so_far().iter().all(|seen| !seen.added), "made anew");
}

/// When this returns, the manager has seen everything that was before.
async fn sentinel() {
    let case = Case::new("sentinel").await;
    case.create(&json!({"catalog": "nobody"}), None).await;
    case.until(Expected::is_false("Installed", "SourceFailed")).await;
    case.remove().await;
}

#[tokio::test]
async fn foreground_deletion_removes_the_deployment_and_its_content() {
    deleted(DeleteParams::foreground()).await;
}

#[tokio::test]
async fn background_deletion_removes_the_deployment_and_its_content() {
    deleted(DeleteParams::background()).await;
}

#[tokio::test]
async fn nothing_is_made_while_the_deployment_is_still_being_deleted() {
    let case = Case::new("held").await;
    case.install(&["1.0.0"], None).await;
    let old = uid(&case.get(&case.deployment()).await);
    case.merge(&case.deployment(), &json!({"metadata": {"finalizers": [HOLD]}})).await;
    let recording = case.record(&case.deployment()).await;
    case.delete_as(&case.deployment(), &DeleteParams::background()).await;
    let text = format!("Waiting until the BundleDeployment {} is deleted", case.name);
    case.until(Expected::is_false("Installed", "InstallPending").saying(&text)).await;
    case.delete_as(&case.target(), &DeleteParams::background()).await;
    case.until_gone(&case.target()).await;

    // One of the same name waits for the end of its predecessor's.
    case.create(&json!({}), None).await;
    case.until(Expected::is_false("Installed", "InstallPending").saying("is deleted")).await;
    case.merge(&case.deployment(), &json!({"metadata": {"finalizers": null}})).await;
    case.until(installed()).await;
    let seen = recording.until("the new one", |seen| seen.added).await;
    let added = seen.iter().filter(|seen| seen.added).count();
    assert_eq!(added, 1);
    assert_ne!(uid(&case.get(&case.deployment()).await), old);
}

/// Foreground deletion that takes long: its dependents are gone before it is, and their end is news for it.
#[tokio::test]
async fn nothing_is_made_for_a_platform_operator_that_is_being_deleted() {
    let case = Case::new("ending").await;
    case.install(&["1.0.0"], None).await;
    case.merge(&case.target(), &json!({"metadata": {"finalizers": [HOLD]}})).await;
    let recording = case.record(&case.deployment()).await;
    case.delete_as(&case.target(), &DeleteParams::foreground()).await;
    case.until_gone(&case.deployment()).await;
    case.merge(&case.target(), &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    sentinel().await;
    assert!(recording.so_far().iter().all(|seen| !seen.added), "made anew");
    case.merge(&case.target(), &json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&case.target()).await;
}
