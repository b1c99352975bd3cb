//! catalogd's HTTP API: the content of ClusterCatalogs, for anybody who asks.
//!
//! ```text
//! GET, HEAD /catalogs/<name>/api/v1/all                                 the whole catalog, one JSON document a line
//! GET, HEAD /catalogs/<name>/api/v1/metas?schema=&package=&name=        the documents for which all that is given is equal
//! GET, HEAD /metrics                                                    the metrics, for callers with a token and the right to that path
//! ```
//!
//! Catalogs are sent from disk as they are read, and nobody has to say who they are: they hold what registries hand out, and upstream's
//! clients send no token. Beyond upstream: an `ETag` that is the digest, `Last-Modified` that moves only with the content, and `metas`
//! without a gate.

mod answer;
mod stream;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use kube::Client;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_runtime::access::Gate;
use rukpak_runtime::certificates::service_names;
use rukpak_runtime::metrics::router as metrics_router;
use rukpak_runtime::server::{self, Bounds};
use rukpak_runtime::serving::{AuthoritySecret, Keeper, OverTls, Serving, Tls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::cluster_catalog::store::CatalogStore;
use super::metrics;

/// The Service that clients reach us by. Its name is catalogd's.
pub(crate) const SERVICE: &str = "catalogd-service";
/// The Service that Prometheus reaches us by, as it reached operator-controller.
const METRICS_SERVICE: &str = "operator-controller-service";
const CERTIFICATE_SECRET: &str = "catalogd-service-cert";
/// The Secret whose `ca.crt` clients trust.
const AUTHORITY_SECRET: &str = "catalogd-ca";
const CERTIFICATE_LIFETIME: Duration = Duration::from_hours(24 * 90);
/// What the listener allows. The longest connection is catalogd's.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    // All are strangers here, and those of a node or a load balancer share an address.
    strangers_per_address: 256,
    handshake: Duration::from_secs(10),
    headers: Duration::from_secs(15),
    connection: Duration::from_mins(5),
};
/// Longest wait for downloads at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(8);

/// Makes the two halves of the server: what keeps the certificate, endlessly, and what answers calls until `stop`.
pub(crate) fn start(
    listener: TcpListener,
    client: Client,
    namespace: &str,
    content: Arc<CatalogStore>,
    stop: CancellationToken,
) -> (impl Future<Output = ()> + use<>, impl Future<Output = ()> + use<>) {
    let tls = Arc::new(Tls::default());
    // Nobody is asked for a certificate.
    tls.looked_for();
    let serving = Serving {
        namespace: namespace.to_owned(),
        secret: CERTIFICATE_SECRET.to_owned(),
        names: names(namespace),
        lifetime: CERTIFICATE_LIFETIME,
        is_external: false,
        field_manager: FIELD_MANAGER,
    };
    let authorities = AuthoritySecret::new(client.clone(), namespace, AUTHORITY_SECRET.to_owned(), FIELD_MANAGER);
    let shown = Gate::new(client.clone(), Vec::new()).guard(metrics_router(metrics::registry()));
    let keeper = Keeper::new(client, serving, authorities);

    let routes = router(content).merge(shown);
    let served = server::serve(listener, OverTls(Arc::clone(&tls)), routes, BOUNDS, (stop, DRAIN_DEADLINE));
    (keeper.keep(tls), served)
}

/// All names that clients use.
fn names(namespace: &str) -> Vec<String> {
    let mut names = service_names(SERVICE, namespace);
    for name in service_names(METRICS_SERVICE, namespace) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn router(content: Arc<CatalogStore>) -> Router {
    Router::new().fallback(respond).with_state(content)
}

async fn respond(State(content): State<Arc<CatalogStore>>, request: Request) -> Response {
    let begun = Instant::now();
    let (parts, _) = request.into_parts();
    let response = answer::answer(&parts, &content).unwrap_or_else(|error| {
        tracing::warn!(path = parts.uri.path(), %error, "a catalog cannot be read");
        (StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n").into_response()
    });
    metrics::observe_catalog_request(response.status(), begun.elapsed());
    response
}

#[cfg(test)]
mod tests;
