//! A gate in front of the API server: it counts the writes about one thing, and stops, spoils or delays one of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, StreamExt};
use serde_json::json;
use tokio::sync::watch;

use crate::TestCa;
use crate::faulty::{Upstream, pass_on, upstream};
use crate::tls::{Served, serve};

/// Largest request body that is passed on.
const BODY_LIMIT_BYTES: usize = 256 << 20;
/// Writes that change nothing anybody asked for: who leads, what happened, questions.
const NO_OPERATION: [&str; 5] = ["/leases", "/events", "reviews", "/token", "dryRun="];

/// The gate. It ends when dropped.
pub struct Gate {
    served: Served,
    ca_pem: String,
    shared: Arc<Shared>,
}

/// What happens at a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is held back, and so is every later one, until [`Gate::release`] or [`Gate::drop_held`].
    HoldRequest,
    /// It is made, and its answer is held back, and so is every later write.
    HoldAnswer,
    /// It is not made: this status is the answer.
    Answer(StatusCode),
    /// It is made, and the answer comes so much later.
    Late(Duration),
}

struct Shared {
    upstream: Upstream,
    state: watch::Sender<Writes>,
    watches: watch::Sender<Watches>,
}

/// The writes since [`Gate::arm`].
#[derive(Debug, Clone, Default)]
struct Writes {
    about: String,
    number: usize,
    act: Option<Act>,
    lines: Vec<String>,
    sprung: Option<String>,
    is_held: bool,
    /// Held writes of an earlier epoch are never made.
    epoch: u64,
}

/// What becomes of watches.
#[derive(Debug, Clone, Default)]
struct Watches {
    /// Those that began earlier are at their end.
    epoch: u64,
    /// Those whose path contains this say nothing for now.
    late: Option<String>,
}

impl Gate {
    /// A gate in front of `base` (`https://host:port`), whose certificate `upstream_ca_pem` signed.
    pub fn before(ca: &TestCa, base: &str, upstream_ca_pem: &str) -> Result<Self> {
        let upstream = upstream(base, upstream_ca_pem)?;
        let shared = Arc::new(Shared { upstream, state: watch::Sender::default(), watches: watch::Sender::default() });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        Ok(Self { served: serve(router, &ca.localhost()?)?, ca_pem: ca.pem(), shared })
    }

    /// `https://localhost:port`.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.served.address().port())
    }

    /// The certificate authority that a client must trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Counts from now on the writes whose path or body contains `about`; at the one with that number (1 is the first) `act` happens.
    pub fn arm(&self, about: &str, number: usize, act: Act) {
        self.shared.state.send_modify(|writes| {
            let epoch = writes.epoch;
            *writes = Writes { about: about.to_owned(), number, act: Some(act), epoch, ..Writes::default() };
        });
    }

    /// Waits until the write was there that [`Gate::arm`] named, and has been acted upon; returns its method and path.
    pub async fn sprung(&self) -> Result<String> {
        let mut writes = self.shared.state.subscribe();
        let writes = writes.wait_for(|writes| writes.sprung.is_some()).await.context("the gate is gone")?;
        writes.sprung.clone().context("it was there a moment ago")
    }

    /// Methods and paths of the writes since [`Gate::arm`].
    pub fn writes(&self) -> Vec<String> {
        self.shared.state.borrow().lines.clone()
    }

    /// Waits until there is another write than the first `known`.
    pub async fn wait_for_more(&self, known: usize) -> Result<()> {
        let mut writes = self.shared.state.subscribe();
        writes.wait_for(|writes| writes.lines.len() != known).await.context("the gate is gone").map(|_| ())
    }

    /// Makes what is held.
    pub fn release(&self) {
        self.shared.state.send_modify(|writes| writes.is_held = false);
    }

    /// Forgets what is held: it is never made. Later writes are.
    pub fn drop_held(&self) {
        self.shared.state.send_modify(|writes| {
            writes.is_held = false;
            writes.epoch += 1;
        });
    }

    /// Ends every watch that is open.
    pub fn cut_watches(&self) {
        self.shared.watches.send_modify(|watches| watches.epoch += 1);
    }

    /// Has watches whose path contains `path` say nothing until this is called with `None`.
    pub fn hold_watches(&self, path: Option<&str>) {
        self.shared.watches.send_modify(|watches| watches.late = path.map(str::to_owned));
    }
}

impl Shared {
    /// Notes a write; returns what is to happen to it, and the epoch that it belongs to.
    fn note(&self, line: &str, body: &[u8]) -> (Option<Act>, u64) {
        let (mut act, mut epoch) = (None, 0);
        self.state.send_modify(|writes| {
            epoch = writes.epoch;
            let about = writes.about.as_bytes();
            let is_about = !about.is_empty()
                && (line.contains(&writes.about) || body.windows(about.len()).any(|part| part == about));
            if !is_about {
                return;
            }
            writes.lines.push(line.to_owned());
            if writes.lines.len() == writes.number {
                act = writes.act;
            }
        });
        (act, epoch)
    }

    fn spring(&self, line: &str, is_held: bool) {
        self.state.send_modify(|writes| {
            writes.sprung = Some(line.to_owned());
            writes.is_held = is_held;
        });
    }

    /// Waits while writes are held; whether this one is to go on.
    async fn is_free(&self, epoch: u64) -> bool {
        let mut writes = self.state.subscribe();
        // The sender is gone only when the server is.
        writes
            .wait_for(|writes| !writes.is_held || writes.epoch != epoch)
            .await
            .is_ok_and(|writes| writes.epoch == epoch)
    }
}

fn is_write(method: &Method, path: &str) -> bool {
    let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    writes.contains(method) && !NO_OPERATION.iter().any(|part| path.contains(part))
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().to_string());
    if !is_write(&method, &path) {
        return match pass_on(&shared.upstream, request, false).await {
            Ok(answer) => streamed(answer, &path, &shared),
            Err(error) => unreachable(&error),
        };
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT_BYTES).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let line = format!("{method} {path}");
    let (act, epoch) = shared.note(&line, &body);
    write(&shared, Request::from_parts(parts, Body::from(body)), &line, (act, epoch)).await
}

async fn write(shared: &Shared, request: Request, line: &str, (act, epoch): (Option<Act>, u64)) -> Response {
    match act {
        Some(Act::HoldRequest) => shared.spring(line, true),
        Some(Act::Answer(status)) => {
            shared.spring(line, false);
            return refusal(status);
        }
        _ => {}
    }
    if !shared.is_free(epoch).await {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let answer = match pass_on(&shared.upstream, request, false).await {
        Ok(answer) => answer,
        Err(error) => return unreachable(&error),
    };
    match act {
        Some(Act::HoldAnswer) => {
            shared.spring(line, true);
            shared.is_free(epoch).await;
        }
        Some(Act::Late(delay)) => {
            shared.spring(line, false);
            tokio::time::sleep(delay).await;
        }
        _ => {}
    }
    streamed(answer, "", shared)
}

fn unreachable(error: &anyhow::Error) -> Response {
    (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response()
}

/// A refusal in the form and with the reason that an API server gives.
fn refusal(status: StatusCode) -> Response {
    let reason = match status {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        _ => "InternalError",
    };
    let body = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": status.as_u16(), "reason": reason,
        "message": format!("{reason} on request")});
    (status, axum::Json(body)).into_response()
}

/// The upstream's answer as it comes, which may be for hours; a watch ends or waits when it is told to.
fn streamed(answer: reqwest::Response, path: &str, shared: &Shared) -> Response {
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    if !path.contains("watch=true") {
        return (status, headers, Body::from_stream(answer.bytes_stream())).into_response();
    }
    let (mut cut, late, path) = (shared.watches.subscribe(), shared.watches.subscribe(), path.to_owned());
    let epoch = cut.borrow().epoch;
    let body = stream::unfold((answer, path, late), |(mut answer, path, mut late)| async move {
        let chunk: Option<Result<Bytes, _>> = answer.chunk().await.transpose();
        let is_free = |watches: &Watches| watches.late.as_ref().is_none_or(|late| !path.contains(late.as_str()));
        // The sender is gone only when the server is.
        let _ = late.wait_for(is_free).await;
        chunk.map(|chunk| (chunk, (answer, path, late)))
    });
    let end = async move {
        let _ = cut.wait_for(|watches| watches.epoch != epoch).await;
    };
    (status, headers, Body::from_stream(body.take_until(Box::pin(end)))).into_response()
}
