//! The process: listeners up, certificate kept, and an orderly end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::address::Address;
use crate::certificates::files;
use crate::certificates::keeper::{Keeper, Settings};
use crate::certificates::{Installed, service_names};
use crate::connections::Connections;
use crate::health::{self, Readiness, Trust};
use crate::metrics::{self, Metrics};
use crate::options::Options;
use crate::reads::Cluster;
use crate::registration::Registrar;
use crate::router::{Shared, router};
use crate::tls::{Serving, server_config};
use crate::{SERVICE, serve};

/// Longest wait for calls in flight at the end. The configuration lets the API server wait for 20 seconds at most.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);

/// Why the process could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address is taken, or not ours.
    #[error("cannot listen on {address} ({flag})")]
    Listen {
        /// The flag that names it.
        flag: &'static str,
        /// The address.
        address: Address,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The webhook was told not to listen.
    #[error("--webhook-bind-address must name an address")]
    NoAddress,
    /// No cluster is configured.
    #[error("cannot find a cluster: neither KUBECONFIG nor a service account")]
    Cluster(#[source] kube::config::InferConfigError),
    /// The kubeconfig that a flag names cannot be used.
    #[error("--kubeconfig={}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<KubeconfigError>,
    },
    /// The cluster's configuration is no good.
    #[error("cannot make a client of the cluster")]
    Client(#[source] kube::Error),
    /// TLS could not be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// Signals cannot be received.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
    /// A part that runs to the end of the process ended by itself.
    #[error("the {what} ended by itself")]
    Ended {
        /// Which.
        what: &'static str,
        /// Its panic.
        #[source]
        source: Option<tokio::task::JoinError>,
    },
}

/// Runs the webhook until SIGTERM or SIGINT.
///
/// # Errors
/// It could not start.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut signals = Signals::new().map_err(Error::Signals)?;
    let stop = CancellationToken::new();
    let installed = Arc::new(Installed {
        serving: Arc::new(Serving::default()),
        readiness: Arc::new(Readiness::new(match options.cert_dir {
            Some(_) => Trust::NotOurs,
            None => Trust::Missing("the webhook configuration was not seen yet".to_owned()),
        })),
        metrics: Arc::new(Metrics::default()),
    });
    let (readiness, metrics) = (Arc::clone(&installed.readiness), Arc::clone(&installed.metrics));

    plain("--health-probe-bind-address", &options.health_probe_bind_address, health::router(readiness)).await?;
    plain("--metrics-bind-address", &options.metrics_bind_address, metrics::router(metrics)).await?;
    let listener = listen("--webhook-bind-address", &options.webhook_bind_address).await?.ok_or(Error::NoAddress)?;
    installed.readiness.listening();

    let client = client(options.kubeconfig.as_deref()).await?;
    let namespace = options.system_namespace();
    let (configuration, readiness) = (options.webhook_configuration.clone(), Arc::clone(&installed.readiness));
    let registrar = Registrar::new(client.clone(), configuration, namespace.clone(), readiness);
    let mut registrar = tokio::spawn(registrar.run(stop.clone()));
    let mut keeper = keep_certificate(&options, client.clone(), &namespace, Arc::clone(&installed), stop.clone());
    let tls = Arc::new(server_config(Arc::clone(&installed.serving)).map_err(Error::Tls)?);
    let reads = Arc::new(Cluster::new(client, &namespace));
    let connections = Connections::new(serve::CONNECTION_LIMIT);
    let routes = router(&Shared {
        metrics: Arc::clone(&installed.metrics),
        reads,
        namespace: namespace.into(),
        controller: options.controller_username().into(),
        gates: Arc::default(),
        connections: Arc::clone(&connections),
    });
    let mut server = tokio::spawn(serve::serve(listener, tls, routes, connections, stop.clone(), DRAIN_DEADLINE));
    tracing::info!(address = %options.webhook_bind_address, "answering admission reviews");

    tokio::select! {
        () = signals.next() => {}
        ended = &mut server => return Err(Error::Ended { what: "listener", source: ended.err() }),
        ended = &mut keeper => return Err(Error::Ended { what: "certificate keeper", source: ended.err() }),
        ended = &mut registrar => return Err(Error::Ended { what: "registrar", source: ended.err() }),
    }
    tracing::info!("shutting down");
    installed.readiness.draining();
    tokio::select! {
        () = tokio::time::sleep(options.drain_delay) => {}
        () = signals.next() => {}
    }
    stop.cancel();
    tokio::select! {
        ended = server => ended.map_err(|error| Error::Ended { what: "listener", source: Some(error) }),
        () = signals.next() => {
            tracing::warn!("another signal: not waiting for calls in flight");
            Ok(())
        }
    }
}

/// By the kubeconfig that is named, else by the one of the environment, else as a Pod.
async fn client(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    let config = match kubeconfig {
        None => kube::Config::infer().await.map_err(Error::Cluster)?,
        Some(path) => {
            let failed = |source| Error::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
            let read = Kubeconfig::read_from(path).map_err(failed)?;
            kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(failed)?
        }
    };
    Client::try_from(config).map_err(Error::Client)
}

fn keep_certificate(
    options: &Options,
    client: Client,
    namespace: &str,
    installed: Arc<Installed>,
    stop: CancellationToken,
) -> JoinHandle<()> {
    if let Some(folder) = options.cert_dir.clone() {
        return tokio::spawn(async move { files::keep(&folder, installed, files::INTERVAL, stop).await });
    }
    let settings = Settings {
        names: service_names(SERVICE, namespace),
        namespace: namespace.to_owned(),
        secret: options.certificate_secret.clone(),
        configuration: options.webhook_configuration.clone(),
        lifetime: options.certificate_lifetime,
    };
    tokio::spawn(Keeper::new(client, settings, installed).run(stop))
}

/// Serves plain HTTP to the end of the process: probes must be answered while it drains.
async fn plain(flag: &'static str, address: &Address, routes: Router) -> Result<(), Error> {
    if let Some(listener) = listen(flag, address).await? {
        tokio::spawn(serve::serve_plain(listener, routes));
    }
    Ok(())
}

async fn listen(flag: &'static str, address: &Address) -> Result<Option<TcpListener>, Error> {
    address.bind().await.map_err(|source| Error::Listen { flag, address: address.clone(), source })
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
