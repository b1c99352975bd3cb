//! Watches ClusterCatalogs and works them off.

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use rukpak_crds::olm::ClusterCatalog;
use rukpak_runtime::process::Process;
use rukpak_runtime::queue::{Requests, drain};
use rukpak_runtime::watch::Change;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use super::{Context, reconcile};
use crate::follow::Optional;
use crate::metrics;
use crate::outcome::error_policy;

/// Catalogs that are unpacked at once.
const CONCURRENCY: u16 = 4;

/// Begins; `listed` is cancelled when it is known which ClusterCatalogs there are, and `news` is told whenever they may be others.
pub(crate) fn start(
    process: &mut Process,
    catalogs: Optional<ClusterCatalog>,
    context: Arc<Context>,
    listed: CancellationToken,
    news: impl Fn() + Send + Sync + 'static,
) {
    let (sender, objects) = unbounded_channel();
    let requests = Requests { objects, filled: listed.clone(), tasks: process.reconciles() };
    let store = context.catalogs.clone();
    let queue = drain(requests, store.clone(), context.clone(), CONCURRENCY, reconcile, |catalog, error, context| {
        error_policy(&*catalog, error, &context.failures)
    });
    process.spawn_endless("the queue of ClusterCatalogs", queue);
    process.spawn_endless("the watch over ClusterCatalogs", async move {
        let on = |change: Change<ClusterCatalog>| {
            news();
            metrics::set_cluster_catalogs(&store.state());
            match change {
                Change::Present(object) => {
                    let _ = sender.send(ObjectRef::new(&object.name_any()));
                }
                Change::Gone(object) => {
                    let context = context.clone();
                    tokio::spawn(async move { context.forget(&object).await });
                }
                Change::Listed { since } => {
                    let all = store.state();
                    context.written.listed(since, &all);
                    for object in all {
                        let _ = sender.send(ObjectRef::from_obj(&*object));
                    }
                    let context = context.clone();
                    tokio::spawn(async move { context.collect().await });
                }
            }
        };
        catalogs.follow(listed, on).await;
    });
}
