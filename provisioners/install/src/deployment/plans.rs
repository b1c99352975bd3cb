//! The Plans of a deployment: what they say, and which of them go. [`rukpak_plan::approval`] decides; nothing here does.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::plan::{Plan, PlanBinding, PlanStatus};
use rukpak_plan::Release;
use rukpak_plan::approval::{Situation, Verdict, is_genuine, is_of_release, verdicts};
use rukpak_plan::decide::target;
use rukpak_runtime::error::Chain;
use serde_json::json;

use super::observe::{Run, View};
use crate::cluster::Error;

/// Returns the Plans that the controller made for the deployment, as a watch saw them last.
pub(super) fn of(view: &View) -> Vec<Arc<Plan>> {
    let names = view.reads.index.plans_of(&view.owner.uid);
    let plans = names.iter().filter_map(|name| view.reads.plans.get(&ObjectRef::new(name)));
    plans.filter(|plan| is_genuine(plan, &view.owner)).collect()
}

/// Brings what the Plans say up to what is known, and deletes those that are over and too many. Without Plans it does nothing.
pub(super) async fn settle(run: &mut Run) {
    let plans = of(&run.view);
    let wanted = target(&run.view.observed, &run.view.memory, Timestamp::now()).wanted;
    let is_asked_still = |binds: &PlanBinding| wanted.as_ref().is_none_or(|wanted| is_of_release(binds, wanted));
    run.view.memory.question.take_if(|question| !is_asked_still(&question.spec.binds));
    let applied = run.view.memory.applied().cloned();
    let situation = Situation {
        owner: &run.view.owner,
        observed: &run.view.observed,
        question: run.view.memory.question.as_deref(),
        applied: applied.as_ref(),
        wanted: wanted.as_ref(),
    };
    let plans: Vec<&Plan> = plans.iter().map(|plan| &**plan).collect();
    for (plan, verdict) in verdicts(situation, &plans) {
        match verdict {
            Verdict::Say(status) => say(run, plan, &status).await,
            Verdict::Collect => collect(run, plan).await,
        }
    }
    if wanted.is_some() && wanted == applied {
        run.view.memory.question = None;
    }
}

/// Makes `status` the status of a Plan, if it is not. What cannot be written is tried again when there is something to report.
pub(super) async fn say(run: &Run, plan: &Plan, status: &PlanStatus) {
    if plan.status.as_ref() == Some(status) {
        return;
    }
    let api: Api<Plan> = Api::all(run.context.client.clone());
    // All of it, whoever wrote some of it.
    let body = json!({"metadata": {"uid": plan.uid()}, "status": status});
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let written = api.patch_status(&plan.name_any(), &parameters, &Patch::Merge(&body)).await.map_err(Error::from);
    warn(run, plan, "cannot write the status of a Plan", written);
}

async fn collect(run: &Run, plan: &Plan) {
    let api: Api<Plan> = Api::all(run.context.client.clone());
    let preconditions = Some(Preconditions { uid: plan.uid(), resource_version: None });
    let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
    let deleted = api.delete(&plan.name_any(), &parameters).await.map_err(Error::from);
    warn(run, plan, "cannot delete an old Plan", deleted);
}

fn warn<T>(run: &Run, plan: &Plan, what: &str, result: Result<T, Error>) {
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
    let asked = view.memory.question.iter().filter_map(|question| question.spec.rendering.as_ref()?.parse().ok());
    planned.chain(asked).collect()
}

/// Returns the release with what was rendered for it when it was asked about, if it was.
pub(super) fn rendered(view: &View, release: Release) -> Release {
    if release.rendering.is_some() {
        return release;
    }
    let asked = view.memory.question.as_ref().filter(|question| is_of_release(&question.spec.binds, &release));
    let asked = asked.and_then(|question| question.spec.rendering.as_ref()?.parse().ok());
    let plans = of(view);
    let mut planned = plans.iter().filter(|plan| !is_over(plan) && is_of_release(&plan.spec.binds, &release));
    let rendering = asked.or_else(|| planned.find_map(|plan| rendering(plan)));
    Release { rendering, ..release }
}

fn is_over(plan: &Plan) -> bool {
    plan.status.as_ref().is_some_and(|status| status.phase.is_over())
}

fn rendering(plan: &Plan) -> Option<Digest> {
    plan.spec.rendering.as_ref()?.parse().ok()
}
