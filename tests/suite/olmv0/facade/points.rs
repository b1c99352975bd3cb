//! Points of the list in docs/olmv0.md that nothing else shows.

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{Documents, fixtures};
use serde_json::json;

use super::case::{Case, reason, text};
use super::world::GLOBAL;
use crate::platform::packages;

/// Long enough for many passes.
const MOMENT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn an_install_plan_that_is_deleted_while_it_waits_is_made_again_and_a_later_one_is_missed() {
    let case = Case::new("pt-plan").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": "Manual"})).await;
    let asked = case.until_planned("1.0.0", "RequiresApproval").await;
    let plan = case.named("InstallPlan", asked.metadata.name.as_deref().unwrap_or_default());
    case.delete(&plan).await;
    let is_new = |object: &DynamicObject| {
        object.metadata.uid != asked.metadata.uid && text(object, "/status/phase") == "RequiresApproval"
    };
    case.until_object(&plan, "it is asked again", is_new).await;

    case.merge_into(&plan, &json!({"spec": {"approved": true}})).await;
    case.until_succeeded("1.0.0").await;
    case.until_planned("1.0.0", "Complete").await;
    case.delete(&plan).await;
    let told = case.until_said("InstallPlanMissing", "ReferencedInstallPlanNotFound").await;
    assert_eq!(text(&told, "/status/state"), "AtLatestKnown");
    case.until_succeeded("1.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_somebody_edits_changes_nothing_that_runs() {
    let case = Case::new("pt-edit").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    let csv = case.until_succeeded("1.0.0").await;
    let deployment = case.named("Deployment", packages::DEPLOYMENT);
    let before = case.get(&deployment).await.metadata.generation;
    let mut deployments = csv.data["spec"]["install"]["spec"]["deployments"].clone();
    deployments[0]["spec"]["replicas"] = json!(5);
    let patch = json!({"spec": {"install": {"spec": {"deployments": deployments}}}});
    case.merge_into(&case.csv("1.0.0"), &patch).await;
    let is_as_it_was =
        |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.generation == before);
    case.holds_for(&deployment, "what it was", MOMENT, is_as_it_was).await;
    case.until_succeeded("1.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_subscriptions_to_a_package_the_older_one_has_it() {
    let case = Case::new("pt-two").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let mut object = case.subscription(&json!({}));
    object["metadata"]["name"] = json!("younger");
    case.applies(&[object]).await;
    let younger = case.named("Subscription", "younger");
    let is_refused = |object: &DynamicObject| reason(object, "ResolutionFailed") == "ConstraintsNotSatisfiable";
    let refused = case.until_object(&younger, "a refusal", is_refused).await;
    let message = refused.data["status"]["conditions"].to_string();
    assert!(message.contains(&format!("which Subscription {} has", case.package)), "{message}");
    let is_well = |object: &DynamicObject| {
        text(object, "/status/state") == "AtLatestKnown" && reason(object, "ResolutionFailed").is_empty()
    };
    case.until_object(&case.subscribed(), "the older one is as before", is_well).await;

    case.delete(&case.subscribed()).await;
    let has_it = |object: &DynamicObject| {
        text(object, "/status/installedCSV") == case.csv_name("1.0.0") && reason(object, "ResolutionFailed").is_empty()
    };
    case.until_object(&younger, "it has the package", has_it).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_cannot_be_unpacked_is_told_of_until_the_catalog_has_another() {
    let case = Case::new("pt-unpack").await;
    let pushed = case.world.registry.push(&case.package, "v1.0.0", &fixtures::no_manifests_image()).await;
    let image = pushed.expect("the registry takes it").reference;
    let catalog = case.push_catalog(Documents::package(&case.package, &[("1.0.0", &image)])).await;
    case.applies(&[case.source(&catalog), case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    case.until_said("BundleUnpackFailed", "BundleUnpackFailed").await;
    assert!(case.find(&case.csv("1.0.0")).await.is_none());
    case.publishes(&["1.1.0"]).await;
    case.until_succeeded("1.1.0").await;
    let is_well = |object: &DynamicObject| reason(object, "BundleUnpackFailed").is_empty();
    case.until_object(&case.subscribed(), "nothing of it is told any more", is_well).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_catalog_advises_against_is_told_as_long_as_it_says_so() {
    let case = Case::new("pt-old").await;
    let images = case.push(&["1.0.0"]).await;
    let documents = Documents::package(&case.package, &[("1.0.0", &images[0])]);
    let told = |reference: serde_json::Value, message: &str| json!({"reference": reference, "message": message});
    let deprecations = json!({"schema": "olm.deprecations", "package": case.package, "entries": [
        told(json!({"schema": "olm.package"}), "the package"),
        told(json!({"schema": "olm.channel", "name": "stable"}), "the channel"),
        told(json!({"schema": "olm.bundle", "name": case.csv_name("1.0.0")}), "the bundle"),
    ]});
    let catalog = case.push_catalog(documents.with(deprecations)).await;
    let subscription = case.subscription(&json!({"channel": "stable"}));
    case.applies(&[case.source(&catalog), case.group("group", &json!({})), subscription]).await;
    case.until_succeeded("1.0.0").await;
    let message = |object: &DynamicObject, type_: &str| {
        verbs::condition(object, type_).and_then(|found| found["message"].as_str().map(str::to_owned))
    };
    let package = format!("olm.package/{}: the package", case.package);
    let bundle = format!("olm.bundle/{}: the bundle", case.csv_name("1.0.0"));
    let all = format!("{package}; olm.channel/stable: the channel; {bundle}");
    let is_told = |object: &DynamicObject| {
        message(object, "Deprecated").as_ref() == Some(&all) && text(object, "/status/state") == "AtLatestKnown"
    };
    let warned = case.until_object(&case.subscribed(), "all of it", is_told).await;
    assert_eq!(message(&warned, "PackageDeprecated"), Some(package));
    assert_eq!(message(&warned, "ChannelDeprecated").as_deref(), Some("olm.channel/stable: the channel"));
    assert_eq!(message(&warned, "BundleDeprecated"), Some(bundle));

    case.publishes(&["1.0.0"]).await;
    let is_well = |object: &DynamicObject| verbs::condition(object, "Deprecated").is_none();
    case.until_object(&case.subscribed(), "nothing is advised against", is_well).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_outlives_its_catalog() {
    let case = Case::new("pt-catalog").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    case.types(&format!("kubectl -n {GLOBAL} delete catalogsource {}", case.package)).await;
    let told = case.until_said("CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound").await;
    let said = verbs::condition(&told, "CatalogSourcesUnhealthy").cloned().unwrap_or_default();
    assert_eq!(said["message"], json!(format!("targeted catalogsource {GLOBAL}/{} missing", case.package)));
    let runs = |object: Option<&DynamicObject>| object.is_some_and(|it| text(it, "/status/phase") == "Succeeded");
    case.holds_for(&case.csv("1.0.0"), "Succeeded", MOMENT, runs).await;
    assert!(case.find(&case.named("Deployment", packages::DEPLOYMENT)).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_have_the_defaults_of_olm_and_refuse_what_it_refuses() {
    let case = Case::new("pt-schema").await;
    case.applies(&[case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    let group = |version: &str| {
        Target::namespaced(&format!("operators.coreos.com/{version}"), "OperatorGroup", &case.space, "group")
    };
    assert_eq!(case.get(&group("v1")).await.data["spec"]["upgradeStrategy"], "Default");
    assert!(case.find(&group("v1alpha2")).await.is_some());
    let other = json!({"spec": {"upgradeStrategy": "Other"}});
    let refused = verbs::merge_expecting_denial(&case.client, &group("v1"), &other).await.expect("it is refused");
    assert!(refused.message.contains("upgradeStrategy"), "{}", refused.message);

    case.until_said("CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound").await;
    let api = case.subscribed().api(&case.client).await.expect("it is served");
    let timeless = Patch::Merge(json!({"status": {"lastUpdated": null}}));
    let refused = api.patch_status(&case.package, &PatchParams::default(), &timeless).await.expect_err("it is refused");
    assert!(refused.to_string().contains("status.lastUpdated"), "{refused}");
}
