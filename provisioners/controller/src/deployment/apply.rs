//! Applying a plan, phase by phase, or trying it without storing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::retry::Class;
use rukpak_plan::{Mark, Phase, health};
use serde_json::{Value, json};

use super::installation::{Applied, Reaction};
use super::plan::{Plan, Step};
use super::put::{self, Mode, Outcome, keep_scale, put};
use super::{Pass, collision};
use crate::cluster::{Identity, Written};

/// So many objects of one deployment are under way at once.
const PARALLEL: usize = 16;
/// A new definition is served within a second or so.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// Everything that went wrong in one phase.
#[derive(Debug)]
pub(crate) struct Failed(pub Vec<put::Error>);

impl Failed {
    /// All errors in one text.
    pub fn message(&self) -> String {
        let collisions = self.0.iter().filter_map(|error| match error {
            put::Error::Collision(collision) => Some(&**collision),
            _ => None,
        });
        let mut texts = collision::texts(collisions);
        let others = self.0.iter().filter(|error| !matches!(error, put::Error::Collision(_)));
        texts.extend(others.map(|error| crate::error::Chain(error).to_string()).collect::<BTreeSet<String>>());
        match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }

    /// Whether it looks as if a kind, or something referred to, is missing.
    pub fn is_not_found(&self) -> bool {
        self.0.iter().any(put::Error::is_not_found)
    }

    /// Whether all of it failed only because the API server was not to be reached.
    pub fn is_unavailable(&self) -> bool {
        self.0.iter().all(put::Error::is_unavailable)
    }

    /// Whether everything may pass by itself soon.
    pub fn is_transient(&self) -> bool {
        self.0.iter().all(put::Error::is_transient)
    }

    /// How it is tried again.
    pub fn class(&self) -> Class {
        if self.is_transient() {
            Class::Transient
        } else if self.0.iter().any(put::Error::may_be_taken_over) {
            Class::InTheWay
        } else {
            Class::Invalid
        }
    }
}

/// What was there before, to know what changed.
pub(crate) struct Before<'a> {
    /// UIDs of the objects that are known to be ours.
    pub uids: &'a BTreeMap<ObjectKey, String>,
    /// Bodies of the previous content, if there was one.
    pub bodies: Option<&'a BTreeMap<ObjectKey, Step>>,
}

/// Applies every step, and notes the mark of each object in the installation as soon as it is written.
pub(crate) async fn apply(pass: &Pass, plan: &Plan, before: &Before<'_>) -> Result<(), Failed> {
    for phase in Phase::ALL {
        let steps: Vec<&Step> = plan.phase(phase).collect();
        let writes: Vec<_> = steps.iter().map(|step| apply_one(pass, step, before)).collect();
        let results = futures::stream::iter(writes).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
        let failed: Vec<put::Error> = results.into_iter().filter_map(Result::err).collect();
        if !failed.is_empty() {
            return Err(Failed(failed));
        }
        if phase == Phase::Definitions {
            served(pass, &steps).await;
        }
    }
    Ok(())
}

async fn apply_one(pass: &Pass, step: &Step, before: &Before<'_>) -> Result<(), put::Error> {
    let uid = before.uids.get(&step.key).map(String::as_str);
    let step = match uid {
        Some(_) => with_scale(pass, step, before).await,
        None => step.clone(),
    };
    if let Outcome::Applied(written) = put_once_served(pass, &step, uid).await? {
        note(pass, &step, &written);
    }
    Ok(())
}

/// Puts the object, and waits for its kind where the bundle brings that.
pub(crate) async fn put_once_served(pass: &Pass, step: &Step, uid: Option<&str>) -> Result<Outcome, put::Error> {
    let mut waited = Duration::ZERO;
    loop {
        match put(pass, step, uid, Mode::Real).await {
            // A kind becomes served a moment after its definition is Established, and nothing tells when.
            Err(error) if step.brought && error.is_not_found() && waited < SERVED_WITHIN => {
                let pause = (waited / 2).clamp(Duration::from_millis(20), Duration::from_secs(1));
                tokio::time::sleep(pause).await;
                waited += pause;
            }
            other => return other,
        }
    }
}

/// Reads the object where replicas are declared: somebody may have scaled it.
async fn with_scale(pass: &Pass, step: &Step, before: &Before<'_>) -> Step {
    let Some(ours) = step.body.pointer("/spec/replicas") else { return step.clone() };
    let previous = match before.bodies {
        Some(bodies) => {
            bodies.get(&step.key).and_then(|step| step.body.pointer("/spec/replicas")).unwrap_or(&Value::Null)
        }
        None => ours,
    };
    match pass.context.cluster.writer.get(&step.identity).await {
        Ok(Some(live)) => keep_scale(step, &live, Some(previous)),
        // The write that follows will tell what is wrong.
        _ => step.clone(),
    }
}

/// Notes what was written.
pub(crate) fn note(pass: &Pass, step: &Step, written: &Written) {
    let mark = Mark::of(&written.metadata, &pass.owner, FIELD_MANAGER);
    let health = health::assess(&whole(&step.identity, written), Timestamp::now());
    let applied = Applied { identity: step.identity.clone(), mark, health, read_at: Instant::now() };
    pass.installation.state().objects.insert(step.key.clone(), applied);
    // What a watch saw before this was noted, nobody was told of: drift, or a definition that is established by now.
    let missed = pass.context.dependents.get(&step.key).filter(|seen| seen.owner == pass.owner);
    if missed.is_some_and(|seen| pass.installation.seen(&step.key, &seen.owner, &seen.mark) == Reaction::Wake) {
        pass.context.wake.deployment(&pass.owner.name);
    }
}

/// The object as one JSON value, for the health rules. Only the parts of the metadata that they read.
pub(crate) fn whole(identity: &Identity, written: &Written) -> Value {
    let mut object = written.body.clone();
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".to_owned(), json!(identity.kind.resource.api_version));
        map.insert("kind".to_owned(), json!(identity.kind.resource.kind));
        let metadata = json!({
            "generation": written.metadata.generation,
            "deletionTimestamp": written.metadata.deletion_timestamp,
            "creationTimestamp": written.metadata.creation_timestamp,
        });
        map.insert("metadata".to_owned(), without_nulls(metadata));
    }
    object
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
    }
    value
}

/// Waits until the definitions are Established. What comes after retries where a kind is not served even then.
pub(crate) async fn served(pass: &Pass, definitions: &[&Step]) {
    let api: Api<CustomResourceDefinition> = Api::all(pass.context.client.clone());
    let waits = definitions
        .iter()
        .filter(|step| step.key.kind == "CustomResourceDefinition")
        .map(|step| await_condition(api.clone(), &step.key.name, is_crd_established()));
    let all = futures::future::join_all(waits);
    if tokio::time::timeout(SERVED_WITHIN, all).await.is_err() {
        tracing::warn!(deployment = %pass.owner.name, "definitions are not established after {SERVED_WITHIN:?}; going on");
    }
    for step in definitions {
        if let Some((_, group)) = step.key.name.split_once('.') {
            pass.context.cluster.kinds.forget(group);
        }
    }
}

/// Sends every changed step with `dryRun=All`. What cannot be known before the bundle's own kinds and namespaces are there
/// is passed over.
pub(crate) async fn dry_run(pass: &Pass, plan: &Plan, before: &Before<'_>) -> Result<(), Failed> {
    let changed = plan.steps.values().filter(|step| !step.brought && is_changed(step, before));
    let tries: Vec<_> = changed.map(|step| try_one(pass, plan, step, before)).collect();
    let results = futures::stream::iter(tries).buffer_unordered(PARALLEL).collect::<Vec<_>>().await;
    let failed: Vec<put::Error> = results.into_iter().filter_map(Result::err).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failed(failed)) }
}

async fn try_one(pass: &Pass, plan: &Plan, step: &Step, before: &Before<'_>) -> Result<(), put::Error> {
    let uid = before.uids.get(&step.key).map(String::as_str);
    match put(pass, step, uid, Mode::DryRun).await {
        Err(error) if !is_premature(plan, step, &error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether the previous content declared it differently, or not at all.
pub(crate) fn is_changed(step: &Step, before: &Before<'_>) -> bool {
    let previous = before.bodies.and_then(|bodies| bodies.get(&step.key));
    previous.is_none_or(|previous| previous.body != step.body)
}

/// Whether a dry run failed only because it comes before the phases that the real run has behind it.
fn is_premature(plan: &Plan, step: &Step, error: &put::Error) -> bool {
    let put::Error::Refused { source, .. } = error else { return false };
    let brings_namespace = step.key.namespace.as_ref().is_some_and(|namespace| {
        plan.steps.keys().any(|key| key.group.is_empty() && key.kind == "Namespace" && key.name == *namespace)
    });
    (source.is_not_found() && brings_namespace) || source.to_string().contains("does not support dry run")
}
