//! The process: opens the store, builds the context, runs watches, queues and probes until it is told to stop.

mod assemble;
mod config_maps;
mod events;
pub mod leader;
mod queue;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::leader::{Candidate, Leader};
use crate::args::{Address, Options};
use crate::probes::{self, Readiness};
use crate::{bundle, content_service, deployment, watch};

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
    /// The source of archives on web servers cannot be set up.
    #[error("cannot set up the http source (--source-ca-file)")]
    Http(#[source] Box<rukpak_source::http::Error>),
    /// The configuration of mirrors cannot be read.
    #[error("cannot read {} (--registries-conf)", path.display())]
    RegistriesFile {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The configuration of mirrors is wrong.
    #[error("{} (--registries-conf) cannot be used", path.display())]
    Registries {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: rukpak_source::mirrors::Error,
    },
    /// The folder of uploads cannot be used.
    #[error("cannot open the folder of uploads {} (--upload-storage-dir)", path.display())]
    Uploads {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
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
    /// Leader election cannot begin, or this process leads no more.
    #[error("leader election")]
    Leader(#[from] leader::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signals")]
    Signal(#[source] io::Error),
    /// A task that must go on for ever ended.
    #[error("{0} ended: a mistake in this program")]
    Ended(&'static str),
}

/// Longest wait for passes to let go at the end.
const END_DEADLINE: Duration = Duration::from_secs(2);

type Tasks = JoinSet<&'static str>;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options) -> Result<(), Error> {
    let stop = CancellationToken::new();
    stop_at_signals(&stop).map_err(Error::Signal)?;
    let parts = assemble::assemble(&options).await?;
    let client = parts.context.client.clone();
    let readiness = Arc::new(Readiness::new());
    let mut tasks = Tasks::new();
    let health = probes::health(readiness.clone(), parts.context.store.clone());
    serve(&mut tasks, "the probe server", &options.probe_address, health, &stop).await?;
    serve(&mut tasks, "the metrics server", &options.http_address, probes::metrics(), &stop).await?;
    tasks.spawn(events::readiness(parts.context.clone(), readiness.clone()));

    let mut leader = None;
    if let Some(times) = options.leader_election {
        let candidate = Candidate::new(client, &options.system_namespace, times)?;
        // Who only stands by watches nothing; a rollout waits for it to be ready all the same.
        readiness.caches(Ok(()));
        tokio::select! {
            elected = candidate.elected() => leader = Some(elected),
            ended = ended(&mut tasks, &stop) => return end(ended, tasks, None, &stop).await,
        }
        readiness.caches(Err("not yet".to_owned()));
    }
    serve_content(&mut tasks, &parts, &options).await?;
    work(&mut tasks, parts, options.concurrency);
    let ended = tokio::select! {
        ended = ended(&mut tasks, &stop) => ended,
        lost = lost(&mut leader) => {
            leader = None;
            Err(lost)
        }
    };
    end(ended, tasks, leader, &stop).await
}

/// Starts the watches and the queues.
fn work(tasks: &mut Tasks, parts: assemble::Parts, concurrency: usize) {
    let assemble::Parts { context, bundles, deployments, bundle_queue, deployment_queue } = parts;
    let concurrency = u16::try_from(concurrency).unwrap_or(u16::MAX);
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
    tasks.spawn(config_maps::follow(context.clone()));
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
}

/// Returns when leadership is lost: never, without leader election.
async fn lost(leader: &mut Option<Leader>) -> Error {
    match leader {
        Some(leader) => Error::Leader(leader.keep().await),
        None => std::future::pending().await,
    }
}

/// Starts the content service. Only who leads has content.
async fn serve_content(tasks: &mut Tasks, parts: &assemble::Parts, options: &Options) -> Result<(), Error> {
    let address = &options.content_address;
    let failed = |source| Error::Listen { address: address.to_string(), source };
    let context = Arc::clone(&parts.context);
    let (Some(listener), Some(depot)) = (address.listen().await.map_err(failed)?, context.uploads.clone()) else {
        return Ok(());
    };
    let options = options.clone();
    tasks.spawn(async move {
        Box::pin(content_service::run(listener, depot, options, context)).await;
        "the content service"
    });
    Ok(())
}

async fn serve(
    tasks: &mut Tasks,
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

/// Cancels `stop` at SIGTERM and at SIGINT.
fn stop_at_signals(stop: &CancellationToken) -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signals, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(())
}

/// Waits for a signal, or for the end of a task that must go on.
async fn ended(tasks: &mut Tasks, stop: &CancellationToken) -> Result<(), Error> {
    loop {
        tokio::select! {
            // First: the servers end because of it.
            biased;
            () = stop.cancelled() => return Ok(()),
            task = tasks.join_next() => match task {
                Some(Ok("")) => {}
                Some(Ok(name)) => return Err(Error::Ended(name)),
                Some(Err(error)) => {
                    tracing::error!(%error, "a task failed");
                    return Err(Error::Ended("a task"));
                }
                None => return Err(Error::Ended("everything")),
            },
        }
    }
}

/// Every write is one request that the next process finds in the cluster; so stopping is simply stopping. The Lease is
/// given back once nothing can write any more.
async fn end(
    ended: Result<(), Error>,
    mut tasks: Tasks,
    leader: Option<Leader>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    tracing::info!("stopping");
    stop.cancel();
    let still = tokio::time::timeout(END_DEADLINE, tasks.shutdown()).await;
    match leader {
        Some(leader) if still.is_ok() => leader.release().await,
        Some(_) => tracing::warn!("a pass does not end; the Lease runs out by itself"),
        None => {}
    }
    ended
}
