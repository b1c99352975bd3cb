//! Watches ClusterObjectSets and works them off.

use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::ClusterObjectSet;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::process::Process;
use rukpak_runtime::queue::{Requests, drain};
use rukpak_runtime::status::WrittenVersions;
use rukpak_runtime::watch::Change;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::known::KnownSets;
use super::{Context, DEFINITION, reconcile};
use crate::events::Events;
use crate::follow::{Optional, all_of};
use crate::outcome::error_policy;
use crate::owned;

const CONCURRENCY: u16 = 16;

/// Asks for reconciles of ClusterObjectSets.
#[derive(Clone)]
pub(crate) struct Wake {
    sets: Store<ClusterObjectSet>,
    objects: UnboundedSender<ObjectRef<ClusterObjectSet>>,
}

impl Wake {
    /// Of the set that a BundleDeployment was made for.
    pub fn deployment(&self, deployment: &BundleDeployment) {
        if let Some(name) = owned::owner::<ClusterObjectSet>(deployment) {
            self.set(name);
        }
    }

    /// Of all of them.
    pub fn all(&self) {
        for set in self.sets.state() {
            self.set(&set.name_any());
        }
    }

    fn set(&self, name: &str) {
        // The receiver is dropped only when the process ends.
        let _ = self.objects.send(ObjectRef::new(name));
    }
}

/// The kind, not followed yet, and what asks for reconciles.
pub(crate) struct Sets {
    pub followed: Optional<ClusterObjectSet>,
    requests: UnboundedReceiver<ObjectRef<ClusterObjectSet>>,
    pub wake: Wake,
}

impl Sets {
    pub fn new(client: Client) -> Self {
        let followed = Optional::new(client, DEFINITION);
        let (objects, requests) = unbounded_channel();
        let wake = Wake { sets: followed.store.clone(), objects };
        Self { followed, requests, wake }
    }

    /// Begins, when `filled` says that all BundleDeployments are known.
    pub fn start(
        self,
        process: &mut Process,
        (client, system_namespace): (Client, String),
        (deployments, filled): (Store<BundleDeployment>, CancellationToken),
        (written, events): (Arc<WrittenVersions>, Arc<Events>),
    ) {
        let Self { followed, requests: objects, wake } = self;
        let sets = followed.store.clone();
        let failures = Failures::default();
        let known = KnownSets::default();
        let context = Arc::new(Context { client, deployments, system_namespace, failures, known, written, events });
        let known = CancellationToken::new();
        let filled = all_of([filled, known.clone()]);
        let requests = Requests { objects, filled, tasks: process.reconciles() };
        let queue = drain(requests, sets, context.clone(), CONCURRENCY, reconcile, |set, error, context| {
            error_policy(&*set, error, &context.failures)
        });
        process.spawn_endless("the queue of ClusterObjectSets", queue);
        process.spawn_endless("the watch over ClusterObjectSets", async move {
            followed.follow(known, |change| noticed(change, &wake, &context)).await;
        });
    }
}

fn noticed(change: Change<ClusterObjectSet>, wake: &Wake, context: &Context) {
    match change {
        Change::Present(object) => wake.set(&object.name_any()),
        Change::Gone(object) => {
            let uid = object.uid().unwrap_or_default();
            context.written.forget(&uid);
            context.failures.clear(&uid);
            context.known.forget(&uid);
        }
        Change::Listed { since } => {
            context.written.listed(since, &wake.sets.state());
            wake.all();
        }
    }
}
