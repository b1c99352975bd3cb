//! Each object of the plan: who owns the one in the cluster, and what a dry run of the controller's apply makes of it.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use kube::api::DynamicObject;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use rukpak_plan::fields::{Taken, applied};
use rukpak_plan::kind::is_crd;
use rukpak_plan::owner::{self, Predecessors};
use rukpak_plan::owner_metadata::updating;
use rukpak_plan::plan::Need;
use rukpak_plan::resolve::{Basis, Live, resolve};
use rukpak_plan::{Ownership, Step};
use rukpak_registry::render::PLACEHOLDER;
use serde_json::Value;

use super::crds;
use super::fields::{self, FieldChange};
use super::report::{Action, Change, Report};
use super::target::Target;
use crate::cluster::{self, Cluster};
use crate::output::chain;

/// So many objects are asked for at once.
const PARALLEL: usize = 8;
const REPLICAS: &str = "/spec/replicas";

/// What would become of one object.
enum Outcome {
    Same,
    Create,
    Change(Vec<FieldChange>),
    Refuse(String),
    Wait(String),
    Unknown(String),
}

/// Compares all objects of the plan. CRDs come first: kinds that change cannot be tried before they have changed.
pub(super) async fn all(cluster: &Cluster, target: &Target<'_>, report: &mut Report) {
    missing(target, report);
    let (crds, others): (Vec<&Step>, Vec<&Step>) = target.plan.steps.values().partition(|step| is_crd(&step.key));
    let mut changed = BTreeSet::new();
    for (steps, is_crds) in [(crds, true), (others, false)] {
        let looks = steps.into_iter().map(|step| {
            let is_tried = !(step.defined_here && changed.contains(&(step.key.group.clone(), step.key.kind.clone())));
            async move { (step, one(cluster, target, step, is_tried).await) }
        });
        // In the order of the plan, whoever answers first.
        let found: Vec<_> = futures::stream::iter(looks).buffered(PARALLEL).collect().await;
        if is_crds {
            changed = found
                .iter()
                .filter(|(_, (outcome, _))| !matches!(outcome, Outcome::Same))
                .filter_map(defined)
                .collect();
        }
        for (step, (outcome, kept)) in found {
            report.remarks.extend(kept);
            note(report, step, outcome);
        }
    }
}

/// The kind that a CRD of the plan defines, as group and kind.
fn defined<T>((step, _): &(&Step, T)) -> Option<(String, String)> {
    let text = |pointer: &str| step.body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/spec/group")?, text("/spec/names/kind")?))
}

/// Kinds that nobody serves.
fn missing(target: &Target<'_>, report: &mut Report) {
    for missing in &target.plan.missing {
        let kind = format!("the cluster serves no kind {} of {}", missing.kind.kind, missing.kind.api_version);
        match &missing.need {
            Need::Optional(key) => report.remarks.push(format!("{key} is left out: {kind}")),
            Need::Object(key) => report.changes.push(Change::of_key(key, Action::Wait).because(kind)),
            Need::Dependency => {
                report.remarks.push(format!("nothing is installed yet, for the bundle depends on an API: {kind}"));
                report.is_refused = true;
            }
        }
    }
}

fn note(report: &mut Report, step: &Step, outcome: Outcome) {
    let change = |action| Change::of_key(&step.key, action).declared(&step.origin);
    match outcome {
        Outcome::Same => report.unchanged += 1,
        Outcome::Create => report.changes.push(change(Action::Create)),
        Outcome::Change(fields) => report.changes.push(change(Action::Change).with(fields)),
        Outcome::Refuse(why) => report.changes.push(change(Action::Refuse).because(why)),
        Outcome::Wait(why) => report.changes.push(change(Action::Wait).because(why)),
        Outcome::Unknown(why) => report.unknown.push(format!("{}: {why}", step.identity)),
    }
}

/// What would become of an object, and what of it stays in the cluster although the bundle says otherwise.
async fn one(cluster: &Cluster, target: &Target<'_>, step: &Step, is_tried: bool) -> (Outcome, Option<String>) {
    let mut kept = None;
    let live = match cluster.live(&step.identity).await {
        Ok(Some(live)) => live,
        Ok(None) => return (create(cluster, target, step).await, kept),
        Err(error) => return (Outcome::Unknown(chain(&error)), kept),
    };
    let predecessors = Predecessors {
        system_namespace: target.system_namespace,
        extension: target.deployment.and_then(|deployment| owner::extension(&deployment.metadata)),
    };
    let outcome = match target.owner.ownership(&live.metadata, predecessors) {
        Ownership::Ours | Ownership::HelmRelease | Ownership::Extension | Ownership::AdoptionAllowed => {
            change(cluster, target, step, &live, is_tried, &mut kept).await
        }
        Ownership::Terminating => Outcome::Wait("it is being deleted".to_owned()),
        Ownership::LeftBehind { .. } => {
            Outcome::Wait("it is left from an earlier BundleDeployment of this name".to_owned())
        }
        // Used as it is.
        Ownership::Foreign(_) if step.key.group.is_empty() && step.key.kind == "Namespace" => Outcome::Same,
        Ownership::Foreign(foreign) => Outcome::Refuse(format!("it exists: {}", foreign.why())),
    };
    (outcome, kept)
}

async fn create(cluster: &Cluster, target: &Target<'_>, step: &Step) -> Outcome {
    if step.defined_here {
        // Its CRD may not be there yet.
        return Outcome::Create;
    }
    match cluster.dry_run(&step.identity, &step.body).await {
        Ok(_) => Outcome::Create,
        Err(error) if is_premature(target, step, &error) => Outcome::Create,
        Err(error) => refused(&error),
    }
}

async fn change(
    cluster: &Cluster,
    target: &Target<'_>,
    step: &Step,
    live: &DynamicObject,
    is_tried: bool,
    kept: &mut Option<String>,
) -> Outcome {
    let mut declared = step.body.clone();
    put_in_certificates(step, &mut declared, &live.data);
    let relinquished = relinquished(target, &step.key);
    let installed = before(cluster, target, step, live).await;
    let basis =
        Basis { why: target.why, installed: installed.as_ref(), begun: None, relinquished: Some(&relinquished) };
    let seen = Live { metadata: &live.metadata, body: &live.data };
    let resolved = resolve(&step.key, &declared, Some(seen), &basis);
    if let Some(stays) = resolved.kept {
        *kept = Some(format!("{} {stays}", step.identity));
    }
    let before = fields::declared(live);
    let after = match trial(cluster, target, step, live, &resolved.body, is_tried).await {
        Ok(Some(after)) => fields::declared(&after),
        Ok(None) => fields::overlaid(&before, &bare(&resolved.body)),
        Err(outcome) => return outcome,
    };
    let changes = fields::changes(&before, &after, step.key.group.is_empty() && step.key.kind == "Secret");
    if changes.is_empty() {
        return Outcome::Same;
    }
    if is_crd(&step.key) && target.why.is_new() {
        match crds::refusal(cluster, target, step, live).await {
            Ok(None) => {}
            Ok(Some(why)) => return Outcome::Refuse(why),
            Err(error) => return Outcome::Unknown(chain(&error)),
        }
    }
    Outcome::Change(changes)
}

/// Puts the certificates of the cluster where the bundle has a placeholder: they are made there. Of a Secret that is all of its data.
fn put_in_certificates(step: &Step, declared: &mut Value, live: &Value) {
    let is_secret = step.key.group.is_empty() && step.key.kind == "Secret";
    let mut entries = declared.get("data").and_then(Value::as_object).into_iter().flatten();
    if is_secret && entries.any(|(_, value)| value == PLACEHOLDER) {
        declared["data"] = live["data"].clone();
    }
    fields::fill(declared, live, PLACEHOLDER);
}

/// The object as the apply would leave it; `None` where it cannot be tried.
async fn trial(
    cluster: &Cluster,
    target: &Target<'_>,
    step: &Step,
    live: &DynamicObject,
    body: &Value,
    is_tried: bool,
) -> Result<Option<DynamicObject>, Outcome> {
    if !is_tried {
        return Ok(None);
    }
    let uid = live.metadata.uid.clone().unwrap_or_default();
    match cluster.dry_run(&step.identity, &updating(body.clone(), &uid, None)).await {
        Ok(after) => Ok(Some(after)),
        Err(error) if is_premature(target, step, &error) => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}

/// A body without what names the object.
fn bare(body: &Value) -> Value {
    let mut bare = body.clone();
    if let Some(map) = bare.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
        }
    }
    bare
}

/// What the installed release declares, where that decides: a number of replicas that somebody has scaled gives way to a new
/// release that declares another one than before.
async fn before(cluster: &Cluster, target: &Target<'_>, step: &Step, live: &DynamicObject) -> Option<Value> {
    let current = live.data.pointer(REPLICAS)?;
    step.body.pointer(REPLICAS).filter(|ours| target.why.is_new() && *ours != current)?;
    let ours = applied(&live.metadata, FIELD_MANAGER);
    if ours.is_some_and(|set| set.pointer("/f:spec/f:replicas").is_some()) {
        // Nobody has scaled it: what is there is what was declared.
        return Some(serde_json::json!({"spec": {"replicas": current}}));
    }
    target.installed(cluster).await?.steps.get(&step.key).map(|step| step.body.clone())
}

fn relinquished(target: &Target<'_>, key: &ObjectKey) -> BTreeSet<Taken> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let of_it = target.contested().iter().filter(|field| {
        (&field.group, &field.kind, &field.name) == (&key.group, &key.kind, &key.name) && field.namespace == namespace
    });
    of_it
        .map(|field| Taken { manager: field.manager.clone(), subresource: String::new(), path: field.path.clone() })
        .collect()
}

/// Whether a dry run failed only because it comes before what the bundle brings, or because a webhook takes none.
fn is_premature(target: &Target<'_>, step: &Step, error: &cluster::Error) -> bool {
    let cluster::Error::Refused(status) = error else { return false };
    let brings_namespace = step.key.namespace.as_ref().is_some_and(|namespace| {
        let mut keys = target.plan.steps.keys();
        keys.any(|key| key.group.is_empty() && key.kind == "Namespace" && key.name == *namespace)
    });
    (status.code == 404 && (brings_namespace || step.defined_here))
        || status.message.contains("does not support dry run")
}

/// What the API server says of a write is its answer, unless it is about who asks.
fn refused(error: &cluster::Error) -> Outcome {
    let is_denied = matches!(error, cluster::Error::Refused(status) if status.message.contains("admission webhook"));
    if is_denied || error.is_refusal() { Outcome::Refuse(chain(error)) } else { Outcome::Unknown(chain(error)) }
}
