//! The content service: what Bundles hold, and what is uploaded for them, over HTTPS.
//!
//! ```text
//! listener      accepts connections                           network
//! tls           certificate and authorities of clients        memory; certificate and clients keep it up to date
//! certificate   the Secrets core-cert and rukpak-ca           API server
//! clients       who signs certificates of clients             API server
//! access        who asks, and whether they may                API server
//! bundles       GET /bundles/<name>.tgz                       disk
//! uploads       PUT and GET /uploads/<name>.tgz               disk, API server
//! depot         the uploaded files                            disk
//! reply         a file, whole or in part                      disk
//! ```
//!
//! No body is ever in memory as a whole. Who asks is found out before anything else, so that nobody learns which Bundles
//! there are.

mod access;
mod bundles;
mod certificate;
mod clients;
pub mod depot;
mod listener;
mod reply;
mod tls;
mod uploads;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::args::Options;
use crate::context::Context;
use crate::error::Chain;
use access::{Denied, Peer};
use certificate::Keeper;
pub use depot::Depot;
use tls::Tls;

/// What is read of a body that is refused, so that the client gets to reading the answer.
const DRAINED_BYTES: usize = 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The parts that run side by side, endlessly.
pub async fn run(listener: TcpListener, depot: Arc<Depot>, options: Options, context: Arc<Context>) {
    let tls = Arc::new(Tls::default());
    let keeper = Keeper::new(
        context.client.clone(),
        &context.system_namespace,
        options.content_certificate_secret,
        options.content_certificate_lifetime,
        options.content_certificates,
    );
    let router = Router::new().fallback(answer).with_state((Arc::clone(&context), Arc::clone(&depot)));
    tokio::join!(
        keeper.keep(Arc::clone(&tls)),
        clients::follow(context.client.clone(), Arc::clone(&tls)),
        sweep(depot, options.upload_sync_interval, &context),
        listener::serve(listener, tls, router),
    );
}

/// Removes, now and then, uploads whose Bundles went while nobody looked. No request.
async fn sweep(depot: Arc<Depot>, interval: Duration, context: &Context) {
    if interval.is_zero() {
        return;
    }
    context.filled.cancelled().await;
    loop {
        tokio::time::sleep(interval).await;
        let uploaded = context.bundles.state().into_iter().filter(|bundle| bundle.spec.source.upload.is_some());
        let live: HashSet<String> = uploaded.filter_map(|bundle| bundle.uid()).collect();
        let depot = Arc::clone(&depot);
        match spawn_blocking(move || depot.sweep(&live, interval)).await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(removed)) => tracing::info!(removed, "uploads without a Bundle removed"),
            Ok(Err(error)) => tracing::warn!(%error, "uploads could not be swept"),
        }
    }
}

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Bundle(&'a str),
    Upload(&'a str),
}

impl<'a> Place<'a> {
    fn read(path: &'a str) -> Option<Self> {
        let (folder, file) = path.strip_prefix('/')?.split_once('/')?;
        let name = file.strip_suffix(".tgz")?;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        if !name.bytes().all(is_plain) || !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return None;
        }
        match folder {
            "bundles" => Some(Self::Bundle(name)),
            "uploads" => Some(Self::Upload(name)),
            _ => None,
        }
    }
}

type Shared = (Arc<Context>, Arc<Depot>);

async fn answer(
    State((context, depot)): State<Shared>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let (method, path, headers) = (&parts.method, parts.uri.path(), &parts.headers);
    if let Err(denied) = access::check(&context.client, &peer, method, path, headers).await {
        drain(body).await;
        return refusal(&denied);
    }
    let Some(place) = Place::read(path) else { return not_found() };
    match (place, method) {
        (Place::Bundle(name), &Method::GET | &Method::HEAD) => bundles::get(name, method, headers, &context).await,
        (Place::Upload(name), &Method::GET | &Method::HEAD) => {
            uploads::get(name, method, headers, &depot, &context).await
        }
        (Place::Upload(name), &Method::PUT) => uploads::put(name, headers, body, &depot, &context).await,
        (place, _) => {
            drain(body).await;
            let allowed = if matches!(place, Place::Upload(_)) { "GET, HEAD, PUT" } else { "GET, HEAD" };
            (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)], "405 method not allowed\n").into_response()
        }
    }
}

fn refusal(denied: &Denied) -> Response {
    let text = format!("{denied}\n");
    match denied {
        Denied::Unauthenticated => {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        Denied::Forbidden { .. } => (StatusCode::FORBIDDEN, text).into_response(),
        Denied::Unavailable(_) => {
            tracing::warn!(error = %Chain(denied), "a call to the content service could not be judged");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// Reads some of a body that nobody wants: a client that still sends may otherwise never look for the answer.
async fn drain(body: Body) {
    let mut chunks = body.into_data_stream();
    let mut read = 0;
    let drained = async {
        while let Some(Ok(chunk)) = chunks.next().await {
            read += chunk.len();
            if read > DRAINED_BYTES {
                return;
            }
        }
    };
    // Whoever is slower gets the answer all the same.
    let _ = tokio::time::timeout(DRAIN_TIME, drained).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_bundle_or_nothing() {
        assert_eq!(Place::read("/bundles/a-1.b.tgz"), Some(Place::Bundle("a-1.b")));
        assert_eq!(Place::read("/uploads/a.tgz"), Some(Place::Upload("a")));
        for path in [
            "",
            "/",
            "/bundles",
            "/bundles/",
            "/bundles/.tgz",
            "/bundles/..tgz",
            "/bundles/a",
            "/bundles/a.tar",
            "/bundles/a/b.tgz",
            "/bundles/../uploads/a.tgz",
            "/bundles/%2e%2e.tgz",
            "//bundles/a.tgz",
            "/bundles/A.tgz",
            "/other/a.tgz",
            "/metrics",
        ] {
            assert_eq!(Place::read(path), None, "{path}");
        }
    }
}
