//! Before the first write: has somebody to approve it, and did they? The question is a Plan, made here; `spec.approval` of the Plan is the
//! answer, as the API server has it now. [`rukpak_plan::approval`] decides.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::names::{FIELD_MANAGER, OWNER_NAME};
use rukpak_crds::plan as crds;
use rukpak_plan::Plan;
use rukpak_plan::approval::{Answer, Changes, Question, asks, bind, is_genuine, is_of_release, may_ask, policy};
use rukpak_plan::memory::{Problem, Stage};
use rukpak_plan::resolve::Why;
use rukpak_plan::retry::Class;
use rukpak_runtime::error::Chain;
use serde_json::json;

use super::Stopped;
use super::apply::Bases;
use super::members::Members;
use crate::cluster::Error;
use crate::deployment::observe::Run;
use crate::deployment::plans;

/// Stops where `plan` has to be approved, and is not. `objects`: the digest of what was rendered for it.
pub(super) async fn ask(
    run: &mut Run,
    (plan, objects): (&Plan, Option<&Digest>),
    why: Why,
    members: &Members,
    bases: &Bases,
) -> Result<(), Stopped> {
    // What was asked about another release stands, while the installed one is applied again.
    run.view.memory.question.take_if(|question| is_of_release(&question.spec.binds, &plan.release));
    let Some(objects) = objects.filter(|_| may_ask(&run.view.observed, why, &plan.release)) else { return Ok(()) };
    let is_there = |key: &_| members.fingerprint(key, &run.view.owner).is_some();
    let leaving = members.objects.iter().filter(|(key, _)| !plan.steps.contains_key(key));
    let leaving = leaving.map(|(key, member)| (key, &*member.metadata));
    let changes = Changes::between(bases.installed.as_ref(), plan, is_there, leaving);
    if !asks(policy(&run.view.observed), why, &changes) {
        return Ok(());
    }

    let binds = bind(&run.view.observed, &plan.release, objects, &changes);
    let status = changes.status(&in_words(run, why));
    let mut question = Question::new(&run.view.owner, binds, plan.release.rendering.as_ref(), status);
    let known = plans::of(&run.view);
    let known: Vec<&crds::Plan> = known.iter().map(|plan| &**plan).collect();
    if question.is_continued(&run.view.owner, &run.view.observed, &plan.release, &known) {
        return Ok(());
    }
    let asked = find_or_create(run, &question).await.map_err(Stopped::Failed)?;
    question.answer = question.answer(&run.view.observed, &asked);
    plans::say(run, &asked, &question.status()).await;
    let problem = question.problem();
    if question.answer == Answer::Yes {
        tracing::info!(deployment = %run.view.owner.name, plan = question.name, "Plan is approved");
    }
    run.view.memory.question = Some(Box::new(question));
    problem.map_or(Ok(()), |problem| Err(Stopped::Failed(problem)))
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
    let failed = |class, message| Problem { stage: Stage::Ask, message, class, is_definite: false, can_go_back: true };
    let unanswered = |error: Error| {
        let class = if error.is_transient() { Class::Transient } else { Class::Blocked };
        failed(class, format!("it cannot be found out whether Plan {} is approved: {}", question.name, Chain(&error)))
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
    Err(failed(Class::Blocked, message))
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
