//! CatalogSources: an image that is read without a Pod, a server by its address, and what is refused.

use kube::api::DynamicObject;
use rukpak_tests::catalog::nothing;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{CatalogServer, Documents};
use serde_json::{Value, json};

use super::case::{Case, reason, text};
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

/// A channel of so many bundles, each of which replaces the one before and skips some; the first replaces the last if it `loops`.
fn chain(package: &str, bundles: usize, skips: usize, loops: bool) -> Documents {
    let version = |index: usize| format!("1.0.{index}");
    let name = |index: usize| format!("{package}.v{}", version(index));
    let entries: Vec<Value> = (0..bundles)
        .map(|index| {
            let skipped: Vec<String> = (index.saturating_sub(skips)..index).map(name).collect();
            let mut entry = json!({"name": name(index), "skips": skipped});
            if index > 0 || loops {
                entry["replaces"] = json!(name(if index > 0 { index - 1 } else { bundles - 1 }));
            }
            entry
        })
        .collect();
    let mut lines = vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}),
    ];
    lines.extend((0..bundles).map(|index| {
        let value = json!({"packageName": package, "version": version(index)});
        json!({"schema": "olm.bundle", "package": package, "name": name(index), "image": "localhost:1/absent:1",
               "properties": [{"type": "olm.package", "value": value}]})
    }));
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    Documents::of_text(&text.join("\n")).expect("documents")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_that_loops_or_is_vast_is_the_trouble_of_who_asks_for_it() {
    let looped = Case::new("cs-loop").await;
    let vast = Case::new("cs-vast").await;
    let good = Case::new("cs-good").await;
    for (case, documents) in
        [(&looped, chain(&looped.package, 3, 0, true)), (&vast, chain(&vast.package, 1000, 50, false))]
    {
        let image = case.push_catalog(documents).await;
        case.applies(&[case.source(&image), case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    }
    good.subscribes(&["1.0.0"], &json!({})).await;
    good.until_succeeded("1.0.0").await;
    let refused = looped
        .until_object(&looped.subscribed(), "ResolutionFailed", |object| !reason(object, "ResolutionFailed").is_empty())
        .await;
    let message = verbs::condition(&refused, "ResolutionFailed").cloned().unwrap_or_default();
    assert!(message["message"].as_str().is_some_and(|text| text.contains("no channel heads")), "{message}");
    // Its head is found among 50,000 edges, and its image asked for.
    let head = format!("{}.v1.0.999", vast.package);
    let is_asked =
        |object: &DynamicObject| object.metadata.annotations.iter().flatten().any(|(_, value)| *value == head);
    vast.until_object(&vast.target(), "the head of the channel", is_asked).await;
}
