//! Sets of packages that do not come about as a whole: what is called installed then, what goes back, and what stays.

use kube::api::DynamicObject;
use rukpak_tests::Documents;
use rukpak_tests::verbs::{Expected, Target, unique_name};
use serde_json::{Value, json};

use super::case::{Case, installed, retrying, rolled_out, text};
use super::dependencies::{asked, extend, extension, files, plan};
use crate::platform::packages::{self, ALL, Files, channel, entry, package};

const POLICY: &str = "core.rukpak.io/dependencies";
const IGNORE_DEPENDENCIES: &str = "core.rukpak.io/ignore-dependencies";
const IGNORE_DEPENDENTS: &str = "core.rukpak.io/ignore-dependents";
const NEEDED_BY: &str = "core.rukpak.io/needed-by";

/// The needs of a bundle that has none.
const NOTHING: &[(&str, &str)] = &[];

/// A version of a package, its bundle, and the packages that it needs, each in a range of versions.
type Version<'a> = (&'a str, Files, &'a [(&'a str, &'a str)]);

/// Pushes the versions of a package; returns the documents in which each replaces the one before.
async fn offer(case: &Case<'_>, name: &str, versions: Vec<Version<'_>>) -> Documents {
    let mut documents = Documents::default().with(package(name, "stable"));
    let (mut edges, mut last) = (Vec::new(), None::<String>);
    for (version, files, needs) in versions {
        let image = packages::push(&case.world.registry, name, version, files).await;
        let needed = |(package, range): &(&str, &str)| json!({"type": "olm.package.required", "value": {"packageName": package, "versionRange": range}});
        let needs: Vec<Value> = needs.iter().map(needed).collect();
        documents = documents.with(entry(name, version, &image, Some(ALL), &needs));

        let bundle = format!("{name}.v{version}");
        let mut edge = json!({"name": bundle});
        if let Some(last) = last.replace(bundle) {
            edge["replaces"] = json!(last);
        }
        edges.push(edge);
    }
    documents.with(channel(name, "stable", json!(edges)))
}

/// A bundle whose ConfigMap no API server takes.
pub fn broken(package: &str, version: &str) -> Files {
    let mut files = files(package, version);
    let name = format!("\"name\":\"{package}-settings\"");
    for (_, text) in &mut files {
        *text = text.replace(&name, &format!("{name},\"labels\":{{\"a\":\"no label!\"}}"));
    }
    files
}

/// The version that the ConfigMap of the case's bundle is of.
async fn running(case: &Case<'_>) -> Value {
    let settings = Target::namespaced("v1", "ConfigMap", &case.space(), &format!("{}-settings", case.name));
    case.get(&settings).await.data["data"]["version"].clone()
}

fn is_at(version: &'static str) -> impl Fn(&DynamicObject) -> bool {
    move |object| text(object, "/status/install/bundle/version") == version && rolled_out().met_by(object)
}

/// Serves 1.0.0 of the case's package, which needs nothing, and waits until it is installed.
async fn install_first(case: &Case<'_>) {
    case.serve(offer(case, &case.name, vec![("1.0.0", files(&case.name, "1.0.0"), NOTHING)]).await).await;
    extend(case, "Install").await;
    case.until_version("1.0.0").await;
}

#[tokio::test]
async fn an_upgrade_waits_for_all_of_its_set_and_what_is_installed_stays() {
    let case = Case::new("half").await;
    let [wells, springs] = &["wells", "springs"].map(unique_name);
    install_first(&case).await;

    let needs = [(wells.as_str(), ">=1.0.0"), (springs.as_str(), ">=1.0.0")];
    let own = vec![("1.0.0", files(&case.name, "1.0.0"), NOTHING), ("2.0.0", files(&case.name, "2.0.0"), &needs[..])];
    let documents = offer(&case, &case.name, own).await;
    let documents = documents.and(offer(&case, wells, vec![("1.0.0", files(wells, "1.0.0"), NOTHING)]).await);
    let bad = offer(&case, springs, vec![("1.0.0", broken(springs, "1.0.0"), NOTHING)]).await;
    case.renew("v2", documents.clone().and(bad)).await;
    case.until_at(&extension(wells), rolled_out()).await;
    case.until_at(&extension(springs), retrying("error for resolved bundle")).await;
    let waits = format!("waiting until {springs} 1.0.0 (catalog ClusterCatalog/{}) is installed", case.name);
    let object = case.until_at(&case.extension(), retrying(&waits)).await;
    assert!(installed().met_by(&object), "{:#}", object.data);
    assert_eq!(text(&object, "/status/install/bundle/version"), "1.0.0");
    assert_eq!(running(&case).await, "1.0.0");
    assert!(!installed().met_by(&case.get(&extension(springs)).await), "half a set is called installed");

    // What was installed for it is an object as any other: another version mends the set.
    let mended = vec![("1.0.0", broken(springs, "1.0.0"), NOTHING), ("1.1.0", files(springs, "1.1.0"), NOTHING)];
    case.renew("v3", documents.and(offer(&case, springs, mended).await)).await;
    let version = json!({"spec": {"source": {"catalog": {"version": "1.1.0"}}}});
    case.merge_into(&extension(springs), &version).await;
    case.until_version("2.0.0").await;
    assert_eq!(running(&case).await, "2.0.0");
}

#[tokio::test]
async fn a_dependent_whose_upgrade_fails_goes_back_and_its_set_stays() {
    let case = Case::new("back").await;
    let wells = &unique_name("wells");
    install_first(&case).await;

    let needs = [(wells.as_str(), ">=1.0.0")];
    let own = vec![("1.0.0", files(&case.name, "1.0.0"), NOTHING), ("2.0.0", broken(&case.name, "2.0.0"), &needs[..])];
    let documents = offer(&case, &case.name, own).await;
    let documents = documents.and(offer(&case, wells, vec![("1.0.0", files(wells, "1.0.0"), NOTHING)]).await);
    case.renew("v2", documents).await;
    let failed = format!("error for resolved bundle \"{}.v2.0.0\"", case.name);
    let object = case.until_at(&case.extension(), retrying(&failed)).await;
    assert!(installed().met_by(&object), "{:#}", object.data);
    assert_eq!(text(&object, "/status/install/bundle/version"), "1.0.0");
    assert_eq!(running(&case).await, "1.0.0");

    // Somebody may use it by now. Its status may be told later than the failure of the other.
    case.until_object(&extension(wells), "what stays", is_at("1.0.0")).await;
}

/// Two packages, the case's and `pair`, each version of which needs that version of the other. Those of `pair` after the first one are
/// `made` otherwise.
pub async fn both(case: &Case<'_>, pair: &str, versions: &[&str], made: fn(&str, &str) -> Files) -> Documents {
    let mut all = Documents::default();
    for (name, other) in [(case.name.as_str(), pair), (pair, case.name.as_str())] {
        let needs: Vec<[(&str, &str); 1]> = versions.iter().map(|version| [(other, *version)]).collect();
        let of =
            |version: &str| if name == pair && version != "1.0.0" { made(name, version) } else { files(name, version) };
        let offered = versions.iter().zip(&needs).map(|(version, needs)| (*version, of(version), &needs[..]));
        all = all.and(offer(case, name, offered.collect()).await);
    }
    all
}

/// Installs version 1.0.0 of both, which hold each other. What is missing of dependencies is dealt with by `policy` from now on.
pub async fn lock(case: &Case<'_>, pair: &str, policy: &str) {
    case.serve(both(case, pair, &["1.0.0"], files).await).await;
    extend(case, "Install").await;
    case.until_version("1.0.0").await;
    case.merge_into(&case.extension(), &json!({"metadata": {"annotations": {POLICY: policy}}})).await;
    let any = json!({"spec": {"source": {"catalog": {"version": null}}}});
    case.merge_into(&extension(pair), &any).await;
    for (needed, by) in [(case.extension(), pair), (extension(pair), case.name.as_str())] {
        let wanted = format!("ClusterExtension/{by}");
        let is_noted = |object: &DynamicObject| {
            object.metadata.annotations.as_ref().and_then(|all| all.get(NEEDED_BY)) == Some(&wanted)
        };
        case.until_object(&needed, "who needs it", is_noted).await;
    }
}

/// Waits until both are back, and the case's says of version 2.0.0 that it did not come about for `pair`.
pub async fn until_back(case: &Case<'_>, pair: &str) {
    let told = format!(
        "{}.v2.0.0 goes together with ClusterExtension {pair} ({pair}.v2.0.0) only, and all went back to what was installed before: \
         ClusterExtension {pair} ({pair}.v2.0.0): ",
        case.name
    );
    case.until_at(&case.extension(), Expected::is_true("UpgradeAvailable", "Dependents").saying(&told)).await;
    for target in [case.extension(), extension(pair)] {
        case.until_object(&target, "version 1.0.0", is_at("1.0.0")).await;
    }
}

#[tokio::test]
async fn packages_that_only_go_together_are_upgraded_together() {
    let case = Case::new("locked").await;
    let pair = &unique_name("pair");
    lock(&case, pair, "Install").await;

    case.renew("v2", both(&case, pair, &["1.0.0", "2.0.0"], files).await).await;
    case.until_version("2.0.0").await;
    case.until_object(&extension(pair), "version 2.0.0", is_at("2.0.0")).await;
    assert_eq!(running(&case).await, "2.0.0");
}

#[tokio::test]
async fn upgrades_that_go_together_go_back_together() {
    let case = Case::new("broken").await;
    let pair = &unique_name("pair");
    lock(&case, pair, "Install").await;

    case.renew("v2", both(&case, pair, &["1.0.0", "2.0.0"], broken).await).await;
    until_back(&case, pair).await;
    assert_eq!(running(&case).await, "1.0.0");
    let settings = Target::namespaced("v1", "ConfigMap", &case.space(), &format!("{pair}-settings"));
    assert_eq!(case.get(&settings).await.data["data"]["version"], "1.0.0");

    // Other versions are another set.
    case.renew("v3", both(&case, pair, &["1.0.0", "3.0.0"], files).await).await;
    case.until_version("3.0.0").await;
    case.until_object(&extension(pair), "version 3.0.0", is_at("3.0.0")).await;
}

#[tokio::test]
async fn upgrades_that_go_together_wait_for_one_yes() {
    let case = Case::new("asked").await;
    let pair = &unique_name("pair");
    lock(&case, pair, "Propose").await;

    case.renew("v2", both(&case, pair, &["1.0.0", "2.0.0"], files).await).await;
    let asked = asked(&case, &case.extension(), "UpgradeAvailable").await;
    let dependencies = &asked.data["spec"]["binds"]["dependencies"];
    assert_eq!((&dependencies[0]["package"], &dependencies[0]["version"]), (&json!(pair), &json!("2.0.0")));
    let why = format!("{}.v2.0.0 can only be installed together with it", case.name);
    assert_eq!(dependencies[0]["neededBy"], json!([why]));
    for target in [case.extension(), extension(pair)] {
        let object = case.get(&target).await;
        assert_eq!(text(&object, "/status/install/bundle/version"), "1.0.0", "it was upgraded before the yes");
    }

    let target = plan(asked.metadata.name.as_deref().expect("it has a name"));
    case.merge_into(&target, &json!({"spec": {"approval": "Approved"}})).await;
    case.until_version("2.0.0").await;
    case.until_object(&extension(pair), "version 2.0.0", is_at("2.0.0")).await;
    case.until_object(&target, "applied", |plan| text(plan, "/status/phase") == "Applied").await;
}

#[tokio::test]
async fn packages_that_only_go_together_are_not_upgraded_apart() {
    let case = Case::new("apart").await;
    let pair = &unique_name("pair");
    lock(&case, pair, "Refuse").await;

    case.renew("v2", both(&case, pair, &["1.0.0", "2.0.0"], files).await).await;
    for target in [case.extension(), extension(pair)] {
        let object = case.until_at(&target, Expected::is_true("UpgradeAvailable", "Dependents")).await;
        assert_eq!(text(&object, "/status/install/bundle/version"), "1.0.0");
    }

    // Whoever answers for the time between has one of them go first. The other one follows.
    let annotations = json!({IGNORE_DEPENDENTS: "true", IGNORE_DEPENDENCIES: "true"});
    case.merge_into(&case.extension(), &json!({"metadata": {"annotations": annotations}})).await;
    case.until_version("2.0.0").await;
    case.until_object(&extension(pair), "version 2.0.0", is_at("2.0.0")).await;
}
