//! A meter in front of the API server: which requests were sent through it, and how many bytes each sent and was answered with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::TestCa;
use crate::faulty::{Upstream, pass_on, upstream};
use crate::tls::{Served, serve};

/// Largest request body that is passed on.
const BODY_LIMIT_BYTES: usize = 256 << 20;
/// So long without a request, and all that was begun is done.
const REST: Duration = Duration::from_secs(3);
/// Longest wait for rest.
const PATIENCE: Duration = Duration::from_mins(2);
/// Numbers of versions have more digits in an older cluster.
const MARGIN_BYTES: u64 = 32;

/// The meter. It ends when dropped.
pub struct Meter {
    served: Served,
    ca_pem: String,
    shared: Arc<Shared>,
}

/// A request that was answered. Watches and discovery are none.
#[derive(Debug, Clone)]
pub struct Metered {
    /// Verb and resource: `apply configmaps`, `patch bundles.core.rukpak.io/status`, `apply secrets (dry run)`.
    pub kind: String,
    /// What was sent.
    pub body: Bytes,
    /// Bytes of the answer.
    pub received: u64,
}

/// What requests of one kind come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many there are.
    pub requests: u64,
    /// Bytes of their bodies.
    pub sent: u64,
    /// Bytes of the bodies of the answers.
    pub received: u64,
}

/// Requests by kind.
pub type Counts = BTreeMap<String, Count>;

struct Shared {
    upstream: Upstream,
    metered: watch::Sender<Vec<Metered>>,
}

impl Meter {
    /// A meter in front of `base` (`https://host:port`), whose certificate `upstream_ca_pem` signed.
    pub fn before(ca: &TestCa, base: &str, upstream_ca_pem: &str) -> Result<Self> {
        let shared = Arc::new(Shared { upstream: upstream(base, upstream_ca_pem)?, metered: watch::Sender::default() });
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

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.shared.metered.send_modify(Vec::clear);
    }

    /// The requests so far.
    pub fn metered(&self) -> Vec<Metered> {
        self.shared.metered.borrow().clone()
    }

    /// Waits until nothing has been asked for a while.
    ///
    /// # Errors
    /// Something is asked again and again.
    pub async fn at_rest(&self) -> Result<()> {
        let mut metered = self.shared.metered.subscribe();
        let rest = async { while let Ok(Ok(())) = tokio::time::timeout(REST, metered.changed()).await {} };
        tokio::time::timeout(PATIENCE, rest).await.context("it does not come to rest")
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let kind = kind(&request);
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT_BYTES).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };

    let request = Request::from_parts(parts, Body::from(body.clone()));
    let answer = match pass_on(&shared.upstream, request, false).await {
        Ok(answer) => answer,
        Err(error) => return (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    };

    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    let Some(kind) = kind else {
        // A watch goes on for hours.
        return (status, headers, Body::from_stream(answer.bytes_stream())).into_response();
    };
    match answer.bytes().await {
        Ok(answer) => {
            let metered = Metered { kind, body, received: bytes(&answer) };
            shared.metered.send_modify(|all| all.push(metered));
            (status, headers, answer).into_response()
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

fn bytes(body: &Bytes) -> u64 {
    u64::try_from(body.len()).unwrap_or(u64::MAX)
}

/// What kind of request it is; `None` for watches, discovery, and what is not about objects.
fn kind(request: &Request) -> Option<String> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, parts) = match parts.as_slice() {
        ["api", _, parts @ ..] => (String::new(), parts),
        ["apis", group, _, parts @ ..] => (format!(".{group}"), parts),
        _ => return None,
    };
    let parts = match parts {
        ["namespaces", _, parts @ ..] if !parts.is_empty() => parts,
        parts => parts,
    };
    let (resource, name, sub) = match parts {
        [resource] => (resource, None, String::new()),
        [resource, name] => (resource, Some(name), String::new()),
        [resource, name, sub @ ..] => (resource, Some(name), format!("/{}", sub.join("/"))),
        [] => return None,
    };

    let content = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let verb = match *request.method() {
        Method::GET if query.contains("watch=true") => return None,
        Method::GET if name.is_some() => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH if content.starts_with("application/apply-patch") => "apply",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return None,
    };
    let trial = if query.contains("dryRun=") { " (dry run)" } else { "" };
    Some(format!("{verb} {resource}{group}{sub}{trial}"))
}

/// Counts requests by kind.
pub fn counted<'a>(requests: impl IntoIterator<Item = &'a Metered>) -> Counts {
    let mut counts = Counts::new();
    for Metered { kind, body, received } in requests {
        let count = counts.entry(kind.clone()).or_default();
        count.requests += 1;
        count.sent += bytes(body);
        count.received += received;
    }
    counts
}

/// Kinds of which there are more requests than there were, or larger ones; in words, each with what it was and is.
pub fn regressions(was: &Counts, is: &Counts) -> Vec<String> {
    let regressed = is.iter().filter_map(|(kind, is)| {
        let regression = regression(was.get(kind).copied().unwrap_or_default(), *is)?;
        Some(format!("{kind}: {regression}"))
    });
    regressed.collect()
}

fn regression(was: Count, is: Count) -> Option<String> {
    // A request that is sent again after a conflict is the machine's. One more for each of ten deployments is ours.
    if is.requests > was.requests + (was.requests / 10).max(1) {
        return Some(format!("was {} requests, is {}", was.requests, is.requests));
    }
    if was.requests == 0 {
        return None;
    }
    let of_each = |what: &str, before: u64, now: u64| {
        let (before, now) = (before / was.requests, now / is.requests.max(1));
        (now > before + before / 10 + MARGIN_BYTES).then(|| format!("was {before} bytes {what} for each, is {now}"))
    };
    of_each("sent", was.sent, is.sent).or_else(|| of_each("received", was.received, is.received))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, uri: &str, content: &str) -> Option<String> {
        let request = axum::http::Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, content);
        kind(&request.body(Body::empty()).unwrap())
    }

    #[test]
    fn a_request_is_told_by_verb_and_resource() {
        let (apply, merge) = ("application/apply-patch+yaml", "application/merge-patch+json");
        let (bundles, status) =
            ("/apis/core.rukpak.io/v1alpha1/bundles", "/apis/core.rukpak.io/v1alpha1/bundles/a/status");
        for (method, uri, content, expected) in [
            (Method::PATCH, "/api/v1/namespaces/n/configmaps/a?force=true", apply, Some("apply configmaps")),
            (Method::PATCH, "/api/v1/namespaces/n/secrets/a?dryRun=All", apply, Some("apply secrets (dry run)")),
            (Method::PATCH, status, merge, Some("patch bundles.core.rukpak.io/status")),
            (Method::POST, bundles, "", Some("create bundles.core.rukpak.io")),
            (Method::GET, "/api/v1/namespaces/n", "", Some("get namespaces")),
            (Method::GET, "/api/v1/namespaces/n/secrets?labelSelector=a", "", Some("list secrets")),
            (Method::GET, "/api/v1/configmaps?watch=true", "", None),
            (Method::GET, "/apis/core.rukpak.io/v1alpha1", "", None),
            (Method::GET, "/version", "", None),
        ] {
            assert_eq!(of(method, uri, content).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn more_requests_and_larger_ones_are_regressions_and_fewer_are_not() {
        let counts =
            |requests, sent, received| Counts::from([("get a".to_owned(), Count { requests, sent, received })]);
        let was = counts(10, 10_000, 20_000);
        for fine in [counts(10, 10_000, 20_000), counts(11, 11_000, 22_000), counts(9, 0, 0), Counts::new()] {
            assert_eq!(regressions(&was, &fine), Vec::<String>::new());
        }
        assert_eq!(regressions(&was, &counts(12, 10_000, 20_000)), ["get a: was 10 requests, is 12"]);
        assert_eq!(regressions(&was, &counts(10, 12_000, 20_000)), ["get a: was 1000 bytes sent for each, is 1200"]);
        let received = regressions(&was, &counts(10, 10_000, 30_000));
        assert_eq!(received, ["get a: was 2000 bytes received for each, is 3000"]);
        assert_eq!(regressions(&Counts::new(), &was), ["get a: was 0 requests, is 10"]);
    }
}
