//! Without the webhook nothing is admitted, and nothing is lost.

use std::time::Duration;

use kube::Client;
use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Denial, Expected, Target, unique_name};
use rukpak_tests::world;
use serde_json::json;
use tokio::time::Instant;

use super::definitions::{Definition, owned, version};
use super::helpers::{bundle, create, image, patch_refused, refused};
use super::private::{Private, private, probe};

const CALL_FAILED: &str = "failed calling webhook \"vbundles.core.rukpak.io\"";

fn assert_closed(denial: &Denial) {
    assert_eq!(denial.code, 500, "{denial:?}");
    assert!(denial.message.contains(CALL_FAILED), "{denial:?}");
}

/// Calls while it drains, until the port is closed: `/readyz` is false, and calls are answered.
async fn drained(private: &Private, client: &Client, target: &Target) {
    let (end, mut seen) = (Instant::now() + Duration::from_mins(1), false);
    while let Ok((status, text)) = probe(&private.webhook, "readyz").await {
        assert!(Instant::now() < end, "it does not end");
        if status == 200 {
            continue;
        }
        assert!(text.contains("[-]running failed: shutting down"), "{text}");
        if !seen {
            seen = true;
            let label = json!({"metadata": {"labels": {"while": "draining"}}});
            verbs::merge(client, target, &label).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }
    assert!(seen, "it was ready to its end");
}

#[tokio::test]
async fn without_the_webhook_requests_are_refused_and_controllers_recover() {
    let private = private().await;
    let client = private.admin().await;
    let name = unique_name("down");
    create(&client, &bundle(&name, &image())).await;
    let target = Target::bundle(&name);
    let (ended, ()) = tokio::join!(private.webhook.terminate(), drained(&private, &client, &target));
    assert!(ended.unwrap().contains('0'), "it ends well");

    assert_closed(&refused(&client, &bundle(&unique_name("down"), &image())).await);
    assert_closed(&patch_refused(&client, &target, &json!({"metadata": {"labels": {"a": "b"}}})).await);
    // Definitions that a bundle brought wait as well, others do not.
    let definition = Definition::new();
    let denial = refused(&client, &definition.with(&owned(), &[version("v1", &[])])).await;
    assert!(
        denial.code == 500 && denial.message.contains("failed calling webhook \"webhook.crdvalidator.io\""),
        "{denial:?}"
    );
    create(&client, &definition.with(&json!({}), &[version("v1", &[])])).await;
    // Deployments are taken; their Bundles are not.
    let namespace = verbs::namespace(&client, "down").await.unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}});
    let builder = ImageBuilder::of_files([("manifests/a.yaml", manifest.to_string())]);
    let pushed = private.registry.push(&format!("bundles/{namespace}"), "v1", &builder).await.unwrap();
    create(&client, &world::deployment(&namespace, world::image(&pushed.reference))).await;
    let unknown =
        Expected { kind: "HasValidBundle", status: "Unknown", reason: Some("ReconcileFailed"), message: CALL_FAILED };
    let waiting = world::until(&client, &namespace, unknown).await;
    assert!(Expected::is_true("Reconciling", "ProgressingWithRetry").met_by(&waiting), "{:#}", waiting.data);
    assert!(verbs::condition(&waiting, "Stalled").is_none(), "{:#}", waiting.data);
    assert_eq!(probe(&private.controller, "readyz").await.unwrap().0, 200, "the controller does not need the webhook");

    private.webhook.restart().await.unwrap();
    private.webhook.wait_ready().await.unwrap();
    world::until(&client, &namespace, Expected::is_true("Installed", "InstallationSucceeded")).await;
    let after = verbs::merge(&client, &target, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    after.unwrap_or_else(|error| panic!("{error:#}"));
}
