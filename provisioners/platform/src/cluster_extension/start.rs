//! Watches ClusterExtensions and works them off.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::{ClusterExtension, deployment_name};
use rukpak_runtime::process::Process;
use rukpak_runtime::queue::{Requests, drain};
use rukpak_runtime::watch::Change;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::set::Set;
use super::{Context, reconcile};
use crate::follow::Optional;
use crate::metrics;
use crate::outcome::error_policy;
use crate::owned;

const CONCURRENCY: u16 = 32;

/// Asks for reconciles of ClusterExtensions.
#[derive(Clone)]
pub(crate) struct Wake {
    pub extensions: Store<ClusterExtension>,
    pub objects: UnboundedSender<ObjectRef<ClusterExtension>>,
}

impl Wake {
    /// Of the extension that a BundleDeployment was made for, of those that are upgraded together with it, and of one whose name it has
    /// taken.
    pub fn deployment(&self, deployment: &BundleDeployment) {
        let owner = owned::owner::<ClusterExtension>(deployment).map(str::to_owned);
        let known = self.extensions.state();
        let names = known.iter().map(|extension| extension.name_any());
        let taken = names.filter(|name| deployment.metadata.name == Some(deployment_name(name)));
        let members = Set::noted(deployment).map(|set| set.members);
        let members = members.into_iter().flat_map(BTreeMap::into_keys);
        let mut names: Vec<String> = taken.chain(owner).chain(members).collect();
        names.sort();
        names.dedup();
        for name in names {
            if self.extensions.get(&ObjectRef::new(&name)).is_some() {
                self.extension(&name);
            }
        }
    }

    pub fn extension(&self, name: &str) {
        // The receiver is dropped only when the process ends.
        let _ = self.objects.send(ObjectRef::new(name));
    }

    /// Of all of them.
    pub fn all(&self) {
        for extension in self.extensions.state() {
            let _ = self.objects.send(ObjectRef::from_obj(&*extension));
        }
    }
}

/// Begins, once `filled` says that all that an extension depends on is known. Cancels `own` when it is known which extensions there are.
pub(crate) fn start(
    process: &mut Process,
    (extensions, own): (Optional<ClusterExtension>, CancellationToken),
    context: Arc<Context>,
    (wake, objects): (Wake, UnboundedReceiver<ObjectRef<ClusterExtension>>),
    filled: CancellationToken,
) {
    let requests = Requests { objects, filled, tasks: process.reconciles() };
    let queue = drain(
        requests,
        context.extensions.clone(),
        context.clone(),
        CONCURRENCY,
        reconcile,
        |extension, error, context| error_policy(&*extension, error, &context.failures),
    );
    process.spawn_endless("the queue of ClusterExtensions", queue);
    process.spawn_endless("the watch over ClusterExtensions", async move {
        let count = || metrics::set_cluster_extensions(&wake.extensions.state());
        let on = |change: Change<ClusterExtension>| match change {
            Change::Present(object) => {
                let _ = wake.objects.send(ObjectRef::new(&object.name_any()));
            }
            Change::Gone(object) => {
                let uid = object.uid().unwrap_or_default();
                context.written.forget(&uid);
                context.failures.clear(&uid);
            }
            Change::Listed { since } => {
                context.written.listed(since, &wake.extensions.state());
                wake.all();
            }
        };
        let counted = |change| {
            on(change);
            context.dependencies.changed();
            count();
        };
        extensions.follow(own, counted).await;
    });
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn an_extension_whose_name_is_taken_is_enqueued_also_where_that_is_shortened() {
        let (extensions, mut writer) = reflector::store();
        let long = "e".repeat(60);
        for name in ["short", &long] {
            let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "p"}});
            let extension = json!({"metadata": {"name": name}, "spec": {"namespace": "ns", "source": source}});
            writer.apply_watcher_event(&Event::Apply(serde_json::from_value(extension).unwrap()));
        }
        let (objects, mut enqueued) = unbounded_channel();
        let wake = Wake { extensions, objects };
        let mut told = |name: &str| {
            let spec = json!({"provisionerClassName": "c",
                "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}});
            let foreign = json!({"metadata": {"name": name}, "spec": spec});
            wake.deployment(&serde_json::from_value(foreign).unwrap());
            std::iter::from_fn(|| enqueued.try_recv().ok()).map(|found| found.name).collect::<Vec<_>>()
        };
        assert_eq!(told("short"), ["short"]);
        assert_eq!(told(&deployment_name(&long)), [long.as_str()]);
        assert!(told("another").is_empty());
    }
}
