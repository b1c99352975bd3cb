//! From a question of the API server to the answer: what the rule needs to know is read, then the rule decides.

use std::time::Duration;

use crate::review::{Request, Response};

pub(crate) mod bundle;
pub(crate) mod config_map;
pub(crate) mod crd;
pub(crate) mod deployment;
pub(crate) mod needed;

/// Longest time for reads about Bundles and ConfigMaps; the API server waits 10 seconds.
const READS: Duration = Duration::from_secs(8);

/// The refusal of a kind that does not belong here.
fn other_kind(request: Request, expected: &str) -> Response {
    let (kind, api_version) = (&request.kind.kind, request.kind.api_version());
    let text = format!("this webhook answers for {expected}, not for {kind} of {api_version}");
    Response::deny(request.uid, 400, &text)
}

/// The refusal of an operation that no rule knows.
fn other_operation(request: Request) -> Response {
    let text = format!("operation {:?} is unknown to this webhook", request.operation);
    Response::deny(request.uid, 400, &text)
}

/// Runs work that may take long on a thread of its own, so that other calls go on; other work at once.
pub(crate) async fn apart<T: Send + 'static>(is_long: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !is_long {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // Blocking work is never cancelled once it runs, and the runtime outlives the handlers.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The refusal for want of knowledge. A server's error: clients may try again.
fn not_known(uid: String, why: &str) -> Response {
    tracing::warn!(error = why, "review denied: a lookup failed");
    Response::deny(uid, 500, why)
}
