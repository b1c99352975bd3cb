//! The HTTP face: a path for each kind, JSON in, JSON out.

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
use crate::reads::Reads;
use crate::review;
use crate::{BUNDLE_PATH, CONFIG_MAP_PATH, DEFINITION_PATH, chain, handlers};

/// Largest body. The API server takes objects up to 3 MiB and sends the old beside the new.
pub const BODY_LIMIT_BYTES: usize = 8 * 1024 * 1024;
/// Longest wait for a body. The API server gives up after at most 30 seconds itself.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What the handlers share.
#[derive(Clone)]
pub struct Shared {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What is known of the cluster.
    pub reads: Arc<dyn Reads>,
    /// The system namespace.
    pub namespace: Arc<str>,
}

/// What a path is for.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Bundle,
    ConfigMap,
    Definition,
}

/// The routes of the webhook.
pub fn router(shared: &Shared) -> Router {
    let route = |subject| post(answer).with_state((shared.clone(), subject));
    Router::new()
        .route(BUNDLE_PATH, route(Subject::Bundle))
        .route(CONFIG_MAP_PATH, route(Subject::ConfigMap))
        .route(DEFINITION_PATH, route(Subject::Definition))
        .layer(DefaultBodyLimit::max(BODY_LIMIT_BYTES))
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

async fn answer(State((shared, subject)): State<(Shared, Subject)>, call: Request) -> Response {
    let request = match read(call).await {
        Ok(request) => request,
        Err(refusal) => {
            shared.metrics.count(Operation::Other, Verdict::Invalid);
            tracing::warn!(error = %chain(&refusal), "refused a call that is no admission review");
            return refusal.into_response();
        }
    };
    let (operation, reads) = (request.operation(), &*shared.reads);
    let response = match subject {
        Subject::Bundle => handlers::bundle::answer(request, reads).await,
        Subject::ConfigMap => handlers::config_map::answer(request, reads, &shared.namespace).await,
        Subject::Definition => handlers::definition::answer(request, reads).await,
    };
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
