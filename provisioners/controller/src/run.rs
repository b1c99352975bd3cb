//! The process: opens the store, builds what reconciles are handed, runs watches, queues and probes until it is told to stop.

mod assemble;
mod events;
mod storage;
mod unpacker;
mod webhook_role;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use rukpak_install::{deployment, watch};
use rukpak_runtime::metrics;
use rukpak_runtime::probes::{self, Readiness, WithFolder};
use rukpak_runtime::process::{self, Process, leader};
use rukpak_runtime::queue::{Requests, drain};
use rukpak_source::registries;
use rukpak_unpack::watch::{config_maps, policies};
use rukpak_unpack::{bundle, child, content_service};

use crate::args::{ContentCertificates, LEASE, Options};

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
        source: rukpak_store::Error,
    },
    /// The bucket cannot be used.
    #[error("cannot use the bucket (--store)")]
    Bucket(#[source] rukpak_store::s3::LocationError),
    /// The bucket was refused to us, or its server is not fit for it.
    #[error("cannot use the bucket (--store)")]
    Probe(#[source] rukpak_store::Error),
    /// Children are not confined, and have to be.
    #[error(
        "this node does not keep child processes from this process's token, its memory or other programs (--require=confinement): run \
         on Linux 5.13 or newer with landlock among its security modules (lsm=) and with seccomp, or leave this name out of --require"
    )]
    Unconfined,
    /// The source of archives on web servers cannot be set up.
    #[error("cannot set up the http source (--source-ca-file)")]
    Http(#[source] Box<rukpak_source::http::Error>),
    /// The folder of uploads cannot be used.
    #[error("cannot open the folder of uploads {} (--upload-storage-dir)", path.display())]
    Uploads {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder of attempts cannot be used.
    #[error("cannot open the folder of attempts {} (--provisioner-storage-dir)", path.display())]
    Attempts {
        /// Its path.
        path: PathBuf,
        /// Why.
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
    let client = parts.unpack.client.clone();

    let readiness = Arc::new(Readiness::new());
    let checks = WithFolder::new(readiness.clone(), "store", parts.unpack.store.stage_dir().to_owned());
    let health = probes::router(Arc::new(checks));
    process.serve_plainly("--health-probe-bind-address", &options.shared().probe_address, health).await?;
    let shown = metrics::router(registry(&parts));
    process.serve_plainly("--http-bind-address", &options.http_bind_address, shown).await?;
    process.spawn(events::readiness(parts.unpack.clone(), readiness.clone()));

    if options.sources().require_confinement {
        let findings = child::report(&parts.unpack.sources.git, &parts.unpack.children.program).await;
        if !findings.keeps_secrets() {
            return Err(Error::Unconfined);
        }
    } else {
        process.spawn(report_children(parts.unpack.clone()));
    }

    // A store in a bucket is everybody's, and so every replica serves it; a folder is the leader's.
    let mut process = process;
    let is_shared = parts.unpack.store.is_shared();
    if is_shared {
        serve_content(&mut process, &parts, &options, &readiness).await?;
    }
    let (namespace, lease) = (options.system_namespace(), options.watch_label_selector.named(LEASE));
    let lease = (namespace.as_str(), lease.as_str());
    let election = options.leader_election();
    let Some(mut process) = process.lead(client.clone(), lease, election, &readiness).await? else {
        return Ok(());
    };
    if !is_shared {
        serve_content(&mut process, &parts, &options, &readiness).await?;
    }

    let leads = options.watch_label_selector.id().unwrap_or_else(|| leader::TRUE.to_owned());
    process.spawn(leader::label(client.clone(), options.system_namespace(), leads));
    process.spawn(webhook_role::follow(client));
    work(&mut process, parts, options.concurrency);
    Ok(process.go_on().await?)
}

/// All that `/metrics` shows.
fn registry(parts: &assemble::Parts) -> Registry {
    let mut registry = metrics::registry();
    metrics::add_reconciles(&mut registry);
    metrics::add_outcomes(&mut registry, &["Bundle", "BundleDeployment"]);
    rukpak_unpack::metrics::register(&mut registry);
    rukpak_install::metrics::register(&mut registry, &parts.install);
    registry
}

async fn report_children(context: Arc<rukpak_unpack::Context>) -> &'static str {
    let _ = child::report(&context.sources.git, &context.children.program).await;
    ""
}

/// Starts the watches and the queues.
fn work(process: &mut Process, parts: assemble::Parts, concurrency: usize) {
    let assemble::Parts { unpack, install, streams, queues, unserved } = parts;
    let concurrency = u16::try_from(concurrency).unwrap_or(u16::MAX);

    process.spawn(events::bundles(streams.bundles, unpack.clone(), install.clone()));
    process.spawn(watch::deployments(streams.deployments, install.clone()));
    process.spawn(policies::follow(streams.policies, unpack.clone()));
    process.spawn(watch::plans(streams.plans, install.clone()));
    process.spawn(watch::definitions(install.clone()));
    process.spawn(watch::unserved(unserved, install.clone()));
    process.spawn(watch::follow_proxy(install.clone()));
    process.spawn_endless("the collection of the store", deployment::collector(install.clone()));
    process.spawn(events::filled(unpack.clone(), install.clone()));
    process.spawn(config_maps::follow(unpack.clone()));

    let (store, filled) = (unpack.bundles.clone(), unpack.filled.clone());
    let requests = Requests { objects: queues.bundles, filled, tasks: process.reconciles() };
    // Bounded by the permits that reconciles take: some wait for a server.
    let queue = drain(requests, store, unpack, 0, bundle::reconcile, |object, error, context| {
        bundle::error_policy(&object, error, &context)
    });
    process.spawn_endless("the queue of Bundles", queue);

    let (store, filled) = (install.reads.deployments.clone(), install.filled.clone());
    let requests = Requests { objects: queues.deployments, filled, tasks: process.reconciles() };
    let queue = drain(requests, store, install, concurrency, deployment::reconcile, |object, error, context| {
        deployment::error_policy(&object, error, &context)
    });
    process.spawn_endless("the queue of BundleDeployments", queue);
}

/// Starts the content service, unless it is off.
async fn serve_content(
    process: &mut Process,
    parts: &assemble::Parts,
    options: &Options,
    readiness: &Arc<Readiness>,
) -> Result<(), Error> {
    let context = Arc::clone(&parts.unpack);
    let listener = process::listen("--content-bind-address", &options.content_bind_address).await?;
    let (Some(listener), Some(depot)) = (listener, context.uploads.clone()) else { return Ok(()) };
    let service = content_service::Options {
        certificate_secret: options.content_certificate_secret.clone(),
        authority_secret: options.watch_label_selector.named(content_service::AUTHORITY_SECRET),
        certificate_lifetime: options.certificate_lifetime,
        is_external: options.content_certificates == ContentCertificates::External,
        audiences: options.content_audiences.clone(),
        uploads: options.uploads(),
        sweep_interval: options.upload_storage_sync_interval,
    };

    let states = (Arc::clone(readiness), process.stop());
    let (looked_after, served) = content_service::start(listener, depot, service, context, states);
    process.spawn_endless("the content service's certificate", Box::pin(looked_after));
    process.spawn_server("the content service", served);
    Ok(())
}
