//! Watches: over our own objects, over what deployments may miss, and one of the cluster's proxy. The watches over what is installed are
//! those of [`Dependents`](crate::Dependents).

mod own;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object};
use kube::{Api, ResourceExt};
use rukpak_crds::InventoryKind;
use rukpak_format::{Proxy, proxy};
use rukpak_runtime::served::while_defined;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;
use crate::dependents::status;

pub use own::{deployments, enqueue_owners, known, note_bundle, plans};

/// Plural of OpenShift's Proxy.
const PROXIES: &str = "proxies";

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
    let absent = || see(&context, context.reads.proxy.own());
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
        see(context, context.reads.proxy.own());
    } else {
        tracing::warn!(%error, "cannot find out the proxy of the cluster, and installs nothing meanwhile; trying again");
    }
}
