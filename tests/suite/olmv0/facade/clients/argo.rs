//! Argo CD: its rule for the health of Subscriptions, and those that its users have for the other kinds, held against what is written
//! from the first look to the last. The rules are Lua there; these say the same.

use std::sync::Mutex;

use kube::api::DynamicObject;
use rukpak_tests::verbs::Target;
use serde_json::{Value, json};

use super::super::case::{Case, text};
use super::super::world::GLOBAL;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Progressing,
    Suspended,
    Healthy,
    Degraded,
}

use Health::{Degraded, Healthy, Progressing, Suspended};

/// The built-in rule.
fn of_subscription(object: &DynamicObject) -> Health {
    let Some(conditions) = object.data.pointer("/status/conditions").and_then(Value::as_array) else {
        return Progressing;
    };
    let is_true = |one: &Value, type_: &str| one["type"] == type_ && one["status"] == "True";
    let has = |type_: &str| conditions.iter().any(|one| is_true(one, type_));
    let is_asked = text(object, "/spec/installPlanApproval") == "Manual"
        && !text(object, "/status/installedCSV").is_empty()
        && conditions.iter().any(|one| is_true(one, "InstallPlanPending") && one["reason"] == "RequiresApproval");
    let is_lost = conditions
        .iter()
        .any(|one| one["type"] == "InstallPlanMissing" && one["reason"] != "ReferencedInstallPlanNotFound");
    let state = text(object, "/status/state");
    match () {
        () if is_lost || state == "UpgradeFailed" => Degraded,
        () if ["CatalogSourcesUnhealthy", "InstallPlanFailed", "ResolutionFailed"].into_iter().any(has) => Degraded,
        () if is_asked => Healthy,
        () if has("InstallPlanPending") || ["", "UpgradeAvailable", "UpgradePending"].contains(&state) => Progressing,
        () => Healthy,
    }
}

/// As users write it.
fn of_plan(object: &DynamicObject) -> Health {
    match text(object, "/status/phase") {
        "Complete" => Healthy,
        "Failed" => Degraded,
        "RequiresApproval" if object.data["spec"]["approved"] == json!(false) => Suspended,
        _ => Progressing,
    }
}

/// As users write it.
fn of_version(object: &DynamicObject) -> Health {
    match text(object, "/status/phase") {
        "Succeeded" => Healthy,
        "Failed" => Degraded,
        _ => Progressing,
    }
}

/// Looks at an object until it is `end`; returns what it was on the way, without what was said twice in a row.
async fn until(case: &Case, target: &Target, rule: fn(&DynamicObject) -> Health, end: Health) -> Vec<Health> {
    let seen = Mutex::new(Vec::new());
    let is_over = |object: &DynamicObject| {
        let health = rule(object);
        seen.lock().expect("nobody panicked").push(health);
        health == end
    };
    case.until_object(target, &format!("{end:?}"), is_over).await;
    let mut seen = seen.into_inner().expect("nobody panicked");
    seen.dedup();
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_progressing_and_then_healthy() {
    let case = Case::new("argo").await;
    let image = case.catalog(&["1.0.0"]).await;
    case.applies(&[case.source(&image), case.group("group", &json!({}))]).await;
    let source = Target::namespaced("operators.coreos.com/v1alpha1", "CatalogSource", GLOBAL, &case.package);
    let is_ready = |object: &DynamicObject| text(object, "/status/connectionState/lastObservedState") == "READY";
    case.until_object(&source, "READY", is_ready).await;
    case.applies(&[case.subscription(&json!({"installPlanApproval": "Automatic"}))]).await;
    let seen = until(&case, &case.subscribed(), of_subscription, Healthy).await;
    assert!(seen == [Progressing, Healthy] || seen == [Healthy], "{seen:?}");
    let plan = case.until_planned("1.0.0", "Complete").await;
    assert_eq!(of_plan(&plan), Healthy);
    let seen = until(&case, &case.csv("1.0.0"), of_version, Healthy).await;
    assert!(!seen.contains(&Degraded), "{seen:?}");

    // A new sync applies the same again, and finds nothing that differs.
    let before = case.get(&case.subscribed()).await;
    case.applies(&[case.group("group", &json!({})), case.subscription(&json!({"installPlanApproval": "Automatic"}))])
        .await;
    let after = case.get(&case.subscribed()).await;
    assert_eq!((before.metadata.generation, &before.data["spec"]), (after.metadata.generation, &after.data["spec"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_yes_is_progressing_at_first_and_healthy_once_something_is_installed() {
    let case = Case::new("argo-manual").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": "Manual"})).await;
    let plan = case.until_planned("1.0.0", "RequiresApproval").await;
    assert_eq!(of_plan(&plan), Suspended);
    case.until_said("InstallPlanPending", "RequiresApproval").await;
    assert_eq!(of_subscription(&case.get(&case.subscribed()).await), Progressing);
    let name = case.named("InstallPlan", plan.metadata.name.as_deref().unwrap_or_default());
    case.merge_into(&name, &json!({"spec": {"approved": true}})).await;
    case.until_succeeded("1.0.0").await;
    until(&case, &case.subscribed(), of_subscription, Healthy).await;

    case.publishes(&["1.0.0", "1.1.0"]).await;
    case.until_planned("1.1.0", "RequiresApproval").await;
    case.until_said("InstallPlanPending", "RequiresApproval").await;
    assert_eq!(of_subscription(&case.get(&case.subscribed()).await), Healthy);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_installed_is_degraded() {
    let case = Case::new("argo-bad").await;
    case.applies(&[case.group("group", &json!({})), case.subscription(&json!({}))]).await;
    until(&case, &case.subscribed(), of_subscription, Degraded).await;
    let image = case.catalog(&["1.0.0"]).await;
    case.applies(&[case.source(&image)]).await;
    until(&case, &case.subscribed(), of_subscription, Healthy).await;
}
