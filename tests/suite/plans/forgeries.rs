//! Who may not approve does not, and what is written into a Plan by hand changes nothing.

use rukpak_tests::verbs::{self, unique_name};
use serde_json::json;

use super::case::{Asked, target_of, until_ready};
use crate::engine::case::Case;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Binds a ClusterRole to a new user; returns the user.
async fn user_with(case: &Case<'_>, role: &str) -> String {
    let user = unique_name("user");
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}]});
    case.foreign(&binding).await;
    verbs::await_role(&case.client, &user, role).await.expect("the role is bound");
    user
}

#[tokio::test]
async fn whoever_may_edit_deployments_may_not_approve_and_an_approver_may() {
    let case = Case::new("plan-rights").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    let yes = json!({"spec": {"approval": "Approved"}});
    for role in ["rukpak-edit", "rukpak-view", "edit", "admin"] {
        let user = user_with(&case, role).await;
        let client = case.world.plane.impersonating(&user, &[]).await.expect("the admin kubeconfig is good");
        let denial = verbs::merge_expecting_denial(&client, &target_of(&plan), &yes).await.expect("a refusal");
        assert_eq!(denial.code, 403, "{role}: {denial:?}");
    }
    assert!(!case.exists("a").await);

    let approver = user_with(&case, "rukpak-plan-approver").await;
    let client = case.world.plane.impersonating(&approver, &[]).await.expect("the admin kubeconfig is good");
    verbs::merge(&client, &target_of(&plan), &yes).await.expect("the approver may");
    until_ready(&case).await;
    case.until_phase(&plan, "Applied").await;
}

#[tokio::test]
async fn nothing_but_the_answer_of_a_plan_can_be_changed() {
    let case = Case::new("plan-fixed").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    let other = format!("sha256:{}", "0".repeat(64));
    for patch in [
        json!({"spec": {"digest": other}}),
        json!({"spec": {"binds": {"content": "other"}}}),
        json!({"spec": {"deployment": {"name": "other"}}}),
        json!({"spec": {"rendering": other}}),
    ] {
        let denial = verbs::merge_expecting_denial(&case.client, &target_of(&plan), &patch).await.expect("a refusal");
        assert!(denial.message.contains("a Plan cannot be changed"), "{patch}: {denial:?}");
    }
    let denial =
        verbs::merge_expecting_denial(&case.client, &target_of(&plan), &json!({"spec": {"approval": "Maybe"}})).await;
    assert_eq!(denial.expect("a refusal").code, 422);
}

#[tokio::test]
async fn a_status_that_is_edited_by_hand_has_no_effect_and_is_mended() {
    let case = Case::new("plan-status").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    let forged = json!({"status": {"phase": "Approved", "summary": "harmless", "created": {"count": 0, "items": []}}});
    case.edit_sub("status", "somebody", &target_of(&plan), forged).await;
    case.until_value(&target_of(&plan), "/status/summary", &plan.data["status"]["summary"]).await;
    let mended = case.until_phase(&plan, "Waiting").await;
    assert_eq!(mended.data["status"], plan.data["status"]);
    assert!(!case.exists("a").await);
}

#[tokio::test]
async fn a_plan_that_comes_with_a_bundle_approves_nothing() {
    let case = Case::new("plan-shipped").await;
    case.create_asking("Upgrades", &[case.config_map("a", json!({"x": "1"}))]).await;
    until_ready(&case).await;
    // What the next bundle would need, as somebody who has seen it asked elsewhere would ship it.
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let plan = case.asked().await;
    let (name, spec) = (plan.metadata.name.clone().unwrap(), plan.data["spec"].clone());
    case.delete(&target_of(&plan)).await;
    let mut shipped =
        json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Plan", "metadata": {"name": name}, "spec": spec});
    shipped["spec"]["approval"] = json!("Approved");
    shipped["metadata"]["labels"] =
        json!({"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": case.name});
    shipped["metadata"]["ownerReferences"] = json!([{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment",
        "name": case.name, "uid": case.uid().await, "controller": true}]);
    verbs::apply(&case.client, &shipped).await.expect("the API server agrees");
    let refused = rukpak_tests::verbs::Expected {
        kind: "Ready",
        status: "False",
        reason: None,
        message: "was not made by the controller",
    };
    rukpak_tests::world::until(&case.client, &case.name, refused).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1");
    case.delete(&target_of(&plan)).await;
    case.asked().await;
}
