//! The process: listeners up, certificate kept, and an orderly end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rukpak_runtime::events::Events;
use rukpak_runtime::metrics::router as metrics_router;
use rukpak_runtime::probes;
use rukpak_runtime::process::{self, Process};
use tokio_util::sync::CancellationToken;

use crate::certificates::files;
use crate::certificates::manager::{CertificateManager, Settings};
use crate::certificates::{Installed, service_names};
use crate::connections::Connections;
use crate::health::{Readiness, Trust};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::reads::Cluster;
use crate::registration::Registrar;
use crate::registration::entry::Asked;
use crate::router::{Shared, router};
use crate::tls::{Serving, server_config};
use crate::{SERVICE, denials, serve};

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
    /// TLS could not be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// Runs the webhook until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut process = Process::start()?;
    let installed = Arc::new(Installed {
        serving: Arc::new(Serving::default()),
        readiness: Arc::new(Readiness::new(match options.cert_dir {
            Some(_) => Trust::NotOurs,
            None => Trust::Missing("the webhook configuration was not seen yet".to_owned()),
        })),
        metrics: Arc::new(Metrics::default()),
    });
    let (readiness, metrics) = (Arc::clone(&installed.readiness), &installed.metrics);
    let shared = options.shared();
    let health = probes::router(readiness);
    process.serve_plainly("--health-probe-bind-address", &shared.probe_address, health).await?;
    let metrics = metrics_router(metrics.registry());
    process.serve_plainly("--metrics-bind-address", &options.metrics_bind_address, metrics).await?;
    let listener = process::listen("--webhook-bind-address", &options.webhook_bind_address).await?;
    let listener = listener.ok_or(Error::NoAddress)?;
    installed.readiness.listening();

    let client = process::client(process::config(shared.kubeconfig.as_deref()).await?)?;
    let namespace = options.system_namespace();
    look_after(&mut process, &options, &client, &namespace, &installed);
    let tls = Arc::new(server_config(Arc::clone(&installed.serving)).map_err(Error::Tls)?);
    let connections = Connections::new(serve::CONNECTION_LIMIT);
    let events = Events::new(client.clone(), "rukpak-webhook", "Admit").at_most(denials::EVENTS);
    let routes = router(&Shared {
        metrics: Arc::clone(&installed.metrics),
        reads: Arc::new(Cluster::new(client, &namespace)),
        namespace: namespace.into(),
        controller: options.controller_username().into(),
        requires_account: options.require_service_account,
        gates: Arc::default(),
        connections: Arc::clone(&connections),
        tell: Arc::new(move |about, news| events.tell_seldom(about, news)),
    });
    let close = CancellationToken::new();
    let served = serve::serve(listener, tls, routes, connections, close.clone(), DRAIN_DEADLINE);
    let leave = leave(process.stop(), Arc::clone(&installed.readiness), options.drain_delay, close);
    process.spawn_server(async move {
        let mut served = pin!(served);
        tokio::select! {
            () = &mut served => {}
            () = leave => served.await,
        }
        "the listener"
    });
    tracing::info!(address = %options.webhook_bind_address, "answering admission reviews");
    Ok(process.go_on().await?)
}

/// Closes the listener some time after `stop`: until then the Service may still send calls here.
async fn leave(stop: CancellationToken, readiness: Arc<Readiness>, delay: Duration, close: CancellationToken) {
    stop.cancelled().await;
    readiness.draining();
    tokio::time::sleep(delay).await;
    close.cancel();
}

/// Starts what keeps the certificate, and the entries that are not in the manifests.
fn look_after(process: &mut Process, options: &Options, client: &Client, namespace: &str, installed: &Arc<Installed>) {
    let (stop, installed) = (process.stop(), Arc::clone(installed));
    let (configuration, readiness) = (options.webhook_configuration.clone(), Arc::clone(&installed.readiness));
    let asked = Asked {
        namespace: namespace.to_owned(),
        every_deployment: options.require_service_account,
        controller: options.controller_username(),
    };
    let registrar = Registrar::new(client.clone(), configuration, asked, readiness).run(stop.clone());
    process.spawn(async move {
        registrar.await;
        "the registration of the webhooks"
    });
    if let Some(folder) = options.cert_dir.clone() {
        process.spawn(async move {
            files::keep(&folder, installed, files::INTERVAL, stop).await;
            "the look at the certificate's files"
        });
        return;
    }
    let settings = Settings {
        names: service_names(SERVICE, namespace),
        namespace: namespace.to_owned(),
        secret: options.certificate_secret.clone(),
        configuration: options.webhook_configuration.clone(),
        lifetime: options.certificate_lifetime,
    };
    let manager = CertificateManager::new(client.clone(), settings, installed).run(stop);
    process.spawn(async move {
        manager.await;
        "the certificate manager"
    });
}
