//! ConfigMaps that Bundles wait for: watched while one does, and only then.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use rukpak_crds::{Bundle, BundlePhase};

use crate::bundle;
use crate::context::Context;

/// Says that a Bundle may begin or cease to wait, if it is one that could.
pub fn on_change(bundle: &Bundle, context: &Context) {
    if bundle.spec.source.config_maps.is_some() {
        context.config_maps.notify_one();
    }
}

/// Follows ConfigMaps of the system namespace while a Bundle waits for one, endlessly.
pub async fn follow(context: Arc<Context>) -> &'static str {
    context.filled.cancelled().await;
    loop {
        while !is_awaited(&context) {
            context.config_maps.notified().await;
        }
        tracing::debug!("a Bundle waits for ConfigMaps: watching them");
        watch(&context).await;
    }
}

/// Watches until nobody waits. The list that comes first covers what happened before.
async fn watch(context: &Context) {
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(context.client.clone(), &context.system_namespace);
    let mut events = pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = context.config_maps.notified() => {
                if is_awaited(context) {
                    continue;
                }
                return;
            }
        };
        match event {
            Some(Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object))) => {
                wake(&object.name_any(), context);
            }
            Some(Ok(Event::Init | Event::InitDone)) => {}
            Some(Err(error)) => tracing::debug!(%error, "watch over ConfigMaps interrupted; resuming"),
            None => return,
        }
    }
}

fn is_awaited(context: &Context) -> bool {
    let waits = |bundle: &Bundle| bundle.spec.source.config_maps.is_some() && bundle.is_in(BundlePhase::Failing);
    context.bundles.state().iter().any(|bundle| waits(bundle))
}

fn wake(config_map: &str, context: &Context) {
    for bundle in context.bundles.state() {
        if uses(&bundle, config_map) && !bundle.is_in(BundlePhase::Unpacked) {
            bundle::retry(&bundle, context);
        }
    }
}

fn uses(bundle: &Bundle, config_map: &str) -> bool {
    let entries = bundle.spec.source.config_maps.iter().flatten();
    entries.into_iter().any(|entry| !entry.is_secret() && entry.config_map.name.as_deref() == Some(config_map))
}
