//! A Plan is for what it was made for: when that changes it expires, and another one waits.

use kube::api::DynamicObject;
use rukpak_tests::world::{SOON, deployment, image};
use serde_json::{Value, json};

use super::case::{Asked, digest, target_of, until_ready};
use crate::engine::case::Case;

/// An installed deployment whose upgrade waits; its Plan.
async fn waiting(prefix: &str) -> (Case<'static>, DynamicObject) {
    let case = Case::new(prefix).await;
    case.create_asking("Upgrades", &[case.config_map("a", json!({"x": "1"})), case.config_map("gone", json!({}))])
        .await;
    until_ready(&case).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let plan = case.asked().await;
    (case, plan)
}

/// Waits until the Plan has expired for that reason, and another waits; returns that.
async fn expired(case: &Case<'_>, plan: &DynamicObject, why: &str) -> DynamicObject {
    let next = case.asked_beside(&[plan]).await;
    let over = case.until_phase(plan, "Expired").await;
    let message = over.data["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(why), "{message}");
    next
}

async fn value(case: &Case<'_>) -> Value {
    case.get(&case.config_map_target("a")).await.expect("it is there").data["data"]["x"].clone()
}

#[tokio::test]
async fn a_yes_for_one_content_installs_no_other() {
    let (case, plan) = waiting("plan-content").await;
    case.change("v3", &[case.config_map("a", json!({"x": "3"}))]).await;
    let next = expired(&case, &plan, "the content of the bundle").await;
    case.answer(&plan, "Approved").await;
    // Proof that the answer was seen: the deployment does what it is asked for later.
    case.until_phase(&plan, "Expired").await;
    assert_eq!(value(&case).await, "1");
    assert_ne!(digest(&next), digest(&plan));
    case.answer(&next, "Approved").await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("3")).await;
    case.until_phase(&next, "Applied").await;
}

#[tokio::test]
async fn a_yes_for_a_tag_installs_what_it_meant_at_the_time() {
    let (case, plan) = waiting("plan-tag").await;
    case.push("v2", &[case.config_map("a", json!({"x": "another"}))]).await;
    case.answer(&plan, "Approved").await;
    case.until_phase(&plan, "Applied").await;
    assert_eq!(value(&case).await, "2");
    until_ready(&case).await;
    assert_eq!(value(&case).await, "2");
}

#[tokio::test]
async fn a_yes_is_for_one_account() {
    let (case, plan) = waiting("plan-account").await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "installer", "namespace": case.namespace}});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": case.name}, "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": case.namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
    case.foreign(&account).await;
    case.foreign(&binding).await;
    let named = json!({"spec": {"serviceAccount": {"name": "installer", "namespace": case.namespace}}});
    case.edit("user", &case.target(), named).await;
    let next = expired(&case, &plan, "spec.serviceAccount").await;
    assert_eq!(next.data["spec"]["binds"]["account"], format!("system:serviceaccount:{}:installer", case.namespace));
    assert_eq!(value(&case).await, "1");
}

#[tokio::test]
async fn a_yes_is_for_the_very_objects_that_are_deleted() {
    let (case, plan) = waiting("plan-uid").await;
    case.delete(&case.config_map_target("gone")).await;
    // The installed release is repaired; its object is another one then.
    case.until_owned(&case.config_map_target("gone")).await;
    case.answer(&plan, "Approved").await;
    let next = expired(&case, &plan, "what would be done to the objects").await;
    assert_eq!(value(&case).await, "1");
    case.answer(&next, "Approved").await;
    case.until_gone(&case.config_map_target("gone")).await;
}

#[tokio::test]
async fn going_back_and_asking_nobody_ends_plans() {
    let (case, plan) = waiting("plan-back").await;
    let reference =
        case.push("v1", &[case.config_map("a", json!({"x": "1"})), case.config_map("gone", json!({}))]).await;
    let source = json!({"spec": {"template": {"spec": {"source": {"image": {"ref": reference}}}}}});
    case.edit("user", &case.target(), source).await;
    until_ready(&case).await;
    case.until_phase(&plan, "Expired").await;

    case.change("v3", &[case.config_map("a", json!({"x": "3"}))]).await;
    let next = case.asked_beside(&[&plan]).await;
    case.edit("user", &case.target(), json!({"spec": {"approval": "Automatic"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("3")).await;
    let over = case.until_phase(&next, "Expired").await;
    assert!(over.data["status"]["message"].as_str().unwrap_or_default().contains("spec.approval"), "{:#}", over.data);
}

#[tokio::test]
async fn a_plan_that_is_deleted_is_made_anew() {
    let (case, plan) = waiting("plan-deleted").await;
    case.delete(&target_of(&plan)).await;
    let again = case
        .until(&target_of(&plan), "another Plan", |now| {
            now.is_some_and(|now| now.metadata.uid != plan.metadata.uid && now.data["status"]["phase"] == "Waiting")
        })
        .await
        .expect("it is there");
    assert_eq!(digest(&again), digest(&plan));
    assert_eq!(value(&case).await, "1");
}

#[tokio::test]
async fn a_rollback_is_not_asked_about_and_its_undoing_is() {
    let (case, plan) = waiting("plan-rollback").await;
    case.answer(&plan, "Approved").await;
    until_ready(&case).await;
    case.until_phase(&plan, "Applied").await;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    until_ready(&case).await;
    assert_eq!(case.plans().await.len(), 1, "nobody was asked");
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": null}})).await;
    let next = case.asked_beside(&[&plan]).await;
    assert_ne!(digest(&next), digest(&plan), "the yes was for one upgrade");
    assert_eq!(value(&case).await, "1");
}

#[tokio::test]
async fn at_most_five_plans_of_a_deployment_are_kept() {
    let case = Case::new("plan-many").await;
    let reference = case.push("v0", &[case.config_map("a", json!({"x": "0"}))]).await;
    let mut new = deployment(&case.name, image(&reference));
    new["spec"]["approval"] = json!("Always");
    case.foreign(&new).await;
    let mut plans = vec![case.asked().await];
    for version in 1..=6 {
        case.change(&format!("v{version}"), &[case.config_map("a", json!({"x": version.to_string()}))]).await;
        let known: Vec<&DynamicObject> = plans.iter().collect();
        let next = case.asked_beside(&known).await;
        plans.push(next);
    }
    case.until_gone(&target_of(&plans[0])).await;
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let left = case.plans().await;
        if left.len() == 5 {
            assert!(left.iter().any(|plan| plan.metadata.uid == plans[6].metadata.uid), "the one that waits");
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{} Plans are left", left.len());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await; // which of two of one second goes first is open
    }
    assert!(!case.exists("a").await);
}
