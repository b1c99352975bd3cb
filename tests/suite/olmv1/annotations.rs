//! What annotations of an extension have its BundleDeployment do, for which upstream's kind has no field.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, is_observed, retrying, text};

/// API version and kind of Plans.
const PLANS: (&str, &str) = ("core.rukpak.io/v1alpha1", "Plan");

async fn annotate(case: &Case<'_>, key: &str, value: Value) {
    let mut annotations = json!({});
    annotations[format!("core.rukpak.io/{key}")] = value;
    case.merge_into(&case.extension(), &json!({"metadata": {"annotations": annotations}})).await;
}

fn is_suspended(object: &DynamicObject) -> bool {
    object.data["spec"]["suspend"] == true
}

#[tokio::test]
async fn an_extension_that_is_suspended_goes_on_when_the_annotation_is_gone() {
    let case = Case::new("suspended").await;
    case.install(&["1.0.0", "1.1.0"], json!({"version": "1.0.0"})).await;
    annotate(&case, "suspend", json!("true")).await;
    case.until_object(&case.target(), "it is suspended", is_suspended).await;
    case.ask(json!({"version": "1.1.0"})).await;
    let held = Expected::is_true("Progressing", "RollingOut").saying("is suspended");
    case.until_at(&case.extension(), held).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
    annotate(&case, "suspend", Value::Null).await;
    case.until_version("1.1.0").await;
    assert!(!is_suspended(&case.get(&case.target()).await));

    // What people say there is left to them, and heeded while no bundle can be chosen.
    case.merge(&json!({"spec": {"suspend": true}})).await;
    case.ask(json!({"version": "9.9.9"})).await;
    let object = case.until_at(&case.extension(), retrying("no bundles found for package")).await;
    assert!(is_observed(&object) && is_suspended(&case.get(&case.target()).await));
    annotate(&case, "deletion-policy", json!("KeepCRDs")).await;
    let is_kept = |object: &DynamicObject| text(object, "/spec/deletionPolicy") == "KeepCRDs";
    let object = case.until_object(&case.target(), "the deletion policy", is_kept).await;
    assert!(is_suspended(&object), "{:#}", object.data);
}

#[tokio::test]
async fn objects_stay_when_an_extension_is_deleted_whose_annotation_says_so() {
    let case = Case::new("orphaned").await;
    case.install(&["1.0.0"], json!({})).await;
    annotate(&case, "deletion-policy", json!("Orphan")).await;
    let is_free = |object: &DynamicObject| object.metadata.owner_references.iter().flatten().next().is_none();
    case.until_object(&case.settings(), "nobody owns it", is_free).await;

    annotate(&case, "deletion-policy", json!("keep")).await;
    let words = "annotation core.rukpak.io/deletion-policy: \"keep\" is none of Delete, Orphan, KeepCRDs and InOrder";
    case.until_at(&case.extension(), Expected::is_false("Progressing", "InvalidConfiguration").saying(words)).await;
    let deployment = case.get(&case.target()).await;
    assert_eq!(text(&deployment, "/spec/deletionPolicy"), "Orphan", "nothing is written");

    case.delete(&case.extension()).await;
    case.until_gone(&case.target()).await;
    for target in [case.settings(), case.definition()] {
        case.get(&target).await;
    }
}

#[tokio::test]
async fn upgrade_of_an_extension_waits_for_its_plan() {
    let case = Case::new("asking").await;
    case.install(&["1.0.0", "1.1.0"], json!({"version": "1.0.0"})).await;
    annotate(&case, "approval", json!("Upgrades")).await;
    let asks = |object: &DynamicObject| text(object, "/spec/approval") == "Upgrades";
    case.until_object(&case.target(), "it asks before upgrades", asks).await;
    case.ask(json!({"version": "1.1.0"})).await;
    let waits = |object: &DynamicObject| {
        verbs::condition(object, "Ready").is_some_and(|ready| ready["reason"] == "WaitingForApproval")
    };
    case.until_object(&case.target(), "a Plan waits", waits).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");

    let plans = verbs::list(&case.client, PLANS.0, PLANS.1, &format!("core.rukpak.io/owner-name={}", case.name)).await;
    let name = plans.unwrap()[0].metadata.name.clone().unwrap();
    let plan = Target::cluster(PLANS.0, PLANS.1, &name);
    case.merge_into(&plan, &json!({"spec": {"approval": "Approved"}})).await;
    case.until_version("1.1.0").await;
}
