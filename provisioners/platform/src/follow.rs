//! All objects of a kind that a cluster may or may not have.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Instant;

use futures::StreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use rukpak_runtime::served::while_defined;
use rukpak_runtime::watch::{Change, changes, is_forbidden};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// A store of them, and what fills it.
pub(crate) struct Optional<K: Resource<DynamicType = ()> + Clone + 'static> {
    client: Client,
    /// Name of the CRD.
    definition: &'static str,
    /// The objects as last seen; empty while the cluster has no such kind.
    pub store: Store<K>,
    writer: Mutex<Writer<K>>,
    /// Cancelled when the API server has not let us look at them.
    pub refused: CancellationToken,
}

impl<K> Optional<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Of the kind that the CRD of this name defines.
    pub fn new(client: Client, definition: &'static str) -> Self {
        let (store, writer) = reflector::store();
        Self { client, definition, store, writer: Mutex::new(writer), refused: CancellationToken::new() }
    }

    /// Tells of each change, endlessly, after the store has it. `filled` is cancelled when it is known which objects there are.
    pub async fn follow(self, filled: CancellationToken, on: impl Fn(Change<K>)) {
        let work = || self.watch(&filled, &on);
        let absent = || {
            tracing::info!(definition = self.definition, "not served by this cluster; followed as soon as it is");
            self.clear();
            on(Change::Listed { since: Instant::now() });
            filled.cancel();
        };
        let trouble = |error: &watcher::Error| {
            tracing::debug!(definition = self.definition, %error, "cannot find out whether it is served; trying again");
        };
        while_defined(self.client.clone(), self.definition, work, absent, trouble).await;
    }

    async fn watch(&self, filled: &CancellationToken, on: &impl Fn(Change<K>)) {
        let mut writer = self.writer.lock().await;
        let mut changes = pin!(changes(Api::all(self.client.clone()), watcher::Config::default(), &mut *writer));
        while let Some(change) = changes.next().await {
            match change {
                Ok(change) => {
                    if matches!(change, Change::Listed { .. }) {
                        filled.cancel();
                    }
                    on(change);
                }
                Err(error) => {
                    if is_forbidden(&error) {
                        self.refused.cancel();
                    }
                    tracing::debug!(definition = self.definition, %error, "watch interrupted; resuming");
                }
            }
        }
    }

    /// The kind is gone, and all objects with it.
    fn clear(&self) {
        // Nobody watches what is not defined.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.apply_watcher_event(&Event::Init);
            writer.apply_watcher_event(&Event::InitDone);
        }
    }
}

/// Cancelled as soon as all of them are.
pub(crate) fn all_of<const N: usize>(tokens: [CancellationToken; N]) -> CancellationToken {
    let all = CancellationToken::new();
    let cancelled = all.clone();
    tokio::spawn(async move {
        for token in tokens {
            token.cancelled().await;
        }
        cancelled.cancel();
    });
    all
}
