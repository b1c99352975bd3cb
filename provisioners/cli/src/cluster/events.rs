//! Events of a BundleDeployment, and that something has changed.

use futures::{Stream, StreamExt as _, future, stream};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ClusterResourceScope, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{Bundle, BundleDeployment, PlatformOperator};
use serde::de::DeserializeOwned;

use super::{Cluster, Error};

/// An event, as a list shows it.
#[derive(Debug)]
pub struct EventLine {
    /// When it was seen last.
    pub time: String,
    /// One word.
    pub reason: String,
    /// How often it was seen.
    pub count: i32,
    /// A sentence.
    pub message: String,
}

/// What a watch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All objects of a kind were listed: at first, and after a time without a watch.
    Listed,
    /// One has changed.
    Changed,
}

impl Cluster {
    /// The events of a BundleDeployment, the last one first.
    pub async fn events(&self, deployment: &str) -> Result<Vec<EventLine>, Error> {
        let selected = format!("involvedObject.kind=BundleDeployment,involvedObject.name={deployment}");
        let all: Api<Event> = Api::all(self.client.clone());
        let listed = all.list(&ListParams::default().fields(&selected)).await.map_err(|error| self.fault(error))?;
        let mut events: Vec<EventLine> = listed.items.into_iter().map(line).collect();
        events.sort_by(|a, b| b.time.cmp(&a.time));
        Ok(events)
    }

    /// An item whenever a BundleDeployment, a Bundle, a PlatformOperator or a ClusterExtension has changed. Never ends; after an
    /// error a watch begins again by itself.
    pub fn changes(&self) -> impl Stream<Item = Change> + use<> {
        let client = || self.client.clone();
        let bundles = stream::select(changed::<BundleDeployment>(client()), changed::<Bundle>(client()));
        let doors = stream::select(changed::<PlatformOperator>(client()), changed::<ClusterExtension>(client()));
        stream::select(bundles, doors)
    }
}

fn changed<K>(client: Client) -> impl Stream<Item = Change> + use<K>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let all: Api<PartialObjectMeta<K>> = Api::all(client);
    let changes = watcher(all, watcher::Config::default()).default_backoff();
    changes.filter_map(|change| {
        future::ready(match change {
            Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => Some(Change::Changed),
            Ok(watcher::Event::InitDone) => Some(Change::Listed),
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) | Err(_) => None,
        })
    })
}

fn line(event: Event) -> EventLine {
    let time = event.last_timestamp.or(event.first_timestamp).map(|time| time.0.to_string());
    let time = time.or_else(|| event.event_time.map(|time| time.0.to_string()));
    EventLine {
        time: time.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        count: event.count.unwrap_or(1),
        message: event.message.unwrap_or_default(),
    }
}
