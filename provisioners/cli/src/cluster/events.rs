//! Events of a BundleDeployment, and that something has changed.

use std::cmp::Reverse;

use futures::{Stream, StreamExt as _, future, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ClusterResourceScope, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::{Bundle, BundleDeployment, Plan, PlatformOperator};
use serde::de::DeserializeOwned;

use super::{Cluster, Error};

/// So many events of a namespace are looked at.
const LOOKED_AT: u32 = 500;

/// An event, as a list shows it.
#[derive(Debug)]
pub struct EventLine {
    /// Kind and name of what it is about.
    pub kind: String,
    pub name: String,
    /// When it was seen last.
    pub time: Option<Timestamp>,
    pub reason: String,
    /// How often it was seen.
    pub count: i32,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All objects of a kind were listed: at first, and after a time without a watch.
    Listed,
    Changed,
}

impl Cluster {
    /// The events of a BundleDeployment, the last one first.
    pub async fn events(&self, deployment: &str) -> Result<Vec<EventLine>, Error> {
        let selected = format!("involvedObject.kind=BundleDeployment,involvedObject.name={deployment}");
        self.event_lines(&Api::all(self.client.clone()), &ListParams::default().fields(&selected)).await
    }

    /// The warnings about objects in a namespace, the last one first.
    pub async fn warnings(&self, namespace: &str) -> Result<Vec<EventLine>, Error> {
        let selected = ListParams::default().fields("type=Warning").limit(LOOKED_AT);
        self.event_lines(&Api::namespaced(self.client.clone(), namespace), &selected).await
    }

    async fn event_lines(&self, events: &Api<Event>, selected: &ListParams) -> Result<Vec<EventLine>, Error> {
        let mut found = events.list(selected).await.map_err(|error| self.fault(error))?.items;
        found.sort_by_key(|event| Reverse(last_seen(event)));
        Ok(found.into_iter().map(line).collect())
    }

    /// An item whenever a BundleDeployment, a Bundle, a Plan, a PlatformOperator or a ClusterExtension has changed. Never ends; after
    /// an error a watch begins again by itself.
    pub fn changes(&self) -> impl Stream<Item = Change> + use<> {
        let client = || self.client.clone();
        let bundles = stream::select(changed::<BundleDeployment>(client()), changed::<Bundle>(client()));
        let doors = stream::select(changed::<PlatformOperator>(client()), changed::<ClusterExtension>(client()));
        stream::select(stream::select(bundles, doors), changed::<Plan>(client()))
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

/// An Event of `events.k8s.io/v1` has its times in other fields than one of `v1`.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let of_series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let newer = of_series.or(event.event_time.as_ref()).map(|time| time.0);
    newer.or_else(|| event.last_timestamp.as_ref().or(event.first_timestamp.as_ref()).map(|time| time.0))
}

fn line(event: Event) -> EventLine {
    EventLine {
        kind: event.involved_object.kind.clone().unwrap_or_default(),
        name: event.involved_object.name.clone().unwrap_or_default(),
        time: last_seen(&event),
        count: event.series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn both_forms_of_events_say_when_they_were_seen_last_and_how_often() {
        let read = |fields: Value| {
            let mut event = json!({"metadata": {}, "involvedObject": {}});
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let line = line(serde_json::from_value(event).unwrap());
            (line.time.map(|time| format!("{time:.0}")).unwrap_or_default(), line.count)
        };
        let (first, last) = ("2026-01-01T00:00:01.123456Z", "2026-01-01T00:00:02.123456Z");
        let once = json!({"eventTime": first, "firstTimestamp": null, "lastTimestamp": null});
        assert_eq!(read(once), ("2026-01-01T00:00:01Z".to_owned(), 1));
        let series = json!({"eventTime": first, "series": {"count": 3, "lastObservedTime": last}});
        assert_eq!(read(series), ("2026-01-01T00:00:02Z".to_owned(), 3));
        let old =
            json!({"firstTimestamp": "2026-01-01T00:00:01Z", "lastTimestamp": "2026-01-01T00:00:02Z", "count": 2});
        assert_eq!(read(old), ("2026-01-01T00:00:02Z".to_owned(), 2));
    }
}
