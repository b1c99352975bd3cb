//! A controller: the install reconciler with its watches and its queue, put together as the program does it. Bundles are unpacked by the
//! history.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use rukpak_content::Limits;
use rukpak_crds::{Bundle, BundleDeployment, InventoryKind, Plan, Revision};
use rukpak_format::Proxy;
use rukpak_helm::Helm;
use rukpak_install::cluster::Cluster as Door;
use rukpak_install::{
    ClusterProxy, Context, Dependents, Index, Reads, RenderMemory, Settings, Shard, Trackers, Unpacker, deployment,
    watch,
};
use rukpak_runtime::args::LeaderElection;
use rukpak_runtime::events::Events;
use rukpak_runtime::process::leader::Candidate;
use rukpak_runtime::queue::{Queue, Requests, drain};
use rukpak_runtime::watch::Streams;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Cluster;

/// As the program has them.
const WRITES: usize = 48;
const CONCURRENCY: u16 = 16;
const END_DEADLINE: Duration = Duration::from_secs(2);
const ELECTION: LeaderElection = LeaderElection { lease_duration: Duration::from_secs(15) };
/// 2026-01-01T00:00:00Z.
const EPOCH: i64 = 1_767_225_600;

thread_local! {
    /// When the history of this thread began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// What a task of it has panicked with.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Has programs told the time of the history, and notes panics: a queue takes them for a reconcile that failed.
pub fn prepare() {
    rukpak_runtime::clock::set(now);
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

/// What runs of it; dropped, it ends.
pub struct Process {
    _running: Box<dyn Any>,
    pub gate: Gate,
}

/// Stops a process and lets it go on, as SIGSTOP and SIGCONT do: while it is shut, nothing that has to pass it runs.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<Shut>>);

#[derive(Default)]
struct Shut {
    is_shut: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Shut> {
        self.0.lock().expect("because nobody panics with it")
    }

    pub fn shut(&self) {
        self.lock().is_shut = true;
    }

    pub fn open(&self) {
        let waiting = {
            let mut shut = self.lock();
            shut.is_shut = false;
            std::mem::take(&mut shut.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn pass<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        let step = |context: &mut std::task::Context<'_>| {
            let mut shut = self.lock();
            if shut.is_shut {
                shut.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            drop(shut);
            future.as_mut().poll(context)
        };
        poll_fn(step).await
    }
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
    }
}

/// What a process is started with.
pub struct Role<'a> {
    pub number: usize,
    /// The deployments that it works on.
    pub shard: Shard,
    /// Its name where it works only while it has the Lease.
    pub candidate: Option<String>,
    pub store: &'a rukpak_store::Store,
}

impl Process {
    pub fn start(cluster: &Cluster, role: Role<'_>) -> Self {
        let gate = Gate::default();
        let parts = assemble(cluster, &role);
        let mut tasks = JoinSet::new();
        match role.candidate {
            None => drop(parts.work(&mut tasks, cluster, &gate)),
            Some(name) => {
                let lease = (crate::story::SYSTEM, crate::story::LEASE);
                let candidate = Candidate::named(name, cluster.client(role.number), lease, ELECTION);
                let led = lead(candidate, parts, cluster.clone(), gate.clone());
                tasks.spawn(gate.clone().pass(led));
            }
        }
        Self::new(tasks, gate)
    }

    pub fn new(running: impl Any, gate: Gate) -> Self {
        Self { _running: Box::new(running), gate }
    }
}

/// As `Process::lead` and `go_on` of the program, which begins anew when it leads no more: here the history does that.
async fn lead(candidate: Candidate, parts: Parts, cluster: Cluster, gate: Gate) {
    let number = parts.number;
    let mut leader = candidate.elected().await;
    let mut tasks = JoinSet::new();
    let reconciles = parts.work(&mut tasks, &cluster, &gate);
    let lost = leader.keep().await;
    let end = async {
        tasks.shutdown().await;
        reconciles.close();
        reconciles.wait().await;
    };
    let ended = timeout(END_DEADLINE.min(leader.time_to_stop(&lost)), end).await;
    // Whatever still runs ends with the program.
    drop((ended, tasks));
    cluster.lock().ended.insert(number);
    cluster.arrived.notify_one();
}

/// What works on deployments.
struct Parts {
    number: usize,
    context: Arc<Context>,
    bundles: Streams<Bundle>,
    deployments: Streams<BundleDeployment>,
    plans: Streams<Plan>,
    objects: UnboundedReceiver<ObjectRef<BundleDeployment>>,
    unserved: UnboundedReceiver<InventoryKind>,
}

fn assemble(cluster: &Cluster, role: &Role<'_>) -> Parts {
    let (client, shard) = (cluster.client(role.number), &role.shard);
    let bundles = Streams::<Bundle>::selected(client.clone(), shard.selector());
    let deployments = Streams::<BundleDeployment>::selected(client.clone(), shard.selector());
    let plans = Streams::<Plan>::new(client.clone());
    let (deployment_queue, objects) = Queue::new();
    let (unserved_sender, unserved) = unbounded_channel();
    let (door, trackers) = (Door::new(client.clone(), WRITES), Trackers::default());
    let reads = Reads {
        reader: door.reader(),
        kinds: door.kinds(),
        store: Arc::new(role.store.clone()),
        settings: settings(shard.clone()),
        bundles: bundles.store.clone(),
        deployments: deployments.store.clone(),
        plans: plans.store.clone(),
        index: Index::default(),
        dependents: Dependents::new(client.clone(), trackers.clone(), deployment_queue.clone(), unserved_sender),
        trackers,
        proxy: ClusterProxy::new(Proxy::default()),
        render_memory: RenderMemory::default(),
    };
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
        filled: CancellationToken::new(),
        collect: Arc::default(),
    });
    Parts { number: role.number, context, bundles, deployments, plans, objects, unserved }
}

impl Parts {
    /// Starts the watches and the queue. Returns what knows of the reconciles.
    fn work(self, tasks: &mut JoinSet<()>, cluster: &Cluster, gate: &Gate) -> TaskTracker {
        let Self { number, context, bundles, deployments, plans, objects, unserved } = self;
        tasks.spawn(gate.clone().pass(follow_bundles(bundles, context.clone())));
        tasks.spawn(gate.clone().pass(watch::deployments(deployments, context.clone()).map(drop)));
        tasks.spawn(gate.clone().pass(watch::plans(plans, context.clone()).map(drop)));
        tasks.spawn(gate.clone().pass(watch::definitions(context.clone()).map(drop)));
        tasks.spawn(gate.clone().pass(watch::unserved(unserved, context.clone()).map(drop)));
        tasks.spawn(gate.clone().pass(watch::follow_proxy(context.clone()).map(drop)));
        let known = context.clone();
        let fill = async move {
            watch::known(&known).await;
            known.filled.cancel();
        };
        tasks.spawn(gate.clone().pass(fill));

        let reconciles = TaskTracker::new();
        let requests = Requests { objects, filled: context.filled.clone(), tasks: reconciles.clone() };
        let (store, begun, gate) = (context.reads.deployments.clone(), cluster.clone(), gate.clone());
        let around = gate.clone();
        let reconcile = move |deployment: Arc<BundleDeployment>, context| {
            begun.lock().begin(number, deployment.clone());
            gate.clone().pass(deployment::reconcile(deployment, context))
        };
        let queue = drain(requests, store, context, CONCURRENCY, reconcile, |object, error, context| {
            deployment::error_policy(&object, error, &context)
        });
        tasks.spawn(around.pass(queue));
        reconciles
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
