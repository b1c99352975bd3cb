//! `kubectl operator olmv1`: create, search and update catalogs, install, get, update and delete extensions. Its requests are sent as it
//! sends them: by path, with the bodies that upstream's types make, in their order. The program itself is not run, as the API server
//! cannot forward ports without a node: the content is asked for where the manager listens.

use std::time::Duration;

use k8s_openapi::ByteString;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::case::Case;
use crate::olmv0::facade::clients::{Program, text};

const API: &str = "/apis/olm.operatorframework.io/v1";
const POLL: Duration = Duration::from_millis(250);

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}

/// What Go writes for an object of the cluster.
fn object(kind: &str, name: &str, labels: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": kind,
           "metadata": {"name": name, "creationTimestamp": null, "labels": labels}, "spec": spec, "status": {}})
}

/// `create catalog --labels`: Serving is waited for.
async fn creates_catalog(program: &Program<'_>, name: &str, image: &str) {
    let spec =
        json!({"source": {"type": "Image", "image": {"ref": image}}, "priority": 0, "availabilityMode": "Available"});
    let catalogs = format!("{API}/clustercatalogs");
    program.creates(&catalogs, &object("ClusterCatalog", name, &json!({"case": name}), &spec)).await;
    program.awaits(&format!("{catalogs}/{name}"), "Serving", |catalog| is_true(catalog, "Serving")).await;
}

/// `search catalog --package --catalogd-namespace`: returns the names of the bundles.
async fn searches(program: &Program<'_>, case: &Case<'_>) -> Vec<String> {
    let catalogs = program.lists(&format!("{API}/clustercatalogs?labelSelector=case%3D{}", case.name)).await;
    let catalog = catalogs.first().expect("the catalog");
    assert!(catalog["status"]["resolvedSource"]["image"].is_object(), "{catalog}");
    assert_eq!(catalog["spec"]["availabilityMode"], "Available");
    let base: reqwest::Url = text(catalog, "/status/urls/base").parse().expect("a URL");

    // It forwards a port to a Pod of the Service: names of ports would be read as 0.
    let service = program.reads(&format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/services/catalogd-service")).await;
    let ports = service["spec"]["ports"].as_array().expect("ports");
    let https = ports.iter().find(|port| port["port"] == 443).expect("the port of the URL");
    assert!(https["targetPort"].as_u64().is_some_and(|port| port > 0), "{https}");

    let secrets = program.lists(&format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets")).await;
    let known = secrets.iter().filter(|secret| text(secret, "/metadata/name").starts_with("catalogd"));
    let mut authorities = Vec::new();
    for authority in known.filter_map(|secret| secret["data"].get("ca.crt")) {
        let ByteString(pem) = serde_json::from_value(authority.clone()).expect("base64");
        authorities.extend(reqwest::Certificate::from_pem_bundle(&pem).expect("certificates"));
    }
    let http = reqwest::Client::builder().no_proxy().tls_certs_only(authorities).build().expect("a client");
    // By the name under which the port is forwarded.
    let port = case.world.catalogs.rsplit_once(':').expect("a port").1;
    let url = format!("https://localhost:{port}{}/api/v1/all", base.path());
    let answer = http.get(url).send().await.expect("an answer");
    assert_eq!(answer.status(), reqwest::StatusCode::OK);
    let all = answer.text().await.expect("a body");
    let documents = all.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let bundles = documents
        .filter(|document| document["schema"] == "olm.bundle" && document["package"] == case.name.as_str())
        .map(|bundle| text(&bundle, "/name").to_owned());
    bundles.collect()
}

/// `update catalog --priority --ignore-unset`.
async fn updates_catalog(program: &Program<'_>, name: &str) {
    let path = format!("{API}/clustercatalogs/{name}");
    program.changes(&path, |catalog| catalog["spec"]["priority"] = json!(5)).await;
    assert_eq!(program.reads(&path).await["spec"]["priority"], 5);
}

/// `install extension --version`: Installed is waited for.
async fn installs(program: &Program<'_>, case: &Case<'_>, version: &str) {
    let catalog = json!({"packageName": case.name, "version": version, "upgradeConstraintPolicy": "CatalogProvided",
        "selector": {"matchLabels": {"case": case.name}}});
    let spec = json!({"namespace": case.space(), "serviceAccount": {"name": "default"},
        "source": {"sourceType": "Catalog", "catalog": catalog},
        "install": {"preflight": {"crdUpgradeSafety": {"enforcement": "Strict"}}}});
    let extensions = format!("{API}/clusterextensions");
    program.creates(&extensions, &object("ClusterExtension", &case.name, &Value::Null, &spec)).await;
    let path = format!("{extensions}/{}", case.name);
    let installed = program.awaits(&path, "Installed", |extension| is_true(extension, "Installed")).await;
    assert_eq!(text(&installed, "/status/install/bundle/version"), version);
}

/// `update extension --version --ignore-unset`.
async fn updates(program: &Program<'_>, name: &str, version: &str) {
    let path = format!("{API}/clusterextensions/{name}");
    program.changes(&path, |extension| extension["spec"]["source"]["catalog"]["version"] = json!(version)).await;
    let is_there = |extension: &Value| {
        is_true(extension, "Installed") && text(extension, "/status/install/bundle/version") == version
    };
    program.awaits(&path, version, is_there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_searched_and_its_package_installed_updated_and_deleted() {
    let case = Case::new("k-operator").await;
    case.make_space().await;
    let (documents, _) = case.chain(&["1.0.0", "1.1.0"]).await;
    let (image, _) = case.push_catalog("v1", documents).await;
    let program = Program { client: &case.client, space: "", interval: POLL };

    creates_catalog(&program, &case.name, &image).await;
    assert_eq!(searches(&program, &case).await.len(), 2);
    updates_catalog(&program, &case.name).await;
    installs(&program, &case, "1.0.0").await;
    // `get extension`.
    let listed = program.lists(&format!("{API}/clusterextensions")).await;
    assert!(listed.iter().any(|extension| text(extension, "/metadata/name") == case.name), "{listed:?}");
    updates(&program, &case.name, "1.1.0").await;

    // `delete`: nothing holds either up.
    program.ends(&format!("{API}/clusterextensions/{}", case.name)).await;
    program.ends(&format!("{API}/clustercatalogs/{}", case.name)).await;
}
