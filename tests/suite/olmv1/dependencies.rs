//! Packages that a bundle depends on: asked for, installed first, and protected while somebody needs them.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::openshift::{operator, platform_operator};
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use serde_json::{Value, json};

use super::case::{Case, retrying, rolled_out, text};
use super::world::World;
use crate::platform::packages::{self, ALL, Files, channel, entry, package};

/// What becomes of dependencies that are not installed.
const POLICY: &str = "core.rukpak.io/dependencies";
const INSTALLED_FOR: &str = "core.rukpak.io/installed-for";
const NEEDED_BY: &str = "core.rukpak.io/needed-by";
const IGNORE_DEPENDENTS: &str = "core.rukpak.io/ignore-dependents";

/// A package with versions that replace each other, and what all of them need.
pub struct Offer<'a> {
    package: &'a str,
    versions: &'a [&'a str],
    needs: Vec<Value>,
}

impl<'a> Offer<'a> {
    /// Needs packages, each in a range of versions.
    pub fn new(package: &'a str, versions: &'a [&'a str], needs: &[(&str, &str)]) -> Self {
        let needed = |(package, range): &(&str, &str)| json!({"type": "olm.package.required", "value": {"packageName": package, "versionRange": range}});
        Self { package, versions, needs: needs.iter().map(needed).collect() }
    }
}

/// A bundle that may be installed in one namespace with others.
pub fn files(package: &str, version: &str) -> Files {
    let mut files = packages::bundle(package, version, ALL);
    for (_, text) in &mut files {
        *text = text.replace("\"name\":\"settings\"", &format!("\"name\":\"{package}-settings\""));
        *text = text.replace("pump-manager", &format!("{package}-manager"));
    }
    files
}

/// A BundleDeployment of an image, which nobody made from a catalog.
pub fn of_image(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
        "metadata": {"name": name, "annotations": {"core.rukpak.io/ignore-dependencies": "packages"}},
        "spec": {"provisionerClassName": "core-rukpak-io-plain", "template": {"spec": {
            "provisionerClassName": "core-rukpak-io-registry", "source": {"type": "image", "image": {"ref": image}}}}},
    })
}

/// Creates it.
async fn deploy(case: &Case<'_>, name: &str, image: &str) -> Target {
    case.create(&of_image(name, image)).await;
    deployment(name)
}

/// Pushes the bundles; returns the catalog. All may be installed in one namespace.
pub async fn documents(case: &Case<'_>, offers: &[Offer<'_>]) -> Documents {
    let mut documents = Documents::default();
    for Offer { package: name, versions, needs } in offers {
        let (mut entries, mut last) = (Vec::new(), Value::Null);
        documents = documents.with(package(name, "stable"));
        for version in *versions {
            let image = packages::push(&case.world.registry, name, version, files(name, version)).await;
            documents = documents.with(entry(name, version, &image, Some(ALL), needs));
            let bundle = json!(format!("{name}.v{version}"));
            entries.push(json!({"name": bundle, "replaces": last}));
            last = bundle;
        }
        for entry in &mut entries {
            entry.as_object_mut().expect("it is one").retain(|_, value| !value.is_null());
        }
        documents = documents.with(channel(name, "stable", json!(entries)));
    }
    documents
}

pub fn extension(name: &str) -> Target {
    Target::cluster("olm.operatorframework.io/v1", "ClusterExtension", name)
}

pub fn plan(name: &str) -> Target {
    Target::cluster("core.rukpak.io/v1alpha1", "Plan", name)
}

pub fn deployment(name: &str) -> Target {
    Target::cluster("core.rukpak.io/v1alpha1", "BundleDeployment", name)
}

fn annotation<'a>(object: &'a DynamicObject, name: &str) -> &'a str {
    object.metadata.annotations.as_ref().and_then(|all| all.get(name)).map(String::as_str).unwrap_or_default()
}

/// Creates the extension of the case with the policy.
pub async fn extend(case: &Case<'_>, policy: &str) {
    case.make_space().await;
    let mut object = case.object(&json!({}), &json!({}));
    object["metadata"]["annotations"] = json!({POLICY: policy});
    case.create(&object).await;
}

/// The Plan that the object says it waits for.
pub async fn asked(case: &Case<'_>, target: &Target, condition: &str) -> DynamicObject {
    let message = |object: &DynamicObject| {
        let found = verbs::condition(object, condition).and_then(|found| found["message"].as_str().map(str::to_owned));
        found.unwrap_or_default()
    };
    let waits = |object: &DynamicObject| message(object).contains("waits for approval");
    let object = case.until_object(target, "a Plan that waits", waits).await;
    let told = message(&object);
    let name = told.split("Plan ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("it is named");
    let is_said = |plan: &DynamicObject| text(plan, "/status/phase") == "Waiting";
    case.until_object(&plan(name), "a phase", is_said).await
}

#[tokio::test]
async fn what_is_needed_is_installed_first_and_says_for_whom() {
    let case = Case::new("thirsty").await;
    let [wells, springs] = ["wells", "springs"].map(unique_name);
    let offers = [
        Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0 <2.0.0")]),
        Offer::new(&wells, &["1.1.0", "1.2.0", "2.0.0"], &[(&springs, ">=1.0.0")]),
        Offer::new(&springs, &["1.0.0"], &[]),
    ];
    case.serve(documents(&case, &offers).await).await;
    extend(&case, "Install").await;
    case.until_version("1.0.0").await;
    for (name, version) in [(&wells, "1.2.0"), (&springs, "1.0.0")] {
        let found = case.until_at(&extension(name), rolled_out()).await;
        assert_eq!(text(&found, "/status/install/bundle/version"), version, "{:#}", found.data);
        let labels = found.metadata.labels.clone().unwrap_or_default();
        assert_eq!(labels.get(INSTALLED_FOR), Some(&case.name));
        assert_eq!(text(&found, "/spec/namespace"), case.space());
    }

    // Who needs whom is noted on both, and goes with who needs it.
    for (name, needed_by) in [(&wells, &case.name), (&springs, &wells)] {
        let wanted = format!("ClusterExtension/{needed_by}");
        for target in [extension(name), deployment(name)] {
            case.until_object(&target, "who needs it", |object| annotation(object, NEEDED_BY) == wanted).await;
        }
    }
    case.delete(&case.extension()).await;
    case.until_object(&extension(&wells), "nobody who needs it", |object| annotation(object, NEEDED_BY).is_empty())
        .await;
}

#[tokio::test]
async fn nothing_is_installed_before_the_yes_and_all_of_it_after() {
    let case = Case::new("asking").await;
    let [wells, springs] = ["wells", "springs"].map(unique_name);
    let offers = [
        Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0"), (&springs, ">=1.0.0")]),
        Offer::new(&wells, &["1.2.0"], &[]),
        Offer::new(&springs, &["1.0.0"], &[]),
    ];
    case.serve(documents(&case, &offers).await).await;
    extend(&case, "Propose").await;
    let asked = asked(&case, &case.extension(), "Progressing").await;
    let dependencies = asked.data["spec"]["binds"]["dependencies"].as_array().cloned().unwrap_or_default();
    let shown: Vec<&str> = dependencies.iter().filter_map(|one| one["package"].as_str()).collect();
    assert_eq!(shown, [&springs, &wells]);
    let why = format!("{}.v1.0.0 needs a bundle with package: {wells} and with version in range: >=1.0.0", case.name);
    assert_eq!(dependencies[1]["neededBy"], json!([why]));
    assert_eq!(dependencies[1]["catalog"], json!(format!("ClusterCatalog/{}", case.name)));
    for name in [&wells, &springs] {
        assert!(case.find(&extension(name)).await.is_none(), "{name} was created before the yes");
    }

    let target = plan(asked.metadata.name.as_deref().expect("it has a name"));
    case.merge_into(&target, &json!({"spec": {"approval": "Approved"}})).await;
    case.until_version("1.0.0").await;
    for name in [&wells, &springs] {
        case.until_at(&extension(name), rolled_out()).await;
    }
    case.until_object(&target, "applied", |plan| text(plan, "/status/phase") == "Applied").await;
}

#[tokio::test]
async fn a_yes_for_what_a_catalog_had_installs_nothing_else() {
    let case = Case::new("changed").await;
    let wells = unique_name("wells");
    let offers =
        |version| [Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0")]), Offer::new(&wells, version, &[])];
    case.serve(documents(&case, &offers(&["1.2.0"])).await).await;
    extend(&case, "Propose").await;
    let first = asked(&case, &case.extension(), "Progressing").await;
    let first = plan(first.metadata.name.as_deref().expect("it has a name"));

    case.renew("v2", documents(&case, &offers(&["1.2.0", "1.3.0"])).await).await;
    case.until_object(&first, "expired", |plan| text(plan, "/status/phase") == "Expired").await;
    case.merge_into(&first, &json!({"spec": {"approval": "Approved"}})).await;
    // Proof that the answer was seen: what was agreed to too late is not kept for another time.
    case.until_gone(&first).await;
    assert!(case.find(&extension(&wells)).await.is_none(), "another version than that was agreed to");

    let next = asked(&case, &case.extension(), "Progressing").await;
    let next = plan(next.metadata.name.as_deref().expect("it has a name"));
    case.merge_into(&next, &json!({"spec": {"approval": "Approved"}})).await;
    case.until_version("1.0.0").await;
    let provider = case.until_at(&extension(&wells), rolled_out()).await;
    assert_eq!(text(&provider, "/status/install/bundle/version"), "1.3.0");
}

#[tokio::test]
async fn a_refusal_names_what_would_help_or_why_nothing_does() {
    let case = Case::new("refused").await;
    let wells = unique_name("wells");
    let offers = |range| [Offer::new(&case.name, &["1.0.0"], &[(&wells, range)]), Offer::new(&wells, &["1.2.0"], &[])];
    case.serve(documents(&case, &offers(">=1.0.0")).await).await;
    case.extend(json!({}), json!({})).await;
    let help = format!(
        "what helps is to install {wells} 1.2.0 (catalog ClusterCatalog/{}): the annotation {POLICY} Propose asks for that, and Install does it",
        case.name
    );
    case.until_at(&case.extension(), retrying(&help)).await;
    case.renew("v2", documents(&case, &offers(">=3.0.0")).await).await;
    let why = format!("needs a bundle with package: {wells} and with version in range: >=3.0.0, and there is none.");
    case.until_at(&case.extension(), retrying(&why)).await;
    assert!(case.find(&extension(&wells)).await.is_none(), "nobody asked for it");
    case.merge_into(&case.extension(), &json!({"metadata": {"annotations": {POLICY: "Perhaps"}}})).await;
    let wrong = "\"Perhaps\" is none of Refuse, Propose and Install";
    case.until_at(&case.extension(), Expected::is_false("Progressing", "InvalidConfiguration").saying(wrong)).await;
}

#[tokio::test]
async fn an_upgrade_that_breaks_a_dependent_is_not_taken() {
    let case = Case::new("dependent").await;
    let wells = Case::new("wells").await;
    let offers = |versions| {
        [Offer::new(&case.name, &["1.0.0"], &[(&wells.name, ">=1.0.0 <2.0.0")]), Offer::new(&wells.name, versions, &[])]
    };
    case.serve(documents(&case, &offers(&["1.0.0"])).await).await;
    extend(&case, "Install").await;
    case.until_version("1.0.0").await;
    wells.ask(json!({"version": null})).await;
    wells.until_version("1.0.0").await;

    case.renew("v2", documents(&case, &offers(&["1.0.0", "2.0.0"])).await).await;
    let kept = Expected::is_true("UpgradeAvailable", "Dependents");
    let told =
        format!("ClusterExtension {} ({}.v1.0.0 needs a bundle with package: {}", case.name, case.name, wells.name);
    let object = wells.until_at(&wells.extension(), kept.saying(&told)).await;
    assert_eq!(text(&object, "/status/install/bundle/version"), "1.0.0");

    // A version between them leaves it whole; its owner may take the other one all the same.
    case.renew("v3", documents(&case, &offers(&["1.0.0", "1.1.0", "2.0.0"])).await).await;
    wells.until_version("1.1.0").await;
    wells.merge_into(&wells.extension(), &json!({"metadata": {"annotations": {IGNORE_DEPENDENTS: "true"}}})).await;
    wells.until_version("2.0.0").await;
}

#[tokio::test]
async fn a_dependent_is_told_what_it_has_lost_and_stays() {
    let case = Case::new("dry").await;
    let wells = unique_name("wells");
    let offers = [Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0")]), Offer::new(&wells, &["1.0.0"], &[])];
    case.serve(documents(&case, &offers).await).await;
    extend(&case, "Install").await;
    case.until_version("1.0.0").await;
    let wanted = format!("ClusterExtension/{}", case.name);
    let is_noted = |object: &DynamicObject| annotation(object, NEEDED_BY) == wanted;
    case.until_object(&extension(&wells), "who needs it", is_noted).await;

    // This cluster has no webhook that would refuse it.
    case.delete(&extension(&wells)).await;
    let lost =
        format!("{}.v1.0.0 needs a bundle with package: {wells} and with version in range: >=1.0.0, which", case.name);
    case.until_told(("ClusterExtension", &case.name), &lost).await;
    case.until_at(&case.extension(), rolled_out()).await;
}

#[tokio::test]
async fn a_platform_operator_has_installed_what_it_needs() {
    let world = World::sound().await;
    let case = Case::within(&world, "platform").await;
    let wells = unique_name("wells");
    let offers =
        [Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0")]), Offer::new(&wells, &["1.0.0", "1.2.0"], &[])];
    case.serve(documents(&case, &offers).await).await;
    let windows = json!([{"schedule": "0 0 29 2 *", "duration": "1h"}]);
    let spec = json!({"package": {"name": case.name}, "dependencies": "Propose", "windows": windows});
    case.create(&operator(&case.name, spec)).await;
    let target = platform_operator(&case.name);
    let asked = asked(&case, &target, "Ready").await;
    assert!(case.find(&platform_operator(&wells)).await.is_none(), "nobody agreed");
    let plan = plan(asked.metadata.name.as_deref().expect("it has a name"));
    case.merge_into(&plan, &json!({"spec": {"approval": "Rejected"}})).await;
    case.until_at(&target, Expected { kind: "Ready", status: "Unknown", reason: None, message: "was rejected" }).await;
    assert!(case.find(&platform_operator(&wells)).await.is_none(), "somebody said no");

    case.merge_into(&target, &json!({"spec": {"dependencies": "Install"}})).await;
    case.until_at(&target, Expected::is_true("Ready", "Succeeded")).await;
    let provider = case.until_at(&platform_operator(&wells), Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(text(&provider, "/status/source/version"), "1.2.0");
    assert_eq!(provider.data["spec"]["windows"], windows, "it is upgraded when its dependent is");
    let wanted = format!("PlatformOperator/{}", case.name);
    let is_noted = |object: &DynamicObject| annotation(object, NEEDED_BY) == wanted;
    case.until_object(&platform_operator(&wells), "who needs it", is_noted).await;
}

#[tokio::test]
async fn a_platform_operator_that_another_needs_is_not_upgraded_away() {
    let world = World::sound().await;
    let case = Case::within(&world, "miller").await;
    let wells = unique_name("wells");
    let offers = |versions| {
        [Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0 <2.0.0")]), Offer::new(&wells, versions, &[])]
    };
    case.serve(documents(&case, &offers(&["1.0.0"])).await).await;
    case.create(&operator(&case.name, json!({"package": {"name": case.name}, "dependencies": "Install"}))).await;
    case.until_at(&platform_operator(&case.name), Expected::is_true("Ready", "Succeeded")).await;
    let needed = platform_operator(&wells);
    let follows = json!({"spec": {"package": {"version": null}, "upgradePolicy": "Automatic"}});
    case.merge_into(&needed, &follows).await;

    case.renew("v2", documents(&case, &offers(&["1.0.0", "2.0.0"])).await).await;
    let told = format!("PlatformOperator {} ({}.v1.0.0 needs a bundle with package: {wells}", case.name, case.name);
    let kept = Expected::is_true("UpgradeAvailable", "Dependents").saying(&told);
    let object = case.until_at(&needed, kept).await;
    assert_eq!(text(&object, "/status/source/version"), "1.0.0");

    // A version between them leaves the other one whole; its owner may take the last one all the same.
    case.renew("v3", documents(&case, &offers(&["1.0.0", "1.1.0", "2.0.0"])).await).await;
    let is_at = |version: &'static str| move |object: &DynamicObject| text(object, "/status/source/version") == version;
    case.until_object(&needed, "version 1.1.0", is_at("1.1.0")).await;
    case.merge_into(&needed, &json!({"metadata": {"annotations": {IGNORE_DEPENDENTS: "true"}}})).await;
    case.until_object(&needed, "version 2.0.0", is_at("2.0.0")).await;
    let lost = format!("{}.v1.0.0 needs a bundle with package: {wells}", case.name);
    case.until_told(("PlatformOperator", &case.name), &lost).await;
}

#[tokio::test]
async fn what_a_bundle_deployment_has_installed_counts_without_a_catalog() {
    let case = Case::new("mills").await;
    let wells = unique_name("wells");
    let image = packages::push(&case.world.registry, &wells, "1.2.0", files(&wells, "1.2.0")).await;
    let provider = deploy(&case, &wells, &image).await;
    case.until_at(&provider, Expected::is_true("Ready", "Succeeded")).await;
    let gvk = json!({"type": "olm.gvk", "value": {"group": packages::group(&wells), "version": "v1", "kind": "Pump"}});
    let is = json!({"type": "olm.package", "value": {"packageName": wells, "version": "1.2.0"}});
    let found = case.find(&provider).await.expect("it is there");
    assert_eq!(found.data["status"]["inventory"]["properties"], json!([is, gvk]));

    case.serve(documents(&case, &[Offer::new(&case.name, &["1.0.0"], &[(&wells, ">=1.0.0 <2.0.0")])]).await).await;
    extend(&case, "Refuse").await;
    case.until_version("1.0.0").await;
    let wanted = format!("ClusterExtension/{}", case.name);
    case.until_object(&provider, "who needs it", |object| annotation(object, NEEDED_BY) == wanted).await;
}

#[tokio::test]
async fn an_upgrade_that_breaks_a_bundle_deployment_is_not_taken() {
    let case = Case::new("springs").await;
    let dependent = unique_name("mill");
    let offers = |versions: &'static [&'static str]| [Offer::new(&case.name, versions, &[])];
    case.serve(documents(&case, &offers(&["1.0.0"])).await).await;
    case.make_space().await;
    case.create(&case.object(&json!({}), &json!({}))).await;
    case.until_version("1.0.0").await;
    let needs = json!({"dependencies": [
        {"type": "olm.package", "value": {"packageName": case.name, "version": ">=1.0.0 <2.0.0"}}]});
    let mut files = files(&dependent, "1.0.0");
    files.push(("metadata/dependencies.yaml".to_owned(), needs.to_string()));
    let image = packages::push(&case.world.registry, &dependent, "1.0.0", files).await;
    let target = deploy(&case, &dependent, &image).await;
    case.until_at(&target, Expected::is_true("Ready", "Succeeded")).await;
    let wanted = format!("BundleDeployment/{dependent}");
    case.until_object(&case.extension(), "who needs it", |object| annotation(object, NEEDED_BY) == wanted).await;

    case.renew("v2", documents(&case, &offers(&["1.0.0", "2.0.0"])).await).await;
    let told = format!("BundleDeployment {dependent} (");
    let kept = Expected::is_true("UpgradeAvailable", "Dependents").saying(&told);
    let found = case.until_at(&case.extension(), kept).await;
    assert_eq!(text(&found, "/status/install/bundle/version"), "1.0.0");

    case.delete(&target).await;
    case.until_version("2.0.0").await;
}
