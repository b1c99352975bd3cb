//! Watches over all objects of a kind: a store of them, and what changes.

use std::borrow::BorrowMut;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
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
    writer: Writer<K>,
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
    Listed {
        /// When it was begun: what was written before that is in it.
        since: Instant,
    },
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

    /// The changes, endlessly; the store is filled on the way, before a change is told. Interruptions are logged only.
    pub fn changes(self) -> impl Stream<Item = Change<K>> {
        changes(self.api, self.config, self.writer).filter_map(|change| {
            let change = change.inspect_err(|error| {
                tracing::debug!(kind = %K::kind(&()), %error, "watch interrupted; resuming");
            });
            std::future::ready(change.ok())
        })
    }
}

/// Whether we lack the right to list or to watch.
pub fn is_forbidden(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    let (InitialListFailed(source) | WatchStartFailed(source)) = error else { return false };
    matches!(source, kube::Error::Api(status) if status.code == 403)
}

/// The changes of all objects that `api` lists with `config`, endlessly; the store of `writer` has each of them before it is told. An error is an
/// interruption: the watch resumes by itself. A writer can be lent, for a watch that begins anew.
pub fn changes<K>(
    api: Api<K>,
    config: watcher::Config,
    mut writer: impl BorrowMut<Writer<K>>,
) -> impl Stream<Item = Result<Change<K>, watcher::Error>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let store = writer.borrow().as_reader();
    let mut since = Instant::now();
    // Who wrote which field is most of an object, and nothing looks at it here.
    let events = watcher::watcher(api, config)
        .default_backoff()
        .modify(|object: &mut K| object.meta_mut().managed_fields = None);
    events.filter_map(move |event| {
        let change = event.map(|event| {
            writer.borrow_mut().apply_watcher_event(&event);
            match event {
                // The store's copy is shared, not cloned.
                Event::Apply(object) => store.get(&ObjectRef::from_obj(&object)).map(Change::Present),
                Event::Delete(object) => Some(Change::Gone(Arc::new(object))),
                Event::Init => {
                    since = Instant::now();
                    None
                }
                Event::InitApply(_) => None,
                Event::InitDone => Some(Change::Listed { since }),
            }
        });
        std::future::ready(change.transpose())
    })
}
