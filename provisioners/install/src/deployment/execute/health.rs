//! Reading the health of what is installed: one GET for each object that moved, at most one a second. Of a workload that is not
//! healthy the Pods are listed as well, now and then: nothing tells that they change.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::ApiResource;
use rukpak_plain::ObjectKey;
use rukpak_plan::Identity;
use rukpak_plan::applied::Objects;
use rukpak_plan::health::{self, Health, State};
use rukpak_runtime::error::Chain;
use serde_json::Value;

use super::fill;
use crate::deployment::observe::View;
use crate::index::Observed;

const PARALLEL: usize = 16;
/// So many Pods of a workload are read: if there are more, these tell enough.
const PODS: u32 = 20;

/// Whether anybody asks for health: it is reported, or an upgrade has to be healthy in time.
fn is_asked_for(view: &View) -> bool {
    view.observed.health_gate || view.observed.progress_deadline().is_some()
}

/// Reads again what moved since it was read last. What was read less than a second ago waits for the next reconcile.
pub(crate) async fn refresh(view: &View) {
    let due: Vec<(ObjectKey, Identity)> = {
        let mut tracked = view.tracker.tracked();
        tracked.judge_by(&view.observed.deployment.spec.health_checks);
        if !is_asked_for(view) {
            // What moves meanwhile is read once somebody asks.
            tracked.looks.clear();
            return;
        }
        tracked.take_reads(view.reads.now())
    };
    let reads: Vec<_> = due
        .into_iter()
        .map(|(key, applied)| async move {
            // The version that it was applied in may have ended: its watch has followed.
            let identity = view.reads.dependents.get(&key).map_or(applied, |seen| seen.identity(&key));
            let health = read(view, &identity).await;
            (key, health)
        })
        .collect();
    let read = futures::stream::iter(reads).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    let mut tracked = view.tracker.tracked();
    for (key, health) in read {
        tracked.note_health(&key, health, view.reads.now());
    }
    let tracked = &mut *tracked;
    tracked.looks.retain(|key, _| tracked.objects.contains_key(key));
}

/// When health is to be read next, if anybody asks for it.
pub(crate) fn next_read(view: &View) -> Option<Timestamp> {
    is_asked_for(view).then(|| view.tracker.tracked().next_read(view.reads.now())).flatten()
}

/// `None` if the API server has no answer at the moment.
async fn read(view: &View, identity: &Identity) -> Option<Health> {
    match view.reads.reader.get(identity).await {
        Ok(Some(live)) => {
            let object = live.whole(identity);
            let check = health::check_of(&view.observed.deployment.spec.health_checks, &identity.key());
            let mut health = health::assess_by(&object, check, view.reads.now());
            if !health.is_healthy()
                && let Some(why) = trouble(view, identity, &object).await
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
async fn trouble(view: &View, identity: &Identity, object: &Value) -> Option<String> {
    let (selector, namespace) = (health::pods_of(object)?, identity.namespace.as_deref()?);
    let page = ListParams::default().labels(&selector).limit(PODS);
    let listed = view.reads.reader.list(&ApiResource::erase::<Pod>(&()), Some(namespace), &page).await;
    let pods = match listed {
        Ok(pods) => pods,
        Err(error) => {
            tracing::debug!(deployment = %view.owner.name, %error, "the Pods of {identity} cannot be listed");
            return None;
        }
    };
    let pods: Vec<Value> = pods.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect();
    health::trouble(&pods)
}

/// What the watches show, with the health of what has a rule.
pub(super) async fn adopt(view: &View, observed: BTreeMap<ObjectKey, Observed>) -> Objects {
    let (mut waiting, mut reads) = (observed.into_iter(), FuturesUnordered::new());
    let mut objects = Objects::new();
    let now = view.reads.now();
    loop {
        fill(&mut reads, PARALLEL, &mut waiting, |(key, observed)| async move {
            let checks = &view.observed.deployment.spec.health_checks;
            let health = match health::is_judged(checks, &key) {
                false => Some(Health::new(State::Current, "")),
                true if is_asked_for(view) => read(view, &observed.identity(&key)).await,
                true => None,
            };
            (key, observed, health)
        });
        let Some((key, observed, health)) = reads.next().await else { break };
        let identity = observed.identity(&key);
        let object = view.tracker.tracked().adopt(&key, (identity, observed.fingerprint), health, now);
        objects.insert(key, object);
    }
    objects
}
