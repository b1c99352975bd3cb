//! Which bundle is chosen, and why none is. The numbers are those of operator-controller's scenarios.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::verbs::{self, Expected};
use serde_json::{Value, json};

use super::case::{Case, catalog, installed, retrying, rolled_out, serving};
use crate::platform::packages::{ALL, channel, entry, package};

/// 75.
#[tokio::test]
async fn an_unknown_package_is_said_to_be_unknown() {
    let case = Case::new("unknown").await;
    case.serve(Documents::package("other", &[("1.0.0", "registry.example/none:v1")])).await;
    case.extend(json!({}), json!({})).await;
    let text = format!("no bundles found for package \"{}\"", case.name);
    let object = case.until_at(&case.extension(), retrying(&text)).await;
    assert!(Expected::is_false("Installed", "Failed").saying("No bundle installed").met_by(&object));
    let unknown = "deprecation status unknown: catalog data unavailable";
    for type_ in ["Deprecated", "PackageDeprecated", "ChannelDeprecated"] {
        let expected =
            Expected { kind: type_, status: "Unknown", reason: Some("DeprecationStatusUnknown"), message: unknown };
        assert!(expected.met_by(&object), "{type_}");
    }
}

/// 3, 80: selectors and priorities.
#[tokio::test]
async fn priorities_decide_between_catalogs_and_a_tie_is_refused() {
    let case = Case::new("tie").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    let (reference, _) = case.push_catalog("v1", documents).await;
    let (newer, _) = case.chain(&["1.0.0", "1.1.0"]).await;
    let (other, _) = case.push_catalog("v2", newer).await;
    let [first, second] = ["a", "b"].map(|suffix| format!("{}-{suffix}", case.name));
    case.create_catalog(&first, &json!({"ref": reference}), &json!({})).await;
    case.create_catalog(&second, &json!({"ref": other}), &json!({})).await;
    for name in [&first, &second] {
        case.until_at(&catalog(name), serving()).await;
    }
    case.extend(json!({}), json!({})).await;
    let text = format!(
        "found bundles for package \"{}\" in multiple catalogs with the same priority [{first} {second}]",
        case.name
    );
    case.until_at(&case.extension(), retrying(&text)).await;
    case.merge_into(&catalog(&first), &json!({"spec": {"priority": 1}})).await;
    case.until_version("1.0.0").await;
    // By name, with an expression.
    let expression = json!([{"key": "olm.operatorframework.io/metadata.name", "operator": "In", "values": [second]}]);
    case.ask(json!({"selector": {"matchLabels": null, "matchExpressions": expression}})).await;
    case.until_version("1.1.0").await;
    let bad = json!([{"key": "a", "operator": "Is", "values": ["b"]}]);
    case.ask(json!({"selector": {"matchExpressions": bad}})).await;
    case.until_at(&case.extension(), retrying("desired catalog selector is invalid: ")).await;
}

#[tokio::test]
async fn a_selected_catalog_that_is_not_served_blocks_and_one_that_is_switched_off_does_not() {
    let case = Case::new("sick").await;
    case.offer(&["1.0.0"]).await;
    let sick = format!("{}-sick", case.name);
    case.create_catalog(&sick, &json!({"ref": "localhost:1/a/b:v1"}), &json!({})).await;
    case.until_at(&catalog(&sick), Expected::is_true("Progressing", "Retrying")).await;
    case.extend(json!({}), json!({})).await;
    let text = format!(
        "error walking catalogs: error getting package \"{}\" from catalog \"{sick}\": catalog \"{sick}\" is not being served",
        case.name
    );
    case.until_at(&case.extension(), retrying(&text)).await;
    case.merge_into(&catalog(&sick), &json!({"spec": {"availabilityMode": "Unavailable"}})).await;
    case.until_version("1.0.0").await;
}

/// A pinned version stays, and whoever looks at the extension sees that there is a newer one.
#[tokio::test]
async fn a_newer_version_that_is_left_out_is_told_with_what_leaves_it_out() {
    let case = Case::new("newer").await;
    case.install(&["1.0.0", "1.1.0"], json!({"version": "1.0.0"})).await;
    let told = |reason| Expected::is_true("UpgradeAvailable", reason);
    let text = format!(
        "Version 1.1.0 ({}.v1.1.0) of catalog \"{}\" can replace version 1.0.0; spec.source.catalog.version \"1.0.0\" leaves it out",
        case.name, case.name
    );
    case.until_at(&case.extension(), told("VersionConstraint").saying(&text)).await;
    case.ask(json!({"channels": ["beta"]})).await;
    let object = case.until_at(&case.extension(), told("ChannelConstraint").saying("channels [beta]")).await;
    assert!(installed().met_by(&object), "{:#}", object.data);
    case.ask(json!({"channels": null, "version": null})).await;
    let is_newest =
        |object: &DynamicObject| rolled_out().met_by(object) && verbs::condition(object, "UpgradeAvailable").is_none();
    let object = case.until_object(&case.extension(), "the newest version", is_newest).await;
    assert_eq!(super::case::text(&object, "/status/install/bundle/version"), "1.1.0");
}

/// Asks for version 1.0.0, whose catalog states the property.
async fn extend_requiring(case: &Case<'_>, required: Value) {
    let (_, images) = case.chain(&["1.0.0"]).await;
    let entries = json!([{"name": format!("{}.v1.0.0", case.name)}]);
    let documents = Documents::default()
        .with(package(&case.name, "stable"))
        .with(channel(&case.name, "stable", entries))
        .with(entry(&case.name, "1.0.0", &images[0], Some(ALL), &[required]));
    case.serve(documents).await;
    case.extend(json!({}), json!({})).await;
}

/// 77: what nobody resolves is refused, unless it is taken care of.
#[tokio::test]
async fn dependencies_are_refused_in_upstreams_words() {
    let case = Case::new("needs").await;
    let required = json!({"type": "olm.gvk.required", "value": {"group": "a.b", "version": "v1", "kind": "C"}});
    extend_requiring(&case, required).await;
    let text = "has a dependency declared via property \"olm.gvk.required\" which is currently not supported";
    case.until_at(&case.extension(), retrying(text)).await;
    let annotations = json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependencies": "true"}}});
    case.merge_into(&case.extension(), &annotations).await;
    case.until_version("1.0.0").await;
}

#[tokio::test]
async fn a_bundle_is_installed_as_soon_as_the_packages_that_it_depends_on_are() {
    let (case, wells) = (Case::new("thirsty").await, Case::new("wells").await);
    let range = json!({"package": {"packageName": wells.name, "versionRange": ">=1.2.0"}});
    let required =
        json!({"type": "olm.constraint", "value": {"failureMessage": "wells", "all": {"constraints": [range]}}});
    extend_requiring(&case, required).await;
    let text = "has a dependency declared via property \"olm.constraint\" which is currently not supported";
    let object = case.until_at(&case.extension(), retrying(text)).await;
    assert!(retrying(&wells.name).met_by(&object), "{:#}", object.data);

    wells.install(&["1.2.0"], json!({})).await;
    case.until_version("1.0.0").await;
}

/// 82: they come and go with the catalog.
#[tokio::test]
async fn deprecations_are_told_of_the_package_the_channel_and_what_is_installed() {
    let case = Case::new("deprecated").await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    let told = |schema: &str, name: Value, message: &str| {
        let mut reference = json!({"schema": schema});
        if name.is_string() {
            reference["name"] = name;
        }
        json!({"reference": reference, "message": message})
    };
    let deprecations = json!({"schema": "olm.deprecations", "package": case.name, "entries": [
        told("olm.package", Value::Null, "the package"),
        told("olm.channel", json!("stable"), "the channel"),
        told("olm.bundle", json!(format!("{}.v1.0.0", case.name)), "the bundle"),
    ]});
    case.serve(documents.clone().with(deprecations)).await;
    case.extend(json!({}), json!({})).await;
    let object = case.until_at(&case.extension(), rolled_out()).await;
    for (type_, message) in [
        ("Deprecated", "the package\nthe channel\nthe bundle"),
        ("PackageDeprecated", "the package"),
        ("ChannelDeprecated", "the channel"),
        ("BundleDeprecated", "the bundle"),
    ] {
        assert!(Expected::is_true(type_, "Deprecated").saying(message).met_by(&object), "{type_}: {:#}", object.data);
    }
    assert!(installed().met_by(&object));
    case.renew("v2", documents).await;
    case.until_at(&case.extension(), Expected::is_false("Deprecated", "NotDeprecated").saying("not deprecated")).await;
}
