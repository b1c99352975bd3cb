//! The content service: what Bundles hold, and what is uploaded for them, over HTTPS.
//!
//! ```text
//! clients       who signs certificates of clients             API server
//! access        for whose Bundles they may upload             API server
//! bundles       GET /bundles/<name>.tgz                       disk, API server
//! renders       what bundles render to                        disk
//! uploads       PUT and GET /uploads/<name>.tgz               disk, API server
//! slots         what uploads may take                         memory
//! ```
//!
//! No body is ever in memory as a whole, and no thread waits for a client. Who asks is found out before anything else, so that
//! nobody learns which Bundles there are.

mod access;
mod bundles;
mod clients;
mod renders;
mod slots;
mod uploads;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_runtime::access::{Gate, Peer};
use rukpak_runtime::certificates::service_names;
use rukpak_runtime::probes::Readiness;
use rukpak_runtime::server::{self, Bounds, Connection, Phase};
use rukpak_runtime::serving::{AuthoritySecret, ClientChain, Keeper, OverTls, Serving, Tls};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::depot::Depot;
use renders::Renders;
use slots::Slots;
pub use slots::UploadLimits;

/// The Service that clients reach us by.
const SERVICE: &str = "core";
/// The Secret whose `ca.crt` clients trust. Its name is upstream's.
pub const AUTHORITY_SECRET: &str = "rukpak-ca";
/// What contents are: archives.
const GZIP: &str = "application/gzip";
/// The name of the readiness check.
const CHECK: &str = "content";
/// What the listener allows. The longest connection is enough for the largest download at half a megabyte a second.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    strangers_per_address: 64,
    handshake: Duration::from_secs(10),
    headers: Duration::from_secs(15),
    connection: Duration::from_mins(15),
};
/// Longest wait for downloads at the end. Kubernetes gives a Pod 30 seconds.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);
/// How long a refused body is read on while its client gets to reading the answer: what nginx allows (`lingering_timeout`).
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// How the content service is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Secret with its certificate, in the system namespace.
    pub certificate_secret: String,
    /// The Secret with the authority that signs it.
    pub authority_secret: String,
    /// How long a certificate lives that is made here.
    pub certificate_lifetime: Duration,
    /// Whether the certificate is somebody else's to make and renew.
    pub is_external: bool,
    /// Whom tokens of callers have to be made out to; the API server, if this is empty.
    pub audiences: Vec<String>,
    /// Upper bounds on uploads.
    pub uploads: UploadLimits,
    /// How often uploads without a Bundle are removed; zero for never.
    pub sweep_interval: Duration,
}

/// What answers calls.
struct Service {
    context: Arc<Context>,
    depot: Arc<Depot>,
    gate: Gate,
    renders: Renders,
    slots: Slots,
    /// Cancelled when this process may write no more.
    stop: CancellationToken,
}

/// Makes the two halves of the content service: what looks after it, endlessly, and what answers calls until `stop`, and then
/// those in flight. The first writes to the API server, and tells when callers can be answered.
pub fn start(
    listener: TcpListener,
    depot: Arc<Depot>,
    options: Options,
    context: Arc<Context>,
    (readiness, stop): (Arc<Readiness>, CancellationToken),
) -> (impl Future<Output = ()> + use<>, impl Future<Output = ()> + use<>) {
    let tls = Arc::new(Tls::default());
    let secret = &options.certificate_secret;
    readiness.set(
        CHECK,
        Err(format!(
            "waiting for a certificate (Secret {secret}) and the authorities of clients (ConfigMap {})",
            clients::NAME
        )),
    );
    let service = Service {
        gate: Gate::new(context.client.clone(), options.audiences.clone()),
        renders: Renders::default(),
        slots: Slots::new(options.uploads),
        context: Arc::clone(&context),
        depot: Arc::clone(&depot),
        stop: stop.clone(),
    };
    let router = Router::new().fallback(answer).with_state(Arc::new(service));
    let served = server::serve(listener, OverTls(Arc::clone(&tls)), router, BOUNDS, (stop, DRAIN_DEADLINE));
    (look_after(tls, depot, options, context, readiness), served)
}

async fn look_after(
    tls: Arc<Tls>,
    depot: Arc<Depot>,
    options: Options,
    context: Arc<Context>,
    readiness: Arc<Readiness>,
) {
    let serving = Serving {
        namespace: context.system_namespace.clone(),
        secret: options.certificate_secret,
        names: service_names(SERVICE, &context.system_namespace),
        lifetime: options.certificate_lifetime,
        is_external: options.is_external,
        field_manager: FIELD_MANAGER,
    };
    let (namespace, secret) = (&context.system_namespace, options.authority_secret);
    let authorities = AuthoritySecret::new(context.client.clone(), namespace, secret, FIELD_MANAGER);
    let keeper = Keeper::new(context.client.clone(), serving, authorities);
    let complete = async {
        tls.complete().await;
        readiness.set(CHECK, Ok(()));
    };
    tokio::join!(
        keeper.keep(Arc::clone(&tls)),
        clients::follow(context.client.clone(), Arc::clone(&tls)),
        sweep(depot, options.sweep_interval, &context),
        complete,
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
            Ok(Ok(removed)) => tracing::info!(removed, "removed uploads without a Bundle"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove uploads without a Bundle"),
        }
    }
}

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
enum Route<'a> {
    Bundle(&'a str),
    Upload(&'a str),
}

impl<'a> Route<'a> {
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

async fn answer(
    State(service): State<Arc<Service>>,
    Extension(chain): Extension<ClientChain>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let peer = Peer::of(&chain.0);
    let (parts, body) = request.into_parts();
    let (method, path, headers) = (&parts.method, parts.uri.path(), &parts.headers);
    let user = match service.gate.check(&peer, method, path, headers).await {
        Ok(user) => user,
        Err(denied) => {
            discard(body.into_data_stream());
            return denied.response();
        }
    };
    connection.enter(Phase::Admitted);
    let Some(place) = Route::read(path) else { return not_found() };
    match (place, method) {
        (Route::Bundle(name), &Method::GET | &Method::HEAD) => {
            bundles::get(name, parts.uri.query(), method, headers, &service).await
        }
        (Route::Upload(name), &Method::GET | &Method::HEAD) => uploads::get(name, method, headers, &service).await,
        (Route::Upload(name), &Method::PUT) => uploads::put(name, user, headers, body, &service).await,
        (place, _) => {
            discard(body.into_data_stream());
            let allowed = if matches!(place, Route::Upload(_)) { "GET, HEAD, PUT" } else { "GET, HEAD" };
            (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)], "405 method not allowed\n").into_response()
        }
    }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// Reads on, for a while and beside the answer, what nobody wants of a body: a connection closed while its client still sends
/// is reset, and the client never sees the answer.
fn discard(mut chunks: BodyDataStream) {
    let discarded = async move { while let Some(Ok(_)) = chunks.next().await {} };
    // The stream ends with its connection.
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, discarded));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_bundle_or_nothing() {
        assert_eq!(Route::read("/bundles/a-1.b.tgz"), Some(Route::Bundle("a-1.b")));
        assert_eq!(Route::read("/uploads/a.tgz"), Some(Route::Upload("a")));
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
            assert_eq!(Route::read(path), None, "{path}");
        }
    }
}
