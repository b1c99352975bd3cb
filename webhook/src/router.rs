//! The HTTP face: a path for each kind, JSON in, JSON out.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::BodyExt as _;
use rukpak_runtime::error::Chain;
use rukpak_runtime::server::{Connection, Phase};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field};

use crate::call::{Call, Shared};
use crate::denials::Asked;
use crate::metrics::{Operation, Verdict};
use crate::review;
use crate::{BUNDLE_PATH, CONFIG_MAP_PATH, CRD_PATH, DEPLOYMENT_PATH, NEEDED_PATH, handlers};

/// Largest body. The API server takes objects up to 3 MiB and sends the old beside the new.
pub const BODY_LIMIT_BYTES: usize = 8 * 1024 * 1024;
/// Longest wait for a body, and for a turn to read it. The API server gives up after at most 20 seconds itself.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Whoever has sent a body for so long gives way where memory for bodies is short.
const PROMPT: Duration = Duration::from_secs(1);
/// Between two looks whether somebody should give way.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Memory for bodies is taken in such steps.
const STEP_BYTES: usize = 64 * 1024;
/// So many times its text a review may take once it is read.
const GROWTH: usize = 16;
/// What a value takes, beside its text.
const VALUE_BYTES: usize = 80;
/// Larger reviews are read and judged on a thread of their own: others wait for this one.
const LARGE_BYTES: usize = 128 * 1024;

/// What a path is for.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Bundle,
    ConfigMap,
    Crd,
    Deployment,
    Needed,
}

/// The routes of the webhook.
pub fn router(shared: &Shared) -> Router {
    let routes = [
        (BUNDLE_PATH, Subject::Bundle),
        (CONFIG_MAP_PATH, Subject::ConfigMap),
        (CRD_PATH, Subject::Crd),
        (DEPLOYMENT_PATH, Subject::Deployment),
        (NEEDED_PATH, Subject::Needed),
    ];
    routes.into_iter().fold(Router::new(), |router, (path, subject)| {
        router.route(path, post(answer).with_state((shared.clone(), path, subject)))
    })
}

/// A call that gets no review back.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the content type must be application/json")]
    ContentType,
    #[error("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())]
    Timeout,
    #[error("the webhook is busy with other calls")]
    Busy,
    #[error("the body is larger than the limit of {BODY_LIMIT_BYTES} bytes")]
    TooLarge,
    #[error("the body could not be read")]
    Body(#[source] axum::Error),
    #[error(transparent)]
    Review(#[from] review::Error),
}

async fn answer(State((shared, path, subject)): State<(Shared, &'static str, Subject)>, call: Request) -> Response {
    // Without a listener, as in tests, there is none.
    let connection = call.extensions().get::<Connection>().cloned().unwrap_or_default();
    connection.enter(Phase::Waiting);
    let answer = review(&shared, path, subject, call, connection.clone()).await;
    connection.enter(Phase::Idle);
    answer
}

async fn review(
    shared: &Shared,
    path: &'static str,
    subject: Subject,
    call: Request,
    connection: Connection,
) -> Response {
    let begun = Instant::now();
    let call = match read(call, shared, connection).await {
        Ok(call) => call,
        Err(refusal) => {
            shared.metrics.count(path, Operation::Other, Verdict::Invalid, begun.elapsed());
            tracing::warn!(error = %Chain(&refusal), "refused a call that is not an admission review");
            return refusal.into_response();
        }
    };
    let operation = call.request.operation();
    let (span, asked, name) = (span(&call.request), Asked::of(&call.request), call.request.name.clone());
    let response = async {
        match subject {
            Subject::Bundle => handlers::bundle::answer(call, shared).await,
            Subject::ConfigMap => handlers::config_map::answer(call, shared).await,
            Subject::Crd => handlers::crd::answer(call, shared).await,
            Subject::Deployment => handlers::deployment::answer(call, shared).await,
            Subject::Needed => handlers::needed::answer(call),
        }
    };
    let response = response.instrument(span.clone()).await;
    let verdict = if response.allowed() { Verdict::Allowed } else { Verdict::Denied };
    span.record("rukpak.outcome", verdict.name());
    if let Some((about, news)) = span.in_scope(|| asked.event(&name, &response)) {
        (shared.tell)(about, &news);
    }
    shared.metrics.count(path, operation, verdict, begun.elapsed());
    axum::Json(response).into_response()
}

/// From a review that was read to its answer.
fn span(request: &review::Request) -> Span {
    let review::Request { kind, namespace, name, operation, .. } = request;
    tracing::debug_span!(
        "review",
        otel.name = %format_args!("review {}", kind.kind),
        k8s.object.kind = kind.kind,
        k8s.object.name = name,
        k8s.namespace.name = (!namespace.is_empty()).then_some(namespace),
        rukpak.operation = operation.to_ascii_lowercase(),
        rukpak.outcome = field::Empty,
    )
}

async fn read(call: Request, shared: &Shared, connection: Connection) -> Result<Call, Refusal> {
    let content_type = call.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::ContentType);
    }
    let deadline = Instant::now() + BODY_TIMEOUT;
    let body = tokio::time::timeout_at(deadline, body(call.into_body(), shared, &connection)).await;
    let (body, _in_transit) = body.map_err(|_| Refusal::Timeout)??;
    let (is_large, text_bytes) = (body.len() > LARGE_BYTES, body.len());
    let gate = if is_large { &shared.gates.large } else { &shared.gates.small };
    let most = u32::try_from(text_bytes * GROWTH).unwrap_or(u32::MAX);
    let memory = tokio::time::timeout_at(deadline, gate.pass(connection.address(), most)).await;
    let mut memory = memory.map_err(|_| Refusal::Busy)?;
    connection.enter(Phase::Admitted);
    let decoded = handlers::apart(is_large, move || review::Request::decode_counted(&body)).await;
    let (request, values) = decoded?;
    memory.keep(text_bytes + values * VALUE_BYTES);
    Ok(Call::new(request, is_large, connection, memory))
}

/// The whole body, and its part of the memory for bodies on their way.
async fn body(
    mut body: Body,
    shared: &Shared,
    connection: &Connection,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refusal> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > BODY_LIMIT_BYTES {
        return Err(Refusal::TooLarge);
    }
    let (mut bytes, mut memory) = (Vec::with_capacity(announced), None);
    let mut covered = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Refusal::Body)?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > BODY_LIMIT_BYTES {
            return Err(Refusal::TooLarge);
        }
        if bytes.len() + data.len() > covered {
            // Unannounced, the vector doubles as it grows.
            let step = match announced {
                0 => bytes.len().max(STEP_BYTES),
                announced => (announced - bytes.len().min(announced)).min(STEP_BYTES),
            };
            let step = step.max(data.len());
            covered += step;
            let more = room(shared, step, connection).await;
            match &mut memory {
                None => memory = more,
                Some(memory) => more.into_iter().for_each(|more| memory.merge(more)),
            }
        }
        bytes.extend_from_slice(data);
    }
    Ok((bytes, memory))
}

/// Memory for so many bytes of bodies. Who is slow gives way to who waits for it.
async fn room(shared: &Shared, bytes: usize, connection: &Connection) -> Option<OwnedSemaphorePermit> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut acquired = std::pin::pin!(Arc::clone(&shared.gates.bodies).acquire_many_owned(bytes));
    loop {
        match tokio::time::timeout(SHORT_PAUSE, &mut acquired).await {
            // A semaphore that is never closed.
            Ok(permit) => return permit.ok(),
            Err(_) => connection.close_slowest(PROMPT),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(_) | Self::Review(_) => StatusCode::BAD_REQUEST,
        };
        (status, format!("{}\n", Chain(&self))).into_response()
    }
}
