//! Builds what reconciles are handed from the options.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store as Cached};
use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy, InventoryKind, Plan};
use rukpak_format::Proxy;
use rukpak_helm::Helm;
use rukpak_install::cluster::Cluster;
use rukpak_install::{ClusterProxy, Dependents, Index, Reads, RenderMemory, Settings, Trackers};
use rukpak_runtime::args::Address;
use rukpak_runtime::events::Events;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::process;
use rukpak_runtime::queue::Queue;
use rukpak_runtime::status::WrittenVersions;
use rukpak_runtime::watch::Streams;
use rukpak_source::Egress;
use rukpak_source::git::{Fetcher, FetcherOptions};
use rukpak_source::http;
use rukpak_store::Store;
use rukpak_unpack::{Attempts, Children, Depot, Fetches, Images, Permits, Sources, child};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio_util::sync::CancellationToken;

use super::unpacker::InProcess;
use super::{Error, storage};
use crate::args::Options;

/// Writes to objects of bundles that are under way at once. More do not make a large bundle faster: the API server works one off after
/// the other.
const WRITES: usize = 48;
/// Git repositories that are fetched at once. Each takes a child process with up to `--limit=child-bytes`.
const GIT_FETCHES: usize = 4;
/// Bundles that are checked at once, each by such a child.
const CHECKS: usize = 2;

/// What the two reconcilers are handed, and what feeds them.
pub(super) struct Parts {
    pub unpack: Arc<rukpak_unpack::Context>,
    pub install: Arc<rukpak_install::Context>,
    pub streams: Followed,
    pub queues: Queues,
    /// Kinds whose watched version is not served.
    pub unserved: UnboundedReceiver<InventoryKind>,
}

/// The kinds that are watched.
pub(super) struct Followed {
    pub bundles: Streams<Bundle>,
    pub deployments: Streams<BundleDeployment>,
    pub policies: Streams<ContentPolicy>,
    pub plans: Streams<Plan>,
}

/// What is to be reconciled.
pub(super) struct Queues {
    pub bundles: UnboundedReceiver<ObjectRef<Bundle>>,
    pub deployments: UnboundedReceiver<ObjectRef<BundleDeployment>>,
}

/// What both reconcilers are made from.
struct Shared {
    client: Client,
    store: Arc<Store>,
    bundles: Cached<Bundle>,
    deployments: Cached<BundleDeployment>,
    policies: Cached<ContentPolicy>,
    plans: Cached<Plan>,
    bundle_queue: Queue<Bundle>,
    deployment_queue: Queue<BundleDeployment>,
    filled: CancellationToken,
    collect: Arc<Notify>,
}

pub(super) async fn assemble(options: &Options) -> Result<Parts, Error> {
    let store = Arc::new(storage::open(options).await?);
    let program = std::env::current_exe().map_err(Error::Program)?;
    let config = process::config(options.shared().kubeconfig.as_deref()).await?;
    let egress = options.registries.egress(&config.cluster_url).await;
    let sources = sources(options, &egress, &store, &program)?;
    let client = process::client(config)?;

    let streams = Followed {
        bundles: Streams::selected(client.clone(), options.watch_label_selector.selector()),
        deployments: Streams::selected(client.clone(), options.watch_label_selector.selector()),
        policies: Streams::new(client.clone()),
        plans: Streams::new(client.clone()),
    };
    let ((bundle_queue, bundles), (deployment_queue, deployments)) = (Queue::new(), Queue::new());
    let shared = Shared {
        client,
        store,
        bundles: streams.bundles.store.clone(),
        deployments: streams.deployments.store.clone(),
        policies: streams.policies.store.clone(),
        plans: streams.plans.store.clone(),
        bundle_queue,
        deployment_queue,
        filled: CancellationToken::new(),
        collect: Arc::default(),
    };

    let helm = Helm::find(program.clone(), options.helm.clone());
    let unpack = Arc::new(unpack(options, &shared, sources, program)?);
    let (unserved_sender, unserved) = unbounded_channel();
    let install = Arc::new(install(options, shared, helm, InProcess(Arc::clone(&unpack)), unserved_sender));
    Ok(Parts { unpack, install, streams, queues: Queues { bundles, deployments }, unserved })
}

/// What the unpacker is handed.
fn unpack(
    options: &Options,
    shared: &Shared,
    sources: Sources,
    program: PathBuf,
) -> Result<rukpak_unpack::Context, Error> {
    let is_serving = options.content_bind_address != Address::Disabled;
    Ok(rukpak_unpack::Context {
        uploads: is_serving.then(|| uploads(options, &shared.store)).transpose()?,
        content_base_url: is_serving.then(|| options.http_external_address.trim_end_matches('/').to_owned()),
        config_maps: Notify::new(),
        sources,
        limits: options.limits(),
        system_namespace: options.system_namespace(),
        bundle_certificates: options.bundle_cert_provider,
        require_service_account: options.require_service_account(),
        failures: Failures::default(),
        written: WrittenVersions::default(),
        events: Events::new(shared.client.clone(), "rukpak-controller", "Reconcile"),
        permits: Permits {
            reconciles: Semaphore::new(options.concurrency),
            fetches: Fetches::new(options.concurrency),
            git_fetches: Fetches::new(GIT_FETCHES),
        },
        images_fetched: Images::default(),
        has_no_pull_secrets: AtomicBool::default(),
        attempts: attempts(options)?,
        children: Children { program, checks: Semaphore::new(CHECKS) },
        client: shared.client.clone(),
        store: shared.store.clone(),
        bundles: shared.bundles.clone(),
        deployments: shared.deployments.clone(),
        policies: shared.policies.clone(),
        bundle_queue: shared.bundle_queue.clone(),
        deployment_queue: shared.deployment_queue.clone(),
        filled: shared.filled.clone(),
        collect: shared.collect.clone(),
    })
}

/// What the installer is handed. Kinds whose watched version is not served any more are sent to `unserved`.
fn install(
    options: &Options,
    shared: Shared,
    helm: Helm,
    unpacker: InProcess,
    unserved: UnboundedSender<InventoryKind>,
) -> rukpak_install::Context {
    let Shared { client, store, bundles, deployments, plans, deployment_queue, filled, collect, .. } = shared;
    let trackers = Trackers::default();
    let cluster = Cluster::new(client.clone(), WRITES);
    let reads = Reads {
        reader: cluster.reader(),
        kinds: cluster.kinds(),
        store,
        settings: settings(options),
        bundles,
        deployments,
        plans,
        index: Index::default(),
        dependents: Dependents::new(client.clone(), trackers.clone(), deployment_queue.clone(), unserved),
        trackers,
        proxy: ClusterProxy::new(own_proxy(options)),
        render_memory: RenderMemory::default(),
    };

    rukpak_install::Context {
        reads: Arc::new(reads),
        cluster,
        helm,
        unpacker: Box::new(unpacker),
        deployment_queue,
        refs: RwLock::new(()),
        failures: Failures::default(),
        written: WrittenVersions::default(),
        events: Events::new(client.clone(), "rukpak-controller", "Reconcile"),
        client,
        filled,
        collect,
    }
}

/// What operators are told where the cluster has no kind for it.
fn own_proxy(options: &Options) -> Proxy {
    let variable = |name: &str| std::env::var(name).ok().filter(|_| options.proxy_operators).unwrap_or_default();
    Proxy { http: variable("HTTP_PROXY"), https: variable("HTTPS_PROXY"), no_proxy: variable("NO_PROXY") }
}

fn settings(options: &Options) -> Settings {
    Settings {
        limits: options.limits(),
        crd_upgrades: rukpak_crd_upgrade::Options { strict: options.strict_crd_upgrade_safety },
        bundle_certificates: options.bundle_cert_provider,
        bundle_certificate_lifetime: options.bundle_cert_lifetime,
        system_namespace: options.system_namespace(),
        shard: options.watch_label_selector.clone(),
        require_service_account: options.require_service_account(),
        health_gate: options.feature_gates.bundle_deployment_health,
    }
}

fn uploads(options: &Options, store: &Store) -> Result<Arc<Depot>, Error> {
    let failed = |source| Error::Uploads { path: options.upload_storage_dir.clone(), source };
    let depot = Depot::open(&options.upload_storage_dir, options.uploads().store_bytes).map_err(failed)?;
    Ok(Arc::new(match store.bucket() {
        Some(bucket) => depot.sharing(bucket),
        None => depot,
    }))
}

fn attempts(options: &Options) -> Result<Attempts, Error> {
    let path = options.provisioner_storage_dir.join("attempts");
    Attempts::open(path.clone()).map_err(|source| Error::Attempts { path, source })
}

fn sources(options: &Options, egress: &Egress, store: &Store, program: &Path) -> Result<Sources, Error> {
    let stage = store.stage_dir().to_owned();
    let (images, pem) = options.registries.puller(egress, stage.clone(), options.limits())?;
    let git = FetcherOptions {
        program: program.to_owned(),
        arguments: vec![child::GIT.to_owned()],
        limits: options.limits(),
        stage_dir: stage.clone(),
        extra_ca_pem: (!pem.is_empty()).then(|| String::from_utf8_lossy(&pem).into_owned()),
        egress: egress.clone(),
    };
    let mut web = http::FetcherOptions::new(stage, options.limits());
    web.extra_ca_pem = pem;
    web.egress = egress.clone();
    Ok(Sources {
        images,
        git: Fetcher::new(git),
        http: http::Fetcher::new(web).map_err(|error| Error::Http(Box::new(error)))?,
        policy: options.sources(),
    })
}
