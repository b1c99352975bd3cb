//! What the tests of several modules begin with.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Conditions as a status has them, each from its type, status, reason and message.
pub fn conditions(told: &[(&str, &str, &str, &str)]) -> Vec<Value> {
    let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    told.iter().map(condition).collect()
}

/// An API server that says this to everybody, and how often it was asked to write.
pub fn api_server(code: u16, said: &Value) -> (Client, Arc<AtomicUsize>) {
    let (said, writes) = (said.to_string().into_bytes(), Arc::new(AtomicUsize::new(0)));
    let counted = writes.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        counted.fetch_add(usize::from(request.method() != Method::GET), Ordering::Relaxed);
        let answer = Response::builder().status(code).body(Body::from(said.clone()));
        ready(Ok::<_, Infallible>(answer.expect("it is a response")))
    });
    (Client::new(service, "default"), writes)
}

/// An API server that has nothing.
pub fn not_found() -> (Client, Arc<AtomicUsize>) {
    let said = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": "gone",
        "reason": "NotFound", "code": 404});
    api_server(404, &said)
}
