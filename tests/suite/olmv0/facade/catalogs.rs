//! CatalogSources: an image that is read without a Pod, a server by its address, and what is refused.

use kube::api::DynamicObject;
use rukpak_tests::catalog::nothing;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{CatalogServer, Documents};
use serde_json::{Value, json};

use super::case::{Case, text};
use super::world::GLOBAL;

fn target(name: &str) -> Target {
    Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", GLOBAL, name)
}

fn state(object: &DynamicObject) -> &str {
    text(object, "/status/connectionState/lastObservedState")
}

async fn until_ready(case: &Case, name: &str) -> DynamicObject {
    case.until_object(&target(name), "READY", |object| state(object) == "READY").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_read_without_a_pod() {
    let case = Case::new("cs-image").await;
    let image = case.catalog(&["1.0.0"]).await;
    case.applies(&[case.source(&image)]).await;
    let source = until_ready(&case, &case.package).await;
    assert!(!text(&source, "/status/latestImageRegistryPoll").is_empty());
    let pods = verbs::list(&case.client, "v1", "Pod", "").await.expect("a list");
    assert!(pods.iter().all(|pod| pod.metadata.namespace.as_deref() != Some(GLOBAL)));
    let printed = case.types(&format!("kubectl -n {GLOBAL} get catsrc {}", case.package)).await;
    assert!(printed[0].contains("DISPLAY") && printed[1].contains("Ours"), "{printed:?}");
}

/// As `operator-sdk run bundle` does it: first without anything, then by an update with the address of its Pod.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_by_its_address_as_soon_as_that_is_known() {
    let case = Case::new("cs-server").await;
    let server = CatalogServer::start(nothing()).expect("a server");
    let empty = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": case.package, "namespace": GLOBAL}, "spec": {"sourceType": "grpc", "displayName": "x"}});
    case.create(&empty).await;
    let invalid = case
        .until_object(&target(&case.package), "SpecInvalidError", |object| {
            text(object, "/status/reason") == "SpecInvalidError"
        })
        .await;
    let message = "image and address unset: at least one must be set for sourcetype: grpc";
    assert_eq!(text(&invalid, "/status/message"), message);
    let patch = json!({"spec": {"address": server.address()}});
    case.merge_into(&target(&case.package), &patch).await;
    let ready = until_ready(&case, &case.package).await;
    assert_eq!(text(&ready, "/status/reason"), "");
    assert_eq!(text(&ready, "/status/connectionState/address"), server.address());

    case.applies(&[case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    let images = case.push(&["1.0.0"]).await;
    server.replace(Documents::package(&case.package, &[("1.0.0", &images[0])])).expect("a catalog");
    case.until_succeeded("1.0.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_said_and_is_nobody_elses_business() {
    let case = Case::new("cs-bad").await;
    let source = |name: &str, spec: Value| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
               "metadata": {"name": format!("{}-{name}", case.package), "namespace": GLOBAL}, "spec": spec})
    };
    let secret = json!({"sourceType": "grpc", "image": "registry.example.com/c:1", "secrets": ["kube-system/token"]});
    let absent = json!({"sourceType": "grpc", "image": "localhost:1/absent:1"});
    case.applies(&[source("secret", secret), source("absent", absent)]).await;
    let refused = case
        .until_object(&target(&format!("{}-secret", case.package)), "a refusal", |object| {
            text(object, "/status/reason") == "SpecInvalidError"
        })
        .await;
    let message = text(&refused, "/status/message");
    assert!(message.contains("\"kube-system/token\" is no name of a Secret in the namespace"), "{message}");
    assert_eq!(state(&refused), "");
    let absent = target(&format!("{}-absent", case.package));
    case.until_object(&absent, "TRANSIENT_FAILURE", |object| state(object) == "TRANSIENT_FAILURE").await;

    case.subscribes(&["1.0.0"], &json!({})).await;
    case.until_succeeded("1.0.0").await;
    let subscription = case.get(&case.subscribed()).await;
    assert_eq!(subscription.data["status"]["conditions"][0]["reason"], "AllCatalogSourcesHealthy");
    for name in ["secret", "absent"] {
        case.delete(&target(&format!("{}-{name}", case.package))).await;
    }
}
