//! Extensions installed, seen and removed. The numbers are those of operator-controller's scenarios.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, catalog, installed, is_observed, retrying, rolled_out, text};
use crate::platform::packages;

#[tokio::test]
async fn the_latest_version_is_installed_with_all_its_objects() {
    let case = Case::new("latest").await;
    let images = case.offer(&["1.0.0", "1.2.0"]).await;
    let made = case.extend(json!({}), json!({})).await;
    let object = case.until_at(&case.extension(), rolled_out()).await;
    let text = format!("Installed bundle {} successfully", images[1]);
    assert!(installed().saying(&text).met_by(&object), "{:#}", object.data);
    let bundle = json!({"name": format!("{}.v1.2.0", case.name), "version": "1.2.0"});
    assert_eq!(object.data["status"]["install"], json!({"bundle": bundle}));
    assert!(object.metadata.finalizers.is_none(), "none of ours");
    for type_ in ["Deprecated", "PackageDeprecated", "ChannelDeprecated", "BundleDeprecated"] {
        assert!(Expected::is_false(type_, "NotDeprecated").met_by(&object), "{type_}: {:#}", object.data);
    }
    for target in [case.settings(), case.definition()] {
        let found = case.get(&target).await;
        let labels = found.metadata.labels.unwrap_or_default();
        assert_eq!(labels["olm.operatorframework.io/owner-kind"], "ClusterExtension", "{target}");
        assert_eq!(labels["olm.operatorframework.io/owner-name"], case.name, "{target}");
    }
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.2.0");
    // The namespace that the bundle suggests is none of its objects.
    let suggested = Target::cluster("v1", "Namespace", &format!("{}-system", case.name));
    assert!(case.find(&suggested).await.is_none());
    let deployment = case.get(&case.target()).await;
    let owners = serde_json::to_value(&deployment.metadata.owner_references).unwrap();
    assert_eq!(owners[0]["uid"], json!(made.metadata.uid));
    assert_eq!(owners[0]["kind"], "ClusterExtension");
    let annotations = deployment.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations["olm.operatorframework.io/bundle-version"], "1.2.0");
    assert_eq!(annotations["olm.operatorframework.io/package-name"], case.name);
}

#[tokio::test]
async fn the_service_account_of_older_manifests_is_taken_and_ignored() {
    let case = Case::new("account").await;
    case.offer(&["1.0.0"]).await;
    case.extend(json!({}), json!({"serviceAccount": {"name": "absent"}})).await;
    case.until_version("1.0.0").await;
    case.merge_into(&case.extension(), &json!({"spec": {"serviceAccount": null}})).await;
    case.until_object(&case.extension(), "the new spec", |object| is_observed(object) && rolled_out().met_by(object))
        .await;
}

#[tokio::test]
async fn a_range_of_no_versions_is_refused_in_upstreams_words() {
    let case = Case::new("rule").await;
    let extension = case.object(&json!({"version": "no version"}), &json!({}));
    let denial = verbs::create_expecting_denial(&case.client, &extension).await.unwrap();
    assert!(denial.message.contains("invalid version expression"), "{denial:?}");
}

#[tokio::test]
async fn deletion_takes_all_objects_and_the_extension_can_come_again() {
    let case = Case::new("again").await;
    case.install(&["1.0.0"], json!({})).await;
    // As operator-controller leaves its objects.
    let finalizers =
        ["olm.operatorframework.io/cleanup-unpack-cache", "olm.operatorframework.io/cleanup-contentmanager-cache"];
    case.merge_into(&case.extension(), &json!({"metadata": {"finalizers": finalizers}})).await;
    case.delete(&case.extension()).await;
    case.until_gone(&case.extension()).await;
    for target in [case.target(), case.settings(), case.definition()] {
        case.until_gone(&target).await;
    }
    case.create(&case.object(&json!({}), &json!({}))).await;
    case.until_version("1.0.0").await;
}

#[tokio::test]
async fn a_long_name_gets_a_deployment_of_a_shorter_one() {
    let case = Case::new("a-name-that-is-longer-than-those-of-deployments").await;
    assert!(case.name.len() > 45);
    let package = case.name.clone();
    case.install(&["1.0.0"], json!({})).await;
    let deployments = verbs::list(&case.client, "core.rukpak.io/v1alpha1", "BundleDeployment", "").await.unwrap();
    let owned =
        |object: &&DynamicObject| object.metadata.owner_references.iter().flatten().any(|owner| owner.name == package);
    let [deployment] = deployments.iter().filter(owned).collect::<Vec<_>>()[..] else { panic!("one is made") };
    assert!(deployment.metadata.name.as_ref().unwrap().len() <= 45);
}

#[tokio::test]
async fn a_bundle_deployment_of_somebody_else_is_left_alone() {
    let case = Case::new("taken").await;
    let images = case.offer(&["1.0.0"]).await;
    let spec = json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"spec": {"provisionerClassName": "core-rukpak-io-registry",
                              "source": {"type": "image", "image": {"ref": images[0]}}}},
    });
    let foreign = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
                         "metadata": {"name": case.name}, "spec": spec});
    case.create(&foreign).await;
    case.extend(json!({}), json!({})).await;
    case.until_at(&case.extension(), retrying("it is left alone")).await;
    case.delete(&case.target()).await;
    case.until_version("1.0.0").await;
}

#[tokio::test]
async fn kubectl_shows_the_columns_of_upstream() {
    let case = Case::new("columns").await;
    case.install(&["1.0.0"], json!({})).await;
    let cells = async |path: &str| -> (Vec<String>, Value) {
        let request = http::Request::get(format!("/apis/olm.operatorframework.io/v1/{path}"))
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .expect("a request");
        let table: Value = case.client.request(request).await.expect("a table");
        let columns = table["columnDefinitions"].as_array().expect("columns").iter();
        (
            columns.map(|column| column["name"].as_str().expect("a name").to_owned()).collect(),
            table["rows"][0]["cells"].clone(),
        )
    };
    let (names, row) = cells(&format!("clusterextensions/{}", case.name)).await;
    assert_eq!(names, ["Name", "Installed Bundle", "Version", "Installed", "Progressing", "Age"]);
    let bundle = format!("{}.v1.0.0", case.name);
    assert_eq!(row.as_array().unwrap()[..5], [&case.name, &bundle, "1.0.0", "True", "True"].map(|cell| json!(cell)));
    let (names, row) = cells(&format!("clustercatalogs/{}", case.name)).await;
    assert_eq!(names, ["Name", "LastUnpacked", "Serving", "Age"]);
    assert_eq!(row[2], "True");
    let object = case.get(&catalog(&case.name)).await;
    assert!(!text(&object, "/status/urls/base").is_empty());
}

/// 81: two extensions with one object: the second has to wait for the first.
#[tokio::test]
async fn an_object_of_another_extension_is_not_taken() {
    let (first, second) = (Case::new("first").await, Case::new("second").await);
    first.install(&["1.0.0"], json!({})).await;
    // The definition of the other's package.
    let image = second.push("1.0.0", packages::bundle(&first.name, "1.0.0", packages::ALL)).await;
    second.serve(rukpak_tests::Documents::package(&second.name, &[("1.0.0", &image)])).await;
    second.extend(json!({}), json!({})).await;
    let object = second.until_at(&second.extension(), retrying("error for resolved bundle")).await;
    let message = text(&object, "/status/conditions/0/message");
    assert!(message.contains("already exists"), "{message}");
    // What is said must not make anybody delete the other's objects.
    let whose = format!("the other one is that of ClusterExtension {:?}", first.name);
    assert!(message.contains(&whose) && !message.to_lowercase().contains("delete"), "{message}");
    assert!(installed().met_by(&first.get(&first.extension()).await));
    first.delete(&first.extension()).await;
    second.until_version("1.0.0").await;
}
