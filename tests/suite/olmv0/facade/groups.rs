//! OperatorGroups: one of a namespace, its targets, and what is said where there is none or another.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::verbs;
use serde_json::{Value, json};

use super::case::{Case, bundle, reason, text};
use crate::platform::packages;

/// Pushes a bundle with these modes, and applies CatalogSource and Subscription.
async fn subscribes(case: &Case, modes: &[&str]) {
    let image =
        packages::push(&case.world.registry, &case.package, "1.0.0", bundle(&case.package, "1.0.0", modes)).await;
    let catalog = case.push_catalog(Documents::package(&case.package, &[("1.0.0", &image)])).await;
    case.applies(&[case.source(&catalog), case.subscription(&json!({}))]).await;
}

async fn until_targets(case: &Case, expected: &Value) {
    let told = |object: &DynamicObject| object.data["status"]["namespaces"] == *expected;
    case.until_object(&case.named("OperatorGroup", "group"), "its targets", told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_installed_without_one_and_two_are_too_many() {
    let case = Case::new("og-count").await;
    subscribes(&case, &["AllNamespaces"]).await;
    case.until_said("ResolutionFailed", "NoOperatorGroup").await;
    assert!(case.find(&case.target()).await.is_none(), "there is no OperatorGroup");
    case.applies(&[case.group("group", &json!({}))]).await;
    case.until_succeeded("1.0.0").await;
    until_targets(&case, &json!([""])).await;

    case.applies(&[case.group("second", &json!({}))]).await;
    case.until_phase("1.0.0", "Failed", "TooManyOperatorGroups").await;
    let told = |object: &DynamicObject| reason(object, "MultipleOperatorGroup") == "MultipleOperatorGroupsFound";
    case.until_object(&case.named("OperatorGroup", "group"), "MultipleOperatorGroup", told).await;
    assert!(case.find(&case.named("Deployment", packages::DEPLOYMENT)).await.is_some(), "what runs goes on");
    case.types(&format!("kubectl -n {} delete operatorgroup second", case.space)).await;
    case.until_succeeded("1.0.0").await;
    case.types(&format!("kubectl -n {} delete operatorgroup group", case.space)).await;
    case.until_phase("1.0.0", "Failed", "NoOperatorGroup").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_reach_the_operator() {
    let case = Case::new("og-own").await;
    subscribes(&case, &["OwnNamespace", "MultiNamespace"]).await;
    case.applies(&[case.group("group", &json!({"targetNamespaces": [case.space]}))]).await;
    let csv = case.until_succeeded("1.0.0").await;
    let annotation = "olm.targetNamespaces";
    assert_eq!(csv.metadata.annotations.unwrap_or_default().get(annotation), Some(&case.space));
    let targets =
        |object: &DynamicObject| text(object, &format!("/spec/template/metadata/annotations/{annotation}")).to_owned();
    let deployment = case.named("Deployment", packages::DEPLOYMENT);
    assert_eq!(targets(&case.get(&deployment).await), case.space);

    // Several, chosen by their labels.
    let label = verbs::unique_name("team");
    let other = verbs::namespace(&case.client, "a-other").await.expect("a namespace");
    for space in [&case.space, &other] {
        case.types(&format!("kubectl label namespace {space} team={label}")).await;
    }
    let chosen = json!({"targetNamespaces": null, "selector": {"matchLabels": {"team": label}}});
    let patch = json!({ "spec": chosen });
    case.types(&format!("kubectl -n {} patch operatorgroup group --type=merge -p '{patch}'", case.space)).await;
    let mut expected = [other.clone(), case.space.clone()];
    expected.sort();
    until_targets(&case, &json!(expected)).await;
    case.until_object(&deployment, "both targets", |object| targets(object) == expected.join(",")).await;
    case.until_object(&case.csv("1.0.0"), "both targets", |csv| {
        csv.metadata.annotations.as_ref().and_then(|all| all.get(annotation)) == Some(&expected.join(","))
    })
    .await;
    case.until_succeeded("1.0.0").await;

    let csv = case.csv("1.0.0");
    let all = verbs::list(&case.client, &csv.api_version, &csv.kind, "").await.expect("a list");
    let named = all.iter().filter(|other| other.metadata.name.as_ref() == Some(&csv.name));
    let spaces: Vec<_> = named.map(|other| other.metadata.namespace.as_deref()).collect();
    assert_eq!(spaces, [Some(case.space.as_str())], "it is copied nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_is_not_supported_is_named_and_heals_with_the_group() {
    let case = Case::new("og-mode").await;
    subscribes(&case, &["OwnNamespace"]).await;
    case.applies(&[case.group("group", &json!({}))]).await;
    let csv = case.until_phase("1.0.0", "Failed", "UnsupportedOperatorGroup").await;
    let message = "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces";
    assert_eq!(text(&csv, "/status/message"), message);
    assert!(case.find(&case.settings()).await.is_none());
    case.applies(&[case.group("group", &json!({"targetNamespaces": [case.space]}))]).await;
    case.until_succeeded("1.0.0").await;
}
