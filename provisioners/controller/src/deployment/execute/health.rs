//! Reading the health of what is installed: one GET for each object that moved, at most one a second. Of a workload that is not
//! healthy the Pods are listed as well, now and then: nothing tells that they change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::ApiResource;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::{Objects, Tracked};
use rukpak_plan::health::{self, Health, State};
use rukpak_plan::{Identity, memory};
use rukpak_runtime::error::Chain;
use serde_json::{Value, json};

use super::fill;
use crate::cluster::Written;
use crate::deployment::observe::Run;
use crate::watch::Observed;

const PARALLEL: usize = 16;
/// The least time between two reads of one object.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Until an unhealthy workload is looked at again; each time twice as long.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// The longest time until then.
const LAST_LOOK: Duration = Duration::from_mins(5);
/// So many Pods of a workload are read: if there are more, these tell enough.
const PODS: u32 = 20;

/// Whether anybody asks for health: it is reported, or an upgrade has to be healthy in time.
fn is_asked_for(run: &Run) -> bool {
    run.observed.health_gate || run.observed.progress_deadline().is_some()
}

/// Reads again what moved since it was read last. What was read less than a second ago waits for the next reconcile; returns
/// when that is.
pub(crate) async fn refresh(run: &Run) -> Option<Timestamp> {
    let now = Timestamp::now();
    let due: Vec<(ObjectKey, Identity)> = {
        let mut tracked = run.tracker.tracked();
        if !is_asked_for(run) {
            // What moves meanwhile is read once somebody asks.
            tracked.looks.clear();
            return None;
        }
        let looked_at = tracked.looks.iter().filter(|(_, (_, due))| *due <= now).map(|(key, _)| key.clone());
        let looked_at: BTreeSet<ObjectKey> = looked_at.collect();
        let moved = std::mem::take(&mut tracked.unread);
        // What moves by itself is not looked at more rarely for that.
        tracked.looks.retain(|key, _| !moved.contains(key));
        let unread: BTreeSet<ObjectKey> = moved.into_iter().chain(looked_at).collect();
        let is_due = |key: &ObjectKey| {
            // What was read later than now was read before the clock was put back.
            let was_read_lately = |read_at| read_at <= now && memory::later(read_at, READ_INTERVAL) > now;
            tracked.objects.get(key).is_none_or(|object| !was_read_lately(object.read_at))
        };
        let (due, waiting): (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) =
            unread.into_iter().partition(|key| is_due(key));
        tracked.unread = waiting;
        due.into_iter().filter_map(|key| Some((key.clone(), tracked.objects.get(&key)?.identity.clone()))).collect()
    };
    let reads: Vec<_> =
        due.into_iter().map(|(key, identity)| async move { (key, read(run, &identity).await) }).collect();
    let read = futures::stream::iter(reads).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    let mut tracked = run.tracker.tracked();
    for (key, health) in read {
        let tracked = &mut *tracked;
        let Some(object) = tracked.objects.get_mut(&key) else { continue };
        object.read_at = Timestamp::now();
        match health {
            Some(health) => {
                look_again(&mut tracked.looks, &key, &health);
                (object.health, object.is_read) = (health, true);
            }
            // It could not be read: nothing will tell when it can be.
            None => drop(tracked.unread.insert(key)),
        }
    }
    let tracked = &mut *tracked;
    tracked.looks.retain(|key, _| tracked.objects.contains_key(key));
    let looks = tracked.looks.values().map(|(_, due)| *due);
    let unread = (!tracked.unread.is_empty()).then(|| memory::later(Timestamp::now(), READ_INTERVAL));
    looks.chain(unread).min()
}

/// Notes when an object that is not healthy is looked at again, if it has Pods.
fn look_again(looks: &mut BTreeMap<ObjectKey, (u32, Timestamp)>, key: &ObjectKey, health: &Health) {
    if health.is_healthy() || !health::has_pods(&key.group, &key.kind) {
        looks.remove(key);
        return;
    }
    let count = looks.get(key).map_or(0, |(count, _)| *count);
    let pause = (FIRST_LOOK * 2_u32.saturating_pow(count.min(10))).min(LAST_LOOK);
    looks.insert(key.clone(), (count.saturating_add(1), memory::later(Timestamp::now(), pause)));
}

/// `None` if the API server has no answer at the moment.
async fn read(run: &Run, identity: &Identity) -> Option<Health> {
    match run.context.cluster.reader.get(identity).await {
        Ok(Some(live)) => {
            let object = whole(identity, &live);
            let mut health = health::assess(&object, Timestamp::now());
            if !health.is_healthy()
                && let Some(why) = trouble(run, identity, &object).await
            {
                health.message = format!("{}; {why}", health.message);
            }
            Some(health)
        }
        Ok(None) => Some(Health::new(State::NotFound, format!("{identity} not found"))),
        Err(error) if error.is_transient() => None,
        Err(error) => Some(Health::new(State::Unknown, Chain(&error).to_string())),
    }
}

/// Why the Pods of a workload do not run, in the words of the kubelet or the scheduler.
async fn trouble(run: &Run, identity: &Identity, object: &Value) -> Option<String> {
    let (selector, namespace) = (health::pods_of(object)?, identity.namespace.as_deref()?);
    let page = ListParams::default().labels(&selector).limit(PODS);
    let listed = run.context.cluster.reader.list_in(&ApiResource::erase::<Pod>(&()), namespace, &page).await;
    let pods = match listed {
        Ok(pods) => pods,
        Err(error) => {
            tracing::debug!(deployment = %run.owner.name, %error, "the Pods of {identity} cannot be listed");
            return None;
        }
    };
    let pods: Vec<Value> = pods.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect();
    health::trouble(&pods)
}

/// What the watches show, with the health of what has a rule.
pub(super) async fn adopt(run: &Run, observed: BTreeMap<ObjectKey, Observed>) -> Objects {
    let (mut waiting, mut reads) = (observed.into_iter(), FuturesUnordered::new());
    let mut objects = Objects::new();
    let now = Timestamp::now();
    loop {
        fill(&mut reads, PARALLEL, &mut waiting, |(key, observed)| async move {
            let health = match health::has_rule(&key.group, &key.kind) {
                false => Some(Health::new(State::Current, "")),
                true if is_asked_for(run) => read(run, &observed.identity(&key)).await,
                true => None,
            };
            (key, observed, health)
        });
        let Some((key, observed, health)) = reads.next().await else { break };
        let identity = observed.identity(&key);
        let is_read = health.is_some();
        let health = health.unwrap_or_else(|| {
            run.tracker.tracked().unread.insert(key.clone());
            Health::new(State::Unknown, "it was not read yet")
        });
        look_again(&mut run.tracker.tracked().looks, &key, &health);
        objects.insert(key, Tracked { identity, fingerprint: observed.fingerprint, health, is_read, read_at: now });
    }
    objects
}

/// The object as one JSON value, for the health rules. Only the parts of the metadata that they read.
pub(super) fn whole(identity: &Identity, written: &Written) -> Value {
    let mut object = written.body.clone();
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".to_owned(), json!(identity.kind.resource.api_version));
        map.insert("kind".to_owned(), json!(identity.kind.resource.kind));
        let mut metadata = json!({
            "generation": written.metadata.generation,
            "deletionTimestamp": written.metadata.deletion_timestamp,
            "creationTimestamp": written.metadata.creation_timestamp,
        });
        if let Value::Object(metadata) = &mut metadata {
            metadata.retain(|_, value| !value.is_null());
        }
        map.insert("metadata".to_owned(), metadata);
    }
    object
}
