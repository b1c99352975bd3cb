//! The HTTP face: one path, JSON in, JSON out.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;

use crate::metrics::{Metrics, Operation, Verdict};
use crate::review;
use crate::rules::bundle::{self, Change};
use crate::{BUNDLE_PATH, chain};

/// Largest body. The API server takes objects up to 3 MiB and sends the old beside the new.
pub const BODY_LIMIT_BYTES: usize = 8 * 1024 * 1024;
/// Longest wait for a body. The API server gives up after at most 30 seconds itself.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What the handlers share.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// The routes of the webhook.
pub fn router(shared: Shared) -> Router {
    Router::new()
        .route(BUNDLE_PATH, post(review_bundle))
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
        .with_state(shared)
}

/// A call that gets no review back.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the content type must be application/json")]
    ContentType,
    #[error("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())]
    Timeout,
    #[error("the body is larger than the limit of {BODY_LIMIT_BYTES} bytes")]
    TooLarge,
    #[error("the body could not be read")]
    Body(#[source] axum::extract::rejection::BytesRejection),
    #[error(transparent)]
    Review(#[from] review::Error),
}

async fn review_bundle(State(shared): State<Shared>, call: Request) -> Response {
    let request = match read(call).await {
        Ok(request) => request,
        Err(refusal) => {
            shared.metrics.count(Operation::Other, Verdict::Invalid);
            tracing::warn!(error = %chain(&refusal), "refused a call that is no admission review");
            return refusal.into_response();
        }
    };
    let operation = request.operation();
    let response = decide(request);
    shared.metrics.count(operation, if response.allowed() { Verdict::Allowed } else { Verdict::Denied });
    axum::Json(response).into_response()
}

async fn read(call: Request) -> Result<review::Request, Refusal> {
    let content_type = call.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::ContentType);
    }
    let body = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(call, &()))
        .await
        .map_err(|_| Refusal::Timeout)?
        .map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge,
            _ => Refusal::Body(rejection),
        })?;
    Ok(review::Request::decode(&body)?)
}

fn decide(request: review::Request) -> review::Response {
    if !request.is("core.rukpak.io", "v1alpha1", "Bundle") {
        let review::Kind { group, version, kind } = &request.kind;
        let text =
            format!("this webhook answers for Bundle of core.rukpak.io/v1alpha1, not for {kind} of {group}/{version}");
        return review::Response::deny(request.uid, 400, &text);
    }
    // The spec cannot change through a subresource, and nothing of a Bundle forbids its deletion.
    if !request.sub_resource.is_empty() || request.operation() == Operation::Delete {
        return review::Response::allow(request.uid);
    }
    let change = match request.operation() {
        Operation::Create => Change::Create { new: &request.object },
        Operation::Update => Change::Update { old: &request.old_object, new: &request.object },
        Operation::Delete | Operation::Other => {
            let text = format!("operation {:?} is unknown to this webhook", request.operation);
            return review::Response::deny(request.uid, 400, &text);
        }
    };
    match bundle::check(change) {
        Ok(()) => review::Response::allow(request.uid),
        Err(denial) => review::Response::deny(request.uid, 403, &denial.to_string()),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(_) | Self::Review(_) => StatusCode::BAD_REQUEST,
        };
        (status, format!("{}\n", chain(&self))).into_response()
    }
}
