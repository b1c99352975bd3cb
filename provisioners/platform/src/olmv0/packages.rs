//! PackageManifests: what CatalogSources offer, as an aggregated API (`packages.operators.coreos.com/v1`). Read-only; nothing is stored.
//!
//! ```text
//! service      whom the APIService leads to, and whom the API server trusts    API server
//! aggregator   who asks: the API server says so, and proves who it is itself   API server
//! access       whether they may                                                API server
//! request      what a call asks for; refusals                                  pure
//! selector     which labels and names are wanted                               pure
//! visible      the packages that a namespace sees                              memory, servers of catalogs
//! manifest     a package as PackageManifest, and its row in a table            pure
//! answer       bodies; a list is made while it is sent                         memory
//! ```
//!
//! Every replica answers discovery: an API that does not stops the deletion of namespaces. Packages are known where the CatalogSources are
//! read, which is where the process leads. As upstream there are no watches.

mod access;
mod aggregator;
mod answer;
mod manifest;
mod request;
mod selector;
mod service;
mod visible;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use kube::Client;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_runtime::certificates::service_names;
use rukpak_runtime::server::{self, Bounds, Connection, Phase};
use rukpak_runtime::serving::{ClientChain, Keeper, OverTls, Serving, Tls};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::access::Access;
use self::aggregator::Aggregator;
use self::request::{Refusal, Route, Wanted};
use super::context::Context;

/// The group of the API.
const GROUP: &str = "packages.operators.coreos.com";
const VERSION: &str = "v1";
/// Its resource.
const PLURAL: &str = "packagemanifests";
/// The Service that the API server reaches us by.
const SERVICE: &str = "rukpak-packages-service";
const CERTIFICATE_SECRET: &str = "rukpak-packages-cert";
const CERTIFICATE_LIFETIME: Duration = Duration::from_hours(24 * 90);
/// What the listener allows. The API server keeps idle connections for 90 seconds: were we first, a call on its way would be lost.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    strangers_per_address: 64,
    handshake: Duration::from_secs(5),
    headers: Duration::from_mins(2),
    connection: Duration::MAX,
};
/// Longest wait for calls in flight at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(8);

/// Where packages are read from, once somebody reads them.
#[derive(Default)]
pub(crate) struct Packages(OnceLock<Reader>);

struct Reader {
    context: Arc<Context>,
    /// Cancelled when it is known which CatalogSources there are.
    filled: CancellationToken,
}

impl Packages {
    /// From now on packages are what `context` knows of CatalogSources, once `filled` is cancelled.
    pub(super) fn fill(&self, context: Arc<Context>, filled: CancellationToken) {
        // A process begins once.
        let _ = self.0.set(Reader { context, filled });
    }

    fn context(&self) -> Result<&Context, Refusal> {
        let reader = self.0.get().filter(|reader| reader.filled.is_cancelled());
        match reader {
            Some(reader) if reader.context.gate.is_open() => Ok(reader.context.as_ref()),
            Some(_) => Err(Refusal::NotOurs),
            None => Err(Refusal::NotRead),
        }
    }
}

/// What answers calls.
struct Server {
    aggregator: Arc<Aggregator>,
    access: Access,
    packages: Arc<Packages>,
}

/// Makes the two halves of the server: what keeps its certificate and knows who may call, endlessly, and what answers calls until `stop`.
pub(crate) fn start(
    listener: TcpListener,
    client: Client,
    namespace: &str,
    packages: Arc<Packages>,
    stop: CancellationToken,
) -> (impl Future<Output = ()> + use<>, impl Future<Output = ()> + use<>) {
    let (tls, aggregator) = (Arc::new(Tls::default()), Arc::new(Aggregator::default()));
    let serving = Serving {
        namespace: namespace.to_owned(),
        secret: CERTIFICATE_SECRET.to_owned(),
        names: service_names(SERVICE, namespace),
        lifetime: CERTIFICATE_LIFETIME,
        is_external: false,
        field_manager: FIELD_MANAGER,
    };
    let keeper = Keeper::new(client.clone(), serving, service::Registered::new(client.clone(), namespace));
    let answering = Server { aggregator: aggregator.clone(), access: Access::new(client.clone()), packages };
    let router = Router::new().fallback(respond).with_state(Arc::new(answering));
    let served = server::serve(listener, OverTls(Arc::clone(&tls)), router, BOUNDS, (stop, DRAIN_DEADLINE));
    let kept = async move {
        tokio::join!(keeper.keep(Arc::clone(&tls)), aggregator.follow(client, &tls));
    };
    (kept, served)
}

async fn respond(
    State(server): State<Arc<Server>>,
    Extension(chain): Extension<ClientChain>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let (call, _) = request.into_parts();
    let answer = server.answer(&call, &chain, &connection).await;
    // A stranger stays one.
    if !matches!(answer, Err(Refusal::Unauthenticated)) {
        connection.enter(Phase::Idle);
    }
    answer.unwrap_or_else(IntoResponse::into_response)
}

impl Server {
    async fn answer(&self, call: &Parts, chain: &ClientChain, connection: &Connection) -> Result<Response, Refusal> {
        let user = self.aggregator.user(chain, &call.headers).ok_or(Refusal::Unauthenticated)?;
        connection.enter(Phase::Admitted);
        let route = Route::read(call.uri.path()).ok_or(Refusal::NoPath)?;
        let wanted = Wanted::read(call, &route)?;

        // Discovery is for everybody, as that of the API server.
        let Some(asked) = route.attributes() else { return Ok(answer::discovery(&route)) };
        self.access.check(&user, asked).await?;

        let context = self.packages.context()?;
        match route {
            Route::Collection(namespace) => {
                let items = visible::all(context, namespace, wanted.named.as_deref()).await;
                Ok(answer::list(items, namespace, wanted))
            }
            Route::Package(namespace, name) => {
                let item = visible::one(context, namespace, name).await;
                let found = item.and_then(|item| answer::one(&item, namespace, &wanted));
                found.ok_or_else(|| Refusal::NoPackage(name.to_owned()))
            }
            Route::Icon(namespace, name) => {
                let item = visible::one(context, namespace, name).await;
                let found = item.and_then(|item| answer::icon(&item, call));
                found.ok_or_else(|| Refusal::NoPackage(name.to_owned()))
            }
            Route::Groups | Route::Group | Route::Resources => Err(Refusal::NoPath),
        }
    }
}
