//! Watches: one a kind, shared by all deployments, holding fingerprints instead of objects; and one of the cluster's proxy. The loops
//! are here; what they saw, and whom it is news for, is in [`Dependents`].

mod dependents;
mod index;
mod own;

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, WatchParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta, Status};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object};
use kube::{Api, Client, ResourceExt};
use rukpak_crds::{InventoryKind, names};
use rukpak_format::{Proxy, proxy};
use rukpak_plain::ObjectKey;
use rukpak_plan::Kind;
use rukpak_runtime::api::is_unanswered;
use rukpak_runtime::served::while_defined;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::context::Context;
use dependents::{GroupKind, Hub};

pub use dependents::{Dependents, Observed};
pub use index::Index;
pub use own::{deployments, enqueue_owners, known, note_bundle, plans};

/// Plural of OpenShift's Proxy.
const PROXIES: &str = "proxies";

/// The proxy that operators are told of, as it was seen last.
pub struct ClusterProxy {
    /// What counts where the cluster has no kind for it.
    own: Proxy,
    /// `None`: it is not known yet.
    seen: watch::Sender<Option<Proxy>>,
}

impl ClusterProxy {
    /// `own`: what counts where the cluster has no kind for it.
    pub fn new(own: Proxy) -> Self {
        Self { own, seen: watch::Sender::new(None) }
    }

    /// The proxy; none as long as it is not known.
    pub fn get(&self) -> Proxy {
        self.seen.borrow().clone().unwrap_or_default()
    }

    /// Waits until it is known.
    pub async fn known(&self) {
        let mut seen = self.seen.subscribe();
        // The sender lives as long as this does.
        let _ = seen.wait_for(Option::is_some).await;
    }

    fn is_known(&self) -> bool {
        self.seen.borrow().is_some()
    }

    /// Notes what was seen. Returns whether that is another than the one that was known.
    fn note(&self, proxy: Proxy) -> bool {
        let is_other = self.seen.borrow().as_ref().is_some_and(|known| *known != proxy);
        self.seen.send_replace(Some(proxy));
        is_other
    }
}

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

/// Follows the proxy of the cluster, endlessly: when it changes, all that is installed is looked at again.
pub async fn follow_proxy(context: Arc<Context>) -> &'static str {
    let definition = format!("{PROXIES}.{}", proxy::GROUP);
    let work = || watch_proxy(&context);
    let absent = || see(&context, context.reads.proxy.own.clone());
    let trouble = |error: &watcher::Error| in_trouble(&context, error);
    while_defined(context.client.clone(), &definition, work, absent, trouble).await;
    "the watch over the proxy of the cluster"
}

async fn watch_proxy(context: &Context) {
    let kind = GroupVersionKind::gvk(proxy::GROUP, proxy::VERSION, proxy::KIND);
    let kind = ApiResource::from_gvk_with_plural(&kind, PROXIES);
    let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &kind);
    let mut changes = pin!(watch_object(api, proxy::NAME).default_backoff());
    while let Some(change) = changes.next().await {
        match change {
            Ok(object) => see(context, object.map_or_else(Proxy::default, |object| Proxy::read(&object.data))),
            Err(error) => in_trouble(context, &error),
        }
    }
}

fn see(context: &Context, proxy: Proxy) {
    if !context.reads.proxy.note(proxy) {
        return;
    }
    // Not what it is: there may be a password in it.
    tracing::info!("the proxy of the cluster has changed; operators are told");
    for deployment in context.reads.deployments.state() {
        context.deployment_queue.add(&deployment.name_any());
    }
}

/// Before the proxy is known nothing is installed: operators would do without it for a moment.
fn in_trouble(context: &Context, error: &watcher::Error) {
    if context.reads.proxy.is_known() {
        tracing::debug!(%error, "watch over the proxy of the cluster interrupted; resuming");
    } else if status(error).is_some_and(|status| matches!(status.code, 403 | 404)) {
        // Not for us to read, or not served in this version: as if the cluster had no such kind.
        tracing::warn!(%error, "cannot read the proxy of the cluster; operators are not told of it");
        see(context, context.reads.proxy.own.clone());
    } else {
        tracing::warn!(%error, "cannot find out the proxy of the cluster, and installs nothing meanwhile; trying again");
    }
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
    // A list has what was applied before it is asked for.
    let mut applied_before = None;
    loop {
        match events.next().await {
            Some(Ok(Event::Init)) => {
                listed.clear();
                applied_before = hub.newest_applied(id);
            }
            Some(Ok(Event::InitApply(object))) => {
                listed.insert(hub.seen(id, kind, &object.metadata, applied_before));
            }
            Some(Ok(Event::InitDone)) => {
                hub.listed(id, &listed);
                listed = HashSet::new();
            }
            Some(Ok(Event::Apply(object))) => {
                hub.seen(id, kind, &object.metadata, None);
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
