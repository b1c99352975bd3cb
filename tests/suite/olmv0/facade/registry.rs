//! Catalogs of CatalogSources by image, as other clients read them over gRPC: our own client, as if it had dialled their Service.

use kube::api::DynamicObject;
use rukpak_catalog::registry::Client;
use rukpak_tests::catalog::CatalogFront;
use rukpak_tests::tools::PATIENCE;
use rukpak_tests::verbs::Target;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::case::{Case, text};
use super::world::GLOBAL;

/// More connections than the listener has places.
const MANY: usize = 300;
/// More than any name, and than the server reads of a request.
const VAST: usize = 1 << 20;

fn source(name: &str) -> Target {
    Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", GLOBAL, name)
}

/// What clients dial to read a CatalogSource.
fn authority(name: &str) -> String {
    format!("{name}.{GLOBAL}.svc:50051")
}

/// Has a catalog with these versions be offered by a CatalogSource, and waits until it has a Service.
async fn offers(case: &Case, name: &str, versions: &[&str]) -> DynamicObject {
    let mut object = case.source(&case.catalog(versions).await);
    object["metadata"]["name"] = json!(name);
    case.applies(&[object]).await;
    let is_named = |object: &DynamicObject| !text(object, "/status/registryService/createdAt").is_empty();
    case.until_object(&source(name), "its Service in the status", is_named).await
}

/// The way to the listener by the name of a CatalogSource.
async fn front(case: &Case, authority: &str) -> CatalogFront {
    CatalogFront::start(&case.world.registry_address, authority).await.expect("a front")
}

async fn dial(front: &CatalogFront) -> Client {
    Client::connect(&front.address(), PATIENCE).await.expect("a connection")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_image_has_is_installed_by_who_dials_its_service() {
    let case = Case::new("reg-served").await;
    let image = format!("{}-image", case.package);
    let served = offers(&case, &image, &["1.0.0"]).await;
    let authority = authority(&image);
    assert_eq!(text(&served, "/status/connectionState/address"), authority);
    let told = &served.data["status"]["registryService"];
    let named = ["protocol", "serviceName", "serviceNamespace", "port"].map(|field| told[field].clone());
    assert_eq!(named, ["grpc", &image, GLOBAL, "50051"].map(Value::from));
    let service = case.get(&Target::namespaced("v1", "Service", GLOBAL, &image)).await;
    let host = text(&service, "/spec/externalName");
    assert!(host.starts_with("rukpak-registry-service."), "{host}");
    assert_eq!(service.metadata.owner_references.unwrap_or_default()[0].name, image);

    let front = front(&case, &authority).await;
    let relayed = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": case.package, "namespace": GLOBAL},
        "spec": {"sourceType": "grpc", "address": front.address()}});
    case.applies(&[relayed, case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    case.until_succeeded("1.0.0").await;
    let patch = json!({"spec": {"image": case.catalog(&["1.0.0", "1.1.0"]).await}});
    case.merge_into(&source(&image), &patch).await;
    case.until_succeeded("1.1.0").await;
    case.delete(&source(&image)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_dials_no_catalog_is_told_what_to_dial() {
    let case = Case::new("reg-unknown").await;
    for (authority, answer) in [
        (case.world.registry_address.clone(), "dial SERVICE.NAMESPACE.svc:50051"),
        (authority(&case.package), "has no CatalogSource"),
    ] {
        let front = front(&case, &authority).await;
        let refused = dial(&front).await.catalog().await.expect_err("there is no such catalog");
        let words = format!("{:#}", anyhow::Error::from(refused));
        assert!(words.contains(answer), "{authority}: {words}");
    }
}

/// A Service of the same name that somebody else has made stays what it is, and the catalog is read all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_somebody_else_is_not_taken() {
    let case = Case::new("reg-foreign").await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": case.package, "namespace": GLOBAL},
        "spec": {"type": "ExternalName", "externalName": "theirs.example"}});
    case.create(&service).await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let target = Target::namespaced("v1", "Service", GLOBAL, &case.package);
    assert_eq!(text(&case.get(&target).await, "/spec/externalName"), "theirs.example");
    let read = case.get(&source(&case.package)).await;
    assert_eq!(read.data["status"].get("registryService"), None, "{}", read.data["status"]);
    case.delete(&target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_and_vast_requests_keep_nobody_from_a_catalog() {
    let case = Case::new("reg-hostile").await;
    offers(&case, &case.package, &["1.0.0"]).await;
    let front = front(&case, &authority(&case.package)).await;
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(TcpStream::connect(&case.world.registry_address).await.expect("it is accepted"));
    }
    let client = dial(&front).await;
    client.package_details(&"x".repeat(VAST)).await.expect_err("no package has such a name");
    let catalog = client.catalog().await.expect("the catalog");
    let bundles: Vec<_> = catalog.packages[&case.package].bundles.keys().cloned().collect();
    assert_eq!(bundles, [case.csv_name("1.0.0")]);
    let facts = client.facts(&catalog.packages[&case.package], "stable", &bundles[0]).await.expect("the bundle");
    assert!(facts.install_modes.is_some(), "its ClusterServiceVersion is told: {facts:?}");
    case.delete(&source(&case.package)).await;
}
