//! From one version to the next along the channel's graph: in place, one edge at a time, and no further than allowed.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use rukpak_tests::Documents;
use rukpak_tests::verbs::{self, Expected};
use serde_json::{Value, json};

use super::case::{Case, image_of, installed, message, operator, uid, version_of};
use super::packages::{self, ALL};
use super::recording::images;
use super::world::Platform;

/// A catalog of good bundles with these entries in `stable`: pairs of version and what the entry says besides its name.
async fn graph(case: &Case<'_>, entries: &[(&str, Value)]) -> (Documents, Vec<String>) {
    let (mut documents, mut images, mut channel) = (Documents::default(), Vec::new(), Vec::new());
    for (version, edges) in entries {
        let image = case.push(version, packages::bundle(&case.name, version, ALL)).await;
        documents = documents.with(packages::entry(&case.name, version, &image, Some(ALL), &[]));
        let mut entry = edges.clone();
        entry["name"] = json!(format!("{}.v{version}", case.name));
        channel.push(entry);
        images.push(image);
    }
    let documents = documents.with(packages::package(&case.name, "stable"));
    (documents.with(packages::channel(&case.name, "stable", json!(channel))), images)
}

#[tokio::test]
async fn a_manual_policy_reports_the_next_version_and_changes_nothing() {
    let case = Case::new("manual").await;
    let built = case.install(&["1.0.0"], None).await;
    let before = case.get(&case.deployment()).await;
    case.publish(case.chain(&["1.0.0", "1.1.0", "1.2.0"]).await.0).await;
    let text = format!("Version 1.1.0 ({}.v1.1.0) can replace version 1.0.0", case.name);
    case.until(Expected::is_true("UpgradeAvailable", "ManualPolicy").saying(&text)).await;
    let after = case.get(&case.deployment()).await;
    assert_eq!((image_of(&after), after.metadata.generation), (built[0].as_str(), before.metadata.generation));

    case.merge(&case.target(), &json!({"spec": {"upgradePolicy": "Automatic"}})).await;
    let operator = case.until_version("1.2.0").await;
    assert!(verbs::condition(&operator, "UpgradeAvailable").is_none());
}

/// The next version depends on what this one does not.
#[tokio::test]
async fn an_upgrade_to_a_version_with_dependencies_is_made_once_the_user_says_that_they_are_met() {
    let case = Case::new("grown").await;
    let installed = case.install(&["1.0.0"], Some("Automatic")).await;
    let mut files = packages::bundle(&case.name, "1.1.0", ALL);
    let wells = json!({"type": "olm.package", "value": {"packageName": "wells", "version": ">=1.2.0"}});
    files.push(("metadata/dependencies.yaml".to_owned(), json!({"dependencies": [wells]}).to_string()));
    let image = case.push("1.1.0", files).await;
    let needs = json!({"type": "olm.package.required", "value": {"packageName": "wells", "versionRange": ">=1.2.0"}});
    let name = |version: &str| format!("{}.v{version}", case.name);
    let entries = json!([{"name": name("1.0.0")}, {"name": name("1.1.0"), "replaces": name("1.0.0")}]);
    let documents = Documents::default()
        .with(packages::package(&case.name, "stable"))
        .with(packages::channel(&case.name, "stable", entries))
        .with(packages::entry(&case.name, "1.0.0", &installed[0], Some(ALL), &[]))
        .with(packages::entry(&case.name, "1.1.0", &image, Some(ALL), &[needs]));
    case.publish(documents).await;
    let told = case.until(Expected::is_true("UpgradeAvailable", "Unsupported").saying("wells")).await;
    assert!(message(&told, "UpgradeAvailable").contains("on the PlatformOperator"), "{:#}", told.data);
    let annotation = json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependencies": "true"}}});
    case.merge(&case.target(), &annotation).await;
    case.until_version("1.1.0").await;
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(image_of(&case.get(&case.deployment()).await), image);
}

#[tokio::test]
async fn an_automatic_policy_follows_replaces_skips_and_skip_range_one_edge_at_a_time() {
    let case = Case::new("edges").await;
    case.install(&["1.0.0"], Some("Automatic")).await;
    let recording = case.record(&case.deployment()).await;
    let name = |version: &str| format!("{}.v{version}", case.name);
    let (documents, built) = graph(
        &case,
        &[
            ("1.0.0", json!({})),
            ("1.1.0", json!({"replaces": name("1.0.0")})),
            // Skipped by the next, so nobody stops there.
            ("1.2.0", json!({"replaces": name("1.1.0")})),
            ("1.3.0", json!({"replaces": name("1.1.0"), "skips": [name("1.2.0")]})),
            // Reached by its range alone.
            ("2.0.0", json!({"replaces": name("1.3.0"), "skipRange": ">=1.3.0 <2.0.0"})),
        ],
    )
    .await;
    case.publish(documents).await;
    case.until_version("2.0.0").await;
    let seen = recording.until("the end", |seen| image_of(&seen.object) == built[4]).await;
    let mut expected = vec![built[1].clone(), built[3].clone(), built[4].clone()];
    let found = images(&seen);
    if found.first() == Some(&built[0]) {
        expected.insert(0, built[0].clone());
    }
    assert_eq!(found, expected);
    assert!(seen.iter().all(|seen| !seen.added && !seen.deleted), "in place");
}

/// What a deletion and a new installation would lose.
#[tokio::test]
async fn an_upgrade_pivots_in_place_and_custom_resources_survive() {
    let case = Case::new("in-place").await;
    case.install(&["1.0.0"], Some("Automatic")).await;
    let group = packages::group(&case.name);
    let pump =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Pump", "metadata": {"name": "precious"}, "litres": 7});
    verbs::await_served(&case.client, &format!("{group}/v1"), "Pump", rukpak_tests::world::SOON).await.expect("served");
    let pump = case.make(&pump).await;
    let (definition, deployment) = (case.get(&case.definition()).await, case.get(&case.deployment()).await);
    let recording = case.record(&case.target()).await;
    case.publish(case.chain(&["1.0.0", "1.1.0", "1.2.0"]).await.0).await;
    case.until_version("1.2.0").await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.2.0");
    let seen = recording.until("the end", |seen| version_of(&seen.object) == "1.2.0").await;
    assert!(seen.iter().all(|seen| installed().met_by(&seen.object)), "the ClusterOperator would report a failure");
    let target = verbs::Target::cluster(&format!("{group}/v1"), "Pump", "precious");
    assert_eq!(case.get(&target).await, pump);
    assert_eq!(uid(&case.get(&case.definition()).await), uid(&definition));
    assert_eq!(uid(&case.get(&case.deployment()).await), uid(&deployment));
}

#[tokio::test]
async fn an_upgrade_stops_at_a_version_that_fails_and_says_so() {
    let case = Case::new("fails").await;
    case.install(&["1.0.0"], Some("Automatic")).await;
    let recording = case.record(&case.deployment()).await;
    let (documents, built) = case.chain(&["1.0.0", "1.2.0"]).await;
    drop(documents);
    let bad = case.push("1.1.0", packages::broken(&case.name, "1.1.0")).await;
    let pairs = [("1.0.0", built[0].as_str()), ("1.1.0", bad.as_str()), ("1.2.0", built[1].as_str())];
    case.publish(Documents::package(&case.name, &pairs)).await;
    case.until(Expected { kind: "Installed", status: "False", reason: None, message: "settings" }).await;
    let says = Expected::is_true("UpgradeAvailable", "InstalledVersionNotReady").saying("Version 1.1.0");
    let operator = case.until(says).await;
    // What runs is still the old version.
    assert_eq!(version_of(&operator), "1.0.0");
    assert_eq!(operator.data["status"]["upgrade"]["version"], "1.1.0");
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");
    // Another word of the catalog does not push it on.
    case.publish(Documents::package(&case.name, &pairs)).await;
    case.stays(&case.deployment(), "the stop", |object| image_of(object) == bad).await;
    assert!(images(&recording.so_far()).iter().all(|image| *image != built[1]), "it went past");
}

/// The version that mends a failed one replaces what runs and skips the failed one: nobody has to edit anything.
#[tokio::test]
async fn a_version_that_skips_a_failed_one_is_installed_without_a_hand() {
    let case = Case::new("mended").await;
    let built = case.install(&["1.0.0"], Some("Automatic")).await;
    let bad = case.push("1.1.0", packages::broken(&case.name, "1.1.0")).await;
    let pairs = [("1.0.0", built[0].as_str()), ("1.1.0", bad.as_str())];
    case.publish(Documents::package(&case.name, &pairs)).await;
    case.until(Expected { kind: "Installed", status: "False", reason: None, message: "settings" }).await;
    let good = case.push("1.2.0", packages::bundle(&case.name, "1.2.0", ALL)).await;
    let name = |version: &str| format!("{}.v{version}", case.name);
    let mut documents = Documents::default().with(packages::package(&case.name, "stable"));
    for (version, image) in [("1.0.0", &built[0]), ("1.1.0", &bad), ("1.2.0", &good)] {
        documents = documents.with(packages::entry(&case.name, version, image, Some(ALL), &[]));
    }
    let entries = json!([{"name": name("1.0.0")}, {"name": name("1.1.0"), "replaces": name("1.0.0")},
        {"name": name("1.2.0"), "replaces": name("1.0.0"), "skips": [name("1.1.0")]}]);
    case.publish(documents.with(packages::channel(&case.name, "stable", entries))).await;
    case.until_version("1.2.0").await;
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.2.0");
}

#[tokio::test]
async fn an_upgrade_does_not_leave_the_range_or_the_channel() {
    let case = Case::new("bounds").await;
    let name = |version: &str| format!("{}.v{version}", case.name);
    let (documents, _) = case.chain(&["1.0.0"]).await;
    case.publish(documents).await;
    case.create(&json!({"channel": "stable", "version": "<2.0.0"}), Some("Automatic")).await;
    case.until_version("1.0.0").await;
    let edges = [
        ("1.0.0", json!({})),
        ("1.1.0", json!({"replaces": name("1.0.0")})),
        ("2.0.0", json!({"replaces": name("1.1.0")})),
    ];
    let (documents, _) = graph(&case, &edges).await;
    let fast = json!([{"name": name("1.0.0")}, {"name": name("1.9.0"), "replaces": name("1.0.0")}]);
    let image = case.push("1.9.0", packages::bundle(&case.name, "1.9.0", ALL)).await;
    let more = packages::entry(&case.name, "1.9.0", &image, Some(ALL), &[]);
    case.publish(documents.with(packages::channel(&case.name, "fast", fast)).with(more)).await;
    case.until_version("1.1.0").await;
    case.stays(&case.target(), "the bound", |object| version_of(object) == "1.1.0").await;
    let operator = case.get(&case.target()).await;
    assert_eq!(message(&operator, "UpgradeAvailable"), "", "what the range excludes is not on offer");
    case.merge(&case.target(), &json!({"spec": {"package": {"version": null}}})).await;
    case.until_version("2.0.0").await;
}

#[tokio::test]
async fn an_upgrade_waits_for_a_window_of_the_platform_operator() {
    let case = Case::new("window").await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    let rare = json!([{"schedule": "0 0 29 2 *", "duration": "1h"}]);
    let spec = json!({"package": {"name": case.name}, "upgradePolicy": "Automatic", "windows": rare});
    case.make(&operator(&case.name, spec)).await;
    case.until_version("1.0.0").await;

    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    let waits =
        Expected { kind: "Ready", status: "Unknown", reason: Some("WaitingForWindow"), message: "the next opens at " };
    case.until_at(&case.deployment(), waits).await;
    let found = case.get(&case.target()).await;
    assert!(installed().met_by(&found), "{:#}", found.data);
    assert_eq!(version_of(&found), "1.0.0");
    assert_eq!(case.get(&case.settings()).await.data["data"]["version"], "1.0.0");

    // An empty list takes them from the BundleDeployment; no list would leave them there.
    case.merge(&case.target(), &json!({"spec": {"windows": []}})).await;
    case.until_version("1.1.0").await;
    assert!(case.get(&case.deployment()).await.data["spec"]["windows"].as_array().is_none_or(Vec::is_empty));
}

/// The catalog states that the next version cannot be installed: it is said, and not tried.
#[tokio::test]
async fn an_upgrade_to_a_version_that_is_unsupported_is_not_tried() {
    let case = Case::new("unsupported").await;
    let built = case.install(&["1.0.0"], Some("Automatic")).await;
    let (documents, _) = case.chain(&["1.0.0"]).await;
    let name = |version: &str| format!("{}.v{version}", case.name);
    let entries = json!([{"name": name("1.0.0")}, {"name": name("1.1.0"), "replaces": name("1.0.0")}]);
    let next = packages::entry(&case.name, "1.1.0", "localhost:1/nowhere:v1", Some(packages::OWN), &[]);
    let single = documents.with(next);
    case.publish(single.with(packages::channel(&case.name, "stable-next", entries))).await;
    case.merge(&case.target(), &json!({"spec": {"package": {"channel": "stable-next"}}})).await;
    let says = Expected::is_true("UpgradeAvailable", "Unsupported").saying("AllNamespace install mode must be enabled");
    case.until(says).await;
    assert_eq!(image_of(&case.get(&case.deployment()).await), built[0]);
}

/// What the manager may do besides: the role without the right to change BundleDeployments.
#[tokio::test]
async fn an_upgrade_that_the_api_server_refuses_is_reported_and_made_once_it_is_allowed() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "refused").await;
    case.install(&["1.0.0"], Some("Automatic")).await;
    case.until_version("1.0.0").await;
    let role = verbs::Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "platform-operators-manager-role");
    let whole = case.get(&role).await.data["rules"].clone();
    let mut less = whole.clone();
    for rule in less.as_array_mut().expect("a list") {
        if rule["resources"] == json!(["bundledeployments"]) {
            rule["verbs"] = json!(["get", "list", "watch", "create"]);
        }
    }
    assert_ne!(less, whole);
    case.merge(&role, &json!({"rules": less})).await;
    let refused = AssertUnwindSafe(refused(&world, &case)).catch_unwind().await;
    // The next test needs it.
    case.merge(&role, &json!({"rules": whole})).await;
    refused.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    case.until_version("1.1.0").await;
    let remains = case.leave().await;
    drop(world);
    remains.until_gone().await;
}

async fn refused(world: &Platform, case: &Case<'_>) {
    // The API server learns of the role a moment later.
    let manager = world.plane.as_account(rukpak_tests::process::PLATFORM_ACCOUNT).await.expect("a client");
    let nothing = json!({"metadata": {"annotations": {"nothing": null}}});
    let is_refused = async {
        while verbs::merge_expecting_denial(&manager, &case.deployment(), &nothing).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(rukpak_tests::world::SOON, is_refused).await.expect("refused");
    case.publish(case.chain(&["1.0.0", "1.1.0"]).await.0).await;
    let words = format!("bundledeployments.core.rukpak.io \"{}\" is forbidden", case.name);
    let found = case.until(Expected::is_true("UpgradeAvailable", "UpgradeFailed").saying(&words)).await;
    assert!(message(&found, "UpgradeAvailable").contains("Version 1.1.0"), "{}", message(&found, "UpgradeAvailable"));
    assert!(Expected::is_true("Ready", "Succeeded").met_by(&found) && installed().met_by(&found), "{:#}", found.data);
    assert_eq!(version_of(&found), "1.0.0");
    assert!(found.data["status"]["upgrade"].is_null(), "no step is under way: {:#}", found.data);
}
