//! Which bundle of which catalog: channel, range and order of versions, catalog, and the order of catalogs. Another package is
//! never chosen.

use rukpak_tests::Documents;
use serde_json::json;

use super::case::{Case, installed, operator, source_failed, version_of};
use super::packages::{self, ALL};

/// Pushes 1.0.0, 1.1.0 and 2.0.0; `stable` (the default) ends at 1.1.0, `fast` at 2.0.0.
async fn two_channels(case: &Case<'_>) -> Documents {
    let name = |version: &str| format!("{}.v{version}", case.name);
    let mut documents = Documents::default().with(packages::package(&case.name, "stable"));
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        let image = case.push(version, packages::bundle(&case.name, version, ALL)).await;
        documents = documents.with(packages::entry(&case.name, version, &image, Some(ALL), &[]));
    }
    let stable = json!([{"name": name("1.0.0")}, {"name": name("1.1.0"), "replaces": name("1.0.0")}]);
    let fast = json!([{"name": name("1.1.0")}, {"name": name("2.0.0"), "replaces": name("1.1.0")}]);
    documents.with(packages::channel(&case.name, "stable", stable)).with(packages::channel(&case.name, "fast", fast))
}

#[tokio::test]
async fn a_channel_and_a_range_of_versions_narrow_the_choice() {
    let table = [
        (json!({}), "2.0.0", "fast"),
        (json!({"channel": "stable"}), "1.1.0", "stable"),
        (json!({"channel": "fast"}), "2.0.0", "fast"),
        (json!({"version": ">=1.0.0 <1.1.0"}), "1.0.0", "stable"),
        (json!({"version": "<2.0.0", "channel": "fast"}), "1.1.0", "fast"),
        (json!({"version": "1.0.0"}), "1.0.0", "stable"),
    ];
    let checks = table.into_iter().map(|(package, version, channel)| async move {
        let case = Case::new("asked").await;
        case.publish(two_channels(&case).await).await;
        case.create(&package, None).await;
        let operator = case.until(installed()).await;
        assert_eq!(version_of(&operator), version, "{package}");
        assert_eq!(operator.data["status"]["source"]["channel"], channel, "{package}");
    });
    futures::future::join_all(checks).await;
}

/// The order is that of semantic versions over all channels; of a tie the catalog's order must not decide.
#[tokio::test]
async fn prereleases_come_before_their_release_and_build_metadata_decides_nothing() {
    let table: [(&[&str], &[&str]); 4] = [
        (&["1.0.0", "1.0.1-rc.1"], &["1.0.1-rc.1"]),
        (&["1.0.1-rc.10", "1.0.1", "1.0.1-rc.2"], &["1.0.1"]),
        (&["1.0.0-rc.9", "1.0.0-rc.10"], &["1.0.0-rc.10"]),
        (&["2.0.0+one", "2.0.0+two", "1.9.9"], &["2.0.0+one", "2.0.0+two"]),
    ];
    let checks = table.into_iter().map(|(versions, expected)| async move {
        let case = Case::new("order").await;
        let (documents, _) = case.chain(versions).await;
        case.publish(documents).await;
        case.create(&json!({}), None).await;
        let operator = case.until(installed()).await;
        assert!(expected.contains(&version_of(&operator)), "{versions:?}: {}", version_of(&operator));
    });
    futures::future::join_all(checks).await;
}

#[tokio::test]
async fn what_is_not_in_the_catalog_is_told_with_what_is() {
    let case = Case::new("asked").await;
    case.publish(two_channels(&case).await).await;
    case.create(&json!({"channel": "slow"}), None).await;
    case.until(source_failed("no channel \"slow\"; there are fast, stable")).await;
    let asked = async |channel: Option<&str>, version: &str, text: &str| {
        case.merge(&case.target(), &json!({"spec": {"package": {"channel": channel, "version": version}}})).await;
        case.until(source_failed(text)).await;
    };
    asked(
        Some("stable"),
        ">=2.0.0",
        "matching version \">=2.0.0\" in channel \"stable\": the catalog has 1.0.0, 1.1.0",
    )
    .await;
    asked(None, "newest", "spec.package.version").await;
    case.merge(&case.target(), &json!({"spec": {"package": {"version": ">=1.1.0"}}})).await;
    case.until_version("2.0.0").await;
}

#[tokio::test]
async fn a_catalog_is_chosen_by_its_name_and_an_unknown_one_is_told_with_the_known() {
    let case = Case::new("named").await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    case.create(&json!({"catalog": "blue-operators"}), None).await;
    let known =
        "there is no catalog \"blue-operators\"; there are folder, image, web, openshift-marketplace/redhat-operators";
    case.until(source_failed(known)).await;
    case.merge(&case.target(), &json!({"spec": {"package": {"catalog": "web"}}})).await;
    case.until(source_failed("failed to find candidate")).await;
    for name in ["redhat-operators", "openshift-marketplace/redhat-operators"] {
        case.merge(&case.target(), &json!({"spec": {"package": {"catalog": name}}})).await;
        case.until_version("1.0.0").await;
    }
}

/// Each kind of catalog that a flag can name: a folder, an image, a web server. Asked in their order and before
/// CatalogSources; looked at again, for a later version, without anybody's word.
#[tokio::test]
async fn catalogs_of_flags_come_in_their_order_and_before_catalog_sources() {
    let case = Case::new("flags").await;
    let (documents, _) = case.chain(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"]).await;
    let (one, two, three) =
        (case.chain(&["1.0.0"]).await.0, case.chain(&["1.1.0"]).await.0, case.chain(&["1.2.0"]).await.0);
    case.publish(documents).await;
    case.world.put_folder(&one);
    case.world.put_image(two).await;
    case.world.web.put("all", three).expect("a catalog");
    // A folder is polled: there is no event for it. Until then the later ones answer.
    let of_catalog = async |catalog: &str, version: &str| {
        let package = json!({"package": {"name": case.name, "catalog": catalog}});
        let case = Case::named(case.world, format!("{}-{catalog}", case.name)).await;
        case.make(&operator(&case.name, package)).await;
        let chosen = |object: &kube::api::DynamicObject| version_of(object) == version;
        case.until_object(&case.target(), version, chosen).await;
        case.remove().await;
    };
    of_catalog("folder", "1.0.0").await;
    of_catalog("image", "1.1.0").await;
    of_catalog("web", "1.2.0").await;
    of_catalog("redhat-operators", "1.3.0").await;
    case.create(&json!({}), None).await;
    let operator = case.until_version("1.0.0").await;
    assert_eq!(operator.data["status"]["source"]["catalog"], "folder");
}

/// Another package is another operator: nothing is torn down because of a slip of the pen.
#[tokio::test]
async fn another_package_in_the_spec_is_reported_and_changes_nothing() {
    let case = Case::new("slip").await;
    let images = case.install(&["1.0.0"], Some("Automatic")).await;
    case.merge(&case.target(), &json!({"spec": {"package": {"name": "another"}}})).await;
    let text = format!("Package {} is installed, but spec.package.name is another", case.name);
    let operator = case.until(rukpak_tests::verbs::Expected::is_false("Ready", "PackageChanged").saying(&text)).await;
    // And it stays so: a status that comes and goes would wake itself up for ever.
    let changed = rukpak_tests::verbs::Expected::is_false("Ready", "PackageChanged");
    case.stays(&case.target(), "Ready", |object| changed.met_by(object)).await;
    assert!(installed().met_by(&operator), "it is still installed");
    assert_eq!(super::case::image_of(&case.get(&case.deployment()).await), images[0]);
    case.merge(&case.target(), &json!({"spec": {"package": {"name": case.name}}})).await;
    case.until(rukpak_tests::verbs::Expected::is_true("Ready", "Succeeded")).await;
}
