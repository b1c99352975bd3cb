//! What every reconcile is handed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};
use rukpak_content::{Digest, Limits};
use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy};
use rukpak_plan::crd_upgrade;
use rukpak_runtime::events::Events;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::status::WrittenVersions;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::bundle::{Attempts, Fetches, Images};
use crate::child::Children;
use crate::cluster::Cluster;
use crate::content_service::Depot;
use crate::deployment::{self, Trackers};
use crate::render_memory::RenderMemory;
use crate::shard::Shard;
use crate::watch::{Dependents, Index};
use rukpak_format::Certificates;

/// Handed to every reconcile; cheap to share, holds no object bodies.
pub struct Context {
    /// For Bundles, BundleDeployments and what they refer to in the system namespace.
    pub client: Client,
    /// For the objects of bundles.
    pub cluster: Cluster,
    /// The content store. Its calls block: use [`tokio::task::spawn_blocking`].
    pub store: Arc<rukpak_store::Store>,
    /// The image source.
    pub images: rukpak_source::image::Puller,
    /// The git source.
    pub git: rukpak_source::git::Fetcher,
    /// The source of archives on web servers.
    pub http: rukpak_source::http::Fetcher,
    /// What clients uploaded; `None` if nobody can.
    pub uploads: Option<Arc<Depot>>,
    /// Base URL of the content service, without a slash at its end; `None` if it is off.
    pub content_base_url: Option<String>,
    /// Told when a Bundle begins or ceases to wait for a ConfigMap.
    pub config_maps: Notify,
    /// What sources may do.
    pub sources: SourcePolicy,
    /// Upper bounds on content.
    pub limits: Limits,
    /// Who makes the certificates that webhooks of bundles serve with.
    pub bundle_certificates: Certificates,
    /// How long a certificate lives that we make for a bundle.
    pub bundle_certificate_lifetime: Duration,
    /// How strictly new versions of CRDs are compared to those in the cluster.
    pub crd_upgrades: crd_upgrade::Options,
    /// Where Secrets are read, and where objects without a namespace go.
    pub system_namespace: String,
    /// What this process works on.
    pub shard: Shard,
    /// Whether nothing is written for a BundleDeployment that names no ServiceAccount.
    pub require_service_account: bool,
    /// Whether `Healthy` is reported, and old Bundles wait for it.
    pub health_gate: bool,
    /// All Bundles, as last seen.
    pub bundles: Store<Bundle>,
    /// All BundleDeployments, as last seen.
    pub deployments: Store<BundleDeployment>,
    /// All ContentPolicies, as last seen.
    pub policies: Store<ContentPolicy>,
    /// Who refers to whom among Bundles and BundleDeployments.
    pub index: Index,
    /// Cancelled when all of them have been filled for the first time.
    pub filled: CancellationToken,
    /// Asks for a reconcile of an object.
    pub wake: Wake,
    /// What the deployments have installed, as far as this process knows.
    pub trackers: Trackers,
    /// Asks for a collection of the store.
    pub collect: Notify,
    /// Shared by those who give contents of the store to BundleDeployments, exclusive to whoever takes them from one that is gone.
    pub refs: RwLock<()>,
    /// Watches over the objects that are installed.
    pub dependents: Dependents,
    /// Failures in a row, per object.
    pub failures: Failures,
    /// Resource versions of our own status writes, per object.
    pub written: WrittenVersions,
    /// Tells people what happened.
    pub events: Events,
    /// Bounds reconciles of Bundles that do not fetch.
    pub passes: Semaphore,
    /// Bounds the memory of releases that are rendered to be applied.
    pub render_memory: RenderMemory,
    /// Bounds how many sources are fetched at once.
    pub fetches: Fetches,
    /// What images held.
    pub images_fetched: Images,
    /// Bounds how many of these are git repositories: each is read by a child.
    pub git_fetches: Fetches,
    /// Attempts to unpack that are under way.
    pub attempts: Attempts,
    /// How child processes are started.
    pub children: Children,
}

impl Context {
    /// Whether all replicas have the contents and uploads.
    pub fn is_shared(&self) -> bool {
        self.store.bucket().is_some()
    }

    /// The contents that the cluster names.
    pub fn named_contents(&self) -> HashSet<Digest> {
        let (bundles, deployments) = (self.bundles.state(), self.deployments.state());
        let pins =
            bundles.iter().filter_map(|bundle| bundle.status.as_ref()?.pin.as_ref()?.content_digest.parse().ok());
        let releases = deployments.iter().filter_map(|deployment| deployment.status.as_ref());
        pins.chain(releases.flat_map(deployment::contents)).collect()
    }
}

/// What sources may do, beside where they may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct SourcePolicy {
    /// A login is sent only to hosts that its Secret names in an annotation.
    pub require_secret_hosts: bool,
    /// `insecureSkipVerify` is refused.
    pub forbid_insecure_skip_verify: bool,
    /// A source is refused that no rule of a ContentPolicy covers.
    pub require_content_policy: bool,
    /// An ssh host key counts only for a host that the known hosts name.
    pub strict_host_keys: bool,
    /// The process does not start where its children are not confined.
    pub require_confinement: bool,
}

/// Asks for reconcile passes.
#[derive(Clone)]
pub struct Wake {
    pub(crate) bundles: UnboundedSender<ObjectRef<Bundle>>,
    pub(crate) deployments: UnboundedSender<ObjectRef<BundleDeployment>>,
}

impl Wake {
    /// A reconcile of the Bundle `name`.
    pub fn bundle(&self, name: &str) {
        // The receiver is dropped only when the process ends.
        let _ = self.bundles.send(ObjectRef::new(name));
    }

    /// A reconcile of the BundleDeployment `name`.
    pub fn deployment(&self, name: &str) {
        let _ = self.deployments.send(ObjectRef::new(name));
    }
}
