//! From the template to the Bundle: names, hashes, what is copied, and templates that the API server refuses.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{World, deployment};
use serde_json::{Value, json};

use super::case::{Case, active, installed, label, message, name};

const HASH: &str = "core.rukpak.io/bundle-template-hash";
/// Upstream's hash of the template in [`vector`], found by running upstream.
const VECTOR_HASH: &str = "183h8cw453o7rfphl32ext8bscy57vn5jtp1195polj4";

fn vector(name: &str) -> Value {
    let mut object = deployment(name, json!({"type": "upload", "upload": {}}));
    object["spec"]["template"]["metadata"] = json!({"labels": {"app": "combo", "bundleDigest": "abc"}});
    object
}

async fn generated(name: &str) -> DynamicObject {
    let client = World::shared().await.admin().await;
    verbs::create(&client, &vector(name)).await.expect("the deployment is taken");
    let made = |now: Option<&DynamicObject>| now.is_some_and(|now| verbs::condition(now, "HasValidBundle").is_some());
    let target = Target::bundle_deployment(name);
    verbs::await_object(&client, &target, "a Bundle", Duration::from_secs(30), made).await.expect("it is reconciled");
    let labels = format!("core.rukpak.io/owner-name={name}");
    let bundles = verbs::list(&client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await.expect("bundles are listed");
    verbs::delete(&client, &target).await.expect("it can go");
    assert_eq!(bundles.len(), 1, "{bundles:#?}");
    bundles.into_iter().next().expect("there is one")
}

#[tokio::test]
async fn the_generated_name_and_hash_are_those_of_upstream() {
    let short = unique_name("h");
    let bundle = generated(&short).await;
    assert_eq!(label(&bundle, HASH), Some(VECTOR_HASH));
    let whole = format!("{short}-{VECTOR_HASH}");
    assert_eq!(name(&bundle), whole[..whole.len().min(52)]);

    let long = format!("{:a<45}", unique_name("hash"));
    let bundle = generated(&long).await;
    assert_eq!(label(&bundle, HASH), Some(VECTOR_HASH), "the label is never cut");
    assert_eq!(name(&bundle), format!("{long}-{}", &VECTOR_HASH[..6]));
}

#[tokio::test]
async fn labels_and_annotations_of_the_template_are_copied_and_ours_win() {
    let case = Case::new("copy").await;
    let source = case.push("v1", &[case.config_map("a")]).await;
    let mut object = deployment(&case.name, source);
    object["spec"]["template"]["metadata"] = json!({
        "labels": {"team": "red", "core.rukpak.io/owner-name": "somebody-else"},
        "annotations": {"note": "a <b> & c"}, "name": "ignored", "namespace": "ignored", "finalizers": ["x.example.rukpak.io/y"],
    });
    case.create(&object).await;
    let deployment = case.until(installed()).await;
    let bundle = case.only_bundle().await;
    assert_eq!(label(&bundle, "team"), Some("red"));
    assert_eq!(label(&bundle, "core.rukpak.io/owner-name"), Some(case.name.as_str()));
    assert_eq!(
        bundle.metadata.annotations.clone().unwrap_or_default().get("note").map(String::as_str),
        Some("a <b> & c")
    );
    assert!(name(&bundle).starts_with(&case.name), "{}", name(&bundle));
    assert!(bundle.metadata.finalizers.is_none(), "{:?}", bundle.metadata.finalizers);
    // Upstream has an edge case where the core labels leak into the template and change the hash.
    assert_eq!(deployment.data["spec"]["template"]["metadata"]["labels"]["core.rukpak.io/owner-name"], "somebody-else");
}

#[tokio::test]
async fn a_template_that_the_schema_refuses_is_reported_and_can_be_mended() {
    let case = Case::new("union").await;
    let good = case.push("v1", &[case.config_map("a")]).await;
    let mut both = good.clone();
    both["git"] = json!({"repository": case.world.git.url("r"), "ref": {"branch": "main"}});
    case.deploy(both).await;
    let unknown = Expected { kind: "HasValidBundle", status: "Unknown", reason: Some("ReconcileFailed"), message: "" };
    let text = "must validate one and only one schema (oneOf). Found 2 valid alternatives";
    let refused = case.until(unknown.saying(text)).await;
    let way_out = "; spec.template.spec.source has image and git: remove git";
    assert!(message(&refused, "HasValidBundle").ends_with(way_out), "{:#}", refused.data);
    assert!(verbs::condition(&refused, "Installed").is_none(), "{:#}", refused.data);
    assert!(Expected::is_false("Ready", "ReconcileFailed").saying(text).met_by(&refused));
    assert!(Expected::is_true("Stalled", "ReconcileFailed").met_by(&refused));
    assert_eq!(case.bundles().await.len(), 0);

    case.change_source(&json!({"image": null, "git": null})).await;
    case.until(unknown.saying("must validate one and only one schema (oneOf). Found none valid")).await;

    case.change_source(&json!({"image": good["image"]})).await;
    let mended = case.until(installed()).await;
    assert_eq!(active(&mended), Some(name(&case.only_bundle().await).as_str()));
}

#[tokio::test]
async fn a_template_that_the_webhook_refuses_is_reported() {
    let case = Case::new("denied").await;
    case.deploy(json!({"type": "git", "image": {"ref": "example.test/x:v1"}})).await;
    let text = "admission webhook \"vbundles.core.rukpak.io\" denied the request: \
                bundle.spec.source.git must be set for source type \"git\"";
    let unknown =
        Expected { kind: "HasValidBundle", status: "Unknown", reason: Some("ReconcileFailed"), message: text };
    let refused = case.until(unknown).await;
    assert_eq!(message(&refused, "HasValidBundle"), text);
    assert_eq!(case.bundles().await.len(), 0);
}
