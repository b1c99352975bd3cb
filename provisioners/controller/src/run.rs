//! The process: opens the store, builds the context, runs watches, queues and probes until it is told to stop.

mod assemble;
mod events;
mod queue;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Address, Options};
use crate::probes::{self, Readiness};
use crate::{bundle, deployment, watch};

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to the API server.
    #[error("cannot find the cluster: set KUBECONFIG, or run in a Pod with a service account")]
    Config(#[source] Box<kube::config::InferConfigError>),
    /// The client cannot be built from it.
    #[error("cannot build a client for the cluster")]
    Client(#[source] Box<kube::Error>),
    /// The store cannot be opened.
    #[error("cannot open the content store in {} (--provisioner-storage-dir)", path.display())]
    Store {
        /// Its root.
        path: PathBuf,
        /// Why.
        #[source]
        source: rukpak_store::Error,
    },
    /// The image source cannot be set up.
    #[error("cannot set up the image source (--source-ca-file)")]
    Images(#[source] Box<rukpak_source::image::Error>),
    /// A CA file cannot be read.
    #[error("cannot read {} (--source-ca-file)", path.display())]
    CaFile {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The path of this program is needed to run git in a child of it.
    #[error("cannot find the path of this program")]
    Program(#[source] io::Error),
    /// A port is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Signals cannot be handled.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// A task that must go on for ever ended.
    #[error("{0} ended: a mistake in this program")]
    Ended(&'static str),
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let assemble::Parts { context, bundles, deployments, bundle_queue, deployment_queue } =
        assemble::assemble(&options).await?;
    let readiness = Arc::new(Readiness::new());
    let mut tasks: JoinSet<&'static str> = JoinSet::new();
    let health = probes::health(readiness.clone(), context.store.clone());
    serve(&mut tasks, "the probe server", &options.probe_address, health, &stop).await?;
    serve(&mut tasks, "the metrics server", &options.http_address, probes::metrics(), &stop).await?;

    let concurrency = u16::try_from(options.concurrency).unwrap_or(u16::MAX);
    let (context_1, context_2, context_3) = (context.clone(), context.clone(), context.clone());
    tasks.spawn(async move {
        events::bundles(bundles, &context_1).await;
        "the watch over Bundles"
    });
    tasks.spawn(async move {
        events::deployments(deployments, &context_2).await;
        "the watch over BundleDeployments"
    });
    tasks.spawn(async move {
        watch::definitions(context_3.client.clone(), context_3).await;
        "the watch over CustomResourceDefinitions"
    });
    tasks.spawn(events::filled(context.clone()));
    tasks.spawn(events::readiness(context.clone(), readiness));
    let store = context.bundles.clone();
    let queue =
        queue::drain(bundle_queue, store, context.clone(), concurrency, bundle::reconcile, |object, error, context| {
            bundle::error_policy(&object, error, &context)
        });
    tasks.spawn(async move {
        queue.await;
        "the queue of Bundles"
    });
    let store = context.deployments.clone();
    let queue =
        queue::drain(deployment_queue, store, context, concurrency, deployment::reconcile, |object, error, context| {
            deployment::error_policy(&object, error, &context)
        });
    tasks.spawn(async move {
        queue.await;
        "the queue of BundleDeployments"
    });
    until_stopped(tasks, &stop).await
}

async fn serve(
    tasks: &mut JoinSet<&'static str>,
    name: &'static str,
    address: &Address,
    router: axum::Router,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let failed = |source| Error::Listen { address: address.to_string(), source };
    let Some(listener) = address.listen().await.map_err(failed)? else { return Ok(()) };
    let stop = stop.clone();
    tasks.spawn(async move {
        if let Err(error) = probes::serve(listener, router, stop).await {
            tracing::error!(%error, "{name} failed");
        }
        name
    });
    Ok(())
}

/// Every write is one request that the next process finds in the cluster; so stopping is simply stopping.
async fn until_stopped(mut tasks: JoinSet<&'static str>, stop: &CancellationToken) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signal)?;
    let ended = loop {
        tokio::select! {
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            task = tasks.join_next() => match task {
                Some(Ok("")) => {}
                Some(Ok(name)) => break Some(name),
                Some(Err(error)) => {
                    tracing::error!(%error, "a task failed");
                    break Some("a task");
                }
                None => break Some("everything"),
            },
        }
    };
    stop.cancel();
    if let Some(name) = ended {
        return Err(Error::Ended(name));
    }
    tracing::info!("stopping");
    Ok(())
}
