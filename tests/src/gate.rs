//! A gate in front of the API server: it counts the writes about one thing, and stops, spoils or delays one of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
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
    /// It is neither made nor answered, ever. Others are.
    Swallow,
    /// It is made and never answered.
    SwallowAnswer,
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

/// What becomes of watches, and of the lists that follow them.
#[derive(Debug, Clone, Default)]
struct Watches {
    /// Those that began earlier are at their end.
    epoch: u64,
    /// Those whose path contains this say nothing for now.
    late: Option<String>,
    /// The events of those whose path contains this are lost for now.
    lost: Option<String>,
    /// The next list whose path contains this ends in its middle.
    cut: Option<String>,
}

impl Watches {
    fn are_late(&self, path: &str) -> bool {
        self.late.as_ref().is_some_and(|late| path.contains(late.as_str()))
    }

    fn are_lost(&self, path: &str) -> bool {
        self.lost.as_ref().is_some_and(|lost| path.contains(lost.as_str()))
    }
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
        self.shared.watches.send_modify(|watches| watches.cut = None);
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

    /// Loses the events of watches whose path contains `path`, until this is called with `None`. Then each watch that has lost one ends
    /// as the API server ends a watch whose version was compacted: the client has to list again, and never sees what was between.
    pub fn lose_events(&self, path: Option<&str>) {
        self.shared.watches.send_modify(|watches| watches.lost = path.map(str::to_owned));
    }

    /// Ends the next list whose path contains `path` in its middle.
    pub fn cut_list(&self, path: &str) {
        self.shared.watches.send_modify(|watches| watches.cut = Some(path.to_owned()));
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
        Some(Act::Swallow) => {
            shared.spring(line, false);
            return std::future::pending().await;
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
        Some(Act::SwallowAnswer) => {
            shared.spring(line, false);
            return std::future::pending().await;
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

/// The upstream's answer as it comes, which may be for hours; a watch ends, waits or loses events when it is told to.
fn streamed(answer: reqwest::Response, path: &str, shared: &Shared) -> Response {
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    if !path.contains("watch=true") {
        let is_cut =
            shared.watches.send_if_modified(|watches| watches.cut.take_if(|cut| path.contains(cut.as_str())).is_some());
        let body = answer.bytes_stream().map_err(io::Error::other);
        let body = if is_cut { Body::from_stream(halved(body)) } else { Body::from_stream(body) };
        return (status, headers, body).into_response();
    }
    let mut cut = shared.watches.subscribe();
    let epoch = cut.borrow().epoch;
    let watch = Watch { answer, path: path.to_owned(), watches: shared.watches.subscribe(), has_lost: false };
    let body = stream::unfold(Some(watch), |watch| async { watch?.next().await });
    let end = async move {
        let _ = cut.wait_for(|watches| watches.epoch != epoch).await;
    };
    (status, headers, Body::from_stream(body.take_until(Box::pin(end)))).into_response()
}

/// The first half of what comes first, and then the end of the connection.
fn halved(body: impl Stream<Item = io::Result<Bytes>>) -> impl Stream<Item = io::Result<Bytes>> {
    let first = body.take(1).map_ok(|chunk| chunk.slice(..chunk.len() / 2));
    first.chain(stream::iter([Err(io::Error::other("cut on request"))]))
}

/// A watch that is passed on.
struct Watch {
    answer: reqwest::Response,
    path: String,
    watches: watch::Receiver<Watches>,
    has_lost: bool,
}

/// How the API server ends a watch from a version that etcd has compacted.
const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old resource version, on request"}}
"#;

impl Watch {
    /// The next events; `None` beside the last ones.
    async fn next(mut self) -> Option<(Result<Bytes, reqwest::Error>, Option<Self>)> {
        loop {
            let (path, mut watches) = (self.path.clone(), self.watches.clone());
            let is_found = async {
                if !self.has_lost {
                    std::future::pending::<()>().await;
                }
                // The sender is gone only when the server is.
                let _ = watches.wait_for(|watches| !watches.are_lost(&path)).await;
            };
            let chunk = tokio::select! {
                chunk = self.answer.chunk() => chunk.transpose()?,
                () = is_found => return Some((Ok(Bytes::from_static(EXPIRED)), None)),
            };
            let _ = self.watches.wait_for(|watches| !watches.are_late(&path)).await;
            if !self.has_lost && !self.watches.borrow().are_lost(&path) {
                return Some((chunk, Some(self)));
            }
            self.has_lost = true;
        }
    }
}
