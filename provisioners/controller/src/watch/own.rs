//! Watches over our own kinds and over CustomResourceDefinitions.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use rukpak_crds::InventoryKind;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::context::Context;

/// A reflector's store and the events that fill it.
pub struct Streams<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Hash + Eq + Clone,
{
    /// The objects as last seen.
    pub store: Store<K>,
    writer: reflector::store::Writer<K>,
    api: Api<K>,
}

/// What happened to an object of ours.
pub enum Change<K> {
    /// It is there, new or changed.
    Present(Arc<K>),
    /// It is gone.
    Gone(Arc<K>),
    /// The first list, or the list after an interruption, is complete.
    Listed,
}

impl<K> Streams<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// For all objects of the kind.
    pub fn new(client: Client) -> Self {
        let (store, writer) = reflector::store();
        Self { store, writer, api: Api::all(client) }
    }

    /// The changes, endlessly; the store is filled on the way, before a change is told.
    pub fn changes(self) -> impl Stream<Item = Change<K>> {
        let store = self.store;
        // Who wrote which field is most of an object, and nothing looks at it here.
        let events = watcher::watcher(self.api, watcher::Config::default())
            .default_backoff()
            .modify(|object| object.meta_mut().managed_fields = None);
        events.reflect(self.writer).filter_map(move |event| {
            let change = match event {
                Ok(Event::Apply(object)) => {
                    // Older objects leave the store with their key; the store's copy is shared, not cloned.
                    store.get(&ObjectRef::from_obj(&object)).map(Change::Present)
                }
                Ok(Event::Delete(object)) => Some(Change::Gone(Arc::new(object))),
                Ok(Event::InitDone) => Some(Change::Listed),
                Ok(Event::Init | Event::InitApply(_)) => None,
                Err(error) => {
                    tracing::debug!(kind = %K::kind(&()), %error, "watch interrupted; resuming");
                    None
                }
            };
            std::future::ready(change)
        })
    }
}

/// Follows CustomResourceDefinitions, endlessly: what a deployment misses may have come.
pub async fn definitions(client: Client, context: Arc<Context>) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let mut events = pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(definition) | Event::InitApply(definition) | Event::Delete(definition)) = event else {
            continue;
        };
        let name = definition.name_any();
        let Some((_, group)) = name.split_once('.') else { continue };
        context.cluster.kinds.forget(group);
        for owner in context.trackers.defined(group) {
            // However long it waited: what it misses may be served in a moment, so the short waits begin anew.
            context.failures.clear(&owner.uid);
            context.wake.deployment(&owner.name);
        }
    }
}

/// Follows kinds whose watched version is not served any more, endlessly: they are watched in another one, if there is one.
pub async fn unserved(mut kinds: UnboundedReceiver<InventoryKind>, context: Arc<Context>) {
    while let Some(kind) = kinds.recv().await {
        context.cluster.kinds.forget(&kind.group);
        let gone = BTreeSet::from([kind.version.clone()]);
        match context.cluster.kinds.any_version(&kind, &gone).await {
            Ok(Some(served)) => context.dependents.follow_version(&served),
            // The watch asks again, with its back-off: the kind may come back.
            Ok(None) => context.dependents.kind_gone(&kind),
            Err(error) => {
                tracing::warn!(kind = %kind.kind, group = %kind.group, %error, "it cannot be found out which version of the kind is served");
            }
        }
    }
}
