//! Watches: one a kind, shared by all deployments, holding fingerprints instead of objects.

mod dependents;
mod index;
mod seen;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use rukpak_crds::InventoryKind;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;

pub use dependents::{Dependents, Observed};
pub use index::Index;

/// Follows CustomResourceDefinitions, endlessly: what a deployment misses may have come.
pub async fn definitions(context: Arc<Context>) -> &'static str {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(context.client.clone());
    let mut events = pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(definition) | Event::InitApply(definition) | Event::Delete(definition)) = event else {
            continue;
        };
        let name = definition.name_any();
        let Some((_, group)) = name.split_once('.') else { continue };
        context.reads.kinds.forget(group);
        for owner in context.reads.trackers.defined(group) {
            // However long it waited: what it misses may be served in a moment, so the short waits begin again.
            context.failures.clear(&owner.uid);
            context.deployment_queue.add(&owner.name);
        }
    }
    "the watch over CustomResourceDefinitions"
}

/// Follows kinds whose watched version is not served any more, endlessly: they are watched in another one, if there is one.
pub async fn unserved(mut kinds: UnboundedReceiver<InventoryKind>, context: Arc<Context>) -> &'static str {
    while let Some(kind) = kinds.recv().await {
        context.reads.kinds.forget(&kind.group);
        let gone = BTreeSet::from([kind.version.clone()]);
        match context.reads.kinds.any_version(&kind, &gone).await {
            Ok(Some(served)) => context.reads.dependents.follow_version(&served),
            // The watch asks again, with its back-off: the kind may come back.
            Ok(None) => context.reads.dependents.kind_gone(&kind),
            Err(error) => {
                tracing::warn!(kind = %kind.kind, group = %kind.group, %error, "cannot find out which version of a kind is served");
            }
        }
    }
    "the search for served versions"
}
