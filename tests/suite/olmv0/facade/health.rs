//! An operator that is not healthy is said to have failed, and heals by itself or by a newer bundle.

use kube::api::DynamicObject;
use rukpak_tests::verbs;
use serde_json::json;

use super::case::{Case, text};
use crate::platform::packages;

/// Has the Pods of the operator be ready, or not.
async fn readies(case: &Case, ready: &str) {
    let pods = verbs::list(&case.client, "v1", "Pod", &format!("app={}", packages::DEPLOYMENT)).await.expect("a list");
    let ours: Vec<&DynamicObject> =
        pods.iter().filter(|pod| pod.metadata.namespace.as_deref() == Some(&case.space)).collect();
    assert!(!ours.is_empty(), "the operator has Pods");
    for pod in ours {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let space = &case.space;
        case.types(&format!("kubectl -n {space} patch pod {name} --subresource=status --type=strategic -p '{patch}'"))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_healthy_and_is_no_more_has_failed_until_it_is_again() {
    let case = Case::new("sick").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    readies(&case, "False").await;
    let failed = case.until_phase("1.0.0", "Failed", "ComponentUnhealthy").await;
    let message = text(&failed, "/status/message");
    assert!(message.starts_with("installing: ") && message.contains(packages::DEPLOYMENT), "{message}");
    readies(&case, "True").await;
    let healed = case.until_succeeded("1.0.0").await;
    let told = healed.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let phases: Vec<&str> = told.iter().filter_map(|one| one["phase"].as_str()).collect();
    assert!(phases.ends_with(&["Succeeded", "Failed", "Succeeded"]), "{phases:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_bundle_takes_the_place_of_one_that_has_failed() {
    let case = Case::new("sick-next").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    readies(&case, "False").await;
    case.until_phase("1.0.0", "Failed", "ComponentUnhealthy").await;
    case.publishes(&["1.0.0", "1.1.0"]).await;
    case.until_planned("1.1.0", "Complete").await;

    // The Pods of the new version are ready by themselves.
    case.until_succeeded("1.1.0").await;
    case.until_gone(&case.csv("1.0.0")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_missing_is_a_requirement_that_is_not_met() {
    let case = Case::new("sick-kind").await;
    let mut files = packages::bundle(&case.package, "1.0.0", packages::ALL);
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": {"name": "pump-monitor"}, "spec": {"selector": {}, "endpoints": []}});
    files.push(("manifests/monitor.yaml".to_owned(), monitor.to_string()));
    let image = packages::push(&case.world.registry, &case.package, "1.0.0", files).await;
    let catalog = case.push_catalog(rukpak_tests::Documents::package(&case.package, &[("1.0.0", &image)])).await;
    case.applies(&[case.source(&catalog), case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    let waits = case.until_phase("1.0.0", "Pending", "RequirementsNotMet").await;
    assert!(text(&waits, "/status/message").contains("ServiceMonitor"), "{:#}", waits.data);
    let deployment = case.get(&case.target()).await;
    let ready = verbs::condition(&deployment, "Ready").cloned().unwrap_or_default();
    assert_eq!(ready["reason"], "RequiredResourceNotFound");
}
