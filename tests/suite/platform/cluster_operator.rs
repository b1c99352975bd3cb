//! What there is one of in a cluster: the ClusterOperator `platform-operators-aggregated` and OpenShift's catalog, and clusters
//! that have neither. One test after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use rukpak_tests::Documents;
use rukpak_tests::openshift::cluster_operator;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::SOON;
use serde_json::json;

use super::case::{Case, installed, operator, platform_operator, source_failed};
use super::packages::{self, ALL};
use super::world::{Platform, RELEASE};

const NONE: &str = "No platform operators are present in the cluster";
const GOOD: &str = "All platform operators are in a successful state";

/// `Available` and `Progressing` with their reasons, and `Degraded`, which is never true.
fn says(object: &DynamicObject, available: bool, message: &str) -> bool {
    let reason = if available { "AsExpected" } else { "PlatformOperatorError" };
    let truth = |holds: bool| if holds { "True" } else { "False" };
    let expected = |kind, status| Expected { kind, status: truth(status), reason: Some(reason), message };
    expected("Available", available).met_by(object)
        && expected("Progressing", !available).met_by(object)
        && Expected { kind: "Degraded", status: "False", reason: None, message: "" }.met_by(object)
}

/// Waits until the ClusterOperator says so.
async fn until(case: &Case<'_>, available: bool, message: &str) -> DynamicObject {
    let what = format!("Available={available}: {message}");
    case.until_object(&cluster_operator(), &what, |object| says(object, available, message)).await
}

/// When each condition last changed.
fn times(object: &DynamicObject) -> BTreeMap<String, String> {
    let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    conditions.iter().map(|condition| (text(&condition["type"]), text(&condition["lastTransitionTime"]))).collect()
}

/// A cluster that is not OpenShift: no ClusterOperator, no CatalogSource. Then it gets both, while the manager runs.
#[tokio::test]
async fn clusters_without_openshifts_kinds_work_and_may_get_them_later() {
    let world = Platform::bare().await;
    let case = Case::within(&world, "bare").await;
    case.create(&json!({}), None).await;
    let text = "there is no catalog: name one with --catalog, or install OLM with the CatalogSource \
                openshift-marketplace/redhat-operators";
    case.until(source_failed(text)).await;
    let before = metrics(&world).await;
    assert!(before.contains("rukpak_platform_operators{state=\"failing\"} 1"), "{before}");
    event(&case, "SourceFailed", "Warning").await;
    world.open().await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    case.until(installed()).await;
    event(&case, "InstallSuccessful", "Normal").await;
    until(&case, true, GOOD).await;
    let metrics = metrics(&world).await;
    assert!(metrics.contains("rukpak_platform_operators{state=\"failing\"} 0"), "{metrics}");
    let documented = rukpak_tests::metrics::until_as_documented(&world.manager, "platform").await;
    documented.unwrap_or_else(|error| panic!("{error:#}"));
    let remains = case.leave().await;
    until(&case, true, NONE).await;
    remains.until_gone().await;
}

async fn metrics(world: &Platform) -> String {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let answer = client.get(format!("{}/metrics", world.manager.http_url)).send().await.expect("metrics");
    let text = answer.text().await.expect("text");
    text.lines().filter(|line| line.contains("platform_operators")).collect::<Vec<_>>().join("\n")
}

/// Waits for an Event about the PlatformOperator.
async fn event(case: &Case<'_>, reason: &str, kind: &str) {
    use futures::StreamExt;
    use kube::runtime::{WatchStreamExt, watcher};
    let api: kube::Api<k8s_openapi::api::core::v1::Event> = kube::Api::namespaced(case.client.clone(), "default");
    let about = format!("involvedObject.name={},reason={reason}", case.name);
    let events = watcher(api, watcher::Config::default().fields(&about)).default_backoff().applied_objects();
    let mut events = std::pin::pin!(events);
    let found = tokio::time::timeout(SOON, events.next()).await;
    let found = found.unwrap_or_else(|_| panic!("no Event {reason}")).expect("endless").expect("a watch");
    assert_eq!(found.type_.as_deref(), Some(kind));
}

#[tokio::test]
async fn none_good_bad_and_a_mixture_of_platform_operators_are_aggregated() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "mixture").await;
    let none = until(&case, true, NONE).await;
    assert_eq!(none.data["status"]["versions"], json!([{"name": "operator", "version": RELEASE}]));
    assert_eq!(
        none.data["status"]["relatedObjects"],
        json!([
            {"group": "", "resource": "namespaces", "name": "rukpak-system"},
            {"group": "platform.openshift.io", "resource": "platformoperators", "name": ""},
            {"group": "core.rukpak.io", "resource": "bundles", "name": ""},
            {"group": "core.rukpak.io", "resource": "bundledeployments", "name": ""},
        ])
    );

    // Unknown at first, which is one bad one; and the catalog gets it later, which nobody polls for.
    case.create(&json!({}), None).await;
    let unknown =
        format!("failed to find candidate olm.bundles from the {} package: failed to run sourcing logic", case.name);
    case.until(source_failed(&unknown)).await;
    let text = |name: &str| format!("encountered the failing {name} platform operator with reason \"SourceFailed\"");
    until(&case, false, &text(&case.name)).await;
    case.publish(case.chain(&["1.0.0"]).await.0).await;
    case.until(installed()).await;
    let good = until(&case, true, GOOD).await;
    assert_eq!(times(&good)["Degraded"], times(&none)["Degraded"], "it never changed");

    // A mixture; of two bad ones both are named, in the order of their names.
    let (one, two) = (format!("{}-1", case.name), format!("{}-2", case.name));
    for name in [&two, &one] {
        case.make(&operator(name, json!({"package": {"name": format!("{name}-unknown")}}))).await;
    }
    until(&case, false, &format!("[{}, {}]", text(&one), text(&two))).await;
    case.delete_as(&platform_operator(&two), &DeleteParams::background()).await;
    until(&case, false, &text(&one)).await;
    case.delete_as(&platform_operator(&one), &DeleteParams::background()).await;
    until(&case, true, GOOD).await;
    let remains = case.leave().await;
    until(&case, true, NONE).await;
    drop(world);
    remains.until_gone().await;
}

/// Nothing new, nothing written: neither the ClusterOperator nor the PlatformOperator, whatever happens around them.
#[tokio::test]
async fn nothing_is_written_while_nothing_changes() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "quiet").await;
    case.install(&["1.0.0"], None).await;
    // The last that is written: Installed comes before.
    case.until(Expected::is_true("Ready", "Succeeded")).await;
    let before = until(&case, true, GOOD).await;
    let writes = settled(&world, &case).await;
    for round in ["1", "2", "3"] {
        let mark = json!({"metadata": {"annotations": {"round": round}}});
        case.merge(&case.target(), &mark).await;
        case.merge(&case.deployment(), &mark).await;
        case.publish(case.chain(&["1.0.0"]).await.0).await;
        case.merge(&cluster_operator(), &mark).await;
    }
    world.manager.restart().await.expect("restarted");
    world.manager.wait_ready().await.expect("ready");
    case.stays(&cluster_operator(), "the status", |object| object.data == before.data).await;
    assert_eq!(self::writes(&world), writes);
    let remains = case.leave().await;
    drop(world);
    remains.until_gone().await;
}

/// The writes of the manager once its last Event is written, which nothing waits for.
async fn settled(world: &Platform, case: &Case<'_>) -> usize {
    let events: Api<Event> = Api::all(case.client.clone());
    let last = ListParams::default().fields(&format!("involvedObject.name={},reason=InstallSuccessful", case.name));
    let quiet = async {
        loop {
            let (found, before) = (events.list(&last).await.expect("a list"), writes(world));
            tokio::time::sleep(Duration::from_secs(1)).await; // an audit log cannot be watched
            if !found.items.is_empty() && writes(world) == before {
                return before;
            }
        }
    };
    tokio::time::timeout(SOON, quiet).await.expect("it comes to rest")
}

/// Status writes of the manager so far.
fn writes(world: &Platform) -> usize {
    let log = std::fs::read_to_string(world.plane.audit_log()).expect("the audit log");
    let is_write = |line: &&str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let by = event["user"]["username"].as_str().unwrap_or_default();
        let verb = event["verb"].as_str().unwrap_or_default();
        by.ends_with(":platform-operators-controller-manager")
            && !["get", "list", "watch"].contains(&verb)
            && event["objectRef"]["resource"] != "leases"
    };
    log.lines().filter(is_write).count()
}

/// OpenShift's only catalog, with no `catalog` in the spec: gone, back, and not ready meanwhile.
#[tokio::test]
async fn the_default_catalog_is_named_when_it_is_missing_or_not_ready() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "default").await;
    let image = case.push("1.0.0", packages::bundle(&case.name, "1.0.0", ALL)).await;
    world.main.put(&case.name, Documents::package(&case.name, &[("1.0.0", &image)]));
    case.delete_as(&world.main.target(), &DeleteParams::background()).await;
    case.create(&json!({}), None).await;
    case.until(source_failed("\"redhat-operators\" not found in namespace \"openshift-marketplace\"")).await;
    world.main.create(&case.client).await;
    case.until(source_failed("the CatalogSource openshift-marketplace/redhat-operators is not ready")).await;
    world.main.say(&case.client, "READY").await;
    case.until(installed()).await;
    let remains = case.leave().await;
    drop(world);
    remains.until_gone().await;
}

/// Names OpenShift's only ClusterVersion.
fn cluster_version() -> Target {
    Target::cluster("config.openshift.io/v1", "ClusterVersion", "version")
}

/// Says which OpenShift the cluster is, as the cluster-version operator does.
async fn upgrade_cluster(case: &Case<'_>, version: &str) {
    let target = cluster_version();
    let release = json!({"state": "Completed", "version": version});
    let patch = json!({"status": {"desired": {"version": version}, "history": [release]}});
    let api = target.api(&case.client).await.expect("it is served");
    api.patch_status(&target.name, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("a status");
}

/// What the ClusterOperator says while a version of the package does not support the next OpenShift.
async fn until_blocked(case: &Case<'_>, version: &str, newest: &str) {
    let name = &case.name;
    let text = format!("- maximum supported OCP version for PlatformOperator {name} ({name}.v{version}) is {newest}");
    let blocked = Expected::is_false("Upgradeable", "IncompatibleOperatorsInstalled").saying(&text);
    case.until_at(&cluster_operator(), blocked).await;
}

#[tokio::test]
async fn a_package_blocks_the_next_openshift_until_it_is_upgraded_or_deleted() {
    let world = Platform::alone().await;
    world.open().await;
    let case = Case::within(&world, "newest").await;
    let pushed = async |version: &str, newest: &str| {
        case.push(version, packages::supporting(packages::bundle(&case.name, version, ALL), newest)).await
    };
    let (old, new) = (pushed("1.0.0", "4.20").await, pushed("1.1.0", "4.21").await);
    case.publish(Documents::package(&case.name, &[("1.0.0", &old), ("1.1.0", &new)])).await;
    case.create(&json!({"version": "1.0.0"}), Some("Automatic")).await;
    case.until_version("1.0.0").await;
    let good = until(&case, true, GOOD).await;
    assert!(verbs::condition(&good, "Upgradeable").is_none(), "no ClusterVersion says which OpenShift this is");

    let target = cluster_version();
    let version =
        json!({"apiVersion": target.api_version, "kind": target.kind, "metadata": {"name": target.name}, "spec": {}});
    case.make(&version).await;
    upgrade_cluster(&case, "4.19.7").await;
    let permitted = Expected::is_true("Upgradeable", "AsExpected");
    case.until_at(&cluster_operator(), permitted).await;
    upgrade_cluster(&case, "4.20.0").await;
    until_blocked(&case, "1.0.0", "4.20").await;

    case.merge(&case.target(), &json!({"spec": {"package": {"version": null}}})).await;
    case.until_version("1.1.0").await;
    case.until_at(&cluster_operator(), permitted).await;
    upgrade_cluster(&case, "4.21.3").await;
    until_blocked(&case, "1.1.0", "4.21").await;

    let remains = case.leave().await;
    case.until_at(&cluster_operator(), permitted).await;
    case.delete(&cluster_version()).await;
    drop(world);
    remains.until_gone().await;
}
