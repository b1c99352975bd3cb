//! OLM v1's controllers: what they share, and their beginning.

use std::sync::{Arc, Mutex};

use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::{ClusterCatalog, ClusterExtension};
use rukpak_runtime::failures::Failures;
use rukpak_runtime::process::Process;
use rukpak_runtime::status::WrittenVersions;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::catalogs::{Catalogs, ClusterCatalogs};
use super::cluster_catalog::store::CatalogStore;
use super::cluster_catalog::{CatalogLogins, Images};
use super::cluster_extension::Wake;
use super::cluster_object_set::Sets;
use super::dependencies::Dependencies;
use super::events::Events;
use super::follow::{Optional, all_of};
use super::policies::Verdicts;
use super::{cluster_catalog, cluster_extension};

/// The kinds, not followed yet, and what asks for reconciles of ClusterExtensions.
pub(crate) struct Extensions {
    followed: Optional<ClusterExtension>,
    catalogs: Optional<ClusterCatalog>,
    /// Cancelled when it is known which ClusterCatalogs there are.
    listed: CancellationToken,
    /// Cancelled when it is known which ClusterExtensions there are.
    known: CancellationToken,
    requests: UnboundedReceiver<ObjectRef<ClusterExtension>>,
    pub wake: Wake,
    pub sets: Sets,
}

/// What the controllers stand on.
pub(crate) struct Parts {
    pub client: Client,
    /// Where the content of BundleDeployments lies.
    pub system_namespace: String,
    pub images: Arc<dyn Images>,
    pub logins: CatalogLogins,
    pub verdicts: Arc<Verdicts>,
    pub content: Arc<CatalogStore>,
    /// Whether catalogs have to name images by digest.
    pub requires_digests: bool,
    /// Where ClusterObjectSets have what they hold that show revisions of ClusterExtensions, if any do.
    pub revisions_in: Option<String>,
    /// All BundleDeployments, and what is cancelled when they are known.
    pub deployments: (Store<BundleDeployment>, CancellationToken),
    pub dependencies: Arc<Dependencies>,
    /// All catalogs from which dependencies can be installed.
    pub offered: Arc<Catalogs>,
    pub written: Arc<WrittenVersions>,
    /// Scheme and host by which clients reach the content of catalogs, if it is served.
    pub external: Option<String>,
    pub events: Arc<Events>,
    /// Told whenever ClusterCatalogs may be others.
    pub news: Box<dyn Fn() + Send + Sync>,
}

impl Extensions {
    pub fn new(client: Client) -> Self {
        let followed = Optional::new(client.clone(), cluster_extension::DEFINITION);
        let catalogs = Optional::new(client.clone(), cluster_catalog::DEFINITION);
        let (objects, requests) = unbounded_channel();
        let wake = Wake { extensions: followed.store.clone(), objects };
        let (listed, known) = (CancellationToken::new(), CancellationToken::new());
        Self { followed, catalogs, listed, known, requests, wake, sets: Sets::new(client) }
    }

    /// ClusterCatalogs for PlatformOperators, who do without them where we may not look at them.
    pub fn catalogs(&self, content: Arc<CatalogStore>) -> ClusterCatalogs {
        let known = either(&self.listed, &self.catalogs.refused);
        ClusterCatalogs::new(self.catalogs.store.clone(), content, known)
    }

    /// Cancelled when it is known which ClusterExtensions there are, or that they cannot be looked at.
    pub fn known(&self) -> CancellationToken {
        either(&self.known, &self.followed.refused)
    }

    /// Begins with all kinds.
    pub fn start(self, process: &mut Process, parts: Parts) {
        let Parts {
            client,
            system_namespace,
            images,
            logins,
            verdicts,
            content,
            requires_digests,
            revisions_in,
            deployments: (deployments, filled),
            dependencies,
            offered,
            written,
            external,
            events,
            news,
        } = parts;
        let (catalogs, listed, known) = (self.catalogs, self.listed, self.known);
        let told = (written.clone(), events.clone());
        let sets = self.sets.followed.store.clone();
        self.sets.start(process, (client.clone(), system_namespace), (deployments.clone(), filled.clone()), told);
        let of_extensions = Arc::new(cluster_extension::Context {
            client: client.clone(),
            extensions: self.followed.store.clone(),
            catalogs: catalogs.store.clone(),
            deployments,
            sets,
            dependencies,
            offered,
            content: content.clone(),
            requires_digests,
            revisions_in,
            failures: Failures::default(),
            written,
            events: events.clone(),
        });
        let of_catalogs = cluster_catalog::Context {
            client,
            catalogs: catalogs.store.clone(),
            content,
            images,
            logins,
            verdicts,
            external,
            failures: Failures::default(),
            written: WrittenVersions::default(),
            events,
            unpacked: Mutex::default(),
        };
        let wake = self.wake.clone();
        let filled = all_of([filled, listed.clone(), known.clone()]);
        cluster_catalog::start(process, catalogs, Arc::new(of_catalogs), listed, move || {
            wake.all();
            news();
        });
        cluster_extension::start(process, (self.followed, known), of_extensions, (self.wake, self.requests), filled);
    }
}

/// Cancelled as soon as one of them is.
fn either(one: &CancellationToken, other: &CancellationToken) -> CancellationToken {
    let (either, one, other) = (CancellationToken::new(), one.clone(), other.clone());
    let cancelled = either.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = one.cancelled() => {}
            () = other.cancelled() => {}
        }
        cancelled.cancel();
    });
    either
}
