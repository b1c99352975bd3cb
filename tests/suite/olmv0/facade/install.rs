//! Installed by a Subscription, and upgraded along its channel, without anybody being asked.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::case::{Case, text};
use super::world::GLOBAL;
use crate::platform::packages;

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_installs_the_head_of_its_channel() {
    let case = Case::new("sub-first").await;
    case.subscribes(&["1.0.0", "1.1.0"], &json!({"channel": "stable"})).await;
    let csv = case.until_succeeded("1.1.0").await;
    assert_eq!(text(&csv, "/status/message"), "install strategy completed with no errors");
    let annotations = csv.metadata.annotations.clone().unwrap_or_default();
    assert_eq!(annotations.get("olm.targetNamespaces").map(String::as_str), Some(""));
    assert_eq!(annotations.get("olm.operatorGroup").map(String::as_str), Some("group"));
    let definition = packages::definition(&case.package);
    let required = json!({"group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition",
        "name": definition.name, "status": "Present", "message": "CRD is present and Established condition is true"});
    let rule =
        format!(r#"{{"verbs":["get"],"apiGroups":["{}"],"resources":["pumps"]}}"#, packages::group(&case.package));
    let right = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "PolicyRule", "status": "Satisfied",
        "message": format!("cluster rule:{rule}")});
    let account = json!({"group": "", "version": "v1", "kind": "ServiceAccount", "name": "pump-manager", "status": "Present",
        "message": "", "dependents": [right]});
    assert_eq!(csv.data["status"]["requirementStatus"], json!([required, account]));

    let plan = case.until_planned("1.1.0", "Complete").await;
    assert_eq!(plan.data["spec"]["approval"], "Automatic");
    assert_eq!((&plan.data["spec"]["approved"], &plan.data["spec"]["generation"]), (&json!(true), &json!(1)));
    assert_eq!(plan.data["spec"]["clusterServiceVersionNames"], json!([case.csv_name("1.1.0")]));
    assert_eq!(plan.data["status"]["conditions"][0]["status"], "True");
    let kinds: Vec<&str> = plan.data["status"]["plan"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["resource"]["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["ClusterServiceVersion", "CustomResourceDefinition"]);

    let is_settled = |object: &DynamicObject| text(object, "/status/state") == "AtLatestKnown";
    let subscription = case.until_object(&case.subscribed(), "AtLatestKnown", is_settled).await;
    let name = case.csv_name("1.1.0");
    assert_eq!(
        (text(&subscription, "/status/currentCSV"), text(&subscription, "/status/installedCSV")),
        (&*name, &*name)
    );
    let conditions = subscription.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let said: Vec<(&Value, &Value)> = conditions.iter().map(|found| (&found["type"], &found["reason"])).collect();
    assert_eq!(said, [(&json!("CatalogSourcesUnhealthy"), &json!("AllCatalogSourcesHealthy"))]);
    let health = subscription.data["status"]["catalogHealth"].as_array().cloned().unwrap_or_default();
    let ours = health.iter().find(|one| one["catalogSourceRef"]["name"] == json!(case.package));
    assert_eq!(ours.map(|one| &one["healthy"]), Some(&json!(true)));

    let deployment = case.get(&case.named("Deployment", packages::DEPLOYMENT)).await;
    let template = "/spec/template/metadata/annotations/olm.targetNamespaces";
    assert_eq!(deployment.data.pointer(template), Some(&json!("")));
    let labels = deployment.metadata.labels.unwrap_or_default();
    assert!(labels.contains_key(&format!("operators.coreos.com/{}.{}", case.package, case.space)), "{labels:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_takes_the_place_of_what_was_installed() {
    let case = Case::new("sub-next").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    let old = case.until_succeeded("1.0.0").await;
    let first = case.until_planned("1.0.0", "Complete").await;
    case.publishes(&["1.0.0", "1.1.0"]).await;
    let new = case.until_succeeded("1.1.0").await;
    assert_eq!(text(&new, "/spec/replaces"), case.csv_name("1.0.0"));
    let second = case.until_planned("1.1.0", "Complete").await;
    assert_ne!(second.metadata.name, first.metadata.name, "clients wait for another name");
    assert_eq!(second.data["spec"]["generation"], 2);
    case.until_gone(&case.csv("1.0.0")).await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.1.0");
    assert!(old.metadata.uid.is_some() && case.get(&case.target()).await.metadata.deletion_timestamp.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_where_it_is_told_and_walks_every_edge() {
    let case = Case::new("sub-walk").await;
    let starting = json!({"startingCSV": case.csv_name("1.0.0")});
    case.subscribes(&["1.0.0", "1.1.0", "1.2.0"], &starting).await;
    case.until_succeeded("1.2.0").await;
    let walked = case.get(&case.target()).await.data["status"]["history"].clone();
    let versions: Vec<&str> = walked
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|revision| revision["annotations"]["olm.operatorframework.io/bundle-version"].as_str())
        .collect();
    assert_eq!(versions, ["1.2.0", "1.1.0", "1.0.0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_reach_the_deployment() {
    let case = Case::new("sub-config").await;
    let config = json!({"config": {"env": [{"name": "LEVEL", "value": "debug"}], "nodeSelector": {"a": "b"}}});
    case.subscribes(&["1.0.0"], &config).await;
    case.until_succeeded("1.0.0").await;
    let deployment = case.get(&case.named("Deployment", packages::DEPLOYMENT)).await;
    let spec = &deployment.data["spec"]["template"]["spec"];
    assert_eq!(spec["nodeSelector"], json!({"a": "b"}));
    assert!(
        spec["containers"][0]["env"]
            .as_array()
            .is_some_and(|all| all.contains(&json!({"name": "LEVEL", "value": "debug"})))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_package_holds_back_only_itself() {
    let good = Case::new("sub-good").await;
    let bad = Case::beside("sub-bad", Some(&good.space)).await;
    let mut files = packages::broken(&bad.package, "1.0.0");
    for (_, text) in &mut files {
        // What was applied of it stays, and has names of its own.
        *text = text.replace("pump-manager", "bad-manager").replace("\"name\":\"settings\"", "\"name\":\"bad\"");
    }
    let image = packages::push(&good.world.registry, &bad.package, "1.0.0", files).await;
    let catalog = bad.push_catalog(rukpak_tests::Documents::package(&bad.package, &[("1.0.0", &image)])).await;
    bad.applies(&[bad.source(&catalog), bad.group("group", &json!({})), bad.subscription(&json!({}))]).await;
    bad.until_said("InstallPlanFailed", "InstallComponentFailed").await;
    bad.until_phase("1.0.0", "Failed", "InstallComponentFailed").await;

    let catalog = good.catalog(&["1.0.0"]).await;
    let mut one = good.subscription(&json!({}));
    one["metadata"]["name"] = json!("another-name");
    good.applies(&[good.source(&catalog), one]).await;
    good.until_succeeded("1.0.0").await;
    good.until_object(&good.named("Subscription", "another-name"), "AtLatestKnown", |object| {
        text(object, "/status/state") == "AtLatestKnown"
    })
    .await;
}

/// Bundles of two packages may name their ClusterServiceVersions alike: without its own, a BundleDeployment would be taken for unwanted.
#[tokio::test(flavor = "multi_thread")]
async fn the_version_of_a_living_neighbour_is_not_replaced() {
    let first = Case::new("sub-alike").await;
    first.subscribes(&["1.0.0"], &json!({})).await;
    first.until_succeeded("1.0.0").await;
    let neighbour = first.get(&first.target()).await.metadata.uid;
    let second = Case::beside("sub-like", Some(&first.space)).await;
    let name = second.csv_name("1.0.0");
    let theirs = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": first.space, "annotations": {"core.rukpak.io/deployment-uid": neighbour}},
        "spec": {"displayName": "theirs", "version": "1.0.0", "install": {"strategy": "deployment", "spec": {"deployments": []}}}});
    second.applies(&[theirs]).await;
    let theirs = second.get(&second.csv("1.0.0")).await;

    let catalog = second.catalog(&["1.0.0"]).await;
    second.applies(&[second.source(&catalog), second.subscription(&json!({}))]).await;
    let plan = second.until_planned("1.0.0", "Installing").await;
    let target = second.named("InstallPlan", plan.metadata.name.as_deref().unwrap_or_default());
    let is_told = |object: &DynamicObject| {
        object.data["status"].to_string().contains("two packages cannot have one of the same name")
    };
    second.until_object(&target, "why it is not installed", is_told).await;
    assert_eq!(second.get(&second.csv("1.0.0")).await.metadata.uid, theirs.metadata.uid);
    assert_eq!(first.get(&first.target()).await.metadata.uid, neighbour);
    first.until_succeeded("1.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_resolved_says_why() {
    let case = Case::new("sub-why").await;
    case.applies(&[case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    let missing = case.until_said("CatalogSourcesUnhealthy", "UnhealthyCatalogSourceFound").await;
    let message = format!("targeted catalogsource {GLOBAL}/{} missing", case.package);
    assert_eq!(missing.data["status"]["conditions"][0]["message"], json!(message));
    let image = case.catalog(&["1.0.0"]).await;
    case.applies(&[case.source(&image), case.subscription(&json!({"channel": "none"}))]).await;
    let said = |object: &DynamicObject| {
        let found = rukpak_tests::verbs::condition(object, "ResolutionFailed").cloned().unwrap_or_default();
        found["message"].as_str().is_some_and(|text| text.contains("no operators found in channel none of package"))
    };
    case.until_object(&case.subscribed(), "the channel is not there", said).await;
    case.applies(&[case.subscription(&json!({"channel": "stable"}))]).await;
    case.until_succeeded("1.0.0").await;
}
