//! A TLS server that misbehaves on request: on its own, or in front of a registry, a git server or an API server that it
//! otherwise passes requests on to. It writes down every request, so a test can also say what must *not* have been asked.

mod rules;
mod spoil;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::sync::{Notify, watch};

pub use self::rules::{Fault, Rule};
use self::spoil::{endless, spoil, with_headers};
use crate::tls::{Served, serve};
use crate::{TestCa, tools};

/// Largest request body that is passed on.
const BODY_LIMIT_BYTES: usize = 256 << 20;

/// The server. It ends when dropped.
pub struct FaultyServer {
    served: Served,
    ca_pem: String,
    shared: Arc<Shared>,
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The header `Authorization`, if any.
    pub authorization: Option<String>,
}

/// The token service of a registry: a name and a password buy a token, only a token opens the registry.
#[derive(Debug, Clone)]
pub struct TokenAuth {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// The token's name in the answer: `token`, or `access_token` as OAuth 2 has it.
    pub field: &'static str,
}

struct Shared {
    upstream: Option<Upstream>,
    tokens: Option<(TokenAuth, Mutex<HashSet<String>>)>,
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
    /// Told of each request.
    arrived: Notify,
    /// Answers to requests whose path contains this text are held back.
    held: watch::Sender<Option<String>>,
}

/// What stands behind a server.
pub(crate) struct Upstream {
    base: String,
    client: reqwest::Client,
    /// Whether it is told by which name we were called: requests may be signed with it.
    keeps_host: bool,
}

impl FaultyServer {
    /// A server without anything behind it: what no rule answers is a 404.
    pub fn alone(ca: &TestCa) -> Result<Self> {
        Self::start(ca, None, None)
    }

    /// A server in front of `base` (`https://host:port`), whose certificate `upstream_ca_pem` signed.
    pub fn before(ca: &TestCa, base: &str, upstream_ca_pem: &str) -> Result<Self> {
        Self::start(ca, Some(upstream(base, upstream_ca_pem)?), None)
    }

    /// As [`FaultyServer::before`], where requests are signed with the name of whom they were sent to.
    pub fn before_signed(ca: &TestCa, base: &str, upstream_ca_pem: &str) -> Result<Self> {
        Self::start(ca, Some(Upstream { keeps_host: true, ..upstream(base, upstream_ca_pem)? }), None)
    }

    /// As [`FaultyServer::before`], and it asks for bearer tokens, which it gives out itself at `/token`.
    pub fn before_with_tokens(ca: &TestCa, base: &str, upstream_ca_pem: &str, tokens: TokenAuth) -> Result<Self> {
        Self::start(ca, Some(upstream(base, upstream_ca_pem)?), Some(tokens))
    }

    fn start(ca: &TestCa, upstream: Option<Upstream>, tokens: Option<TokenAuth>) -> Result<Self> {
        let tokens = tokens.map(|tokens| (tokens, Mutex::default()));
        let (rules, seen, arrived) = (Mutex::default(), Mutex::default(), Notify::new());
        let held = watch::Sender::new(None);
        let shared = Arc::new(Shared { upstream, tokens, rules, seen, arrived, held });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        Ok(Self { served: serve(router, &ca.localhost()?)?, ca_pem: ca.pem(), shared })
    }

    /// `localhost:port`.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.served.address().port())
    }

    /// `https://localhost:port`.
    pub fn url(&self) -> String {
        format!("https://{}", self.host())
    }

    /// The certificate authority that a client must trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Adds a rule. The first one that fits a request decides.
    pub fn add(&self, rule: Rule) {
        if let Ok(mut rules) = self.shared.rules.lock() {
            rules.push(rule);
        }
    }

    /// Behaves from now on.
    pub fn mend(&self) {
        if let Ok(mut rules) = self.shared.rules.lock() {
            rules.clear();
        }
        self.release();
    }

    /// Holds back whatever answers to requests whose path contains `path` still say, a watch that is open above all.
    pub fn hold(&self, path: &str) {
        self.shared.held.send_replace(Some(path.to_owned()));
    }

    /// Lets go what was held back.
    pub fn release(&self) {
        self.shared.held.send_replace(None);
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().map(|seen| seen.clone()).unwrap_or_default()
    }

    /// The number of requests so far whose path contains `path`.
    pub fn count(&self, path: &str) -> usize {
        let seen = self.shared.seen.lock();
        seen.map(|seen| seen.iter().filter(|seen| seen.path.contains(path)).count()).unwrap_or_default()
    }

    /// Waits until there were `wanted` requests whose path contains `path`.
    ///
    /// # Errors
    /// There were fewer at the deadline.
    pub async fn asked(&self, path: &str, wanted: usize, deadline: Duration) -> Result<()> {
        let enough = async {
            loop {
                // Before the look, or a request between the two would go unnoticed.
                let arrived = self.shared.arrived.notified();
                if self.count(path) >= wanted {
                    return;
                }
                arrived.await;
            }
        };
        let found = tokio::time::timeout(deadline, enough).await;
        found.with_context(|| format!("{} of {wanted} requests for {path} after {deadline:?}", self.count(path)))
    }

    /// The requests so far, which are forgotten.
    pub fn take_seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().map(|mut seen| std::mem::take(&mut *seen)).unwrap_or_default()
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        drop(self.take_seen());
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().to_string());
    let authorization =
        request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if let Ok(mut seen) = shared.seen.lock() {
        seen.push(Seen { method: method.clone(), path: path.clone(), authorization: authorization.clone() });
    }
    shared.arrived.notify_waiters();
    let mut fault = shared.rules.lock().ok().and_then(|mut rules| rules::fault(&mut rules, &method, &path));
    if let Some(Fault::Late(time)) = fault {
        tokio::time::sleep(time).await;
        fault = None;
    }
    match fault {
        Some(Fault::Status(status, body)) => return (status, body).into_response(),
        Some(Fault::Answer(status, headers, body)) => return with_headers(status, headers, body),
        Some(Fault::Endless(status, begin, again)) => return (status, endless(begin, again)).into_response(),
        Some(Fault::Redirect(to)) => return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response(),
        Some(Fault::Hang) => std::future::pending().await,
        Some(_) | None => {}
    }
    if let Some((tokens, given)) = &shared.tokens
        && let Some(response) = check_token(tokens, given, request.headers(), &path, authorization.as_deref())
    {
        return response;
    }
    let Some(upstream) = &shared.upstream else { return StatusCode::NOT_FOUND.into_response() };
    match pass_on(upstream, request, shared.tokens.is_some()).await {
        Ok(answer) if fault.is_none() => streamed(answer, &path, shared.held.subscribe()),
        Ok(answer) => {
            let (status, headers) = (answer.status(), answer.headers().clone());
            match answer.bytes().await {
                Ok(body) => spoil(fault, status, headers, body),
                Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
            }
        }
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

/// The upstream's answer as it comes, which may be for hours, but for what is held back.
fn streamed(answer: reqwest::Response, path: &str, held: watch::Receiver<Option<String>>) -> Response {
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    let path = path.to_owned();
    let body = stream::unfold((answer, path, held), |(mut answer, path, mut held)| async move {
        let chunk = answer.chunk().await;
        // The sender is gone only when the server is.
        let _ = held.wait_for(|held| held.as_ref().is_none_or(|held| !path.contains(held.as_str()))).await;
        chunk.transpose().map(|chunk| (chunk, (answer, path, held)))
    });
    (status, headers, Body::from_stream(body)).into_response()
}

/// Answers requests to `/token`, and those without a token; `None` lets the request pass.
fn check_token(
    tokens: &TokenAuth,
    given: &Mutex<HashSet<String>>,
    headers: &HeaderMap,
    path: &str,
    authorization: Option<&str>,
) -> Option<Response> {
    use base64::Engine;
    let mut given = given.lock().ok()?;
    if path.starts_with("/token") {
        let pair = base64::prelude::BASE64_STANDARD.encode(format!("{}:{}", tokens.user, tokens.password));
        if authorization != Some(&format!("Basic {pair}")) {
            return Some((StatusCode::UNAUTHORIZED, "wrong user or password").into_response());
        }
        let token = tools::unique_name("token");
        given.insert(token.clone());
        return Some(axum::Json(serde_json::json!({ tokens.field: token, "expires_in": 300 })).into_response());
    }
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    if token.is_some_and(|token| given.contains(token)) {
        return None;
    }
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost");
    let repository = path.trim_start_matches("/v2/").split("/manifests/").next()?.split("/blobs/").next()?.to_owned();
    let challenge =
        format!(r#"Bearer realm="https://{host}/token",service="{host}",scope="repository:{repository}:pull""#);
    Some((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response())
}

/// The server at `base`, whose certificate `ca_pem` signed.
pub(crate) fn upstream(base: &str, ca_pem: &str) -> Result<Upstream> {
    Ok(Upstream { base: base.trim_end_matches('/').to_owned(), client: client(ca_pem)?, keeps_host: false })
}

/// An HTTP client that trusts one certificate authority, uses no proxy and follows no redirect.
///
/// It keeps no connection: each is driven by the runtime that opened it, and the client outlives the runtimes of tests.
pub fn client(ca_pem: &str) -> Result<reqwest::Client> {
    tools::use_ring();
    let ca = reqwest::Certificate::from_pem(ca_pem.as_bytes()).context("read a CA certificate")?;
    let builder =
        reqwest::Client::builder().tls_certs_only([ca]).no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.http1_only().pool_max_idle_per_host(0).build().context("make an HTTP client")
}

/// Asks `upstream` what was asked here; with `own_auth` without the credentials.
pub(crate) async fn pass_on(upstream: &Upstream, request: Request, own_auth: bool) -> Result<reqwest::Response> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, BODY_LIMIT_BYTES).await.context("read the request")?;
    let mut headers = parts.headers;
    if !upstream.keeps_host {
        headers.remove(header::HOST);
    }
    headers.remove(header::CONTENT_LENGTH);
    if own_auth {
        headers.remove(header::AUTHORIZATION);
    }
    let url = format!("{}{}", upstream.base, parts.uri);
    upstream.client.request(parts.method, url).headers(headers).body(body).send().await.context("pass it on")
}
