//! Applying a plan, phase by phase.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use rukpak_crds::HealthCheck;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::applied::Tracked;
use rukpak_plan::health::{self, Health, State};
use rukpak_plan::inbox::Reaction;
use rukpak_plan::kind::is_crd;
use rukpak_plan::resolve::{Basis, Why};
use rukpak_plan::retry::Class;
use rukpak_plan::{Fingerprint, Phase, Plan, Step, fields};
use rukpak_runtime::error::Chain;
use serde_json::Value;

use super::bases::Bases;
use super::members::Members;
use super::put::{self, Outcome, put};
use super::{collision, fill};
use crate::cluster::Written;
use crate::deployment::observe::Run;
use crate::index::Observed;

/// So many objects of one deployment are under way at once.
const PARALLEL: usize = 16;
/// A new CRD is served within a second or so.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// After so many failures that are no collisions a phase is given up: a webhook that hangs would hold up thousands of objects, each
/// for as long as the webhook may take.
const FAILURES: usize = 16;

/// Why a plan was not applied.
#[derive(Debug)]
pub(super) enum Error {
    /// Objects of a phase failed.
    Failed(Failed),
    /// The deployment asks for something else by now, or is being deleted.
    Superseded,
}

/// Everything that went wrong in one phase.
#[derive(Debug)]
pub(super) struct Failed(pub Vec<put::Error>);

impl Failed {
    /// All errors in one text.
    pub fn message(&self) -> String {
        let collisions = self.0.iter().filter_map(|error| match error {
            put::Error::Collision(collision) => Some(&**collision),
            _ => None,
        });
        let mut texts = collision::texts(collisions);
        let others = self.0.iter().filter(|error| !matches!(error, put::Error::Collision(_)));
        texts.extend(others.map(|error| Chain(error).to_string()).collect::<BTreeSet<String>>());
        match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }

    /// Whether the deployment asks for something else by now, or is being deleted.
    pub fn is_superseded(&self) -> bool {
        self.0.iter().any(|error| matches!(error, put::Error::Superseded))
    }

    /// Whether it looks as if a kind, or something referred to, is missing.
    pub fn is_not_found(&self) -> bool {
        self.0.iter().any(put::Error::is_not_found)
    }

    /// What to do about namespaces that are missing.
    pub fn hint(&self) -> String {
        let missing: BTreeSet<&str> = self.0.iter().filter_map(put::Error::missing_namespace).collect();
        match Vec::from_iter(missing).as_slice() {
            [] => String::new(),
            [one] => format!("; create the namespace (kubectl create namespace {one}), or put it into the bundle"),
            many => format!("; create the namespaces {}, or put them into the bundle", many.join(", ")),
        }
    }

    /// Whether everything may pass by itself soon.
    pub fn is_transient(&self) -> bool {
        self.0.iter().all(put::Error::is_transient)
    }

    /// Whether nothing but a quota is in the way.
    pub fn is_over_quota(&self) -> bool {
        self.0.iter().all(|error| error.is_over_quota() || error.is_transient()) && !self.is_transient()
    }

    /// How it is tried again.
    pub fn class(&self) -> Class {
        if self.is_transient() {
            Class::Transient
        } else if self.is_over_quota() || self.0.iter().any(put::Error::may_be_taken_over) {
            Class::Blocked
        } else {
            Class::Terminal
        }
    }
}

/// What is otherwise than the plan says.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Namespaces and CRDs of others that are used as they are.
    pub used: BTreeSet<ObjectKey>,
    /// Objects that are left as they are on request.
    pub paused: BTreeSet<ObjectKey>,
    /// What stays as it is in the cluster, a line an object.
    pub kept: Vec<String>,
    /// The fields that are ours of objects of which some were left to others.
    pub own: Vec<(ObjectKey, Value)>,
}

impl Done {
    /// Whether the object was not written, and need not be.
    pub fn is_left(&self, key: &ObjectKey) -> bool {
        self.used.contains(key) || self.paused.contains(key)
    }
}

/// Applies every step that is not settled, and notes the fingerprint of each object as soon as it is written.
#[tracing::instrument(level = "debug", skip_all, fields(rukpak.objects = plan.steps.len()))]
pub(super) async fn apply(run: &Run, plan: &Plan, why: Why, members: &Members, bases: &Bases) -> Result<Done, Error> {
    let (mut done, mut collisions) = (Done::default(), Vec::new());
    // Definitions that are being deleted. What they define cannot be applied, and what ends that may be among the rest.
    let mut ending = BTreeSet::new();
    for phase in Phase::ALL {
        let steps = plan.phase(phase).filter(|step| !bases.settled.contains(&step.key));
        let is_barred = |step: &&Step| !ending.is_empty() && ending.contains(&definition_of(step));
        let steps: Vec<&Step> = steps.filter(|step| !is_barred(step)).collect();
        if steps.is_empty() {
            continue;
        }
        let (mut waiting, mut writes) = (steps.iter(), FuturesUnordered::new());
        let mut failed = Vec::new();
        loop {
            fill(&mut writes, PARALLEL, &mut waiting, |step| one(run, step, why, members, bases));
            let Some((key, result)) = writes.next().await else { break };
            match result {
                Ok(Outcome::Applied(written, kept)) => {
                    done.kept.extend(kept);
                    let set = fields::applied(&written.metadata, FIELD_MANAGER);
                    let set = set.filter(|_| run.view.memory.is_repaired(&key)).cloned();
                    done.own.extend(set.map(|set| (key, set)));
                }
                Ok(Outcome::Used) => drop(done.used.insert(key)),
                Ok(Outcome::Replaceable) => {}
                Ok(Outcome::Paused(_)) => drop(done.paused.insert(key)),
                Err(put::Error::Superseded) => return Err(Error::Superseded),
                Err(error @ put::Error::InTheWay { .. }) if is_crd(&key) => {
                    ending.insert(key.name);
                    collisions.push(error);
                }
                Err(error) => failed.push(error),
            }
            if failed.iter().filter(|error| !matches!(error, put::Error::Collision(_))).count() >= FAILURES {
                break;
            }
        }
        let is_in_the_way = |error: &put::Error| matches!(error, put::Error::Collision(_));
        if !why.policy().stops_at_collisions && failed.iter().all(is_in_the_way) {
            // What was in the cluster before is guarded as far as it can be, whatever became somebody else's meanwhile.
            collisions.append(&mut failed);
        }
        if !failed.is_empty() {
            return Err(Error::Failed(Failed(failed)));
        }
        if phase == Phase::Crds {
            served(run, &steps).await;
        }
    }
    if collisions.is_empty() { Ok(done) } else { Err(Error::Failed(Failed(collisions))) }
}

/// Name of the definition of an object's kind, where that has one.
fn definition_of(step: &Step) -> String {
    let resource = &step.identity.kind.resource;
    format!("{}.{}", resource.plural, resource.group)
}

async fn one(
    run: &Run,
    step: &Step,
    why: Why,
    members: &Members,
    bases: &Bases,
) -> (ObjectKey, Result<Outcome, put::Error>) {
    let outcome = if members.is_paused(step) {
        Ok(Outcome::Paused(members.fingerprint(&step.key, &run.view.owner)))
    } else {
        let decided_by = bases.of(run, step, why);
        once_served(run, step, members.known(&step.key), &decided_by).await
    };
    match &outcome {
        Ok(Outcome::Applied(written, _)) => note(run, step, written),
        Ok(Outcome::Paused(fingerprint)) => note_paused(run, step, fingerprint.clone()).await,
        // It may have been ours before.
        Ok(Outcome::Used) => drop(run.view.tracker.tracked().objects.remove(&step.key)),
        Ok(Outcome::Replaceable) | Err(_) => {}
    }
    (step.key.clone(), outcome)
}

/// Puts the object, and waits for its kind where the bundle defines that.
pub(super) async fn once_served(
    run: &Run,
    step: &Step,
    known: Option<put::Known>,
    basis: &Basis<'_>,
) -> Result<Outcome, put::Error> {
    let mut waited = Duration::ZERO;
    loop {
        match put(run, step, known.clone(), basis, put::Mode::Real).await {
            // A kind becomes served a moment after its CRD is Established, and nothing tells when.
            Err(error) if step.defined_here && error.is_not_found() && waited < SERVED_WITHIN => {
                let pause = (waited / 2).clamp(Duration::from_millis(20), Duration::from_secs(1));
                tokio::time::sleep(pause).await;
                waited += pause;
            }
            other => return other,
        }
    }
}

/// Notes what was written.
pub(super) fn note(run: &Run, step: &Step, written: &Written) {
    let now = run.view.reads.now();
    let fingerprint = Fingerprint::of(&written.metadata, &run.view.owner, FIELD_MANAGER);
    let health = assess(&run.view.observed.deployment.spec.health_checks, step, written, now);
    let tracked = Tracked { identity: step.identity.clone(), fingerprint, health, is_read: true, read_at: now };
    track(run, &step.key, tracked);
}

/// The health of an object, by what the API server answered. The JSON that the rules read is made only of objects that a rule or a check is
/// about, which are few in a large bundle.
fn assess(checks: &[HealthCheck], step: &Step, written: &Written, now: Timestamp) -> Health {
    if written.metadata.deletion_timestamp.is_none() && !health::is_judged(checks, &step.key) {
        return Health::new(State::Current, "");
    }
    health::assess_by(&written.whole(&step.identity), health::check_of(checks, &step.key), now)
}

/// Notes an object that is left as it is, as it was seen; `None` if it is not there.
pub(super) async fn note_paused(run: &Run, step: &Step, fingerprint: Option<Fingerprint>) {
    tracing::debug!(deployment = %run.view.owner.name, object = %step.identity, "object left as it is on request");
    let Some(fingerprint) = fingerprint else {
        let mut tracked = run.view.tracker.tracked();
        tracked.objects.remove(&step.key);
        tracked.drifted.remove(&step.key);
        return;
    };
    let kind = step.identity.kind.clone();
    let seen = Observed { owner: Arc::new(run.view.owner.clone()), fingerprint, kind };
    for (key, tracked) in super::health::adopt(&run.view, [(step.key.clone(), seen)].into()).await {
        track(run, &key, tracked);
    }
}

fn track(run: &Run, key: &ObjectKey, tracked: Tracked) {
    let seen = run.view.reads.dependents.get(key);
    let seen = seen.as_ref().map(|seen| (&*seen.owner, &seen.fingerprint));
    let reaction = run.view.tracker.tracked().note_applied(&run.view.owner, key, tracked, seen);
    if reaction == Reaction::Enqueue {
        run.context.deployment_queue.add(&run.view.owner.name);
    }
}

/// Waits until the CRDs are Established, those that were not when they were written. What comes after retries where a kind is
/// not served even then.
pub(super) async fn served(run: &Run, steps: &[&Step]) {
    let api: Api<CustomResourceDefinition> = Api::all(run.context.client.clone());
    let is_established = |step: &Step| {
        let tracked = run.view.tracker.tracked();
        tracked.objects.get(&step.key).is_some_and(|written| written.health.is_healthy())
    };
    let crds = steps.iter().filter(|step| is_crd(&step.key) && !is_established(step));
    let waits = crds.map(|step| await_condition(api.clone(), &step.key.name, is_crd_established()));
    let all = futures::future::join_all(waits);
    if tokio::time::timeout(SERVED_WITHIN, all).await.is_err() {
        tracing::warn!(deployment = %run.view.owner.name, "CRDs are not established after {SERVED_WITHIN:?}; going on");
    }
    for step in steps {
        if let Some((_, group)) = step.key.name.split_once('.') {
            run.view.reads.kinds.forget(group);
        }
    }
}
