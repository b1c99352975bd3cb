//! What is known of a Subscription to a status. Pure; conditions, reasons and messages are OLM's.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use rukpak_crds::ConditionStatus;
use rukpak_crds::olmv0::subscription::{
    CatalogHealth, OldReference, Reference, SubscriptionCondition, SubscriptionStatus,
};
use rukpak_crds::olmv0::{CatalogSource, InstallPlan, Subscription};

use super::super::catalog_source::known::Health;
use super::super::stage::{Seen, Stage};
use super::deprecations::{Advice, TYPES};

/// Longest message that is written, in characters.
const MESSAGE_MAX: usize = 4096;

/// Why nothing is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub reason: &'static str,
    pub message: String,
}

impl Failure {
    /// No bundle fits.
    pub fn unsatisfiable(message: String) -> Self {
        Self { reason: "ConstraintsNotSatisfiable", message }
    }

    /// It could not be found out which bundle fits.
    pub fn prevented(message: String) -> Self {
        Self { reason: "ErrorPreventedResolution", message }
    }
}

/// What is known.
pub(super) struct View<'a> {
    pub subscription: &'a Subscription,
    /// CatalogSources that it may name, sorted.
    pub sources: &'a [(Arc<CatalogSource>, Health)],
    pub failure: Option<Failure>,
    /// What the catalog advises against; `None` if it was not asked.
    pub advice: Option<Advice>,
    /// Its BundleDeployment, if there is one.
    pub seen: Option<&'a Seen>,
    /// Its latest InstallPlan.
    pub plan: Option<Arc<InstallPlan>>,
    /// Whether the InstallPlan that the status refers to is there, whosever it is.
    pub has_referenced: bool,
    /// Whether what it has installed is OLM's still.
    pub is_left: bool,
    /// Names of the ClusterServiceVersions of the namespace.
    pub versions: Vec<String>,
}

/// Whether both say the same, whenever they say it.
pub(super) fn is_same(old: &SubscriptionStatus, new: &SubscriptionStatus) -> bool {
    *old == SubscriptionStatus { last_updated: old.last_updated, ..new.clone() }
}

/// What the status says.
pub(super) fn status(view: &View<'_>, now: Timestamp) -> SubscriptionStatus {
    let old = view.subscription.status.clone();
    if let Some(old) = old.clone().filter(|_| view.is_left) {
        // OLM's InstallPlans tell of several Subscriptions, and a take-over and OLM itself go by what is said here.
        let (catalog_health, conditions) = (health(view, now), conditions(view, now));
        return SubscriptionStatus { catalog_health, conditions, last_updated: now, ..old };
    }
    let before = |read: fn(&SubscriptionStatus) -> &String| old.as_ref().map(read).cloned().unwrap_or_default();
    let referenced = old.as_ref().and_then(|old| old.install_plan_ref.clone());
    let plan = view.plan.as_deref();
    // What was installed and is deleted keeps its name: whoever wants it back deletes the InstallPlan.
    let planned = plan.and_then(|plan| plan.spec.cluster_service_version_names.first().cloned());
    let is_there = |name: &String| view.versions.contains(name);
    // An upgrade that was done before anybody looked, as after a restart, has no InstallPlan yet: told too early, it never gets one.
    let is_known = |name: &String| planned.as_ref() == Some(name) || is_there(name);
    let wanted = view.seen.map(|seen| seen.wanted.name.clone()).filter(is_known);
    let under_way = planned.clone().filter(|_| view.seen.is_none_or(|seen| !seen.is_installed()));
    let current = under_way.or(wanted).or(planned).unwrap_or_default();
    let active = view.seen.and_then(|seen| seen.active.as_ref()).map(|active| active.name.clone());
    let installed = Some(&current).filter(|name| is_there(name)).cloned();
    let installed = installed.or_else(|| active.filter(is_there)).unwrap_or_else(|| before(|old| &old.installed_csv));
    let is_asked = matches!(view.seen.map(|seen| &seen.stage), Some(Stage::Asking { .. }));
    let state = match () {
        () if current.is_empty() => "",
        () if is_there(&current) && !is_asked => "AtLatestKnown",
        () => "UpgradePending",
    };
    let reference = plan.map(reference).or(referenced.filter(|_| view.seen.is_some_and(Seen::is_installed)));
    SubscriptionStatus {
        current_csv: current,
        installed_csv: installed,
        install_plan: reference.as_ref().map(|reference| OldReference {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            name: reference.name.clone(),
            uuid: reference.uid.clone(),
        }),
        install_plan_ref: reference,
        install_plan_generation: plan.and_then(|plan| plan.spec.generation),
        state: state.to_owned(),
        reason: String::new(),
        catalog_health: health(view, now),
        conditions: conditions(view, now),
        last_updated: now,
    }
}

fn reference(plan: &InstallPlan) -> Reference {
    Reference {
        api_version: InstallPlan::api_version(&()).into_owned(),
        kind: InstallPlan::kind(&()).into_owned(),
        namespace: plan.namespace().unwrap_or_default(),
        name: plan.name_any(),
        uid: plan.uid().unwrap_or_default(),
    }
}

fn health(view: &View<'_>, now: Timestamp) -> Vec<CatalogHealth> {
    let old = view.subscription.status.as_ref().map(|status| status.catalog_health.as_slice()).unwrap_or_default();
    let of = |(source, health): &(Arc<CatalogSource>, Health)| {
        let catalog_source_ref = Reference {
            api_version: CatalogSource::api_version(&()).into_owned(),
            kind: CatalogSource::kind(&()).into_owned(),
            namespace: source.namespace().unwrap_or_default(),
            name: source.name_any(),
            uid: source.uid().unwrap_or_default(),
        };
        // Whoever has just begun to look at it knows no better than whoever has seen it.
        let before = old.iter().find(|old| *health == Health::Unlooked && old.catalog_source_ref == catalog_source_ref);
        if let Some(before) = before {
            return before.clone();
        }
        let new = CatalogHealth { catalog_source_ref, healthy: health.is_ready(), last_updated: now };
        let same = |old: &&CatalogHealth| CatalogHealth { last_updated: now, ..(*old).clone() } == new;
        old.iter().find(same).cloned().unwrap_or(new)
    };
    view.sources.iter().map(of).collect()
}

/// All of them are of something that is wrong, but for the first.
fn conditions(view: &View<'_>, now: Timestamp) -> Vec<SubscriptionCondition> {
    use ConditionStatus::{False, True};
    let (status, reason, message) = match unhealthy(view) {
        None => (False, "AllCatalogSourcesHealthy", "all available catalogsources are healthy".to_owned()),
        Some(message) => (True, "UnhealthyCatalogSourceFound", message),
    };
    let mut said = vec![("CatalogSourcesUnhealthy", status, reason, message)];
    if let Some(Failure { reason, message }) = &view.failure {
        said.push(("ResolutionFailed", True, reason, message.clone()));
    }
    match view.seen.map(|seen| &seen.stage) {
        Some(Stage::Unpacking(message)) => {
            said.push(("BundleUnpacking", True, "UnpackingInProgress", message.clone()));
        }
        Some(Stage::UnpackFailed(message)) => {
            said.push(("BundleUnpackFailed", True, "BundleUnpackFailed", message.clone()));
        }
        // With Manual there is an InstallPlan only once there is something to ask.
        Some(Stage::Held(message)) if !is_planned(view) => {
            said.push(("InstallPlanPending", True, "Planning", message.clone()));
        }
        Some(Stage::Failed { reason, message }) if !is_planned(view) => {
            said.push(("InstallPlanFailed", True, reason, message.clone()));
        }
        _ => {}
    }
    let planned = view.plan.as_deref().filter(|_| view.seen.is_none() || is_planned(view));
    match planned.and_then(|plan| plan.status.as_ref()) {
        Some(plan) if plan.phase == "Failed" => {
            let condition = plan.conditions.first();
            let reason = if condition.is_some_and(|condition| condition.reason == "InstallCheckFailed") {
                "InstallCheckFailed"
            } else {
                "InstallComponentFailed"
            };
            said.push(("InstallPlanFailed", True, reason, plan.message.clone()));
        }
        Some(plan) if plan.phase == "RequiresApproval" => {
            said.push(("InstallPlanPending", True, "RequiresApproval", plan.message.clone()));
        }
        Some(plan) if plan.phase == "Installing" => {
            said.push(("InstallPlanPending", True, "Installing", plan.message.clone()));
        }
        None if planned.is_some() => {
            said.push(("InstallPlanPending", True, "InstallPlanNotYetReconciled", String::new()));
        }
        None if is_missing(view) => {
            said.push(("InstallPlanMissing", True, "ReferencedInstallPlanNotFound", String::new()));
        }
        Some(_) | None => {}
    }
    let old = view.subscription.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let advice = view.advice.iter().flatten().map(|(type_, message)| (*type_, True, "", message.clone()));
    let told = said.into_iter().chain(advice).map(|said| condition(said, old, now));
    // What nobody has asked the catalog about stays as it was.
    let known = old.iter().filter(|old| view.advice.is_none() && TYPES.contains(&old.type_.as_str()));
    told.chain(known.cloned()).collect()
}

/// Whether there is an InstallPlan for what is wanted.
fn is_planned(view: &View<'_>) -> bool {
    let names = view.plan.iter().flat_map(|plan| &plan.spec.cluster_service_version_names);
    view.seen.is_some_and(|seen| names.clone().any(|name| *name == seen.wanted.name))
}

/// Whether an InstallPlan is referred to that is gone, and nothing takes its place.
fn is_missing(view: &View<'_>) -> bool {
    !view.has_referenced
        && view.subscription.status.as_ref().is_some_and(|status| status.install_plan_ref.is_some())
        && view.seen.is_some_and(Seen::is_installed)
}

/// Why the CatalogSource that is named cannot be used. Others are no business of this Subscription.
fn unhealthy(view: &View<'_>) -> Option<String> {
    let spec = &view.subscription.spec;
    let named = format!("{}/{}", spec.source_namespace, spec.source);
    let found = view.sources.iter().find(|(source, _)| {
        source.metadata.name.as_ref() == Some(&spec.source)
            && source.metadata.namespace.as_ref() == Some(&spec.source_namespace)
    });
    let unhealthy = format!("targeted catalogsource {named} unhealthy");
    match found {
        None => Some(format!("targeted catalogsource {named} missing")),
        Some((_, Health::Failed(_) | Health::Invalid(_))) => Some(unhealthy),
        Some((_, Health::Unlooked)) => Some(unhealthy).filter(|message| was_said(view.subscription, message)),
        Some((_, Health::Ready { .. })) => None,
    }
}

fn was_said(subscription: &Subscription, message: &str) -> bool {
    let mut said = subscription.status.iter().flat_map(|status| &status.conditions);
    said.any(|said| said.message == message)
}

fn condition(
    (type_, status, reason, message): (&str, ConditionStatus, &str, String),
    old: &[SubscriptionCondition],
    now: Timestamp,
) -> SubscriptionCondition {
    let before = old.iter().find(|old| old.type_ == type_ && old.status == status);
    SubscriptionCondition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.chars().take(MESSAGE_MAX).collect(),
        last_heartbeat_time: None,
        last_transition_time: before.and_then(|before| before.last_transition_time).or(Some(now)),
    }
}

#[cfg(test)]
mod tests;
