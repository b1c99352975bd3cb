//! Watches: one a kind, shared by all deployments, holding fingerprints instead of objects; and one of the cluster's proxy. The loops
//! are here; what they saw, and whom it is news for, is in [`Dependents`].

mod dependents;
mod index;
mod proxy;

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, WatchParams};
use kube::core::{PartialObjectMeta, Status};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use rukpak_crds::{InventoryKind, names};
use rukpak_plain::ObjectKey;
use rukpak_plan::Kind;
use rukpak_runtime::api::is_unanswered;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;
use dependents::{GroupKind, Hub};

pub use dependents::{Dependents, Observed};
pub use index::Index;
pub use proxy::{ClusterProxy, follow_proxy};

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

/// Keeps `hub` told of a kind for as long as it is asked for.
async fn follow(client: Client, hub: Arc<Hub>, kind: Kind) {
    let id = (kind.resource.group.clone(), kind.resource.kind.clone());
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &*kind.resource);
    loop {
        let refusal = follow_until_refused(&api, &hub, &kind, &id).await;
        hub.refused(&id, Some(refusal));
        until_watchable(&Api::all_with(client.clone(), &*kind.resource)).await;
        hub.refused(&id, None);
    }
}

fn selector() -> String {
    format!("{}={}", names::OWNER_KIND, names::OWNER_KIND_VALUE)
}

/// Returns when the API server refuses to watch what it lists: its words.
async fn follow_until_refused(
    api: &Api<PartialObjectMeta<DynamicObject>>,
    hub: &Hub,
    kind: &Kind,
    id: &GroupKind,
) -> String {
    let config = watcher::Config::default().labels(&selector());
    let mut events = pin!(watcher::watcher(api.clone(), config).default_backoff());
    let mut listed: HashSet<ObjectKey> = HashSet::new();
    loop {
        match events.next().await {
            Some(Ok(Event::Init)) => listed.clear(),
            Some(Ok(Event::InitApply(object))) => {
                listed.insert(hub.seen(id, kind, &object.metadata));
            }
            Some(Ok(Event::InitDone)) => {
                hub.listed(id, &listed);
                listed = HashSet::new();
            }
            Some(Ok(Event::Apply(object))) => {
                hub.seen(id, kind, &object.metadata);
            }
            Some(Ok(Event::Delete(object))) => hub.deleted(id, kind, &object.metadata),
            Some(Err(error)) => {
                tracing::debug!(kind = %kind.resource.kind, %error, "watch interrupted; resuming");
                if status(&error).is_some_and(|status| status.code == 404) {
                    hub.unserved(kind);
                }
                match error {
                    // Tried again here: the end of a list that succeeds takes it back.
                    watcher::Error::InitialListFailed(kube::Error::Api(status)) if is_refusal(&status) => {
                        hub.refused(id, Some(status.message));
                    }
                    // Since 1.31 nobody answers a list of a kind whose conversion is down.
                    watcher::Error::InitialListFailed(error) if is_unanswered(&error) => {
                        hub.refused(id, Some(error.to_string()));
                    }
                    // That a watch succeeds is seen nowhere, so it has to be tried apart.
                    watcher::Error::WatchStartFailed(kube::Error::Api(status)) if is_refusal(&status) => {
                        return status.message;
                    }
                    _ => {}
                }
            }
            // A watcher goes on for ever.
            None => return "the watch ended".to_owned(),
        }
    }
}

/// A kind that is not served is told of elsewhere; an expired version is listed anew; no time, or not ready, is over soon.
fn is_refusal(status: &Status) -> bool {
    !matches!(status.code, 404 | 410 | 429 | 503 | 504)
}

/// Asks for a watch until there is one, or the kind is not served any more, which is told elsewhere.
async fn until_watchable(api: &Api<DynamicObject>) {
    let parameters = WatchParams::default().labels(&selector()).timeout(1);
    for pause in watcher::DefaultBackoff::default() {
        tokio::time::sleep(pause).await;
        // Without a version the watch begins with what there is now.
        match api.watch_metadata(&parameters, "0").await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(_) => {}
        }
    }
}

/// What the API server says to it.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}
