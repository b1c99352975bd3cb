//! The proxy that operators are told of: that of the cluster, where it has a kind for it.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use kube::{Api, ResourceExt};
use rukpak_format::{Proxy, proxy};
use rukpak_runtime::served::while_defined;
use tokio::sync::watch;

use crate::context::Context;

/// Plural of OpenShift's Proxy.
const PLURAL: &str = "proxies";

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

/// Follows the proxy of the cluster, endlessly: when it changes, all that is installed is looked at again.
pub async fn follow_proxy(context: Arc<Context>) -> &'static str {
    let definition = format!("{PLURAL}.{}", proxy::GROUP);
    let work = || watch_proxy(&context);
    let absent = || see(&context, context.reads.proxy.own.clone());
    let trouble = |error: &watcher::Error| in_trouble(&context, error);
    while_defined(context.client.clone(), &definition, work, absent, trouble).await;
    "the watch over the proxy of the cluster"
}

async fn watch_proxy(context: &Context) {
    let kind = GroupVersionKind::gvk(proxy::GROUP, proxy::VERSION, proxy::KIND);
    let kind = ApiResource::from_gvk_with_plural(&kind, PLURAL);
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
    } else {
        tracing::warn!(%error, "cannot find out the proxy of the cluster, and installs nothing meanwhile; trying again");
    }
}
