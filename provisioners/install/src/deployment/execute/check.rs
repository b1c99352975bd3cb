//! Before the first write: is every kind served, would stored data or existing objects break, and does the API server accept what
//! changes? Reads, and writes dry runs.

mod crds;

use std::collections::BTreeSet;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rukpak_plan::kind::MissingKind;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::plan::{Missing, missing_text};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_plan::{Phase, Plan, Release, Step};
use serde_json::Value;

use super::apply::Failed;
use super::bases::Bases;
use super::members::Members;
use super::migrate::Dropping;
use super::put::{self, Mode, put};
use super::{Stopped, fill, hooks};
use crate::deployment::observe::{Run, View};

/// So many dry runs are under way at once.
const PARALLEL: usize = 16;

/// A release that waits for kinds is not loaded, rendered and planned again each time that somebody looks whether they are served.
pub(super) async fn still_missing(view: &mut View, release: &Release, why: Why) -> Result<(), Stopped> {
    if !why.policy().waits_for_kinds {
        return Ok(());
    }
    let Some(missing) = view.memory.take_unserved(release) else { return Ok(()) };
    for MissingKind { api_version, kind } in missing.iter().map(|missing| &missing.kind) {
        // Without an answer the installation asks again, and tells of it.
        if let Ok(None) = view.reads.kinds.get(api_version, kind).await {
            let refusal = refusal(&missing, why);
            view.memory.learn_unserved(release.clone(), missing);
            return Err(refusal);
        }
    }
    Ok(())
}

/// A new release waits for every kind; what was installed before is guarded as far as it can be.
pub(super) fn refuse_missing(view: &mut View, plan: &Plan, why: Why) -> Result<(), Stopped> {
    let blocking: Vec<Missing> = plan.blocking().into_iter().cloned().collect();
    if blocking.is_empty() || !why.policy().waits_for_kinds {
        return Ok(());
    }
    let refusal = refusal(&blocking, why);
    view.memory.learn_unserved(plan.release.clone(), blocking);
    Err(refusal)
}

fn refusal(missing: &[Missing], why: Why) -> Stopped {
    let text = missing_text(&missing.iter().collect::<Vec<_>>());
    let message = if why == Why::First { format!("required resource not found: {text}") } else { text };
    // A CRD that is there but not served yet says nothing when it is; look again soon, then ever less often.
    Stopped::Failed(Problem { stage: Stage::Check, message, class: Class::Transient, can_go_back: true })
}

/// Checks a release that is new to the cluster. Returns the CRDs whose stored objects are to be migrated before they are applied.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn check(
    run: &Run,
    plan: &Plan,
    why: Why,
    members: &Members,
    bases: &Bases,
) -> Result<Vec<Dropping>, Stopped> {
    let policy = why.policy();
    // First, for it tells every finding; the API server would tell some of them.
    let dropping =
        if policy.checks_definitions { crds::check(run, plan, why, (members, bases)).await? } else { Vec::new() };
    if policy.tries_first {
        dry_run(run, plan, (why, &dropping), members, bases).await.map_err(|failed| refused(&failed))?;
    }
    Ok(dropping)
}

fn refused(failed: &Failed) -> Stopped {
    if failed.is_superseded() {
        return Stopped::Superseded;
    }
    // Nothing was written, so that an upgrade for which a quota has no room costs little when it is looked at again.
    let class = match failed.class() {
        Class::Transient => Class::Transient,
        Class::Blocked if failed.is_over_quota() => Class::Blocked,
        _ => Class::Terminal,
    };
    Stopped::Failed(Problem { stage: Stage::Check, message: failed.message(), class, can_go_back: true })
}

/// Sends every changed step with `dryRun=All`. What cannot be known before the bundle's own kinds and namespaces are there
/// is passed over.
async fn dry_run(
    run: &Run,
    plan: &Plan,
    (why, dropping): (Why, &[Dropping]),
    members: &Members,
    bases: &Bases,
) -> Result<(), Failed> {
    let changed_crds = changed_crds(plan, bases);
    let is_known = |step: &&Step| {
        let group = step.key.group.as_str();
        !step.defined_here || !changed_crds.contains(&(group.to_owned(), step.key.kind.clone()))
    };
    let is_written = |step: &&Step| bases.is_changed(step) && !members.is_paused(step);
    let changed = plan.steps.values().filter(is_written).filter(is_known).map(|step| tried(step, dropping));
    let changed: Vec<&Step> = changed.collect();
    let (mut waiting, mut tries, mut failed) = (changed.into_iter(), FuturesUnordered::new(), Vec::new());
    loop {
        fill(&mut tries, PARALLEL, &mut waiting, |step| try_one(run, plan, step, why, members, bases));
        let Some(result) = tries.next().await else { break };
        failed.extend(result.err());
    }
    for hook in &plan.hooks {
        if let Some(step) = hooks::trial(run, hook).await {
            failed.extend(try_one(run, plan, step, why, members, bases).await.err());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failed(failed)) }
}

/// What is tried of a step. The API server refuses a CRD that drops a stored version, until its objects are migrated.
fn tried<'a>(step: &'a Step, dropping: &'a [Dropping]) -> &'a Step {
    dropping.iter().find(|dropping| dropping.key == step.key).map_or(step, |dropping| &dropping.trial)
}

/// The kinds, as group and kind, whose CRD in the bundle is not the installed one: nothing can be tried of them yet.
fn changed_crds(plan: &Plan, bases: &Bases) -> BTreeSet<(String, String)> {
    let changed = plan.steps.values().filter(|step| rukpak_plan::kind::is_crd(&step.key) && bases.is_changed(step));
    let text = |body: &Value, pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let bodies = changed.map(Step::body);
    bodies.filter_map(|body| Some((text(&body, "/spec/group")?, text(&body, "/spec/names/kind")?))).collect()
}

async fn try_one(
    run: &Run,
    plan: &Plan,
    step: &Step,
    why: Why,
    members: &Members,
    bases: &Bases,
) -> Result<(), put::Error> {
    let decided_by = bases.of(run, step, why);
    match put(run, step, members.known(&step.key), &decided_by, Mode::DryRun).await {
        // The others go ahead: what ends the objects of a definition that is being deleted may be among them.
        Err(put::Error::InTheWay { .. }) if rukpak_plan::kind::is_crd(&step.key) => Ok(()),
        Err(error) if !is_premature(plan, step, &error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a dry run failed only because it comes before the phases that the real run has behind it.
fn is_premature(plan: &Plan, step: &Step, error: &put::Error) -> bool {
    let put::Error::Refused { source, .. } = error else { return false };
    let brings_namespace = step.key.namespace.as_ref().is_some_and(|namespace| {
        plan.steps.keys().any(|key| key.group.is_empty() && key.kind == "Namespace" && key.name == *namespace)
    });
    // A binding is tried before its role.
    (source.is_not_found() && (brings_namespace || step.defined_here || step.phase == Phase::Bindings))
        || source.to_string().contains("does not support dry run")
}
