//! Each object of the plan: who owns the one in the cluster, and what a dry run of the controller's apply makes of it.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use kube::api::DynamicObject;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{Migration, Sharing};
use rukpak_crds::names::{DISABLED, FIELD_MANAGER, RECONCILE};
use rukpak_plain::ObjectKey;
use rukpak_plan::fields::{Taken, applied};
use rukpak_plan::kind::is_crd;
use rukpak_plan::opt_out::Ignored;
use rukpak_plan::owner::{self, ForeignOwner, Predecessors};
use rukpak_plan::owner_metadata::updating;
use rukpak_plan::plan::Need;
use rukpak_plan::put::{Replacement, replacement};
use rukpak_plan::resolve::{Basis, Live, resolve};
use rukpak_plan::{Identity, Ownership, Step, opt_out};
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

/// The beginning of a remark about a kind that others have to bring.
pub(super) const DEPENDS: &str = "nothing is installed yet, for the bundle depends on an API";

/// So many objects are named in a remark.
const NAMED: usize = 5;

/// What was found out about one object.
struct Comparison {
    outcome: Outcome,
    /// What stays in the cluster although the bundle says otherwise, or is done in another way than by an apply.
    remark: Option<String>,
    /// Whether another manager has set its fields so far.
    is_taken_over: bool,
}

/// How the controller's apply is compared with the object in the cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    /// By a dry run.
    DryRun,
    /// Fields of the bundle in the place of those in the cluster: a dry run would be refused, though the apply is not.
    Overlay,
}

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
    let (mut changed, mut taken_over) = (BTreeSet::new(), Vec::new());
    for (steps, is_crds) in [(crds, true), (others, false)] {
        let looks = steps.into_iter().map(|step| {
            let is_tried = !(step.defined_here && changed.contains(&(step.key.group.clone(), step.key.kind.clone())));
            let means = if is_tried { Means::DryRun } else { Means::Overlay };
            async move { (step, one(cluster, target, step, means).await) }
        });
        // In the order of the plan, whoever answers first.
        let found: Vec<_> = futures::stream::iter(looks).buffered(PARALLEL).collect().await;
        if is_crds {
            changed = found
                .iter()
                .filter(|(_, look)| !matches!(look.outcome, Outcome::Same))
                .filter_map(|(step, _)| defined(step))
                .collect();
        }
        for (step, look) in found {
            report.remarks.extend(look.remark);
            taken_over.extend(look.is_taken_over.then_some(&step.identity));
            note(report, step, look.outcome);
        }
    }
    report.remarks.extend(of_taken_over(&taken_over));
}

/// What a dry run cannot show: fields change hands before the apply.
fn of_taken_over(objects: &[&Identity]) -> Option<String> {
    if objects.is_empty() {
        return None;
    }
    let named: Vec<String> = objects.iter().take(NAMED).map(ToString::to_string).collect();
    let more = objects.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "taken over from whoever installed them: {}{more}; fields that were set then and that the bundle leaves out go, too, and \
         are not listed",
        named.join(", ")
    ))
}

/// The kind that a CRD of the plan defines, as group and kind.
fn defined(step: &Step) -> Option<(String, String)> {
    let body = step.body();
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/spec/group")?, text("/spec/names/kind")?))
}

fn missing(target: &Target<'_>, report: &mut Report) {
    for missing in &target.plan.missing {
        let kind = format!("the cluster serves no kind {} of {}", missing.kind.kind, missing.kind.api_version);
        match &missing.need {
            Need::Optional(key) => report.remarks.push(format!("{key} is left out: {kind}")),
            Need::Object(key) => report.changes.push(Change::of_key(key, Action::Wait).because(kind)),
            Need::Dependency => {
                report.remarks.push(format!("{DEPENDS}: {kind}"));
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

/// What would become of an object.
async fn one(cluster: &Cluster, target: &Target<'_>, step: &Step, means: Means) -> Comparison {
    let (mut remark, mut is_taken_over) = (None, false);
    let live = match cluster.live(&step.identity).await {
        Ok(live) if is_paused(target, step, live.as_ref()) => {
            let stays = if live.is_some() { "left as it is" } else { "not created" };
            remark = Some(format!("{} is {stays}: its annotation {RECONCILE} says {DISABLED:?}", step.identity));
            return Comparison { outcome: Outcome::Same, remark, is_taken_over };
        }
        Ok(Some(live)) => live,
        Ok(None) => return Comparison { outcome: create(cluster, target, step).await, remark, is_taken_over },
        Err(error) => return Comparison { outcome: Outcome::Unknown(chain(&error)), remark, is_taken_over },
    };
    let predecessors = Predecessors {
        system_namespace: target.system_namespace,
        extension: target.deployment.and_then(|deployment| owner::extension(&deployment.metadata)),
    };
    let rules = target.deployment.map(|deployment| deployment.spec.take_over.as_slice()).unwrap_or_default();
    let rule = owner::take_over(rules, &step.key);
    let outcome = match target.owner.ownership(&live.metadata, predecessors).ruled(rule) {
        Ownership::Ours => change(cluster, target, step, &live, means, &mut remark).await,
        Ownership::HelmRelease | Ownership::AdoptionAllowed | Ownership::Inherited => {
            is_taken_over = true;
            change(cluster, target, step, &live, means, &mut remark).await
        }
        // A dry run would have two controllers, which is refused.
        Ownership::Extension => {
            is_taken_over = true;
            change(cluster, target, step, &live, Means::Overlay, &mut remark).await
        }
        Ownership::Terminating => Outcome::Wait("it is being deleted".to_owned()),
        Ownership::LeftBehind { .. } => {
            Outcome::Wait("it is left from an earlier BundleDeployment of this name".to_owned())
        }
        // Used as it is.
        Ownership::Foreign(_) if step.key.group.is_empty() && step.key.kind == "Namespace" => Outcome::Same,
        Ownership::Foreign(_) if crds::is_shared(step, &live) => shared(step, &live, &mut remark),
        Ownership::Foreign(foreign) => Outcome::Refuse(format!("it exists: {}", foreign.why())),
    };
    Comparison { outcome, remark, is_taken_over }
}

/// What would become of a CRD that another BundleDeployment leads.
fn shared(step: &Step, live: &DynamicObject, remark: &mut Option<String>) -> Outcome {
    let leader = crds::leader(live);
    match crds::share(step, live) {
        Ok(Sharing::Covered) => {
            *remark = Some(format!("{} is that of BundleDeployment {leader:?}, and used as it is", step.identity));
            Outcome::Same
        }
        Ok(Sharing::Extended(versions)) => {
            *remark = Some(format!("{} is that of BundleDeployment {leader:?}, and gets versions", step.identity));
            let before = fields::declared(live);
            let mut after = before.clone();
            after["spec"]["versions"] = versions;
            Outcome::Change(fields::changes(&before, &after, false))
        }
        Ok(Sharing::Incompatible(changes)) => {
            let why = crd_upgrade::refusal(&step.key.name, &changes);
            Outcome::Refuse(format!("it exists: {}", ForeignOwner::Incompatible { name: leader, why }.why()))
        }
        Err(error) => Outcome::Refuse(error.to_string()),
    }
}

/// Whether the controller leaves the object as it is.
fn is_paused(target: &Target<'_>, step: &Step, live: Option<&DynamicObject>) -> bool {
    let says = |live: &DynamicObject| target.owner.owns_fully(&live.metadata) && opt_out::is_paused(&live.metadata);
    step.is_paused || live.is_some_and(says)
}

async fn create(cluster: &Cluster, target: &Target<'_>, step: &Step) -> Outcome {
    if step.defined_here {
        // Its CRD may not be there yet.
        return Outcome::Create;
    }
    match cluster.dry_run(&step.identity, &step.body()).await {
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
    means: Means,
    remark: &mut Option<String>,
) -> Outcome {
    let mut declared = step.body();
    put_in_certificates(step, &mut declared, &live.data);
    let relinquished = relinquished(target, &step.key);
    let installed = before(cluster, target, step, live).await;
    let ignored = target.deployment.map(|deployment| Ignored::of(&deployment.spec, &step.key)).unwrap_or_default();
    let basis = Basis { why: target.why, installed, relinquished: Some(&relinquished), ignored, is_forced: false };
    let seen = Live { metadata: &live.metadata, body: &live.data };
    let resolved = resolve(&step.key, &declared, Some(seen), &basis);
    if let Some(stays) = resolved.kept {
        *remark = Some(format!("{} {stays}", step.identity));
    }
    let before = fields::declared(live);
    let migration = if is_crd(&step.key) { crds::migration(target, step, live) } else { None };
    let means = match migration {
        None => means,
        // The API server refuses the CRD before its objects are migrated.
        Some(Migration { crd, from, to, .. }) => {
            let from = from.join(", ");
            *remark = Some(format!(
                "objects of {crd} that are stored as {from} are migrated to {to} first, if each of them converts; then {from} is dropped"
            ));
            Means::Overlay
        }
    };
    let trial = match means {
        Means::DryRun => trial(cluster, target, step, live, (&resolved.body, &basis)).await,
        Means::Overlay => Trial::Overlay,
    };
    let after = match trial {
        Trial::Applied(after) => fields::declared(&after),
        Trial::Overlay => fields::overlaid(&before, &bare(&resolved.body, &live.data)),
        Trial::Replace => {
            *remark = Some(format!("{} cannot be changed: it is deleted and created again", step.identity));
            fields::declared_in(&step.body())
        }
        Trial::Ended(outcome) => return outcome,
    };
    let changes = fields::changes(&before, &after, step.key.group.is_empty() && step.key.kind == "Secret");
    if changes.is_empty() {
        return Outcome::Same;
    }
    if is_crd(&step.key) && target.why.policy().checks_definitions {
        match crds::refusal(cluster, target, step, live).await {
            Ok(None) => {}
            Ok(Some(why)) => {
                *remark = None;
                return Outcome::Refuse(why);
            }
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

/// What a dry run says of an apply.
enum Trial {
    /// The object as the apply would leave it.
    Applied(Box<DynamicObject>),
    /// It cannot be tried.
    Overlay,
    /// The controller deletes the object and creates it as it is declared.
    Replace,
    /// There is nothing to compare.
    Ended(Outcome),
}

async fn trial(
    cluster: &Cluster,
    target: &Target<'_>,
    step: &Step,
    live: &DynamicObject,
    (body, basis): (&Value, &Basis<'_>),
) -> Trial {
    let uid = live.metadata.uid.clone().unwrap_or_default();
    let seen = Live { metadata: &live.metadata, body: &live.data };
    match cluster.dry_run(&step.identity, &updating(body.clone(), &uid, None)).await {
        Ok(after) => Trial::Applied(Box::new(after)),
        Err(error) if is_premature(target, step, &error) => Trial::Overlay,
        Err(cluster::Error::Refused(status))
            if status.code == 422
                && target.owner.owns_fully(&live.metadata)
                && replacement(&step.key, &step.body(), seen, basis, &status) == Replacement::Replace =>
        {
            Trial::Replace
        }
        Err(error) => Trial::Ended(refused(&error)),
    }
}

/// A body without what names the object.
fn bare(body: &Value, live: &Value) -> Value {
    let mut bare = body.clone();
    // A default of CRDs, which the API server leaves out.
    let default = "preserveUnknownFields";
    if live["spec"].get(default).is_none()
        && let Some(spec) = bare.get_mut("spec").and_then(Value::as_object_mut)
        && spec.get(default) == Some(&Value::Bool(false))
    {
        spec.remove(default);
    }
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

/// What the installed release declares, where that decides: replicas that somebody has scaled and claims that somebody has enlarged
/// give way to a new release that declares another number than before.
async fn before(cluster: &Cluster, target: &Target<'_>, step: &Step, live: &DynamicObject) -> Option<Value> {
    let body = step.body();
    let differs = |(value, _): &&(&str, Option<&str>)| {
        let ours = body.pointer(value);
        ours.is_some() && live.data.pointer(value).is_some_and(|current| Some(current) != ours)
    };
    let (_, field) = DECLARED.iter().find(differs).filter(|_| target.why.policy().resizes)?;
    let ours = applied(&live.metadata, FIELD_MANAGER);
    if field.is_some_and(|field| ours.is_some_and(|set| set.pointer(field).is_some())) {
        // Nobody has changed it: what is there is what was declared.
        return Some(live.data.clone());
    }
    target.installed(cluster).await?.steps.get(&step.key).map(Step::body)
}

/// What others may change without our undoing it, and the field that is ours as long as nobody has: the size of a claim that was
/// repaired is ours and theirs.
const DECLARED: [(&str, Option<&str>); 2] =
    [("/spec/replicas", Some("/f:spec/f:replicas")), ("/spec/resources/requests/storage", None)];

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
