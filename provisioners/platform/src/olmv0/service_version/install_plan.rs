//! InstallPlans of a BundleDeployment: which one is needed, which are over, and how far one is. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::olmv0::install_plan::{InstallPlanCondition, InstallPlanStatus, Step, StepResource};
use rukpak_crds::olmv0::subscription::Reference;
use rukpak_crds::olmv0::{
    ClusterServiceVersion, DEPLOYMENT_UID, InstallPlan, MANAGED_LABEL, PLANNED, Subscription, component_label,
};
use rukpak_crds::{ApprovalPolicy, BundleDeployment, ConditionStatus, Plan};
use serde_json::{Value, json};

use super::super::membership::Group;
use super::super::stage::{Seen, Stage};
use crate::owned::going_with;

/// So many InstallPlans of a BundleDeployment are kept.
const KEPT: usize = 5;
/// Characters behind `install-`.
const SUFFIX: usize = 5;

/// The InstallPlan that stands for `key`.
pub(super) fn of<'a>(plans: &'a [Arc<InstallPlan>], key: &str) -> Option<&'a Arc<InstallPlan>> {
    plans.iter().find(|plan| plan.annotations().get(PLANNED).map(String::as_str) == Some(key))
}

/// The InstallPlan that is to be made, if one is, and those that nobody needs any more. `plans` are those of the BundleDeployment, beside
/// `all` of the namespace.
pub(super) fn needed(
    deployment: &BundleDeployment,
    seen: &Seen,
    subscription: &Subscription,
    (plans, all): (&[Arc<InstallPlan>], &[Arc<InstallPlan>]),
) -> (Option<Value>, Vec<Arc<InstallPlan>>) {
    let is_asked = deployment.spec.approval == Some(ApprovalPolicy::Always);
    let key = match &seen.stage {
        Stage::Asking { digest } => Some(digest.clone()),
        Stage::Unpacking(_) | Stage::UnpackFailed(_) => None,
        _ if is_asked || was_made(subscription, seen) => None,
        _ => Some(format!("{} {}", seen.wanted.name, seen.wanted.reference)),
    };
    // What is asked stays, whatever holds the deployment up meanwhile, until something else is asked or wanted, or it is done.
    let is_over = |plan: &&Arc<InstallPlan>| {
        let is_of_wanted = plan.spec.cluster_service_version_names.first() == Some(&seen.wanted.name);
        let is_current = is_of_wanted && key.is_none() && !seen.is_installed();
        !plan.spec.approved && !is_current && plan.annotations().get(PLANNED) != key.as_ref()
    };
    let mut over: Vec<Arc<InstallPlan>> = plans.iter().filter(is_over).cloned().collect();
    let mut old: Vec<&Arc<InstallPlan>> = plans.iter().filter(|plan| !is_over(plan)).collect();
    old.sort_by_key(|plan| std::cmp::Reverse(plan.spec.generation));
    over.extend(old.into_iter().skip(KEPT).cloned());
    let body = key.filter(|key| of(plans, key).is_none());
    (body.map(|key| body_of(deployment, seen, subscription, all, &key)), over)
}

/// Whether the InstallPlan of what is wanted was made before: somebody has deleted it.
fn was_made(subscription: &Subscription, seen: &Seen) -> bool {
    let status = subscription.status.as_ref();
    status.is_some_and(|status| status.install_plan_ref.is_some() && status.current_csv == seen.wanted.name)
}

fn body_of(
    deployment: &BundleDeployment,
    seen: &Seen,
    subscription: &Subscription,
    all: &[Arc<InstallPlan>],
    key: &str,
) -> Value {
    let uid = deployment.uid().unwrap_or_default();
    let namespace = subscription.namespace().unwrap_or_default();
    let generation = all.iter().filter_map(|plan| plan.spec.generation).max().unwrap_or(0) + 1;
    let is_manual = deployment.spec.approval == Some(ApprovalPolicy::Always);
    json!({
        "apiVersion": InstallPlan::api_version(&()),
        "kind": InstallPlan::kind(&()),
        "metadata": {
            "name": name(&uid, key, all),
            "namespace": namespace,
            // Creates, or conflicts with one that the watch has not shown yet.
            "resourceVersion": "1",
            "labels": {MANAGED_LABEL: "true", component_label(&subscription.spec.name, &namespace): ""},
            "annotations": {DEPLOYMENT_UID: uid, PLANNED: key},
            "ownerReferences": going_with(subscription),
        },
        "spec": {
            "clusterServiceVersionNames": [seen.wanted.name],
            "approval": if is_manual { "Manual" } else { "Automatic" },
            "approved": !is_manual,
            "generation": generation,
        },
    })
}

/// `install-` and characters that follow from what it stands for: the same one is never made twice.
fn name(uid: &str, key: &str, all: &[Arc<InstallPlan>]) -> String {
    let digest = Digest::sha256(format!("{uid} {key}").as_bytes()).to_string();
    let hex = digest.rsplit(':').next().unwrap_or_default();
    let names = (0..hex.len() - SUFFIX).map(|start| format!("install-{}", &hex[start..start + SUFFIX]));
    let is_free = |name: &String| all.iter().all(|plan| plan.name_any() != *name);
    names.clone().find(is_free).or_else(|| names.clone().next_back()).unwrap_or_default()
}

/// What is known beside the InstallPlan itself.
pub(super) struct About<'a> {
    pub seen: &'a Seen,
    /// Why the ClusterServiceVersion could not be made.
    pub failure: Option<&'a str>,
    /// The ClusterServiceVersion of what is wanted, if it is there.
    pub version: Option<&'a ClusterServiceVersion>,
    pub subscription: Option<&'a Subscription>,
    pub group: Option<&'a Group>,
    /// The Plan that it stands for.
    pub question: Option<&'a Plan>,
}

/// What the status says.
pub(super) fn status(plan: &InstallPlan, about: &About<'_>, now: Timestamp) -> InstallPlanStatus {
    let old = plan.status.clone().unwrap_or_default();
    let seen = about.seen;
    let is_of = |name: &String| plan.spec.cluster_service_version_names.first() == Some(name);
    if !is_of(&seen.wanted.name) {
        // The next step may be taken before anybody has told that this one is done.
        let is_open = matches!(old.phase.as_str(), "" | "Installing");
        if is_open && plan.spec.approved && seen.active.as_ref().is_some_and(|active| is_of(&active.name)) {
            return completed(old, &seen.stage, now);
        }
        if !old.phase.is_empty() {
            return old;
        }
    }
    let (phase, message) = match &seen.stage {
        _ if !plan.spec.approved => ("RequiresApproval", about.question.map(summary).unwrap_or_default()),
        _ if old.phase == "Complete" => ("Complete", String::new()),
        _ if about.failure.is_some() => {
            ("Installing", format!("retrying execution due to error: {}", about.failure.unwrap_or_default()))
        }
        Stage::Failed { message, .. } => ("Failed", message.clone()),
        Stage::Asking { .. } => ("Installing", String::new()),
        Stage::Held(why) | Stage::UnpackFailed(why) => {
            ("Installing", format!("retrying execution due to error: {why}"))
        }
        Stage::NotUpgradeable(why) => ("Installing", why.clone()),
        _ if seen.is_installed() => ("Complete", String::new()),
        _ => ("Installing", String::new()),
    };
    let source = about.subscription.map(|subscription| subscription.spec.source.clone());
    let mut steps = steps(plan, about);
    if steps.len() < old.plan.len() {
        steps = old.plan;
    }
    InstallPlanStatus {
        phase: phase.to_owned(),
        catalog_sources: source.map_or(old.catalog_sources, |source| vec![source]),
        plan: steps,
        bundle_lookups: None,
        conditions: condition(phase, &seen.stage, &old.conditions, now).into_iter().collect(),
        attenuated_service_account_ref: about.group.and_then(|group| account(plan, group)),
        start_time: old.start_time.or(Some(now).filter(|_| plan.spec.approved)),
        message: message.chars().take(4096).collect(),
    }
}

/// The status of one whose version is installed, while another is wanted by now.
fn completed(old: InstallPlanStatus, stage: &Stage, now: Timestamp) -> InstallPlanStatus {
    let phase = "Complete";
    let step = |step: Step| Step { status: "Created".to_owned(), ..step };
    InstallPlanStatus {
        phase: phase.to_owned(),
        plan: old.plan.into_iter().map(step).collect(),
        conditions: condition(phase, stage, &old.conditions, now).into_iter().collect(),
        start_time: old.start_time.or(Some(now)),
        message: String::new(),
        ..old
    }
}

/// What a yes allows beyond the steps, which are objects that are created or changed: what is deleted, and rights.
fn summary(question: &Plan) -> String {
    let summary = question.status.as_ref().map(|status| status.summary.as_str()).unwrap_or_default();
    format!("Plan {}: {summary}", question.name_any())
}

fn condition(phase: &str, stage: &Stage, old: &[InstallPlanCondition], now: Timestamp) -> Option<InstallPlanCondition> {
    let (status, reason, message) = match (phase, stage) {
        ("Complete", _) => (ConditionStatus::True, String::new(), String::new()),
        ("Failed", Stage::Failed { reason, message }) => {
            (ConditionStatus::False, (*reason).to_owned(), message.clone())
        }
        _ => return None,
    };
    let new = InstallPlanCondition {
        type_: "Installed".to_owned(),
        status,
        reason,
        message,
        last_update_time: Some(now),
        last_transition_time: Some(now),
    };
    let same = |old: &&InstallPlanCondition| {
        InstallPlanCondition { last_update_time: Some(now), last_transition_time: Some(now), ..(*old).clone() } == new
    };
    Some(old.iter().find(same).cloned().unwrap_or(new))
}

fn account(plan: &InstallPlan, group: &Group) -> Option<Reference> {
    let name = group.account.clone()?;
    let namespace = plan.namespace().unwrap_or_default();
    Some(Reference { kind: "ServiceAccount".to_owned(), namespace, name, ..Reference::default() })
}

/// What is installed: the ClusterServiceVersion first, then its CustomResourceDefinitions, then what else the Plan names.
fn steps(plan: &InstallPlan, about: &About<'_>) -> Vec<Step> {
    let wanted = &about.seen.wanted.name;
    let (source_name, source_namespace) = about
        .subscription
        .map(|subscription| (subscription.spec.source.clone(), subscription.spec.source_namespace.clone()))
        .unwrap_or_default();
    let step = |group: &str, version: &str, kind: &str, name: &str, is_there: bool| Step {
        resolving: wanted.clone(),
        resource: StepResource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            source_name: source_name.clone(),
            source_namespace: source_namespace.clone(),
            manifest: String::new(),
        },
        status: if is_there { "Created" } else { "Unknown" }.to_owned(),
        optional: None,
    };
    let is_installed = plan.spec.approved && about.seen.is_installed();
    let group = ClusterServiceVersion::group(&());
    let has_version = about.version.is_some();
    let mut steps = vec![step(&group, "v1alpha1", "ClusterServiceVersion", wanted, has_version)];
    let owned = about.version.map(|version| version.spec.definitions.owned.as_slice()).unwrap_or_default();
    let definition = "CustomResourceDefinition";
    steps.extend(owned.iter().map(|one| step("apiextensions.k8s.io", "v1", definition, &one.name, is_installed)));
    let status = about.question.and_then(|question| question.status.as_ref());
    let planned = status.into_iter().flat_map(|status| status.created.items.iter().chain(&status.changed.items));
    let planned = planned.filter(|object| owned.iter().all(|one| one.name != object.name || object.kind != definition));
    steps.extend(planned.map(|object| step(&object.group, "", &object.kind, &object.name, is_installed)));
    steps
}

#[cfg(test)]
mod tests;
