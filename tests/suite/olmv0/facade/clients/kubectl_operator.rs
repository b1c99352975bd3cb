//! `kubectl operator`: catalog add, list-available, install, list, upgrade, uninstall.

use std::time::Duration;

use rukpak_tests::verbs::Target;
use serde_json::{Value, json};

use super::super::case::Case;
use super::super::packages::until_served;
use super::{DEFINITIONS, PACKAGES, Program, V1, V1ALPHA1, catalog_source, operator_group, subscription, text};
use crate::platform::packages;

const POLL: Duration = Duration::from_millis(250);
const CHANNEL: &str = "stable";

/// `catalog add`: an image, and READY is waited for.
async fn adds_catalog(program: &Program<'_>, name: &str, image: &str) {
    let spec = json!({"sourceType": "grpc", "image": image, "displayName": "Ours", "publisher": "Us"});
    program.creates(&program.all(V1ALPHA1, "catalogsources"), &catalog_source((program.space, name), spec)).await;
    let path = program.one(V1ALPHA1, "catalogsources", name);
    let is_ready = |source: &Value| text(source, "/status/connectionState/lastObservedState") == "READY";
    program.awaits(&path, "READY", is_ready).await;
}

/// `list-available --catalog`: packages of all namespaces, by labels.
async fn is_listed(program: &Program<'_>, package: &str) {
    let labels = format!("catalog%3D{package}%2Ccatalog-namespace%3D{}", program.space);
    let listed = program.lists(&format!("{PACKAGES}/packagemanifests?labelSelector={labels}")).await;
    let names: Vec<&str> = listed.iter().map(|one| text(one, "/metadata/name")).collect();
    assert_eq!(names, [package]);
}

/// `install --create-operator-group --version`: returns the ClusterServiceVersion that it reports.
async fn installs(program: &Program<'_>, package: &str, version: &str) -> Value {
    let offered = program.reads(&program.one(PACKAGES, "packagemanifests", package)).await;
    let channels = offered["status"]["channels"].as_array().expect("channels");
    let channel = channels.iter().find(|channel| channel["name"] == CHANNEL).expect("the channel");
    let modes = channel["currentCSVDesc"]["installModes"].as_array().expect("install modes");
    assert!(modes.contains(&json!({"type": packages::ALL, "supported": true})), "{modes:?}");
    let entries = channel["entries"].as_array().expect("entries");
    let entry = entries.iter().find(|entry| entry["version"] == version).expect("the version");

    let groups = program.all(V1, "operatorgroups");
    assert_eq!(program.lists(&groups).await, Vec::<Value>::new());
    program.creates(&groups, &operator_group((program.space, program.space))).await;
    let spec = json!({"source": offered["status"]["catalogSource"], "name": package, "channel": CHANNEL,
        "sourceNamespace": offered["status"]["catalogSourceNamespace"], "startingCSV": entry["name"],
        "installPlanApproval": "Manual"});
    let path = program.all(V1ALPHA1, "subscriptions");
    program.creates(&path, &subscription((program.space, package), &spec)).await;
    let is_planned = |found: &Value| found["status"]["installPlanRef"].is_object();
    let path = program.one(V1ALPHA1, "subscriptions", package);
    let subscribed = program.awaits(&path, "an InstallPlan", is_planned).await;
    completes(program, text(&subscribed, "/status/installPlanRef/name")).await
}

/// Approves an InstallPlan, waits until it is Complete, and reads the last ClusterServiceVersion in it.
async fn completes(program: &Program<'_>, plan: &str) -> Value {
    program.approves(plan).await;
    let path = program.one(V1ALPHA1, "installplans", plan);
    let plan = program.awaits(&path, "Complete", |plan| text(plan, "/status/phase") == "Complete").await;
    let steps = plan["status"]["plan"].as_array().expect("steps");
    let version = steps.iter().rfind(|step| step["resource"]["kind"] == "ClusterServiceVersion");
    let name = text(version.expect("one of them"), "/resource/name");
    program.reads(&program.one(V1ALPHA1, "clusterserviceversions", name)).await
}

/// `upgrade`: approves the InstallPlan that the Subscription refers to.
async fn upgrades(program: &Program<'_>, package: &str) -> Value {
    let subscribed = program.subscription(package).await;
    let (current, installed) = (text(&subscribed, "/status/currentCSV"), text(&subscribed, "/status/installedCSV"));
    assert_ne!(current, installed, "the program would say that it is at the latest version");
    completes(program, text(&subscribed, "/status/installPlanRef/name")).await
}

/// Where it is, `upgrade` says that the operator is at the latest version.
async fn is_at_latest(program: &Program<'_>, package: &str, csv: &str) {
    let path = program.one(V1ALPHA1, "subscriptions", package);
    let is_latest =
        |found: &Value| text(found, "/status/installedCSV") == csv && text(found, "/status/currentCSV") == csv;
    program.awaits(&path, csv, is_latest).await;
}

/// `uninstall --operand-strategy=delete --delete-operator-groups`.
async fn uninstalls(program: &Program<'_>, package: &str) {
    let subscribed = program.subscription(package).await;
    let path = program.one(V1ALPHA1, "clusterserviceversions", text(&subscribed, "/status/installedCSV"));
    let csv = program.reads(&path).await;
    let mut operands = Vec::new();
    for owned in csv["spec"]["customresourcedefinitions"]["owned"].as_array().expect("it owns a kind") {
        let definition = program.reads(&format!("{DEFINITIONS}/{}", text(owned, "/name"))).await;
        let (group, plural) = (text(&definition, "/spec/group"), text(&definition, "/spec/names/plural"));
        let all = format!("/apis/{group}/{}/{plural}", text(owned, "/version"));
        let there = program.lists(&all).await;
        operands.extend(there.iter().map(|one| format!("{all}/{}", text(one, "/metadata/name"))));
    }
    assert_eq!(operands.len(), 1, "{operands:?}");
    program.ends(&program.one(V1ALPHA1, "subscriptions", text(&subscribed, "/metadata/name"))).await;
    for operand in operands {
        program.ends(&operand).await;
    }
    program.ends(&path).await;
    assert!(program.lists(&program.all(V1ALPHA1, "subscriptions")).await.is_empty());
    for group in program.lists(&program.all(V1, "operatorgroups")).await {
        program.ends(&program.one(V1, "operatorgroups", text(&group, "/metadata/name"))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_is_offered_installed_upgraded_and_uninstalled() {
    let case = Case::new("k-operator").await;
    until_served(&case).await;
    let program = Program::new(&case, POLL);
    let image = case.catalog(&["1.0.0"]).await;
    adds_catalog(&program, &case.package, &image).await;
    is_listed(&program, &case.package).await;
    let csv = installs(&program, &case.package, "1.0.0").await;
    assert_eq!(text(&csv, "/metadata/name"), case.csv_name("1.0.0"));
    is_at_latest(&program, &case.package, &case.csv_name("1.0.0")).await;
    case.until_succeeded("1.0.0").await;

    let image = case.catalog(&["1.0.0", "1.1.0"]).await;
    let source = Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", &case.space, &case.package);
    case.merge_into(&source, &json!({"spec": {"image": image}})).await;
    case.until_planned("1.1.0", "RequiresApproval").await;
    let csv = upgrades(&program, &case.package).await;
    assert_eq!(text(&csv, "/metadata/name"), case.csv_name("1.1.0"));
    is_at_latest(&program, &case.package, &case.csv_name("1.1.0")).await;
    case.until_succeeded("1.1.0").await;
    case.until_gone(&case.csv("1.0.0")).await;

    let group = packages::group(&case.package);
    let pump = json!({"apiVersion": format!("{group}/v1"), "kind": "Pump", "metadata": {"name": case.package}});
    case.create(&pump).await;
    uninstalls(&program, &case.package).await;
    case.until_gone(&case.target()).await;
    case.until_gone(&case.settings()).await;
    // `-X` reads it next, and would delete what it still lists.
    let operator = Target::cluster("operators.coreos.com/v1", "Operator", &case.name);
    case.until_gone(&operator).await;
    assert!(case.find(&packages::definition(&case.package)).await.is_some(), "CustomResourceDefinitions stay");
}
