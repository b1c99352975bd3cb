//! `operator-sdk run bundle`, `bundle-upgrade` and `cleanup`. The Pod that it makes, which serves the catalog, is a server of ours.

use std::time::Duration;

use rukpak_tests::{CatalogServer, Documents};
use serde_json::{Value, json};

use super::super::case::Case;
use super::{DEFINITIONS, Program, V1, V1ALPHA1, catalog_source, operator_group, subscription, text};
use crate::platform::packages;

const POLL: Duration = Duration::from_millis(200);
/// The OperatorGroup that it makes.
const GROUP: &str = "operator-sdk-og";
const ANNOTATIONS: &str = "operators.operatorframework.io";

/// The catalog that it makes for a package.
fn catalog(case: &Case) -> String {
    format!("{}-catalog", case.package)
}

/// Has the CatalogSource name another server, which it says in annotations too.
async fn serves(program: &Program<'_>, catalog: &str, server: &CatalogServer, images: &[String]) {
    let items: Vec<Value> = images.iter().map(|image| json!({"imageTag": image, "mode": "replaces"})).collect();
    let path = program.one(V1ALPHA1, "catalogsources", catalog);
    program
        .changes(&path, |source| {
            source["spec"]["address"] = json!(server.address());
            source["spec"]["sourceType"] = json!("grpc");
            source["metadata"]["annotations"] = json!({
                format!("{ANNOTATIONS}/index-image"): "quay.io/operator-framework/opm:latest",
                format!("{ANNOTATIONS}/injected-bundles"): json!(items).to_string(),
                format!("{ANNOTATIONS}/registry-pod-name"): format!("pod-{}", images.len()),
            });
        })
        .await;
}

/// Waits for an InstallPlan of another name than the Subscription refers to now, approves it, and waits for the ClusterServiceVersion. One
/// that fails on the way ends the program.
async fn succeeds(program: &Program<'_>, subscribed: &Value, csv: &str) -> Value {
    let path = program.one(V1ALPHA1, "subscriptions", text(subscribed, "/metadata/name"));
    let plan = |found: &Value| text(found, "/status/installPlanRef/name").to_owned();
    let before = plan(subscribed);
    let is_new = |found: &Value| !plan(found).is_empty() && plan(found) != before;
    let subscribed = program.awaits(&path, "another InstallPlan", is_new).await;
    program.approves(&plan(&subscribed)).await;
    let is_done = |csv: &Value| {
        let phase = text(csv, "/status/phase");
        assert_ne!(phase, "Failed", "the program would give up: {csv:#}");
        phase == "Succeeded"
    };
    program.awaits(&program.one(V1ALPHA1, "clusterserviceversions", csv), "Succeeded", is_done).await
}

/// `run bundle`; returns the server, which has to go on.
async fn runs(program: &Program<'_>, case: &Case, images: &[String]) -> CatalogServer {
    let catalog = catalog(case);
    // At first without a type: nothing is known of the Pod before it runs.
    let spec = json!({"sourceType": "", "displayName": case.package, "publisher": "operator-sdk"});
    program.creates(&program.all(V1ALPHA1, "catalogsources"), &catalog_source((program.space, &catalog), spec)).await;
    let documents = Documents::package(&case.package, &[("1.0.0", &images[0])]);
    let server = CatalogServer::start(documents).expect("a server");
    serves(program, &catalog, &server, &images[..1]).await;

    let groups = program.all(V1, "operatorgroups");
    assert_eq!(program.lists(&groups).await, Vec::<Value>::new());
    program.creates(&groups, &operator_group((program.space, GROUP))).await;
    let csv = case.csv_name("1.0.0");
    let spec = json!({"source": catalog, "sourceNamespace": program.space, "name": case.package, "channel": "stable",
        "startingCSV": csv, "installPlanApproval": "Manual"});
    let name = format!("{}-sub", csv.replace('.', "-"));
    let path = program.all(V1ALPHA1, "subscriptions");
    let subscribed = program.creates(&path, &subscription((program.space, &name), &spec)).await;
    succeeds(program, &subscribed, &csv).await;
    server
}

/// `cleanup`: the Subscription, whose end is not waited for, then CustomResourceDefinitions, ClusterServiceVersion, CatalogSource, each of
/// which has to be gone before the next, and the OperatorGroup.
async fn cleans_up(program: &Program<'_>, package: &str) {
    let subscribed = program.subscription(package).await;
    let csv = program.one(V1ALPHA1, "clusterserviceversions", text(&subscribed, "/status/installedCSV"));
    let there = program.finds(&csv).await.unwrap_or_default();
    let required = there["status"]["requirementStatus"].as_array().cloned().unwrap_or_default();
    let definitions = required.iter().filter(|one| one["kind"] == "CustomResourceDefinition");
    let mut paths: Vec<String> = definitions.map(|one| format!("{DEFINITIONS}/{}", text(one, "/name"))).collect();
    assert!(!paths.is_empty(), "it has definitions to delete: {required:#?}");
    paths.extend([csv, program.one(V1ALPHA1, "catalogsources", text(&subscribed, "/spec/source"))]);
    program.deletes(&program.one(V1ALPHA1, "subscriptions", text(&subscribed, "/metadata/name"))).await;
    for path in paths {
        program.ends(&path).await;
    }
    assert!(program.lists(&program.all(V1ALPHA1, "subscriptions")).await.is_empty());
    program.ends(&program.one(V1, "operatorgroups", GROUP)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_run_upgraded_by_another_server_and_cleaned_up() {
    let case = Case::new("sdk-run").await;
    let program = Program::new(&case, POLL);
    let images = case.push(&["1.0.0", "1.1.0"]).await;
    let first = runs(&program, &case, &images).await;

    // `bundle-upgrade`: another Pod, whose predecessor goes.
    let subscribed = program.subscription(&case.package).await;
    assert_eq!(
        (text(&subscribed, "/spec/source"), text(&subscribed, "/spec/sourceNamespace")),
        (&*catalog(&case), &*case.space)
    );
    let pairs = [("1.0.0", images[0].as_str()), ("1.1.0", images[1].as_str())];
    let second = CatalogServer::start(Documents::package(&case.package, &pairs)).expect("a server");
    serves(&program, &catalog(&case), &second, &images).await;
    first.stop();
    let csv = succeeds(&program, &subscribed, &case.csv_name("1.1.0")).await;
    assert_eq!(text(&csv, "/spec/replaces"), case.csv_name("1.0.0"));
    case.until_gone(&case.csv("1.0.0")).await;

    // The end of the definitions comes before that of the version, and nobody makes them again in between.
    cleans_up(&program, &case.package).await;
    case.until_gone(&case.target()).await;
    assert!(case.find(&case.csv("1.1.0")).await.is_none());
    assert!(case.find(&packages::definition(&case.package)).await.is_none(), "it was deleted, and stays so");
}
