//! A controller: the install reconciler with its watches and its queue, put together as the program does it. Bundles are unpacked by the
//! history.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::ResourceExt as _;
use rukpak_content::Limits;
use rukpak_crds::{Bundle, BundleDeployment, Plan, Revision};
use rukpak_format::Proxy;
use rukpak_helm::Helm;
use rukpak_install::cluster::Cluster as Door;
use rukpak_install::deployment::{self, Trackers};
use rukpak_install::watch::{self, ClusterProxy, Dependents, Index};
use rukpak_install::{Context, Reads, RenderMemory, Settings, Shard, Unpacker};
use rukpak_runtime::events::Events;
use rukpak_runtime::queue::{Queue, Requests, drain};
use rukpak_runtime::watch::Streams;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;

/// As the program has them.
const WRITES: usize = 48;
const CONCURRENCY: u16 = 16;
/// 2026-01-01T00:00:00Z.
const EPOCH: i64 = 1_767_225_600;

thread_local! {
    /// When the history of this thread began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// What a task of it has panicked with.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Notes panics: a queue takes them for a reconcile that failed.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        PANIC.set(Some(panic.to_string()));
    }));
}

pub fn take_panic() -> Option<String> {
    PANIC.take()
}

/// A history begins on this thread.
pub fn begin_time() {
    BEGUN.set(Some(Instant::now()));
}

/// How much time the history has taken.
pub fn elapsed() -> Duration {
    BEGUN.get().map(|begun| begun.elapsed()).unwrap_or_default()
}

/// The clock of the history.
pub fn now() -> Timestamp {
    let epoch = Timestamp::from_second(EPOCH).expect("because it is in range");
    epoch + elapsed()
}

/// Its tasks; dropped, they end.
pub struct Process {
    _tasks: JoinSet<()>,
}

/// Contents are not lost here.
struct NoUnpacker;

impl Unpacker for NoUnpacker {
    fn retry(&self, _: &Bundle) {}

    fn verify_content<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    fn fetch_revision<'a>(&'a self, _: &'a Revision, _: &'a BundleDeployment) -> BoxFuture<'a, Result<(), String>> {
        std::future::ready(Err("contents are not fetched in a simulation".to_owned())).boxed()
    }

    fn release<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
}

fn settings(shard: Shard) -> Settings {
    Settings {
        limits: Limits::default(),
        bundle_certificates: rukpak_format::Certificates::default(),
        bundle_certificate_lifetime: Duration::from_hours(24 * 90),
        crd_upgrades: rukpak_crd_upgrade::Options::default(),
        system_namespace: crate::story::SYSTEM.to_owned(),
        shard,
        require_service_account: false,
        health_gate: true,
        clock: now,
    }
}

impl Process {
    /// Starts the process of that number, which works on the deployments of `shard`.
    pub fn start(cluster: &Cluster, number: usize, shard: Shard, store: &rukpak_store::Store) -> Self {
        let client = cluster.client(number);
        let bundles = Streams::<Bundle>::selected(client.clone(), shard.selector());
        let deployments = Streams::<BundleDeployment>::selected(client.clone(), shard.selector());
        let plans = Streams::<Plan>::new(client.clone());
        let (deployment_queue, objects) = Queue::new();
        let (unserved_sender, unserved) = unbounded_channel();
        let (door, trackers) = (Door::new(client.clone(), WRITES), Trackers::default());
        let reads = Reads {
            reader: door.reader(),
            kinds: door.kinds(),
            store: Arc::new(store.clone()),
            settings: settings(shard),
            bundles: bundles.store.clone(),
            deployments: deployments.store.clone(),
            plans: plans.store.clone(),
            index: Index::default(),
            dependents: Dependents::new(client.clone(), trackers.clone(), deployment_queue.clone(), unserved_sender),
            trackers,
            proxy: ClusterProxy::new(Proxy::default()),
            render_memory: RenderMemory::default(),
        };
        let filled = CancellationToken::new();
        let context = Arc::new(Context {
            reads: Arc::new(reads),
            cluster: door,
            helm: Helm::find(PathBuf::from("/"), None),
            unpacker: Box::new(NoUnpacker),
            deployment_queue,
            refs: tokio::sync::RwLock::new(()),
            failures: rukpak_runtime::failures::Failures::default(),
            written: rukpak_runtime::status::WrittenVersions::default(),
            events: Events::new(client.clone(), "rukpak-controller", "Reconcile"),
            client,
            filled: filled.clone(),
            collect: Arc::default(),
        });

        let mut tasks = JoinSet::new();
        tasks.spawn(follow_bundles(bundles, context.clone()));
        tasks.spawn(watch::deployments(deployments, context.clone()).map(drop));
        tasks.spawn(watch::plans(plans, context.clone()).map(drop));
        tasks.spawn(watch::definitions(context.clone()).map(drop));
        tasks.spawn(watch::unserved(unserved, context.clone()).map(drop));
        tasks.spawn(watch::follow_proxy(context.clone()).map(drop));
        let known = context.clone();
        tasks.spawn(async move {
            watch::known(&known).await;
            known.filled.cancel();
        });
        let requests = Requests { objects, filled, tasks: TaskTracker::new() };
        let (store, begun) = (context.reads.deployments.clone(), cluster.clone());
        let reconcile = move |deployment: Arc<BundleDeployment>, context| {
            begun.lock().begin(number, &deployment.name_any(), deployment.metadata.generation.unwrap_or_default());
            deployment::reconcile(deployment, context)
        };
        tasks.spawn(drain(requests, store, context, CONCURRENCY, reconcile, |object, error, context| {
            deployment::error_policy(&object, error, &context)
        }));
        Self { _tasks: tasks }
    }
}

async fn follow_bundles(streams: Streams<Bundle>, context: Arc<Context>) {
    use futures::StreamExt as _;
    let mut changes = std::pin::pin!(streams.changes());
    while let Some(change) = changes.next().await {
        watch::note_bundle(&change, &context);
        watch::enqueue_owners(&change, &context);
    }
}
