//! Before the first write: may it be done now? Has somebody to approve it, and did they? The question is a Plan, made here; `spec.approval`
//! of the Plan is the answer, as the API server has it now ([`rukpak_plan::approval`] decides). Does the installed operator let itself be
//! upgraded, by its OperatorCondition, and is a window open ([`rukpak_plan::hold`])?
//!
//! After each reconcile: what the Plans say, and which of them go.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::names::{FIELD_MANAGER, OWNER_NAME};
use rukpak_crds::plan::{self as crds, PlanBinding, PlanStatus};
use rukpak_plain::ObjectKey;
use rukpak_plan::approval::{
    Answer, Changes, Question, Situation, Verdict, asks, bind, is_genuine, is_of_release, may_ask, policy, verdicts,
};
use rukpak_plan::decide::target;
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::owner::take_over;
use rukpak_plan::prune::Leaving;
use rukpak_plan::resolve::Why;
use rukpak_plan::{Identity, Plan, Release, hold};
use rukpak_runtime::error::Chain;
use serde_json::json;

use super::Stopped;
use super::bases::Bases;
use super::members::{self, Members};
use super::prune::{self, Found};
use crate::cluster::Error;
use crate::deployment::observe::{Run, View};

/// Stops where `plan` has to be approved, and is not. `objects`: the digest of what was rendered for it.
pub(super) async fn ask(
    run: &mut Run,
    (plan, objects): (&Plan, Option<&Digest>),
    why: Why,
    members: &Members,
    bases: &Bases,
) -> Result<(), Stopped> {
    // What was asked about another release stands, while the installed one is applied again.
    run.view.memory.forget_question(|question| is_of_release(&question.spec.binds, &plan.release));
    let Some(objects) = objects.filter(|_| may_ask(&run.view.observed, why, &plan.release)) else { return Ok(()) };
    let is_there = |key: &ObjectKey| members.fingerprint(key, &run.view.owner).is_some();
    let mut changes = Changes::between(bases.installed.as_ref(), plan, is_there);
    if !asks(policy(&run.view.observed), why, &changes) {
        return Ok(());
    }

    complete(&run.view, plan, (members, bases), &mut changes).await.map_err(Stopped::Failed)?;
    let binds = bind(&run.view.observed, &plan.release, objects, &changes);
    let status = changes.status(&in_words(run, why));
    let mut question = Question::new(&run.view.owner, binds, plan.release.rendering.as_ref(), status);
    let known = of(&run.view);
    let known: Vec<&crds::Plan> = known.iter().map(|plan| &**plan).collect();
    if question.is_continued(&run.view.owner, &run.view.observed, &plan.release, &known) {
        return Ok(());
    }
    let asked = find_or_create(run, &question).await.map_err(Stopped::Failed)?;
    question.answer = question.answer(&run.view.observed, &asked);
    say(run, &asked, &question.status()).await;
    let problem = question.problem();
    if question.answer == Answer::Yes {
        tracing::info!(deployment = %run.view.owner.name, plan = question.name, "Plan is approved");
    }
    run.view.memory.learn_asked(question);
    problem.map_or(Ok(()), |problem| Err(Stopped::Failed(problem)))
}

/// So many objects are read at once.
const PARALLEL: usize = 16;

/// Adds to `changes` what leaves the bundle, and whose the objects are that would be created. A Plan that left something out would have a
/// yes for what nobody has seen.
async fn complete(
    view: &View,
    plan: &Plan,
    (members, bases): (&Members, &Bases),
    changes: &mut Changes,
) -> Result<(), Problem> {
    let declared = plan.declared(&view.reads.settings.system_namespace);
    let Found { leaving, stripped, failed } = prune::find_leaving(view, members, bases, &declared).await;
    if let Some(failed) = failed.first() {
        return Err(Problem::unanswered(format!("what leaves the bundle cannot be read: {failed}")));
    }
    for Leaving { identity, metadata } in leaving.iter().chain(&stripped) {
        changes.note_leaving(&view.owner, identity.key(), metadata);
    }
    for kind in &members.unlisted {
        changes.note_unlisted(&kind.group, &kind.kind);
    }

    let created: Vec<ObjectKey> = changes.created().cloned().collect();
    let reads = created.into_iter().filter_map(|key| {
        let identity = plan.steps.get(&key)?.identity.clone();
        Some(async move { (key, view.reads.reader.metadata(&identity).await) })
    });
    let mut reads = stream::iter(reads).buffer_unordered(PARALLEL);
    while let Some((key, found)) = reads.next().await {
        match found {
            Ok(Some(metadata)) => {
                let rule = take_over(&view.observed.deployment.spec.take_over, &key);
                let ownership = view.owner.ownership(&metadata, view.predecessors()).ruled(rule);
                changes.note_found(key, &ownership, &metadata);
            }
            // Its kind may come with the bundle.
            Ok(None) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let message = format!("whether {key} is there cannot be read: {}", Chain(&error));
                return Err(Problem::unanswered(message));
            }
        }
    }
    Ok(())
}

/// What would be installed in place of what.
fn in_words(run: &Run, why: Why) -> String {
    let observed = &run.view.observed;
    let new = observed.desired.bundle().unwrap_or("the bundle");
    match (&observed.status.active_bundle, why) {
        (_, Why::Rollback) => "rolls back to a revision that was never installed as a whole".to_owned(),
        (Some(old), Why::Upgrade) if old == new => format!("installs {new} with other settings"),
        (Some(old), Why::Upgrade) => format!("replaces {old} with {new}"),
        _ => format!("installs {new}"),
    }
}

/// Reads the Plan of the question, or creates it. An object of that name that is not the controller's answers nothing.
async fn find_or_create(run: &Run, question: &Question) -> Result<crds::Plan, Problem> {
    let unanswered = |error: Error| {
        let message = format!("it cannot be found out whether Plan {} is approved: {}", question.name, Chain(&error));
        if error.is_transient() { Problem::unanswered(message) } else { Problem::blocked(Stage::Ask, message) }
    };
    let api: Api<crds::Plan> = Api::all(run.context.client.clone());
    let found = api.get_opt(&question.name).await.map_err(Error::from).map_err(unanswered)?;
    let plan = match found {
        Some(plan) => plan,
        None => create(run, &api, question).await.map_err(Error::from).map_err(unanswered)?,
    };
    if is_genuine(&plan, &run.view.owner) && plan.spec.digest == question.spec.digest {
        return Ok(plan);
    }
    let message = format!("Plan {} was not made by the controller: delete it, and it is made anew", question.name);
    Err(Problem::blocked(Stage::Ask, message))
}

async fn create(run: &Run, api: &Api<crds::Plan>, question: &Question) -> Result<crds::Plan, kube::Error> {
    let owner = &run.view.owner;
    let body = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Plan",
        // Without the label of the owner's kind: it is no object of the bundle.
        "metadata": {"name": question.name, "labels": {OWNER_NAME: owner.name}, "ownerReferences": [owner.reference()]},
        "spec": question.spec,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let plan = api.patch(&question.name, &parameters, &Patch::Apply(&body)).await?;
    tracing::info!(deployment = %owner.name, plan = %plan.name_any(), summary = question.status.summary, "Plan waits for approval");
    Ok(plan)
}

/// Stops an upgrade that may be done otherwise, where the installed operator or the windows of the deployment hold it up.
pub(super) async fn hold_up(view: &View, release: &Release, why: Why) -> Result<(), Problem> {
    if hold::asks_operator(&view.observed, release, why) {
        ask_operator(view).await?;
    }
    // Last: what is wrong with it, and whether it may be installed, is known before the window.
    hold::closed(&view.observed, release, why, view.reads.now()).map_or(Ok(()), Err)
}

/// Stops where an OperatorCondition of ours says no. Of ours is what is there with our labels: also what was begun and never applied
/// whole, and also where the content of the installed release is lost.
pub(super) async fn ask_operator(view: &View) -> Result<(), Problem> {
    let kinds = view.kinds().into_iter().filter(hold::is_of_operator_conditions).collect();
    let members = members::list(view, &kinds, Why::Upgrade).await;
    if let Some(why) = members.why {
        return Err(Problem::unanswered(format!("whether the operator is upgradeable cannot be read: {why}")));
    }
    for Leaving { identity, .. } in members.objects.values() {
        let refusal = refusal(view, identity).await.map_err(|error| {
            let why = Chain(&error);
            Problem::unanswered(format!("whether the operator is upgradeable cannot be read from {identity}: {why}"))
        })?;
        if let Some(refusal) = refusal {
            return Err(Problem::blocked(Stage::NotUpgradeable, refusal));
        }
    }
    Ok(())
}

/// Reads what an OperatorCondition says against an upgrade, as the API server has it now. One that is not there says nothing.
async fn refusal(view: &View, identity: &Identity) -> Result<Option<String>, Error> {
    let Some(kind) = view.reads.kinds.get(hold::API_VERSION, hold::KIND).await? else { return Ok(None) };
    let identity = Identity { kind, ..identity.clone() };
    let live = view.reads.reader.get(&identity).await?;
    Ok(live.and_then(|live| hold::refusal(&live.body, live.metadata.generation)))
}

/// Returns the Plans that the controller made for the deployment, as a watch saw them last.
fn of(view: &View) -> Vec<Arc<crds::Plan>> {
    let names = view.reads.index.plans_of(&view.owner.uid);
    let plans = names.iter().filter_map(|name| view.reads.plans.get(&ObjectRef::new(name)));
    plans.filter(|plan| is_genuine(plan, &view.owner)).collect()
}

/// Brings what the Plans say up to what is known, and deletes those that are over and too many. Without Plans it does nothing.
pub(in crate::deployment) async fn settle(run: &mut Run) {
    let plans = of(&run.view);
    let wanted = target(&run.view.observed, &run.view.memory, run.view.reads.now()).wanted;
    let is_asked_still = |binds: &PlanBinding| wanted.as_ref().is_none_or(|wanted| is_of_release(binds, wanted));
    run.view.memory.forget_question(|question| !is_asked_still(&question.spec.binds));
    let applied = run.view.memory.applied().cloned();
    let situation = Situation {
        owner: &run.view.owner,
        observed: &run.view.observed,
        question: run.view.memory.question(),
        applied: applied.as_ref(),
        wanted: wanted.as_ref(),
    };
    let plans: Vec<&crds::Plan> = plans.iter().map(|plan| &**plan).collect();
    for (plan, verdict) in verdicts(situation, &plans) {
        match verdict {
            Verdict::Say(status) => say(run, plan, &status).await,
            Verdict::Collect => collect(run, plan).await,
        }
    }
    if wanted.is_some() && wanted == applied {
        run.view.memory.forget_question(|_| true);
    }
}

/// Makes `status` the status of a crds::Plan, if it is not. What cannot be written is tried again when there is something to report.
async fn say(run: &Run, plan: &crds::Plan, status: &PlanStatus) {
    if plan.status.as_ref() == Some(status) {
        return;
    }
    let api: Api<crds::Plan> = Api::all(run.context.client.clone());
    // All of it, whoever wrote some of it.
    let body = json!({"metadata": {"uid": plan.uid()}, "status": status});
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let written = api.patch_status(&plan.name_any(), &parameters, &Patch::Merge(&body)).await.map_err(Error::from);
    warn(run, plan, "cannot write the status of a Plan", written);
}

async fn collect(run: &Run, plan: &crds::Plan) {
    let api: Api<crds::Plan> = Api::all(run.context.client.clone());
    let preconditions = Some(Preconditions { uid: plan.uid(), resource_version: None });
    let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
    let deleted = api.delete(&plan.name_any(), &parameters).await.map_err(Error::from);
    warn(run, plan, "cannot delete an old Plan", deleted);
}

fn warn<T>(run: &Run, plan: &crds::Plan, what: &str, result: Result<T, Error>) {
    match result {
        Err(error) if !error.is_not_found() && !error.is_conflict() => {
            tracing::warn!(deployment = %run.view.owner.name, plan = %plan.name_any(), error = %Chain(&error), "{what}");
        }
        _ => {}
    }
}

/// What Helm rendered for Plans that are not over: it is installed when they are approved, and not what Helm renders then.
pub(super) fn renderings(view: &View) -> BTreeSet<Digest> {
    let plans = of(view);
    let planned = plans.iter().filter(|plan| !is_over(plan)).filter_map(|plan| rendering(plan));
    // The watch may not have shown the one that was just made.
    let asked =
        view.memory.question().into_iter().filter_map(|question| question.spec.rendering.as_ref()?.parse().ok());
    planned.chain(asked).collect()
}

/// Returns the release with what was rendered for it when it was asked about, if it was.
pub(super) fn rendered(view: &View, release: Release) -> Release {
    if release.rendering.is_some() {
        return release;
    }
    let asked = view.memory.question().filter(|question| is_of_release(&question.spec.binds, &release));
    let asked = asked.and_then(|question| question.spec.rendering.as_ref()?.parse().ok());
    let plans = of(view);
    let mut planned = plans.iter().filter(|plan| !is_over(plan) && is_of_release(&plan.spec.binds, &release));
    let rendering = asked.or_else(|| planned.find_map(|plan| rendering(plan)));
    Release { rendering, ..release }
}

fn is_over(plan: &crds::Plan) -> bool {
    plan.status.as_ref().is_some_and(|status| status.phase.is_over())
}

fn rendering(plan: &crds::Plan) -> Option<Digest> {
    plan.spec.rendering.as_ref()?.parse().ok()
}
