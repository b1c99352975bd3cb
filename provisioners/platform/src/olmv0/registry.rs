//! The catalogs of CatalogSources by image, as their Pods serve them where OLM runs: `api.Registry` over gRPC, without TLS, for anybody
//! in the cluster. Memory and disk.
//!
//! One listener serves all. Clients dial the Service of a CatalogSource, which is another name for ours, and what they dialled comes
//! with each call, as its `:authority`. Only the process that leads listens: it alone has read the catalogs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::{Authority, Uri};
use axum::response::Response;
use axum::{Extension, Router};
use kube::ResourceExt;
use rukpak_catalog::registry::server::{self, Refusal, Room, Stage};
use rukpak_runtime::server::{Bounds, Connection, Phase, serve_http2};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::catalog_source::known::Content;
use super::catalog_source::shown::{self, PORT, Shown};
use super::context::Context;
use super::unit::within;

/// Our Service, which those of CatalogSources lead to.
const SERVICE: &str = "rukpak-registry-service";
/// Where a Pod finds the domain of its cluster.
const RESOLVER: &str = "/etc/resolv.conf";
/// The domain of nearly every cluster.
const DOMAIN: &str = "cluster.local";
/// What the listener allows. The longest connection is that of the longest call of clients.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    strangers_per_address: 64,
    handshake: Duration::from_secs(5),
    headers: Duration::from_secs(30),
    connection: Duration::from_mins(10),
};
/// What documents of catalogs may take on disk: those of the global namespace, and as much all others. The largest published one has
/// some 120 MiB, and is there twice while it is read anew.
const STAGE_BYTES: u64 = 1 << 30;
/// Calls at once on a connection.
const CALLS: u32 = 16;
/// Longest wait for calls in flight at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(8);

/// Where catalogs are served.
pub(crate) struct Endpoint {
    pub(super) listener: TcpListener,
    pub(super) shown: Shown,
}

impl Endpoint {
    /// Of the program in `namespace`, with documents in the folder `stage`.
    pub fn new(listener: TcpListener, namespace: &str, stage: PathBuf) -> Self {
        let resolver = fs::read_to_string(RESOLVER).unwrap_or_default();
        // In full: who looks up the name of another Service is told this one, and no resolver completes it.
        let host = format!("{SERVICE}.{namespace}.svc.{}", domain(&resolver).unwrap_or(DOMAIN));
        let (global, others) = (Stage::new(stage.clone(), STAGE_BYTES), Stage::new(stage, STAGE_BYTES));
        Self { listener, shown: Shown { global, others, host } }
    }
}

/// The domain of the cluster, as a Pod's `resolv.conf` has it: `search NAMESPACE.svc.DOMAIN svc.DOMAIN DOMAIN`.
fn domain(resolver: &str) -> Option<&str> {
    let searched = resolver.lines().filter_map(|line| line.strip_prefix("search ")).flat_map(str::split_whitespace);
    let mut domains = searched.filter_map(|name| name.trim_end_matches('.').strip_prefix("svc."));
    domains.find(|domain| !domain.is_empty())
}

/// What answers calls.
struct Server {
    context: Arc<Context>,
    /// Cancelled when it is known which CatalogSources there are.
    filled: CancellationToken,
    room: Room,
}

/// Answers calls until `stop`.
pub(super) fn serve(
    listener: TcpListener,
    context: Arc<Context>,
    filled: CancellationToken,
    stop: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let server = Server { context, filled, room: Room::default() };
    let router = Router::new().fallback(respond).with_state(Arc::new(server));
    serve_http2(listener, router, (BOUNDS, CALLS), (stop, DRAIN_DEADLINE))
}

async fn respond(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let content = server.find(request.uri());
    if content.is_ok() {
        // Where places run out, whoever has not called for longest gives way.
        connection.enter(Phase::Waiting);
    }
    let turn = server.room.turn(move || connection.close());
    server::answer(request, content, turn).await.map(Body::new)
}

impl Server {
    /// The catalog that a client dialled.
    fn find(&self, dialled: &Uri) -> Result<Arc<server::Content>, Refusal> {
        if !self.filled.is_cancelled() || !self.context.gate.is_open() {
            return Err(Refusal::Unavailable("CatalogSources are not read here, or not yet".to_owned()));
        }
        let authority = dialled.authority().map_or("", Authority::as_str);
        let unknown = || format!("{authority:?} names no CatalogSource: dial SERVICE.NAMESPACE.svc:{PORT}");
        let (wanted, namespace) = named(authority).ok_or_else(|| Refusal::NotFound(unknown()))?;
        let mut sources = within(&self.context.sources, namespace);
        sources.retain(|source| !source.spec.image.is_empty() && shown::service(&source.name_any()) == wanted);
        // Dots and dashes are the same in the name of a Service.
        sources.sort_by_key(|source| source.name_any() == wanted);
        let missing = || format!("namespace {namespace} has no CatalogSource {wanted} with an image");
        let source = sources.pop().ok_or_else(|| Refusal::NotFound(missing()))?;
        match self.context.catalogs.known.content(&(namespace.to_owned(), source.name_any())) {
            Some(Content::Image { shown: Some(content), .. }) => Ok(content),
            Some(_) => {
                Err(Refusal::Unavailable(format!("there is no room to serve CatalogSource {wanted} of {namespace}")))
            }
            None => Err(Refusal::Unavailable(format!("CatalogSource {wanted} of {namespace} has not been read yet"))),
        }
    }
}

/// The Service and the namespace that an authority names: `SERVICE.NAMESPACE`, perhaps with `.svc` and the domain of the cluster.
fn named(authority: &str) -> Option<(&str, &str)> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let mut labels = host.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    let is_service = labels.next().is_none_or(|label| label == "svc");
    (is_service && !service.is_empty() && !namespace.is_empty()).then_some((service, namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_is_known_by_any_name_of_its_service_that_has_the_namespace() {
        for good in ["c.olm:50051", "c.olm.svc:50051", "c.olm.svc", "c.olm.svc.cluster.local:50051", "c.olm.svc.x."] {
            assert_eq!(named(good), Some(("c", "olm")), "{good}");
        }
        for bad in ["", "c:50051", "localhost:50051", "127.0.0.1:50051", "[::1]:50051", ".olm.svc:1", "c.olm.pod:1"] {
            assert_eq!(named(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_domain_of_the_cluster_is_that_of_the_resolver() {
        let resolver =
            "nameserver 10.0.0.10\nsearch rukpak.svc.corp.example svc.corp.example corp.example\noptions ndots:5";
        assert_eq!(domain(resolver), Some("corp.example"));
        assert_eq!(domain("nameserver 10.0.0.10\nsearch corp.example\n"), None);
    }
}
