//! Objects and requests that several tests use.

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Denial, Target};
use serde_json::{Value, json};

/// Nobody's class: no controller touches these objects.
pub const NOBODY: &str = "nobody";
/// What the API server puts before the webhook's words.
pub const PREFIX: &str = "admission webhook \"vbundles.core.rukpak.io\" denied the request: ";

/// A Bundle of nobody's class.
pub fn bundle(name: &str, source: &Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
           "spec": {"provisionerClassName": NOBODY, "source": source}})
}

/// A BundleDeployment of nobody's class.
pub fn deployment(name: &str, source: &Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
           "spec": {"provisionerClassName": NOBODY, "template": {"spec": {"provisionerClassName": NOBODY, "source": source}}}})
}

/// A whole image source.
pub fn image() -> Value {
    json!({"type": "image", "image": {"ref": "example.test/bundle:v1"}})
}

/// A whole git source.
pub fn git() -> Value {
    json!({"type": "git", "git": {"repository": "https://example.test/r", "ref": {"tag": "v1"}}})
}

/// Creates an object that must be taken.
pub async fn create(client: &Client, object: &Value) -> DynamicObject {
    verbs::create(client, object).await.unwrap_or_else(|error| panic!("{error:#}: {object}"))
}

/// Creates an object that must be refused, and not exist afterwards.
pub async fn refused(client: &Client, object: &Value) -> Denial {
    verbs::create_expecting_denial(client, object).await.unwrap_or_else(|error| panic!("{error:#}: {object}"))
}

/// Merges a patch that must be refused.
pub async fn patch_refused(client: &Client, target: &Target, patch: &Value) -> Denial {
    let denial = verbs::merge_expecting_denial(client, target, patch).await;
    denial.unwrap_or_else(|error| panic!("{error:#}: {patch}"))
}

/// Merges a patch that must be taken.
pub async fn patch(client: &Client, target: &Target, patch: &Value) -> DynamicObject {
    verbs::merge(client, target, patch).await.unwrap_or_else(|error| panic!("{error:#}: {patch}"))
}

/// Asserts that it is the webhook's refusal, with exactly this text.
pub fn assert_denied(denial: &Denial, text: &str) {
    assert_eq!(denial.message, format!("{PREFIX}{text}"));
    assert_eq!((denial.code, denial.reason.as_str()), (403, text));
}
