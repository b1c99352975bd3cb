//! What every reconcile of a BundleDeployment is handed.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::reflector::Store;
use rukpak_content::Limits;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crds::{Bundle, BundleDeployment, Plan, Revision};
use rukpak_format::Certificates;
use rukpak_helm::Helm;
use rukpak_runtime::clock;
use rukpak_runtime::events::Events;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::queue::Queue;
use rukpak_runtime::status::WrittenVersions;
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, Kinds, Reader};
use crate::dependents::Dependents;
use crate::index::Index;
use crate::proxy::ClusterProxy;
use crate::render_memory::RenderMemory;
use crate::shard::Shard;
use crate::tracker::Trackers;

/// What a reconcile may read: caches, the content store, the API server. Nothing in it writes to the cluster.
pub struct Reads {
    /// Every read of an object of a bundle.
    pub reader: Reader,
    /// Which kinds are served.
    pub kinds: Kinds,
    /// The content store. Its calls block: use [`tokio::task::spawn_blocking`].
    pub store: Arc<rukpak_store::Store>,
    /// What the flags say.
    pub settings: Settings,
    /// All Bundles, as last seen.
    pub bundles: Store<Bundle>,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// All Plans, as last seen.
    pub plans: Store<Plan>,
    /// Who refers to whom among Bundles, BundleDeployments and Plans.
    pub index: Index,
    /// What the deployments have installed, as far as this process knows.
    pub trackers: Trackers,
    /// Watches over the objects that are installed.
    pub dependents: Dependents,
    /// The proxy that operators are told of.
    pub proxy: ClusterProxy,
    /// Bounds the memory of releases that are rendered to be applied.
    pub render_memory: RenderMemory,
}

impl Reads {
    /// What the clock says.
    pub fn now(&self) -> Timestamp {
        clock::now()
    }
}

/// Handed to every reconcile of a BundleDeployment. It holds no object bodies.
pub struct Context {
    /// What may be read.
    pub reads: Arc<Reads>,
    /// For BundleDeployments, their Bundles, and what they refer to in the system namespace.
    pub client: Client,
    /// Makes the writers of objects of bundles.
    pub cluster: Cluster,
    /// Who renders charts.
    pub helm: Helm,
    /// Who unpacks Bundles.
    pub unpacker: Box<dyn Unpacker>,
    /// Cancelled when the caches have been filled for the first time.
    pub filled: CancellationToken,
    /// Asks for reconciles of BundleDeployments.
    pub deployment_queue: Queue<BundleDeployment>,
    /// Asks for a collection of the store.
    pub collect: Arc<Notify>,
    /// Shared by those who give contents of the store to BundleDeployments, exclusive to whoever takes them from one that is gone.
    pub refs: RwLock<()>,
    /// Failures in a row, per BundleDeployment.
    pub failures: Failures,
    /// Resource versions of our own status writes, per BundleDeployment.
    pub written: WrittenVersions,
    /// Writes Events.
    pub events: Events,
}

/// What the flags say about installations.
pub struct Settings {
    /// Upper bounds on content.
    pub limits: Limits,
    /// Who makes the certificates that webhooks of bundles serve with.
    pub bundle_certificates: Certificates,
    /// How long a certificate lives that is made for a bundle.
    pub bundle_certificate_lifetime: Duration,
    /// How strictly new versions of CRDs are compared to those in the cluster.
    pub crd_upgrades: crd_upgrade::Options,
    /// Where Secrets are read, and where objects without a namespace go.
    pub system_namespace: String,
    /// Which BundleDeployments this process works on.
    pub shard: Shard,
    /// Whether nothing is written for a BundleDeployment that names no ServiceAccount.
    pub require_service_account: bool,
    /// Whether `Healthy` is reported, and old Bundles wait for it.
    pub health_gate: bool,
}

/// Unpacks Bundles into the store that the installer reads. The program hands it in: this crate knows no source and no login.
pub trait Unpacker: Send + Sync {
    /// Retries a failed Bundle now: the cause of the failure is gone.
    fn retry(&self, bundle: &Bundle);

    /// Verifies the content of the Bundle `name`, and fetches it again if it is lost or damaged. Call it if loading the content failed with
    /// an error that is [`mended_by_refill`](rukpak_store::Error::mended_by_refill). The BundleDeployment that
    /// owns the Bundle is enqueued when the content is there.
    fn verify_content<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ()>;

    /// Fetches the content of a revision of the BundleDeployment again, by its pin and without a Bundle. The error says why it cannot be
    /// fetched.
    fn fetch_revision<'a>(
        &'a self,
        revision: &'a Revision,
        deployment: &'a BundleDeployment,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Releases what the store keeps under the name of a Bundle that is gone.
    fn release<'a>(&'a self, bundle: &'a str) -> BoxFuture<'a, ()>;
}
