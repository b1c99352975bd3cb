//! The watch over one kind, for as long as it is asked for.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::api::{DynamicObject, WatchParams};
use kube::core::{PartialObjectMeta, Status};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use rukpak_crds::names;
use rukpak_plain::ObjectKey;
use rukpak_plan::Kind;
use rukpak_runtime::api::is_unanswered;

use super::{GroupKind, Hub};

/// Keeps `hub` told of a kind for as long as it is asked for.
pub(super) async fn follow(client: Client, hub: Arc<Hub>, kind: Kind) {
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
pub(crate) fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}
