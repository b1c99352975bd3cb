//! Watches over all objects of a kind: a store of them, and what changes.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

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
    config: watcher::Config,
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
        Self::selected(client, "")
    }

    /// For the objects of the kind whose labels a selector fits; the empty one fits all.
    pub fn selected(client: Client, selector: &str) -> Self {
        let (store, writer) = reflector::store();
        Self { store, writer, api: Api::all(client), config: watcher::Config::default().labels(selector) }
    }

    /// The changes, endlessly; the store is filled on the way, before a change is told.
    pub fn changes(self) -> impl Stream<Item = Change<K>> {
        let store = self.store;
        // Who wrote which field is most of an object, and nothing looks at it here.
        let events = watcher::watcher(self.api, self.config)
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
