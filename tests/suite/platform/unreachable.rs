//! Installed ones that are asked for what cannot be had: it is said, what is installed stays, and it mends itself. Nothing more
//! is said of what is gone.

use kube::api::{DeleteParams, DynamicObject};
use rukpak_tests::verbs::{self, Expected};
use serde_json::{Value, json};

use super::case::{Case, installed, message, operator, platform_operator, source_failed};

/// Installed at 1.0.0 with 1.1.0 in the catalog.
async fn behind(prefix: &str) -> Case<'static> {
    let case = Case::new(prefix).await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    // By name: whoever names none is told of others that cannot be asked.
    case.create(&json!({"catalog": "redhat-operators"}), None).await;
    case.until_version("1.0.0").await;
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    case.until(on_offer()).await;
    case
}

fn on_offer() -> Expected<'static> {
    Expected::is_true("UpgradeAvailable", "ManualPolicy").saying("Version 1.1.0")
}

fn unknown(reason: &str) -> Expected<'_> {
    Expected { kind: "UpgradeAvailable", status: "Unknown", reason: Some(reason), message: "" }
}

/// Asks for `field`, which must be told in all these words, then puts it back.
async fn asked(field: &str, value: &str, expected: Expected<'_>, words: &[&str]) {
    let case = behind(field).await;
    let recording = case.record(&case.target()).await;
    let ask = async |value: Value| {
        case.merge(&case.target(), &json!({"spec": {"package": {field: value}}})).await;
    };
    ask(json!(value)).await;
    let found = case.until(expected).await;
    for word in words {
        assert!(message(&found, "UpgradeAvailable").contains(word), "{}", message(&found, "UpgradeAvailable"));
    }
    assert!(Expected::is_true("Ready", "Succeeded").met_by(&found), "{:#}", found.data);
    ask(Value::Null).await;
    case.until(on_offer()).await;
    assert!(recording.so_far().iter().all(|seen| installed().met_by(&seen.object)), "Installed stays");
}

#[tokio::test]
async fn a_channel_that_is_not_there_is_told_with_those_that_are() {
    asked("channel", "nosuch", unknown("NoSuchChannel"), &["spec.package.channel", "\"nosuch\"", "there are stable"])
        .await;
}

#[tokio::test]
async fn a_catalog_that_is_not_there_is_told_with_those_that_are() {
    let known = ["spec.package.catalog", "\"nowhere\"", "folder, image, web, openshift-marketplace/redhat-operators"];
    asked("catalog", "nowhere", unknown("CatalogFailed"), &known).await;
}

#[tokio::test]
async fn a_range_that_no_step_leads_into_is_told() {
    let expected = Expected::is_false("UpgradeAvailable", "VersionNotInRange");
    asked("version", ">=2.0.0", expected, &["Version 1.0.0 is installed", "\">=2.0.0\""]).await;
}

/// Nothing lies between; it never goes back.
#[tokio::test]
async fn a_range_below_what_is_installed_is_told() {
    let case = Case::new("above").await;
    case.install(&["1.0.0", "1.1.0"], Some("Automatic")).await;
    case.merge(&case.target(), &json!({"spec": {"package": {"version": "1.0.x"}}})).await;
    let told = Expected::is_false("UpgradeAvailable", "VersionNotInRange").saying("Version 1.1.0 is installed");
    let told = case.until(told).await;
    let text = message(&told, "UpgradeAvailable");
    assert!(text.contains("higher than all of that range") && !text.contains("in between"), "{text}");
    assert!(installed().met_by(&told));
}

/// Nothing is installed, so nothing is said of what was.
fn nothing_is_left(object: &DynamicObject) {
    let status = &object.data["status"];
    assert!(status["source"].is_null() && status["upgrade"].is_null(), "{status:#}");
    for condition in ["UpgradeAvailable", "Deprecated"] {
        assert!(verbs::condition(object, condition).is_none(), "{status:#}");
    }
}

/// What the catalog says of a package besides its versions.
async fn deprecated(case: &Case<'_>) {
    let entries = json!([{"reference": {"schema": "olm.package"}, "message": "the package is old"}]);
    let document = json!({"schema": "olm.deprecations", "package": case.name, "entries": entries});
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0.with(document)).await;
    case.until(Expected::is_true("Deprecated", "Deprecated")).await;
    case.until(on_offer()).await;
}

#[tokio::test]
async fn a_package_that_was_given_up_with_its_bundle_deployment_can_be_had_by_another() {
    let case = behind("given-up").await;
    deprecated(&case).await;
    let second = format!("{}-b", case.name);
    case.make(&operator(&second, json!({"package": {"name": case.name}}))).await;
    let refused = Expected::is_false("Installed", "PackageNotUnique");
    case.until_at(&platform_operator(&second), refused).await;
    let unknown = format!("{}-unknown", case.name);
    case.merge(&case.target(), &json!({"spec": {"package": {"name": unknown}}})).await;
    case.until(Expected::is_true("Stalled", "PackageChanged")).await;
    // It is still there, with all that it holds.
    case.stays(&platform_operator(&second), "the refusal", |object| refused.met_by(object)).await;
    case.delete_as(&case.deployment(), &DeleteParams::foreground()).await;
    nothing_is_left(&case.until(source_failed(&format!("from the {unknown} package"))).await);
    case.until_at(&platform_operator(&second), installed()).await;
}

#[tokio::test]
async fn nothing_is_said_of_a_package_whose_bundle_deployment_is_gone() {
    let case = behind("gone").await;
    deprecated(&case).await;
    case.publish(super::world::nothing()).await;
    case.until(unknown("CatalogFailed")).await;
    case.delete_as(&case.deployment(), &DeleteParams::foreground()).await;
    nothing_is_left(&case.until(source_failed(&format!("from the {} package", case.name))).await);
}
