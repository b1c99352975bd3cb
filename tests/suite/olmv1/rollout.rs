//! How a rollout goes and ends: deadlines, revisions, health. The numbers are those of operator-controller's scenarios.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::installation::message;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, installed, rolled_out, text};
use crate::platform::packages::{ALL, DEPLOYMENT, bundle, with_deployment};

fn late(message: &str) -> Expected<'_> {
    Expected::is_false("Progressing", "ProgressDeadlineExceeded").saying(message)
}

/// Pushes bundles, the last of which has a Deployment that nobody runs; returns the catalog in which each replaces the one before.
async fn stuck(case: &Case<'_>, versions: &[&str]) -> Documents {
    let last = versions.last().expect("there is one");
    let mut images = Vec::new();
    for version in versions {
        let files = bundle(&case.name, version, ALL);
        images.push(case.push(version, if version == last { with_deployment(files) } else { files }).await);
    }
    let pairs: Vec<(&str, &str)> = versions.iter().copied().zip(images.iter().map(String::as_str)).collect();
    Documents::package(&case.name, &pairs)
}

/// 10, 11: the first installation has nothing to go back to. The minute is said on the BundleDeployment: an extension asks for ten.
#[tokio::test]
async fn a_first_rollout_that_takes_too_long_is_told_in_upstreams_words() {
    let case = Case::new("late").await;
    case.serve(stuck(&case, &["1.0.2"]).await).await;
    case.extend(json!({}), json!({})).await;
    case.until_at(&case.extension(), installed()).await;
    case.merge(&json!({"spec": {"progressDeadline": "1m"}})).await;
    let words = "Revision has not rolled out for 1 minute(s). Last status: Revision 1.0.2 is rolling out.";
    let told = case.until_at(&case.extension(), late(words)).await;
    assert_eq!(message(&told, "Progressing"), words);
    assert!(installed().met_by(&told), "its objects are there: {:#}", told.data);
}

/// The version before is back, and stays installed all the while for whoever asks.
#[tokio::test]
async fn an_upgrade_that_takes_too_long_is_taken_back_and_says_what_held_it_up() {
    let case = Case::new("too-long").await;
    case.serve(stuck(&case, &["1.0.0", "1.1.0"]).await).await;
    case.extend(json!({"version": "1.0.0"}), json!({})).await;
    case.until_version("1.0.0").await;
    // Shorter than an extension can say.
    case.merge(&json!({"spec": {"progressDeadline": "5s"}})).await;
    case.ask(json!({"version": "1.1.0"})).await;
    let told = case.until_at(&case.extension(), late("Revision has not rolled out for 5s. Last status: ")).await;
    let message = message(&told, "Progressing");
    assert!(message.contains("/pump"), "what held it up is named: {message}");
    let is_back = |object: &DynamicObject| {
        text(object, "/status/install/bundle/version") == "1.0.0" && installed().met_by(object)
    };
    case.until_object(&case.extension(), "version 1.0.0", is_back).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
}

/// 26, 27, 44, 45: `Installed` says that the objects are there, and nothing else says that they work before they do.
#[tokio::test]
async fn a_version_whose_pods_never_start_is_rolling_out() {
    let case = Case::new("stuck").await;
    case.serve(stuck(&case, &["1.0.0", "1.1.0"]).await).await;
    case.extend(json!({"version": "1.0.0"}), json!({})).await;
    case.until_version("1.0.0").await;
    case.ask(json!({"version": "1.1.0"})).await;
    let rolling = Expected::is_true("Progressing", "RollingOut").saying("Revision 1.1.0 is rolling out.");
    let ill = Expected::is_false("Available", "ProbeFailure").saying("/pump");
    let is_stuck = |object: &DynamicObject| rolling.met_by(object) && ill.met_by(object);
    let object = case.until_object(&case.extension(), "a rollout that goes nowhere", is_stuck).await;
    assert_eq!(text(&object, "/status/install/bundle/version"), "1.1.0", "as upstream's default has it");
    assert!(installed().met_by(&object), "{:#}", object.data);
    let [first, second] = [1, 2].map(|number| format!("{}-{number}", case.name));
    let revisions = &object.data["status"]["activeRevisions"];
    assert_eq!(revisions[0], json!({"name": first}), "what would come back: {revisions:#}");
    assert_eq!(revisions[1]["name"], json!(second), "{revisions:#}");
    let reasons = |revision: &Value| -> Vec<String> {
        let conditions = revision["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .map(|one| format!("{} {} {}", one["type"], one["status"], one["reason"]).replace('"', ""))
            .collect()
    };
    assert_eq!(reasons(&revisions[1]), ["Available False ProbeFailure", "Progressing True RollingOut"]);

    let kubelet = Kubelet::play(case.client.clone(), &case.space());
    case.until_version("1.1.0").await;
    let object = case.until_at(&case.extension(), Expected::is_true("Available", "ProbesSucceeded")).await;
    // 26: the one before is history.
    let revisions = &object.data["status"]["activeRevisions"];
    assert_eq!(revisions.as_array().map(Vec::len), Some(1), "{revisions:#}");
    assert_eq!(revisions[0]["name"], json!(second));
    assert_eq!(reasons(&revisions[0]), ["Available True ProbesSucceeded", "Progressing True Succeeded"]);
    // What falls ill later was rolled out all the same.
    drop(kubelet);
    let pods = format!("app={DEPLOYMENT}");
    for pod in verbs::list(&case.client, "v1", "Pod", &pods).await.expect("they are listed") {
        let name = pod.metadata.name.as_deref().filter(|_| pod.metadata.namespace == Some(case.space()));
        if let Some(name) = name {
            case.delete(&Target::namespaced("v1", "Pod", &case.space(), name)).await;
        }
    }
    let object = case.until_at(&case.extension(), Expected::is_false("Available", "ProbeFailure")).await;
    assert!(rolled_out().met_by(&object), "{:#}", object.data);
}

#[tokio::test]
async fn a_deadline_reaches_the_bundle_deployment_and_is_taken_back() {
    let case = Case::new("deadline").await;
    case.offer(&["1.0.0"]).await;
    let denial = case.object(&json!({}), &json!({"progressDeadlineMinutes": 721}));
    let denial = verbs::create_expecting_denial(&case.client, &denial).await.expect("it is refused");
    assert!(denial.message.contains("spec.progressDeadlineMinutes"), "{denial:?}");
    case.extend(json!({}), json!({"progressDeadlineMinutes": 30})).await;
    case.until_version("1.0.0").await;
    let is = |wanted: &'static str| move |object: &DynamicObject| text(object, "/spec/progressDeadline") == wanted;
    case.until_object(&case.target(), "the deadline", is("30m")).await;
    case.merge_into(&case.extension(), &json!({"spec": {"progressDeadlineMinutes": null}})).await;
    case.until_object(&case.target(), "no deadline", is("")).await;
    // What people set there is left to them.
    case.merge(&json!({"spec": {"progressDeadline": "2h"}})).await;
    let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    case.merge_into(&case.extension(), &json!({"spec": {"install": none}})).await;
    let is_written = |object: &DynamicObject| {
        let annotations = object.metadata.annotations.clone().unwrap_or_default();
        annotations.get("core.rukpak.io/safe-crd-upgrade-validation").is_some_and(|safety| safety == "false")
    };
    let object = case.until_object(&case.target(), "another write", is_written).await;
    assert_eq!(text(&object, "/spec/progressDeadline"), "2h");
}
