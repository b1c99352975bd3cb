//! What is not installed, and what is said of it; deprecated packages, which are; and the names that are taken.

use rukpak_tests::Documents;
use rukpak_tests::verbs::{self, Expected};
use serde_json::{Value, json};

use super::case::{Case, image_of, installed, message, operator, platform_operator, source_failed};
use super::packages::{self, ALL, OWN};

/// The words of the provisioner.
const ALL_NAMESPACES: &str = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled";

/// A package of one version in one channel.
fn single(name: &str, version: &str, image: &str, mode: Option<&str>, further: &[Value]) -> Documents {
    Documents::default()
        .with(packages::package(name, "stable"))
        .with(packages::channel(name, "stable", json!([{"name": format!("{name}.v{version}")}])))
        .with(packages::entry(name, version, image, mode, further))
}

/// The catalog's word is enough: nothing is fetched.
#[tokio::test]
async fn a_package_whose_install_modes_the_catalog_states_is_refused_without_a_bundle_deployment() {
    let case = Case::new("stated").await;
    case.publish(single(&case.name, "1.0.0", "localhost:1/nowhere:v1", Some(OWN), &[])).await;
    let recording = case.record(&case.deployment()).await;
    case.create(&json!({}), None).await;
    case.until(Expected::is_false("Installed", "UnpackFailed").saying(ALL_NAMESPACES)).await;
    case.until(Expected::is_true("Stalled", "UnpackFailed")).await;
    assert!(recording.so_far().is_empty());

    // A later catalog may offer one that can be installed.
    let image = case.push("1.0.1", packages::bundle(&case.name, "1.0.1", ALL)).await;
    case.publish(Documents::package(&case.name, &[("1.0.1", &image)])).await;
    case.until(installed()).await;
    let seen = recording.until("the deployment", |seen| seen.added).await;
    assert_eq!(seen.iter().filter(|seen| seen.added).count(), 1);
}

#[tokio::test]
async fn a_package_whose_install_modes_the_catalog_omits_is_refused_by_the_bundle_deployment() {
    let case = Case::new("silent").await;
    let image = case.push("1.0.0", packages::bundle(&case.name, "1.0.0", OWN)).await;
    case.publish(single(&case.name, "1.0.0", &image, None, &[])).await;
    case.create(&json!({}), None).await;
    case.until(Expected::is_false("Installed", "UnpackFailed").saying(ALL_NAMESPACES)).await;
    let deployment = case.get(&case.deployment()).await;
    assert!(Expected::is_false("HasValidBundle", "UnpackFailed").met_by(&deployment), "{:#}", deployment.data);
    assert!(case.get(&case.target()).await.data["status"]["activeBundleDeployment"].is_null());
}

#[tokio::test]
async fn a_bundle_with_dependencies_is_refused_until_the_user_says_that_they_are_met() {
    let case = Case::new("depends").await;
    let image = case.push("1.0.0", packages::bundle(&case.name, "1.0.0", ALL)).await;
    let needs = json!({"type": "olm.package.required", "value": {"packageName": "wells", "versionRange": ">=1.2.0"}});
    case.publish(single(&case.name, "1.0.0", &image, Some(ALL), &[needs])).await;
    case.create(&json!({}), None).await;
    let refused = Expected { kind: "Installed", status: "False", reason: None, message: "wells >=1.2.0" };
    let operator = case.until(refused).await;
    assert!(
        message(&operator, "Installed").contains("core.rukpak.io/ignore-dependencies=\"true\" on the PlatformOperator")
    );
    assert!(case.find(&case.deployment()).await.is_none(), "no deployment is made");
    case.merge(&case.target(), &json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependencies": "true"}}}))
        .await;
    case.until(installed()).await;
}

/// The bundle says of itself what the catalog says of it.
#[tokio::test]
async fn a_bundle_is_installed_as_soon_as_what_it_depends_on_is() {
    let (case, wells) = (Case::new("thirsty").await, Case::new("wells").await);
    let needs = json!({"type": "olm.package", "value": {"packageName": wells.name, "version": ">=1.2.0"}});
    let mut files = packages::bundle(&case.name, "1.0.0", ALL);
    files.push(("metadata/dependencies.yaml".to_owned(), json!({"dependencies": [needs]}).to_string()));
    let image = case.push("1.0.0", files).await;
    let needs =
        json!({"type": "olm.package.required", "value": {"packageName": wells.name, "versionRange": ">=1.2.0"}});
    case.publish(single(&case.name, "1.0.0", &image, Some(ALL), &[needs])).await;
    case.create(&json!({}), None).await;
    let needed = format!("{} >=1.2.0", wells.name);
    let refused = Expected { kind: "Installed", status: "False", reason: None, message: &needed };
    case.until(refused).await;

    wells.install(&["1.1.0"], Some("Automatic")).await;
    let operator = case.get(&case.target()).await;
    assert!(refused.met_by(&operator), "{:#}", operator.data);
    wells.publish(wells.chain(&["1.1.0", "1.2.0"]).await.0).await;
    case.until(installed()).await;
    let deployment = case.get(&case.deployment()).await;
    let annotations = deployment.metadata.annotations.expect("there are some");
    assert_eq!(annotations["core.rukpak.io/ignore-dependencies"], "packages", "minKubeVersion counts");
}

#[tokio::test]
async fn deprecations_are_reported_and_hold_nothing_up() {
    let case = Case::new("deprecated").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    let entries = json!([
        {"reference": {"schema": "olm.package"}, "message": "the package is old"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "the channel is old"},
        {"reference": {"schema": "olm.bundle", "name": format!("{}.v1.0.0", case.name)}, "message": "the bundle is old"},
    ]);
    let document = json!({"schema": "olm.deprecations", "package": case.name, "entries": entries});
    case.publish(documents.clone().with(document)).await;
    case.create(&json!({}), None).await;
    case.until(installed()).await;
    let reported = case.until(Expected::is_true("Deprecated", "Deprecated")).await;
    for text in ["the package is old", "the channel is old", "the bundle is old"] {
        assert!(message(&reported, "Deprecated").contains(text), "{}", message(&reported, "Deprecated"));
    }
    case.publish(documents).await;
    let without = |object: &kube::api::DynamicObject| verbs::condition(object, "Deprecated").is_none();
    case.until_object(&case.target(), "no deprecation", without).await;
}

#[tokio::test]
async fn a_bundle_without_an_image_is_never_chosen() {
    let case = Case::new("inline").await;
    let image = case.push("1.0.0", packages::bundle(&case.name, "1.0.0", ALL)).await;
    let name = |version: &str| format!("{}.v{version}", case.name);
    let inline = packages::entry(&case.name, "2.0.0", "", Some(ALL), &[]);
    let channel = |entries| packages::channel(&case.name, "stable", entries);
    let documents = Documents::default()
        .with(packages::package(&case.name, "stable"))
        .with(channel(json!([{"name": name("2.0.0")}])))
        .with(inline.clone());
    case.publish(documents).await;
    case.create(&json!({}), None).await;
    case.until(source_failed(&format!("no image is given for {}", name("2.0.0")))).await;
    assert!(case.find(&case.deployment()).await.is_none(), "no deployment with an empty image");

    let documents = Documents::package(&case.name, &[("1.0.0", &image)]).with(inline);
    case.publish(documents.with(channel(json!([{"name": name("2.0.0"), "replaces": name("1.0.0")}])))).await;
    case.until(installed()).await;
    assert_eq!(image_of(&case.get(&case.deployment()).await), image);
}

/// The API server's word on a name that is too long for a BundleDeployment is passed on.
#[tokio::test]
async fn a_name_that_is_too_long_for_a_bundle_deployment_is_reported() {
    let case = Case::new("long").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    case.publish(documents).await;
    let name = format!("{:x<46}", format!("{}-", case.name));
    case.make(&operator(&name, json!({"package": {"name": case.name}}))).await;
    let refused = Expected::is_false("Installed", "InstallFailed").saying("45");
    case.until_at(&platform_operator(&name), refused).await;
}

/// OpenShift's pattern is not anchored: what that takes is taken here, and reported where there is no such package.
#[tokio::test]
async fn package_names_that_openshift_takes_are_taken() {
    let case = Case::new("pattern").await;
    for (index, package) in ["UPPER_a", "a b", "x".repeat(56).as_str()].into_iter().enumerate() {
        let name = format!("{}-{index}", case.name);
        case.make(&operator(&name, json!({"package": {"name": package, "catalog": "redhat-operators"}}))).await;
        let text = format!("failed to find candidate olm.bundles from the {package} package");
        let told = case.until_at(&platform_operator(&name), source_failed(&text)).await;
        // Where the words are not compared by others, they say what was looked in.
        assert!(
            message(&told, "Ready").contains("looked in openshift-marketplace/redhat-operators"),
            "{:#}",
            told.data
        );
    }
    for package in ["_", "x".repeat(57).as_str()] {
        let object = operator(&case.name, json!({"package": {"name": package}}));
        let denial =
            verbs::create_expecting_denial(&case.client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
        assert_eq!(denial.code, 422, "{package}: {}", denial.message);
    }
}

#[tokio::test]
async fn no_status_ever_names_a_bundle_deployment_without_a_name() {
    let case = Case::new("nameless").await;
    let recording = case.record(&case.target()).await;
    case.create(&json!({"catalog": "redhat-operators"}), None).await;
    case.until(source_failed("failed to find candidate")).await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    let active = |object: &kube::api::DynamicObject| object.data["status"]["activeBundleDeployment"].clone();
    let seen = recording.until("the end", |seen| installed().met_by(&seen.object)).await;
    for seen in &seen {
        let active = active(&seen.object);
        assert!(active.is_null() || active == json!({"name": case.name}), "{active}");
    }
    // A later failure does not take it away.
    let broken = case.push("2.0.0", packages::broken(&case.name, "2.0.0")).await;
    case.edit(&broken).await;
    let failed = Expected { kind: "Installed", status: "False", reason: None, message: "settings" };
    let operator = case.until(failed).await;
    assert_eq!(active(&operator), json!({"name": case.name}));
}
