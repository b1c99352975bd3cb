//! A kind with two versions that a webhook of the tests converts, as long as it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::TestCa;
use rukpak_tests::tls::{Served, serve};
use serde_json::{Value, json};

use crate::engine::case::definition;

/// The webhook: `spec.colour` of `v1` is `spec.tint` of `v2`.
pub struct Converter {
    ca_pem: String,
    is_broken: Arc<AtomicBool>,
    served: Served,
}

impl Converter {
    pub fn start() -> Self {
        let ca = TestCa::new("conversion-ca").expect("a CA can be made");
        let is_broken = Arc::new(AtomicBool::new(false));
        let router = Router::new().fallback(convert).with_state(Arc::clone(&is_broken));
        let served = serve(router, &ca.localhost().expect("it signs")).expect("a port is free");
        Self { ca_pem: ca.pem(), is_broken, served }
    }

    /// From now on every conversion fails.
    pub fn break_down(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }

    /// From now on it works.
    pub fn mend(&self) {
        self.is_broken.store(false, Ordering::SeqCst);
    }

    /// `spec.conversion` of a definition.
    pub fn conversion(&self) -> Value {
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
            "caBundle": BASE64_STANDARD.encode(&self.ca_pem),
            "url": format!("https://localhost:{}/", self.served.address().port())}}})
    }

    /// A definition of `v1` and `v2`, of which `storage` is the one that is stored, with its group.
    pub fn definition(&self, prefix: &str, storage: &str) -> (Value, String) {
        let (mut definition, group) = definition(prefix);
        definition["spec"]["versions"] = json!([version("v1", storage == "v1"), version("v2", storage == "v2")]);
        definition["spec"]["conversion"] = self.conversion();
        (definition, group)
    }
}

/// A served version of [`definition`]'s kind with a field of its own: `colour` in `v1`, `tint` in `v2`.
pub fn version(name: &str, storage: bool) -> Value {
    let field = if name == "v1" { "colour" } else { "tint" };
    json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "minimum": 1}, field: {"type": "string"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})
}

async fn convert(State(is_broken): State<Arc<AtomicBool>>, Json(review): Json<Value>) -> Response {
    if is_broken.load(Ordering::SeqCst) {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let (from, to) = if wanted.ends_with("/v1") { ("tint", "colour") } else { ("colour", "tint") };
    let converted: Vec<Value> = request["objects"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|object| {
            let mut object = object.clone();
            object["apiVersion"] = json!(wanted);
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
                && let Some(value) = spec.remove(from)
            {
                spec.insert(to.to_owned(), value);
            }
            object
        })
        .collect();
    let response = json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted});
    Json(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}))
        .into_response()
}
