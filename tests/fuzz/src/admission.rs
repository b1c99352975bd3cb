//! What reaches the webhook: reviews, and the definitions in them.

use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{ObjectValidator, Options};
use rukpak_webhook::{BUNDLE_PATH, CONFIG_MAP_PATH, CRD_PATH, DEPLOYMENT_PATH};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::{choice, parts};

#[path = "../../../webhook/tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests of the webhook use more of it")]
mod support;

use support::Known;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("because nothing of it can fail here")
});

/// The webhook of a cluster in which there is one of everything, and what it has read there.
static WEBHOOK: LazyLock<(Router, Reads)> = LazyLock::new(|| {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Pump", "metadata": {"name": "a", "namespace": "b"}, "spec": {"size": 1},
    });
    let config_map = json!({"manifests": [{"configMap": {"name": "used"}}]});
    let bundle =
        json!({"metadata": {"name": "x"}, "spec": {"source": {"type": "configMaps", "configMaps": config_map}}});
    let known = Known {
        mutable: vec!["used"],
        bundles: vec![bundle],
        definition: Some(definition()),
        objects: vec![vec![object]],
        ..Known::default()
    };
    let reads = Arc::clone(&known.log);
    (rukpak_webhook::router::router(&known.shared()), reads)
});

type Reads = Arc<Mutex<Vec<String>>>;

/// The one in the cluster, which the seeds would replace.
fn definition() -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 0}, "name": {"type": "string", "pattern": "^a+$"},
        "when": {"type": "string", "format": "date-time"},
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pumps.example.com", "uid": "1", "labels": {
            "core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "x",
        }},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Pump", "plural": "pumps"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
        "status": {"storedVersions": ["v1"]},
    })
}

/// A body for one of the webhook's paths. It is answered, and no answer is the server's own fault.
pub fn admission(input: &[u8]) {
    let (first, body) = choice(input);
    let path = [BUNDLE_PATH, CONFIG_MAP_PATH, CRD_PATH, DEPLOYMENT_PATH][usize::from(first % 4)];
    let call = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_vec()))
        .expect("because the parts are ours");
    let (webhook, reads) = &*WEBHOOK;
    let answer = RUNTIME.block_on(webhook.clone().oneshot(call));
    // Else it grows with every input.
    reads.lock().expect("nobody panicked with it").clear();
    let status = answer.map(|answer| answer.status());
    assert!(status.as_ref().is_ok_and(|status| !status.is_server_error()), "{status:?}");
}

/// Three JSON documents with NUL bytes between them: a definition, the one to replace it, an object.
pub fn schema(input: &[u8]) {
    let mut documents = parts(input).map(|part| serde_json::from_slice::<Value>(part).unwrap_or_default());
    let mut next = || documents.next().unwrap_or_default();
    let (old, new, object) = (next(), next(), next());
    for strict in [false, true] {
        let Ok(report) = crd_upgrade::check(&old, &new, Options { strict }) else { continue };
        let same = crd_upgrade::check(&new, &new, Options { strict });
        let unsafe_to_itself = same.as_ref().map(|report| report.errors().count());
        assert!(report.errors().count() <= report.changes.len() && unsafe_to_itself.is_ok(), "{same:?}");
        for check in &report.object_checks {
            if let Some(schema) = crd_upgrade::schema_of(&new, &check.schema_version) {
                let violations = ObjectValidator::new(schema).validate(&object);
                assert_eq!(check.change(&object, &violations).is_some(), !violations.is_empty());
            }
        }
    }
}
