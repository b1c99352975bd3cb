//! Builds the context from the options.

use std::path::Path;
use std::sync::Arc;

use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy, InventoryKind};
use rukpak_runtime::args::Address;
use rukpak_runtime::events::Events;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::process;
use rukpak_runtime::status::WrittenVersions;
use rukpak_runtime::watch::Streams;
use rukpak_source::Egress;
use rukpak_source::git::{Fetcher, FetcherOptions};
use rukpak_source::http;
use rukpak_source::image::Puller;
use rukpak_store::Store;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{Error, storage};
use crate::args::Options;
use crate::bundle::{Attempts, Fetches, Images};
use crate::child::{self, Children};
use crate::cluster::Cluster;
use crate::content_service::Depot;
use crate::context::{Context, Wake};
use crate::deployment::Trackers;
use crate::render_memory::RenderMemory;
use crate::watch::{Dependents, Index};

type Names<K> = UnboundedReceiver<kube::runtime::reflector::ObjectRef<K>>;

/// The context and what feeds it.
pub(super) struct Parts {
    pub context: Arc<Context>,
    pub bundles: Streams<Bundle>,
    pub deployments: Streams<BundleDeployment>,
    pub policies: Streams<ContentPolicy>,
    pub bundle_queue: Names<Bundle>,
    pub deployment_queue: Names<BundleDeployment>,
    /// Kinds whose watched version is not served.
    pub unserved: UnboundedReceiver<InventoryKind>,
}

pub(super) async fn assemble(options: &Options) -> Result<Parts, Error> {
    let store = storage::open(options).await?;
    let attempts = attempts(options)?;
    let program = std::env::current_exe().map_err(Error::Program)?;
    let config = process::config(options.shared.kubeconfig.as_deref()).await?;
    let egress = options.registries.egress(&config.cluster_url).await;
    let Sources { images, git, http } = sources(options, &egress, &store, &program)?;
    let is_serving = options.content_address != Address::Disabled;
    let client = process::client(config)?;
    let (bundle_sender, bundle_queue) = unbounded_channel();
    let (deployment_sender, deployment_queue) = unbounded_channel();
    let wake = Wake { bundles: bundle_sender, deployments: deployment_sender };
    let (unserved_sender, unserved) = unbounded_channel();
    let trackers = Trackers::default();
    let bundles = Streams::selected(client.clone(), options.shard.selector());
    let deployments = Streams::selected(client.clone(), options.shard.selector());
    let policies = Streams::new(client.clone());
    let context = Context {
        cluster: Cluster::new(client.clone(), options.requests_in_flight),
        images,
        git,
        http,
        uploads: is_serving.then(|| uploads(options, &store)).transpose()?,
        store: Arc::new(store),
        content_base_url: is_serving.then(|| options.external_url.trim_end_matches('/').to_owned()),
        config_maps: Notify::new(),
        sources: options.sources,
        limits: options.limits.clone(),
        crd_upgrades: rukpak_plan::crd_upgrade::Options { strict: options.strict_crd_upgrades },
        bundle_certificates: options.bundle_certificates,
        bundle_certificate_lifetime: options.bundle_certificate_lifetime,
        system_namespace: options.system_namespace.clone(),
        shard: options.shard.clone(),
        require_service_account: options.require_service_account,
        health_gate: options.feature_gates.bundle_deployment_health,
        bundles: bundles.store.clone(),
        deployments: deployments.store.clone(),
        policies: policies.store.clone(),
        dependents: Dependents::new(client.clone(), trackers.clone(), wake.clone(), unserved_sender),
        index: Index::default(),
        filled: CancellationToken::new(),
        wake,
        trackers,
        collect: Notify::new(),
        refs: RwLock::new(()),
        failures: Failures::default(),
        written: WrittenVersions::default(),
        events: Events::new(client.clone(), "rukpak-controller", "Reconcile"),
        passes: Semaphore::new(options.concurrency),
        render_memory: RenderMemory::default(),
        fetches: Fetches::new(options.concurrency),
        images_fetched: Images::default(),
        git_fetches: Fetches::new(options.git_concurrency),
        attempts,
        children: Children { program, checks: Semaphore::new(options.check_concurrency) },
        client,
    };
    Ok(Parts { context: Arc::new(context), bundles, deployments, policies, bundle_queue, deployment_queue, unserved })
}

struct Sources {
    images: Puller,
    git: Fetcher,
    http: http::Fetcher,
}

fn uploads(options: &Options, store: &Store) -> Result<Arc<Depot>, Error> {
    let failed = |source| Error::Uploads { path: options.upload_dir.clone(), source };
    let depot = Depot::open(&options.upload_dir, options.uploads.store_bytes).map_err(failed)?;
    Ok(Arc::new(match store.bucket() {
        Some(bucket) => depot.sharing(bucket),
        None => depot,
    }))
}

fn attempts(options: &Options) -> Result<Attempts, Error> {
    let path = options.storage_dir.join("attempts");
    Attempts::open(path.clone()).map_err(|source| Error::Attempts { path, source })
}

fn sources(options: &Options, egress: &Egress, store: &Store, program: &Path) -> Result<Sources, Error> {
    let stage = store.stage_dir().to_owned();
    let (images, pem) = options.registries.puller(egress, stage.clone(), options.limits.clone())?;
    let git = FetcherOptions {
        program: program.to_owned(),
        arguments: vec![child::GIT.to_owned()],
        limits: options.limits.clone(),
        stage_dir: stage.clone(),
        extra_ca_pem: (!pem.is_empty()).then(|| String::from_utf8_lossy(&pem).into_owned()),
        egress: egress.clone(),
    };
    let mut web = http::FetcherOptions::new(stage, options.limits.clone());
    web.extra_ca_pem = pem;
    web.egress = egress.clone();
    Ok(Sources {
        images,
        git: Fetcher::new(git),
        http: http::Fetcher::new(web).map_err(|error| Error::Http(Box::new(error)))?,
    })
}
