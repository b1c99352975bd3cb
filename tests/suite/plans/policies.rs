//! When it is asked: never, before upgrades, before rights grow, always.

use serde_json::{Value, json};

use super::case::{Asked, until_ready};
use crate::engine::case::Case;

const RBAC: &str = "rbac.authorization.k8s.io";

fn role(case: &Case<'_>, verbs: &[&str]) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": "pump", "namespace": case.namespace},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]})
}

fn binding(case: &Case<'_>, role_kind: &str, role: &str, account: &str) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
        "metadata": {"name": format!("{account}-{role}"), "namespace": case.namespace},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": case.namespace}]})
}

#[tokio::test]
async fn growing_rights_are_asked_about_and_a_plain_upgrade_is_not() {
    let case = Case::new("plan-escalate").await;
    let own = |verbs: &[&str]| [role(&case, verbs), binding(&case, "Role", "pump", "pump")];
    let with = |objects: &[Value], version: &str| {
        objects.iter().cloned().chain([case.config_map("a", json!({"x": version}))]).collect::<Vec<_>>()
    };
    case.create_asking("Escalations", &with(&own(&["get", "list"]), "1")).await;
    let first = case.asked().await;
    assert_eq!(first.data["status"]["rights"]["count"], 1, "{:#}", first.data["status"]);
    case.answer(&first, "Approved").await;
    until_ready(&case).await;

    case.pivot("v2", &with(&own(&["get"]), "2")).await;
    assert_eq!(case.plans().await.len(), 1, "fewer rights are nothing to ask about");

    case.change("v3", &with(&own(&["get", "delete"]), "3")).await;
    let second = case.asked_beside(&[&first]).await;
    let right = &second.data["status"]["rights"]["items"][0];
    let rule = format!("delete configmaps in namespace {:?}", case.namespace);
    assert_eq!(right["rule"], rule, "{right}");
    assert!(right["escalation"].is_null(), "{right}");
    case.answer(&second, "Approved").await;
    until_ready(&case).await;

    let mut strong = with(&own(&["get", "delete"]), "4");
    strong.push(binding(&case, "ClusterRole", "cluster-admin", "pump"));
    case.change("v4", &strong).await;
    let third = case.asked_beside(&[&first, &second]).await;
    assert_eq!(third.data["status"]["rights"]["items"][0]["escalation"], true, "{:#}", third.data["status"]);
    let summary = third.data["status"]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("with escalation"), "{summary}");
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "3");
}

#[tokio::test]
async fn without_a_policy_nobody_is_asked() {
    for policy in [None, Some("Automatic")] {
        let case = Case::new("plan-never").await;
        let objects = [role(&case, &["*"]), binding(&case, "ClusterRole", "cluster-admin", "pump")];
        match policy {
            Some(policy) => case.create_asking(policy, &objects).await,
            None => drop(case.create(&objects).await),
        }
        until_ready(&case).await;
        case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
        assert!(case.plans().await.is_empty(), "{policy:?}");
    }
}
