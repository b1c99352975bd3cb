//! PackageManifests: read through the API server, as kubectl reads them, and by nobody who goes around it.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use kube::api::DynamicObject;
use reqwest::StatusCode;
use rukpak_tests::verbs::{self, Target, condition, unique_name};
use serde_json::{Value, json};

use super::case::{ANY, Case, text};
use super::world::GLOBAL;

const GROUP: &str = "packages.operators.coreos.com";
const SERVICE: &str = "rukpak-packages-service.rukpak-system.svc";

fn registered() -> Target {
    Target::cluster("apiregistration.k8s.io/v1", "APIService", &format!("v1.{GROUP}"))
}

/// Waits until the API server has the way to us.
pub async fn until_served(case: &Case) -> DynamicObject {
    let is_available =
        |object: &DynamicObject| condition(object, "Available").is_some_and(|available| available["status"] == "True");
    case.until_object(&registered(), "it is available", is_available).await
}

/// Types a CatalogSource of the package, and waits until it is read.
async fn offers(case: &Case, namespace: &str, image: &str) {
    let mut source = case.source(image);
    source["metadata"]["namespace"] = json!(namespace);
    case.applies(&[source]).await;
    let target = Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", namespace, &case.package);
    let state = |object: &DynamicObject| text(object, "/status/connectionState/lastObservedState") == "READY";
    case.until_object(&target, "READY", state).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_catalog_offers_is_listed_in_every_namespace_and_shown_with_its_channels() {
    let case = Case::new("pm-list").await;
    until_served(&case).await;
    let image = case.catalog(&["1.0.0", "1.1.0"]).await;
    offers(&case, GLOBAL, &image).await;

    let (package, space) = (&case.package, &case.space);
    let printed = case.types(&format!("kubectl -n {space} get packagemanifests")).await;
    let head = printed.iter().find(|line| line.starts_with("NAME ")).expect("a table");
    assert!(head.contains("CATALOG") && head.contains("AGE"), "{printed:?}");
    assert!(
        printed.iter().any(|line| line.starts_with(&format!("{package} ")) && line.contains("Ours")),
        "{printed:?}"
    );
    let by_label = |labels: &str| format!("kubectl -n {space} get packagemanifests -o name -l '{labels}'");
    let one = case.types(&by_label(&format!("catalog={package},catalog-namespace in ({GLOBAL},other)"))).await;
    assert_eq!(one, [format!("packagemanifest.{GROUP}/{package}")]);
    let others = case.types(&by_label(&format!("catalog!={package}"))).await;
    assert!(others.iter().all(|line| !line.ends_with(&format!("/{package}"))), "{others:?}");

    let yaml = case.types(&format!("kubectl -n {space} get packagemanifest {package} -o yaml")).await;
    let object: Value = serde_saphyr::from_str(&yaml.join("\n")).expect("YAML");
    assert_eq!(object["metadata"]["namespace"], json!(space));
    let status = &object["status"];
    assert_eq!((&status["defaultChannel"], &status["catalogSource"]), (&json!("stable"), &json!(package)));
    let channel = &status["channels"][0];
    let (old, new) = (case.csv_name("1.0.0"), case.csv_name("1.1.0"));
    assert_eq!((&channel["name"], &channel["currentCSV"]), (&json!("stable"), &json!(new)));
    let modes = channel["currentCSVDesc"]["installModes"].as_array().expect("modes");
    assert!(modes.len() == ANY.len() && modes.iter().all(|mode| mode["supported"] == true), "{modes:?}");
    let entries = json!([{"name": new, "version": "1.1.0"}, {"name": old, "version": "1.0.0"}]);
    assert_eq!(channel["entries"], entries);

    // Two catalogs offer the package: two objects of one name, and elsewhere one.
    offers(&case, space, &image).await;
    let catalogs = |namespace: &str| {
        let columns = "jsonpath={.items[*].status.catalogSourceNamespace}";
        format!("kubectl -n {namespace} get packagemanifests --field-selector metadata.name={package} -o '{columns}'")
    };
    assert_eq!(case.types(&catalogs(space)).await, [format!("{space} {GLOBAL}")]);
    assert_eq!(case.types(&catalogs("default")).await, [GLOBAL]);

    let path = format!("/apis/{GROUP}/v1/namespaces/{space}/packagemanifests");
    let icon = case.types(&format!("kubectl get --raw {path}/{package}/icon")).await;
    assert!(icon.concat().contains("<svg"), "{icon:?}");
    let watched =
        case.world.terminal.enter(&format!("kubectl get --raw '{path}?watch=true'")).await.expect("bash runs");
    let refusal = "watch is not supported on resources of kind";
    assert!(!watched.succeeded && watched.lines.concat().contains(refusal), "{:?}", watched.lines);
}

/// A client that trusts what the API server trusts, perhaps with the API server's own certificate, and where to ask.
async fn around(case: &Case, is_api_server: bool) -> (reqwest::Client, String) {
    let object = until_served(case).await;
    let pem = BASE64_STANDARD.decode(text(&object, "/spec/caBundle")).expect("caBundle is base64");
    let plane = &case.world.plane;
    let port = plane.installed().expect("nobody panicked").expect("it is installed").packages_port;
    let mut builder = reqwest::Client::builder()
        .tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem).expect("caBundle is PEM"))
        .resolve(SERVICE, SocketAddr::from(([127, 0, 0, 1], port)))
        .no_proxy();
    if is_api_server {
        let read = |name: &str| std::fs::read(plane.folder().join(name)).expect("the plane has one");
        let pem = [read("front-proxy-client.crt"), read("front-proxy-client.key")].concat();
        builder = builder.identity(reqwest::Identity::from_pem(&pem).expect("PEM"));
    }
    let url = format!("https://{SERVICE}:{port}/apis/{GROUP}/v1/namespaces/{}/packagemanifests", case.space);
    (builder.build().expect("the client is well-formed"), url)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_packages_is_refused_by_the_api_server_and_by_us() {
    let case = Case::new("pm-rights").await;
    until_served(&case).await;
    let user = unique_name("viewer");
    let client = case.world.plane.impersonating(&user, &[]).await.expect("the admin kubeconfig is good");
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/packagemanifests", case.space);
    let list = || client.request::<Value>(Request::get(&path).body(Vec::new()).expect("a request"));
    let refused = list().await.expect_err("it is refused").to_string();
    assert!(refused.contains("forbidden"), "{refused}");

    // Who has gone around the API server is nobody, whoever they say they are.
    let (stranger, url) = around(&case, false).await;
    let (api_server, _) = around(&case, true).await;
    let ask = async |http: &reqwest::Client, name: &str, group: &str| {
        let call = http.get(&url).header("X-Remote-User", name).header("X-Remote-Group", group);
        call.send().await.expect("an answer").status()
    };
    assert_eq!(ask(&stranger, "system:admin", "system:masters").await, StatusCode::UNAUTHORIZED);
    // The API server is believed, and asked again whether the user may.
    assert_eq!(ask(&api_server, &user, "system:authenticated").await, StatusCode::FORBIDDEN);
    assert_eq!(ask(&api_server, "system:admin", "system:masters").await, StatusCode::OK);

    let group = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": case.space},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}]});
    case.create(&binding).await;
    let rules = json!([{"apiGroups": [GROUP], "resources": ["packagemanifests"], "verbs": ["list"]}]);
    verbs::await_rules(&case.client, &user, Some(&case.space), &rules).await.expect("the rights come");
    let packages = list().await.expect("a viewer may");
    assert_eq!(packages["kind"], "PackageManifestList");
}
