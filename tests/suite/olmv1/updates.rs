//! From one version to another, and not. The numbers are those of operator-controller's scenarios.

use kube::api::DynamicObject;
use rukpak_tests::verbs::Expected;
use rukpak_tests::{Documents, ImageBuilder};
use serde_json::json;

use super::case::{Case, installed, retrying, rolled_out, text};
use crate::platform::packages::{self, ALL, broken, channel, entry, package};

/// 19, 20, 21: 1.0.0 -> 1.0.1 -> 1.2.0.
#[tokio::test]
async fn updates_follow_the_graph_unless_somebody_certifies_them() {
    let case = Case::new("graph").await;
    case.install(&["1.0.0", "1.0.1", "1.2.0"], json!({"version": "1.0.0"})).await;
    case.until_version("1.0.0").await;
    case.ask(json!({"version": "1.2.0"})).await;
    let text = format!(
        "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"{}\" matching version \"1.2.0\"",
        case.name
    );
    let object = case.until_at(&case.extension(), retrying(&text)).await;
    assert!(installed().met_by(&object), "{:#}", object.data);
    assert_eq!(self::text(&object, "/status/install/bundle/version"), "1.0.0");
    case.ask(json!({"version": "1.0.1"})).await;
    case.until_version("1.0.1").await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.1");
    // 78: down only on one's own authority.
    case.ask(json!({"version": "1.0.0"})).await;
    case.until_at(&case.extension(), retrying("error upgrading from currently installed version \"1.0.1\"")).await;
    case.ask(json!({"upgradeConstraintPolicy": "SelfCertified"})).await;
    case.until_version("1.0.0").await;
    case.ask(json!({"version": "1.2.0"})).await;
    case.until_version("1.2.0").await;
}

/// 22: a range follows what the catalog offers.
#[tokio::test]
async fn a_new_content_of_the_catalog_is_followed_by_itself() {
    let case = Case::new("renewed").await;
    case.install(&["1.0.0"], json!({})).await;
    let (documents, _) = case.chain(&["1.0.0", "1.3.0"]).await;
    case.renew("v2", documents).await;
    case.until_version("1.3.0").await;
}

/// 24: the same content by another name is another version.
#[tokio::test]
async fn identical_content_of_another_version_is_installed() {
    let case = Case::new("identical").await;
    case.install(&["1.0.0"], json!({})).await;
    let image = format!("{}/{}:v1.0.0", case.world.registry.host(), case.name);
    let documents = Documents::package(&case.name, &[("1.0.0", &image), ("1.0.1", &image)]);
    case.renew("v2", documents).await;
    case.until_version("1.0.1").await;
}

/// A catalog may pack the same version once more: its release tells them apart.
#[tokio::test]
async fn another_release_of_the_same_version_is_followed_and_told() {
    let case = Case::new("release").await;
    let (_, images) = case.chain(&["1.0.0"]).await;
    let name = |release: &str| format!("{}.v1.0.0-{release}", case.name);
    let packed = |release: &str| {
        let mut document = entry(&case.name, "1.0.0", &images[0], Some(ALL), &[]);
        document["name"] = json!(name(release));
        document["properties"][0]["value"]["release"] = json!(release);
        document
    };
    let documents = Documents::default().with(package(&case.name, "stable")).with(packed("1"));
    let edges = json!([{"name": name("1")}]);
    case.serve(documents.clone().with(channel(&case.name, "stable", edges))).await;
    case.extend(json!({}), json!({})).await;
    let is = |release: &'static str| {
        move |object: &DynamicObject| {
            text(object, "/status/install/bundle/release") == release && rolled_out().met_by(object)
        }
    };
    let object = case.until_object(&case.extension(), "release 1", is("1")).await;
    let bundle = json!({"name": name("1"), "version": "1.0.0", "release": "1"});
    assert_eq!(object.data["status"]["install"]["bundle"], bundle);

    let edges = json!([{"name": name("1")}, {"name": name("2"), "replaces": name("1")}]);
    case.renew("v2", documents.with(packed("2")).with(channel(&case.name, "stable", edges))).await;
    let object = case.until_object(&case.extension(), "release 2", is("2")).await;
    assert_eq!(text(&object, "/status/install/bundle/name"), name("2"));
}

/// A tag that moves changes nothing of what is installed, nor of what is healed.
#[tokio::test]
async fn a_moved_tag_changes_nothing() {
    let case = Case::new("moved").await;
    case.install(&["1.0.0"], json!({})).await;
    let other = ImageBuilder::of_files(packages::bundle(&case.name, "6.6.6", ALL));
    case.world.registry.push(&case.name, "v1.0.0", &other).await.expect("the registry takes it");
    case.delete(&case.settings()).await;
    let is_back = |object: &DynamicObject| object.data["data"]["version"].is_string();
    let back = case.until_object(&case.settings(), "it comes back", is_back).await;
    assert_eq!(back.data["data"]["version"], "1.0.0");
}

/// Better than upstream, whose failed upgrade stays half done.
#[tokio::test]
async fn an_upgrade_that_fails_leaves_the_version_before() {
    let case = Case::new("failing").await;
    let images = case.install(&["1.0.0"], json!({})).await;
    let bad = case.push("1.1.0", broken(&case.name, "1.1.0")).await;
    let documents = Documents::package(&case.name, &[("1.0.0", &images[0]), ("1.1.0", &bad)]);
    case.renew("v2", documents.clone()).await;
    let text = format!("error for resolved bundle \"{}.v1.1.0\" with version \"1.1.0\": ", case.name);
    let object = case.until_at(&case.extension(), retrying(&text)).await;
    assert!(installed().saying(&images[0]).met_by(&object), "{:#}", object.data);
    assert_eq!(self::text(&object, "/status/install/bundle/version"), "1.0.0");
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
    // A newer choice takes its place, unfinished as it is.
    let good = case.push("1.2.0", packages::bundle(&case.name, "1.2.0", ALL)).await;
    let edge = json!({"name": format!("{}.v1.2.0", case.name), "replaces": format!("{}.v1.1.0", case.name),
                      "skips": [format!("{}.v1.0.0", case.name)]});
    let all = documents.with(entry(&case.name, "1.2.0", &good, Some(ALL), &[]));
    let all = all.with(channel(&case.name, "fast", json!([edge])));
    case.renew("v3", all).await;
    case.until_version("1.2.0").await;
}

/// 83: an image that is not there touches only what is said of progress.
#[tokio::test]
async fn an_image_that_is_missing_is_retried_while_the_old_version_stays() {
    let case = Case::new("missing").await;
    let images = case.install(&["1.0.0"], json!({})).await;
    let absent = images[0].replace(":v1.0.0", ":v9.9.9");
    case.renew("v2", Documents::package(&case.name, &[("1.0.0", &images[0]), ("1.1.0", &absent)])).await;
    let object = case.until_at(&case.extension(), retrying("manifest unknown")).await;
    assert!(installed().met_by(&object), "{:#}", object.data);
}

/// 79: each kind of edge leads on, and nothing else does.
#[tokio::test]
async fn skips_and_skip_ranges_lead_on() {
    let case = Case::new("skips").await;
    let (_, images) = case.chain(&["1.0.0", "1.1.0", "1.2.0", "2.0.0"]).await;
    let name = |version: &str| format!("{}.v{version}", case.name);
    let edges = json!([
        {"name": name("1.0.0")},
        {"name": name("1.1.0"), "replaces": name("1.0.0")},
        {"name": name("1.2.0"), "replaces": name("1.1.0"), "skips": [name("1.0.0")]},
        {"name": name("2.0.0"), "skipRange": ">=1.2.0 <2.0.0"},
    ]);
    let mut documents =
        Documents::default().with(package(&case.name, "stable")).with(channel(&case.name, "stable", edges));
    for (version, image) in ["1.0.0", "1.1.0", "1.2.0", "2.0.0"].iter().zip(&images) {
        documents = documents.with(entry(&case.name, version, image, Some(ALL), &[]));
    }
    case.serve(documents).await;
    case.extend(json!({"version": "1.0.0"}), json!({})).await;
    case.until_version("1.0.0").await;
    case.ask(json!({"version": "2.0.0"})).await;
    case.until_at(&case.extension(), retrying("error upgrading")).await;
    case.ask(json!({"version": "<2"})).await;
    case.until_version("1.2.0").await;
    case.ask(json!({"version": null})).await;
    case.until_version("2.0.0").await;
}

/// 84: a definition that would endanger its objects is refused, unless that is switched off.
#[tokio::test]
async fn unsafe_upgrades_of_definitions_are_refused_unless_none_is_asked_for() {
    let case = Case::new("safety").await;
    let definition = |version: &str, required: bool| {
        let mut files = packages::bundle(&case.name, version, ALL);
        for (path, text) in &mut files {
            if path.ends_with("pumps.yaml") {
                let schema = if required {
                    r#"{"type":"object","properties":{"spec":{"type":"object","required":["size"],"properties":{"size":{"type":"integer"}}}}}"#
                } else {
                    r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}"#
                };
                *text = text.replace(r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#, schema);
            }
        }
        files
    };
    let old = case.push("1.0.0", definition("1.0.0", false)).await;
    let new = case.push("1.1.0", definition("1.1.0", true)).await;
    case.serve(Documents::package(&case.name, &[("1.0.0", &old)])).await;
    case.extend(json!({}), json!({})).await;
    case.until_version("1.0.0").await;
    case.renew("v2", Documents::package(&case.name, &[("1.0.0", &old), ("1.1.0", &new)])).await;
    let object = case.until_at(&case.extension(), retrying("new required fields")).await;
    assert!(installed().met_by(&object), "{:#}", object.data);
    let message = text(&object, "/status/conditions/0/message");
    let switch = "set spec.install.preflight.crdUpgradeSafety.enforcement of ClusterExtension";
    assert!(message.contains(switch) && !message.contains("annotation"), "the annotation is overwritten: {message}");
    let none = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    case.merge_into(&case.extension(), &json!({"spec": {"install": none}})).await;
    case.until_version("1.1.0").await;
    let strict = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}});
    case.merge_into(&case.extension(), &json!({"spec": {"install": strict}})).await;
    case.until_at(&case.extension(), Expected::is_true("Installed", "Succeeded")).await;
}
