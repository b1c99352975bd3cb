//! Calls of the webhook's own port, over TLS, trusting what the API server trusts.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::StatusCode;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::helpers::bundle;

const SERVICE: &str = "rukpak-webhook-service.rukpak-system.svc";
const PATH: &str = "/validate-core-rukpak-io-v1alpha1-bundle";

/// A client that trusts what the API server trusts, and the URL of the webhook.
pub async fn webhook() -> (reqwest::Client, String) {
    let world = World::shared().await;
    let name = "rukpak-validating-webhook-configuration";
    let target = Target::cluster("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", name);
    let configuration = verbs::get(&world.admin().await, &target).await.expect("it can be read").expect("it exists");
    let bundle = configuration.data["webhooks"][0]["clientConfig"]["caBundle"].as_str().expect("it has a caBundle");
    let pem = BASE64_STANDARD.decode(bundle).expect("caBundle is base64");
    let authorities = reqwest::Certificate::from_pem_bundle(&pem).expect("caBundle is PEM");
    let port = world.plane.installed().expect("nobody panicked").expect("it is installed").webhook_port;
    let client = reqwest::Client::builder()
        .tls_certs_only(authorities)
        .resolve(SERVICE, SocketAddr::from(([127, 0, 0, 1], port)))
        .no_proxy()
        .build()
        .expect("the client is well-formed");
    (client, format!("https://{SERVICE}:{port}{PATH}"))
}

/// A question as the API server asks it.
pub fn review(operation: &str, old: &Value, new: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "core.rukpak.io", "version": "v1alpha1", "kind": "Bundle"},
        "resource": {"group": "core.rukpak.io", "version": "v1alpha1", "resource": "bundles"},
        "name": "b", "operation": operation, "userInfo": {"username": "tests"}, "object": new, "oldObject": old}})
}

/// What the webhook answers to it.
pub async fn answer(review: &Value) -> Value {
    let (client, url) = webhook().await;
    let answer = client.post(url).json(review).send().await.expect("the webhook answers");
    assert_eq!(answer.status(), StatusCode::OK);
    let answer: Value = answer.json().await.expect("the answer is JSON");
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].clone()
}

/// The webhook's words on the creation of a Bundle with this source; none where it is admitted.
pub async fn words_on_creation(source: &Value) -> Option<String> {
    words(&review("CREATE", &Value::Null, &bundle("b", source))).await
}

/// The webhook's words on an update from one source to another; none where it is admitted.
pub async fn words_on_update(old: &Value, new: &Value) -> Option<String> {
    words(&review("UPDATE", &bundle("b", old), &bundle("b", new))).await
}

async fn words(review: &Value) -> Option<String> {
    let response = answer(review).await;
    let text = response["status"]["message"].as_str().map(str::to_owned);
    assert_eq!(response["allowed"], text.is_none(), "{response}");
    text
}
