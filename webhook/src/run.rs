//! The process: listeners up, certificate kept, and an orderly end.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rukpak_runtime::certificates::identity::since_epoch;
use rukpak_runtime::certificates::service_names;
use rukpak_runtime::events::Events;
use rukpak_runtime::metrics::router as metrics_router;
use rukpak_runtime::probes;
use rukpak_runtime::process::{self, Process};
use rukpak_runtime::server::{Bounds, serve};
use rukpak_runtime::serving::{Keeper, OverTls, Serving, Tls, folder};
use tokio_util::sync::CancellationToken;

use crate::call::Shared;
use crate::certificates::CaBundles;
use crate::health::Readiness;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::reads::Cluster;
use crate::registration::Registrar;
use crate::registration::entry::Asked;
use crate::router::router;
use crate::{CERTIFICATE_SECRET, FIELD_MANAGER, SERVICE, denials};

/// What the listener allows.
///
/// A limit of connections a peer would keep the API server out: it opens as many as it has calls, and behind a node's address
/// translation everybody has one address. It gives up an idle one after 90 seconds: were we first, a call on its way would be lost.
const BOUNDS: Bounds = Bounds {
    connections: 1024,
    strangers_per_address: 512,
    handshake: Duration::from_secs(5),
    headers: Duration::from_mins(2),
    connection: Duration::MAX,
};
/// How long new calls are answered after the signal to stop: until then the Service may still send some here. With
/// [`DRAIN_DEADLINE`] it is less than the 30 seconds that a Pod has to end.
const DRAIN_DELAY: Duration = Duration::from_secs(5);
/// Longest wait for calls in flight at the end. The configuration lets the API server wait for 20 seconds at most.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);

/// Why the process could not start, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing of this program in particular.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The webhook was told not to listen.
    #[error("--webhook-bind-address must name an address")]
    NoAddress,
}

/// Runs the webhook until SIGTERM or SIGINT.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut process = Process::start()?;
    let metrics = Arc::new(Metrics::default());
    let readiness = Arc::new(Readiness::new(match options.cert_dir {
        // Somebody else sees to it.
        Some(_) => Ok(()),
        None => Err("the webhook configuration was not seen yet".to_owned()),
    }));
    let shared = options.shared();
    let health = probes::router(Arc::clone(&readiness));
    process.serve_plainly("--health-probe-bind-address", &shared.probe_address, health).await?;
    let shown = metrics_router(metrics.registry());
    process.serve_plainly("--metrics-bind-address", &options.metrics_bind_address, shown).await?;
    let listener = process::listen("--webhook-bind-address", &options.webhook_bind_address).await?;
    let listener = listener.ok_or(Error::NoAddress)?;
    readiness.listening();

    let client = process::client(process::config(shared.kubeconfig.as_deref()).await?)?;
    let namespace = options.system_namespace();
    let tls = tls(&readiness, &metrics);
    look_after(&mut process, &options, &client, &namespace, (&tls, &readiness));
    let events = Events::new(client.clone(), "rukpak-webhook", "Admit").at_most(denials::EVENTS);
    let routes = router(&Shared {
        metrics,
        reads: Arc::new(Cluster::new(client, &namespace)),
        namespace: namespace.into(),
        controller: options.controller_username().into(),
        requires_account: options.require_service_account(),
        gates: Arc::default(),
        tell: Arc::new(move |about, news| events.tell_seldom(about, news)),
    });
    let close = CancellationToken::new();
    let served = serve(listener, OverTls(tls), routes, BOUNDS, (close.clone(), DRAIN_DEADLINE));
    let leave = leave(process.stop(), readiness, close);
    process.spawn_server("the listener", async move {
        tokio::join!(served, leave);
    });
    tracing::info!(address = %options.webhook_bind_address, "answering admission reviews");
    Ok(process.go_on().await?)
}

/// Returns TLS without a certificate yet. Probes and metrics receive of each when it expires.
fn tls(readiness: &Arc<Readiness>, metrics: &Arc<Metrics>) -> Arc<Tls> {
    let (readiness, metrics) = (Arc::clone(readiness), Arc::clone(metrics));
    Arc::new(Tls::observed(move |until| {
        readiness.certificate_until(until);
        metrics.set_certificate_expiry(since_epoch(until).as_secs());
    }))
}

/// Closes the listener [`DRAIN_DELAY`] after `stop`.
async fn leave(stop: CancellationToken, readiness: Arc<Readiness>, close: CancellationToken) {
    stop.cancelled().await;
    readiness.draining();
    tokio::time::sleep(DRAIN_DELAY).await;
    close.cancel();
}

/// Starts what keeps the certificate, and the entries that are not in the manifests.
fn look_after(
    process: &mut Process,
    options: &Options,
    client: &Client,
    namespace: &str,
    (tls, readiness): (&Arc<Tls>, &Arc<Readiness>),
) {
    let (configuration, tls) = (&options.webhook_configuration, Arc::clone(tls));
    let asked = Asked {
        namespace: namespace.to_owned(),
        every_deployment: options.require_service_account(),
        controller: options.controller_username(),
    };
    let registrar = Registrar::new(client.clone(), configuration.clone(), asked, Arc::clone(readiness)).run();
    process.spawn_endless("the registration of the webhooks", registrar);
    if let Some(volume) = options.cert_dir.clone() {
        process.spawn_endless("the look at the certificate's files", async move {
            folder::follow(&volume, &tls, folder::INTERVAL).await;
        });
        return;
    }
    let serving = Serving {
        namespace: namespace.to_owned(),
        secret: CERTIFICATE_SECRET.to_owned(),
        names: service_names(SERVICE, namespace),
        lifetime: options.certificate_lifetime,
        is_external: false,
        field_manager: FIELD_MANAGER,
    };
    let bundles = CaBundles::new(client.clone(), configuration.clone(), Arc::clone(readiness));
    let keeper = Keeper::new(client.clone(), serving, bundles).keep(tls);
    process.spawn_endless("the certificate's keeper", keeper);
}
