//! What OpenShift's end-to-end suite and documentation promise: a package by its name, what stays as a person left it, and what
//! is made anew.

use kube::api::{DeleteParams, DynamicObject};
use rukpak_tests::openshift::operator;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::json;

use super::case::{Case, image_of, installed, message, uid, version_of};
use super::packages::{self, ALL};
use super::recording::images;

#[tokio::test]
async fn a_valid_package_becomes_a_bundle_deployment_of_the_same_name() {
    let case = Case::new("valid").await;
    let (documents, images) = case.chain(&["1.0.0", "1.1.0"]).await;
    case.publish(documents).await;
    let made = case.create(&json!({}), None).await;
    let operator = case.until(installed()).await;
    assert_eq!(operator.data["status"]["activeBundleDeployment"], json!({"name": case.name}));
    assert_eq!(
        operator.data["status"]["source"],
        json!({"catalog": "openshift-marketplace/redhat-operators", "package": case.name, "channel": "stable",
               "bundle": format!("{}.v1.1.0", case.name), "version": "1.1.0", "image": images[1]})
    );
    let text = format!("Successfully applied the {} BundleDeployment resource", case.name);
    assert_eq!(message(&operator, "Installed"), text);
    case.until(Expected::is_true("Ready", "Succeeded")).await;

    let deployment = case.get(&case.deployment()).await;
    assert_eq!(image_of(&deployment), images[1]);
    let expected = Expected::is_true("Installed", "InstallationSucceeded").saying("nstantiated bundle");
    assert!(expected.met_by(&deployment), "{:#}", deployment.data);
    assert!(deployment.data["status"]["activeBundle"].is_string(), "{:#}", deployment.data["status"]);
    let owners = serde_json::to_value(&deployment.metadata.owner_references).unwrap();
    assert_eq!(
        owners,
        json!([{"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "name": case.name,
                "uid": uid(&made), "controller": true, "blockOwnerDeletion": true}])
    );
    assert!(deployment.metadata.labels.is_none() && deployment.metadata.annotations.is_none());
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.1.0");
}

#[tokio::test]
async fn the_provisioner_classes_of_the_deployment_and_its_template_differ() {
    let case = Case::new("classes").await;
    case.install(&["1.0.0"], None).await;
    let spec = case.get(&case.deployment()).await.data["spec"].clone();
    assert_eq!(spec["provisionerClassName"], "core-rukpak-io-plain");
    assert_eq!(spec["template"]["spec"]["provisionerClassName"], "core-rukpak-io-registry");
    assert_eq!(spec["template"]["spec"]["source"]["type"], "image");
}

#[tokio::test]
async fn the_bundle_deployment_asks_for_approval_as_the_platform_operator_says() {
    let case = Case::new("approval").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    case.publish(documents).await;
    let spec = json!({"package": {"name": case.name}, "approval": "Upgrades"});
    case.make(&operator(&case.name, spec)).await;
    case.until(installed()).await;
    assert_eq!(case.get(&case.deployment()).await.data["spec"]["approval"], "Upgrades");
    case.merge(&case.target(), &json!({"spec": {"approval": "Escalations"}})).await;
    let follows = |object: &DynamicObject| object.data["spec"]["approval"] == "Escalations";
    case.until_object(&case.deployment(), "the approval that is asked for", follows).await;
}

#[tokio::test]
async fn users_of_namespaces_may_use_an_operator_unless_its_roles_are_left_out() {
    let case = Case::new("roles").await;
    case.install(&["1.0.0"], None).await;
    assert_eq!(case.get(&case.deployment()).await.data["spec"]["config"], json!({"apiRoles": true}));
    let name = format!("{}-v1-edit", case.definition().name);
    let role = Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", &name);
    let is_aggregated = |object: &DynamicObject| {
        let labels = object.metadata.labels.clone().unwrap_or_default();
        labels.contains_key("rbac.authorization.k8s.io/aggregate-to-edit")
    };
    case.until_object(&role, "the role", is_aggregated).await;
    case.merge(&case.target(), &json!({"spec": {"apiRoles": false}})).await;
    case.until_gone(&role).await;

    // As one that was made before there were such roles.
    case.merge(&case.target(), &json!({"spec": {"apiRoles": null}})).await;
    case.merge(&case.deployment(), &json!({"spec": {"config": null}})).await;
    case.until_object(&role, "the role", is_aggregated).await;
}

/// The edit survives events of all three kinds that are watched, whatever the policy is.
#[tokio::test]
async fn a_bundle_deployment_that_is_edited_by_hand_stays_edited() {
    tokio::join!(edited(None), edited(Some("Automatic")));
}

async fn edited(policy: Option<&str>) {
    let case = Case::new("edited").await;
    let old = case.push("0.9.0", packages::bundle(&case.name, "0.9.0", ALL)).await;
    let built = case.install(&["1.0.0", "1.1.0"], policy).await;
    let recording = case.record(&case.deployment()).await;
    case.edit(&old).await;
    let says = Expected { kind: "Ready", status: "True", reason: None, message: "was edited to install" };
    let operator = case.until(says).await;
    assert!(message(&operator, "Ready").contains(&format!("set its image to {}", built[1])));
    let is_old = |object: &DynamicObject| object.data["data"]["version"] == "0.9.0";
    case.until_object(&case.settings(), "the old version", is_old).await;
    case.publish(case.chain(&["1.0.0", "1.1.0", "1.2.0"]).await.0).await;
    case.merge(&case.target(), &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    case.merge(&case.deployment(), &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    case.stays(&case.deployment(), "the edit", |object| image_of(object) == old).await;
    assert_eq!(version_of(&case.get(&case.target()).await), "1.1.0", "what was chosen is still known");

    // Put back, it is followed again.
    case.edit(&built[1]).await;
    match policy {
        None => {
            let text = "Version 1.2.0";
            case.until(Expected::is_true("UpgradeAvailable", "ManualPolicy").saying(text)).await;
        }
        Some(_) => {
            case.until_version("1.2.0").await;
        }
    }
    let seen = recording.until("the end", |seen| image_of(&seen.object) != old).await;
    // The last status of the installation may come after the recording began.
    let mut images = images(&seen).into_iter().skip_while(|image| *image == built[1]);
    assert_eq!([images.next(), images.next()], [Some(old), Some(built[1].clone())]);
}

/// The documentation's way to upgrade: the newest version of the catalog takes the place of a deleted deployment.
#[tokio::test]
async fn a_deleted_bundle_deployment_is_made_anew_from_the_newest_bundle() {
    let case = Case::new("anew").await;
    case.install(&["1.0.0"], None).await;
    let old = case.get(&case.deployment()).await;
    let (documents, images) = case.chain(&["1.0.0", "1.1.0"]).await;
    case.publish(documents).await;
    case.until(Expected::is_true("UpgradeAvailable", "ManualPolicy").saying("Version 1.1.0")).await;
    case.delete_as(&case.deployment(), &DeleteParams::background()).await;
    case.until_version("1.1.0").await;
    let new = case.get(&case.deployment()).await;
    assert_ne!(uid(&old), uid(&new));
    assert_eq!(image_of(&new), images[1]);
    assert!(verbs::condition(&case.get(&case.target()).await, "UpgradeAvailable").is_none());
}

#[tokio::test]
async fn kubectl_shows_package_version_and_condition() {
    let case = Case::new("columns").await;
    case.install(&["1.0.0"], None).await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    let path = format!("/apis/platform.openshift.io/v1alpha1/platformoperators/{}", case.name);
    let request = http::Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .expect("a request");
    let table: serde_json::Value = case.client.request(request).await.expect("a table");
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["Name", "Package", "Version", "Installed", "Ready", "Reason", "Age", "Message"]);
    let cells = &table["rows"][0]["cells"].as_array().expect("cells")[..6];
    assert_eq!(cells, [&case.name, &case.name, "1.0.0", "True", "True", "Succeeded"].map(|cell| json!(cell)));
}
