//! What every reconcile of a Bundle is handed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube::Client;
use kube::runtime::reflector::Store;
use rukpak_content::Limits;
use rukpak_crds::{Bundle, BundleDeployment, ContentPolicy};
use rukpak_format::Certificates;
use rukpak_runtime::events::Events;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::queue::Queue;
use rukpak_runtime::status::WrittenVersions;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::attempts::Attempts;
use crate::depot::Depot;
use crate::fetches::Fetches;
use crate::images::Images;

/// Handed to every reconcile of a Bundle, and to the content service. It holds no content.
pub struct Context {
    /// For Bundles, and for the Secrets and ConfigMaps that they name.
    pub client: Client,
    /// The content store. Its calls block: use [`tokio::task::spawn_blocking`].
    pub store: Arc<rukpak_store::Store>,
    /// Where content comes from.
    pub sources: Sources,
    /// What clients uploaded; `None` if nobody can.
    pub uploads: Option<Arc<Depot>>,
    /// Base URL of the content service, without a slash at its end; `None` if it is off.
    pub content_base_url: Option<String>,
    /// Notified when a Bundle begins or ceases to wait for a ConfigMap.
    pub config_maps: Notify,
    /// Upper bounds on content.
    pub limits: Limits,
    /// Where Secrets are read.
    pub system_namespace: String,
    /// Who makes the certificates of webhooks in content that is shown as it renders.
    pub bundle_certificates: Certificates,
    /// Whether an upload for a BundleDeployment without a ServiceAccount needs the right to impersonate the controller's.
    pub require_service_account: bool,
    /// All Bundles, as last seen.
    pub bundles: Store<Bundle>,
    /// All BundleDeployments, as last seen: what they installed before is fetched again by the same pin.
    pub deployments: Store<BundleDeployment>,
    /// All ContentPolicies, as last seen.
    pub policies: Store<ContentPolicy>,
    /// Cancelled when all of them have been filled for the first time.
    pub filled: CancellationToken,
    /// Asks for reconciles of Bundles.
    pub bundle_queue: Queue<Bundle>,
    /// Asks for reconciles of BundleDeployments: lost content of one is here again.
    pub deployment_queue: Queue<BundleDeployment>,
    /// Asks for a collection of the store.
    pub collect: Arc<Notify>,
    /// Failures in a row, per Bundle.
    pub failures: Failures,
    /// Resource versions of our own status writes, per Bundle.
    pub written: WrittenVersions,
    /// Writes Events.
    pub events: Events,
    /// What is bounded.
    pub permits: Permits,
    /// What images held.
    pub images_fetched: Images,
    /// The ServiceAccount whose pull secrets count for every image named none when it was read last. Whoever is refused without a login
    /// reads it again.
    pub has_no_pull_secrets: AtomicBool,
    /// Attempts to unpack that are under way.
    pub attempts: Attempts,
    /// How child processes are started.
    pub children: Children,
}

/// Where content comes from.
pub struct Sources {
    /// Images in registries.
    pub images: rukpak_source::image::Puller,
    /// Repositories of git.
    pub git: rukpak_source::git::Fetcher,
    /// Archives on web servers.
    pub http: rukpak_source::http::Fetcher,
    /// What all of them may do.
    pub policy: SourcePolicy,
}

/// How much goes on at once.
pub struct Permits {
    /// Reconciles of Bundles that do not fetch.
    pub reconciles: Semaphore,
    /// Fetches from all sources.
    pub fetches: Fetches,
    /// Those of git repositories: each is read by a child.
    pub git_fetches: Fetches,
}

/// How children are started.
pub struct Children {
    /// This program.
    pub program: PathBuf,
    /// Bounds how many bundles are checked at once.
    pub checks: Semaphore,
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
