//! The process: opens the store, builds the context, runs watches, queues and probes until it is told to stop.

mod assemble;
mod config_maps;
mod events;
mod policies;
mod storage;
mod webhook_role;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rukpak_runtime::metrics::router as metrics_router;
use rukpak_runtime::probes::{self, Readiness, WithFolder};
use rukpak_runtime::process::{self, Process, leader};
use rukpak_runtime::queue::{Requests, drain};
use rukpak_source::registries;

use crate::args::Options;
use crate::context::Context;
use crate::{bundle, child, content_service, deployment, metrics, watch};

/// Name of the Lease that whoever writes holds.
pub(crate) const LEASE: &str = "core.rukpak.io";

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing of this program in particular.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// Images cannot be pulled.
    #[error(transparent)]
    Registries(#[from] registries::Error),
    /// The store cannot be opened.
    #[error("cannot open the content store in {} (--provisioner-storage-dir)", path.display())]
    Store {
        /// Its root.
        path: PathBuf,
        /// Why.
        #[source]
        source: rukpak_store::Error,
    },
    /// The bucket cannot be used.
    #[error("cannot use the bucket (--store)")]
    Bucket(#[source] rukpak_bucket::LocationError),
    /// The bucket was refused to us, or its server is not fit for it.
    #[error("cannot use the bucket (--store)")]
    Probe(#[source] rukpak_store::Error),
    /// Children are not confined, and have to be.
    #[error(
        "this node does not keep child processes from this process's token, its memory or other programs (--require-confinement): run \
         on Linux 5.13 or newer with landlock among its security modules (lsm=) and with seccomp, or leave the flag out"
    )]
    Unconfined,
    /// A file with certificates cannot be read.
    #[error("cannot read {} (--store-ca-file)", path.display())]
    Certificates {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The source of archives on web servers cannot be set up.
    #[error("cannot set up the http source (--source-ca-file)")]
    Http(#[source] Box<rukpak_source::http::Error>),
    /// The folder of uploads cannot be used.
    #[error("cannot open the folder of uploads {} (--upload-storage-dir)", path.display())]
    Uploads {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder of attempts cannot be used.
    #[error("cannot open the folder of attempts {} (--provisioner-storage-dir)", path.display())]
    Attempts {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The path of this program is needed to run children of it.
    #[error("cannot find the path of this program")]
    Program(#[source] io::Error),
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut process = Process::start()?;
    let parts = assemble::assemble(&options).await?;
    let readiness = Arc::new(Readiness::new());
    let checks = WithFolder::new(readiness.clone(), "store", parts.context.store.stage_dir().to_owned());
    let health = probes::router(Arc::new(checks));
    process.serve_plainly("--health-probe-bind-address", &options.shared.probe_address, health).await?;
    let shown = metrics_router(metrics::registry(&parts.context));
    process.serve_plainly("--http-bind-address", &options.http_address, shown).await?;
    process.spawn(events::readiness(parts.context.clone(), readiness.clone()));
    if options.sources.require_confinement {
        let findings = child::report(&parts.context.git, &parts.context.children.program).await;
        if !findings.keeps_secrets() {
            return Err(Error::Unconfined);
        }
    } else {
        process.spawn(report_children(parts.context.clone()));
    }
    let mut process = process;
    if parts.context.is_shared() {
        serve_content(&mut process, &parts, &options, &readiness).await?;
    }
    let lease = options.shard.named(LEASE);
    let lease = (options.system_namespace.as_str(), lease.as_str());
    let election = options.leader_election;
    let Some(mut process) = process.lead(parts.context.client.clone(), lease, election, &readiness).await? else {
        return Ok(());
    };
    if !parts.context.is_shared() {
        serve_content(&mut process, &parts, &options, &readiness).await?;
    }
    let leads = options.shard.id().unwrap_or_else(|| leader::TRUE.to_owned());
    process.spawn(leader::label(parts.context.client.clone(), options.system_namespace.clone(), leads));
    process.spawn(webhook_role::follow(options.webhook_objects_role.clone(), Arc::clone(&parts.context)));
    work(&mut process, parts, options.concurrency);
    Ok(process.go_on().await?)
}

async fn report_children(context: Arc<Context>) -> &'static str {
    let _ = child::report(&context.git, &context.children.program).await;
    ""
}

/// Starts the watches and the queues.
fn work(process: &mut Process, parts: assemble::Parts, concurrency: usize) {
    let assemble::Parts { context, bundles, deployments, policies, bundle_queue, deployment_queue, unserved } = parts;
    let concurrency = u16::try_from(concurrency).unwrap_or(u16::MAX);
    let (context_1, context_2, context_3) = (context.clone(), context.clone(), context.clone());
    process.spawn(async move {
        events::bundles(bundles, &context_1).await;
        "the watch over Bundles"
    });
    process.spawn(async move {
        events::deployments(deployments, &context_2).await;
        "the watch over BundleDeployments"
    });
    process.spawn(policies::follow(policies, context.clone()));
    process.spawn(async move {
        watch::definitions(context_3.client.clone(), context_3).await;
        "the watch over CustomResourceDefinitions"
    });
    let (context_4, context_5) = (context.clone(), context.clone());
    process.spawn(async move {
        watch::unserved(unserved, context_5).await;
        "the search for served versions"
    });
    process.spawn(async move {
        deployment::collector(context_4).await;
        "the collection of the store"
    });
    process.spawn(events::filled(context.clone()));
    process.spawn(config_maps::follow(context.clone()));
    let (store, filled) = (context.bundles.clone(), context.filled.clone());
    let requests = Requests { objects: bundle_queue, filled, tasks: process.reconciles() };
    // Bounded by the permits that passes take: some wait for a server.
    let queue = drain(requests, store, context.clone(), 0, bundle::reconcile, |object, error, context| {
        bundle::error_policy(&object, error, &context)
    });
    process.spawn(async move {
        queue.await;
        "the queue of Bundles"
    });
    let (store, filled) = (context.deployments.clone(), context.filled.clone());
    let requests = Requests { objects: deployment_queue, filled, tasks: process.reconciles() };
    let queue = drain(requests, store, context, concurrency, deployment::reconcile, |object, error, context| {
        deployment::error_policy(&object, error, &context)
    });
    process.spawn(async move {
        queue.await;
        "the queue of BundleDeployments"
    });
}

/// Starts the content service. Where the store is a folder, only who leads has content; a bucket is everybody's.
async fn serve_content(
    process: &mut Process,
    parts: &assemble::Parts,
    options: &Options,
    readiness: &Arc<Readiness>,
) -> Result<(), Error> {
    let context = Arc::clone(&parts.context);
    let listener = process::listen("--content-bind-address", &options.content_address).await?;
    let (Some(listener), Some(depot)) = (listener, context.uploads.clone()) else { return Ok(()) };
    let states = (Arc::clone(readiness), process.stop());
    let (looked_after, served) = content_service::start(listener, depot, options, context, states);
    process.spawn(async move {
        Box::pin(looked_after).await;
        "the content service's certificate"
    });
    process.spawn_server(async move {
        served.await;
        "the content service"
    });
    Ok(())
}
