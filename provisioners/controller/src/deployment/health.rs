//! Reading the health of what is installed: one GET for each object that moved, at most one a second.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::Timestamp;
use rukpak_plain::ObjectKey;
use rukpak_plan::health::{self, Health, State};

use super::Pass;
use super::apply::whole;
use super::installation::Applied;
use super::release::Release;
use crate::cluster::Identity;
use crate::watch::Observed;

const PARALLEL: usize = 16;
/// The least time between two reads of one object.
pub(crate) const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Reads again what moved since it was read last. What was read less than a second ago waits for the next pass.
pub(crate) async fn refresh(pass: &Pass) {
    if !pass.context.health_gate {
        pass.installation.state().restless.clear();
        return;
    }
    let due: Vec<(ObjectKey, Identity)> = {
        let mut state = pass.installation.state();
        let due: BTreeSet<ObjectKey> = state
            .restless
            .iter()
            .filter(|key| state.objects.get(key).is_none_or(|applied| applied.read_at.elapsed() >= READ_INTERVAL))
            .cloned()
            .collect();
        state.restless.retain(|key| !due.contains(key));
        due.into_iter().filter_map(|key| Some((key.clone(), state.objects.get(&key)?.identity.clone()))).collect()
    };
    let reads: Vec<_> =
        due.into_iter().map(|(key, identity)| async move { (key, read(pass, &identity).await) }).collect();
    let read = futures::stream::iter(reads).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    let mut state = pass.installation.state();
    for (key, health) in read {
        let Some(applied) = state.objects.get_mut(&key) else { continue };
        applied.read_at = Instant::now();
        match health {
            Some(health) => applied.health = health,
            // It could not be read: nothing will tell when it can be.
            None => {
                state.restless.insert(key);
            }
        }
    }
}

/// `None` if the API server has no answer at the moment.
async fn read(pass: &Pass, identity: &Identity) -> Option<Health> {
    match pass.context.cluster.writer.get(identity).await {
        Ok(Some(live)) => Some(health::assess(&whole(identity, &live), Timestamp::now())),
        Ok(None) => Some(Health::new(State::NotFound, format!("{identity} not found"))),
        Err(error) if error.is_transient() => None,
        Err(error) => Some(Health::new(State::Unknown, crate::error::Chain(&error).to_string())),
    }
}

/// Takes what the watches show as what is installed, after a restart, and reads the health of what has a rule.
pub(crate) async fn adopt(pass: &Pass, release: &Release, observed: BTreeMap<ObjectKey, Observed>) {
    let mut objects = BTreeMap::new();
    let mut restless = BTreeSet::new();
    for (key, observed) in observed {
        let has_rule = pass.context.health_gate && health::has_rule(&key.group, &key.kind);
        let read = if has_rule { read(pass, &observed.identity).await } else { Some(Health::new(State::Current, "")) };
        let health = read.unwrap_or_else(|| {
            restless.insert(key.clone());
            Health::new(State::Unknown, "it could not be read yet")
        });
        objects
            .insert(key, Applied { identity: observed.identity, mark: observed.mark, health, read_at: Instant::now() });
    }
    let mut state = pass.installation.state();
    state.release = Some(release.clone());
    state.objects = objects;
    state.restless = restless;
    state.complete = true;
}

/// What is not healthy, a line an object, in the form of upstream.
pub(crate) fn complaints(pass: &Pass) -> Vec<String> {
    let state = pass.installation.state();
    state
        .objects
        .iter()
        .filter(|(_, applied)| !applied.health.is_healthy())
        .map(|(key, applied)| {
            let version = &applied.identity.kind.resource.version;
            health::line(&key.group, version, &key.kind, key.namespace.as_deref(), &key.name, &applied.health)
        })
        .collect()
}

/// Whether something moved so recently that it could not be read yet.
pub(crate) fn is_restless(pass: &Pass) -> bool {
    !pass.installation.state().restless.is_empty()
}
