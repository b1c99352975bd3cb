//! The way back to OLM.

use serde_json::json;

use super::case::{Case, Given};
use super::world::World;

#[tokio::test]
async fn what_was_taken_over_goes_back_and_can_be_taken_over_again() {
    let world = World::shared().await;
    let given = Given { fixture: "registry/mill", ..Given::default() };
    let case = Case::new(world, "there-and-back", given).await;
    let before = case.running().await;
    case.migrated(&["--apply"]).await;
    case.is_taken_over().await;
    let did = case.migrated(&["--back"]).await;
    assert!(did.err.contains("without its objects"), "{did:?}");
    case.is_taken_over().await;
    case.delete(&case.operator.group_target()).await;
    case.migrated(&["--back", "--apply"]).await;
    case.is_olms().await;
    assert_eq!(case.running().await, before, "no Pod is replaced");
    case.until_gone(&case.platform()).await;
    let plan = case.get(&case.operator.plan_target()).await;
    assert_eq!(plan.data["status"]["phase"], "Complete");
    let subscription = case.get(&case.operator.subscription_target()).await;
    let owners = plan.metadata.owner_references.unwrap_or_default();
    assert_eq!(Some(&owners[0].uid), subscription.metadata.uid.as_ref());
    let spec = json!({"name": case.name, "channel": "stable", "source": "community", "sourceNamespace": "olm",
                      "installPlanApproval": "Manual"});
    assert_eq!(subscription.data["spec"], spec);

    let did = case.migrated(&["--apply"]).await;
    assert!(!did.err.contains("are replaced"), "{did:?}");
    assert_eq!(case.running().await, before, "no Pod is replaced");
    case.is_taken_over().await;
}

/// With webhooks, a certificate and settings, then with an account whose rights install it.
#[tokio::test]
async fn what_goes_on_as_its_subscription_has_it_goes_back_as_well() {
    let world = World::shared().await;
    let config = json!({"env": [{"name": "LEVEL", "value": "warn"}], "resources": {"requests": {"cpu": "10m"}}});
    let case = Case::new(world, "stays", Given { fixture: "registry/mill", config, ..Given::default() }).await;
    let before = case.running().await;
    let to = ["--to", "subscription", "--apply"];
    let did = case.migrate(&["--to", "subscription"]).await;
    let told = format!("hand the bundledeployment over to subscription.operators.coreos.com/{}", case.name);
    assert!(did.code == Some(0) && did.err.contains(&told) && !did.err.contains("are replaced"), "{did:?}");
    assert!(case.find(&case.held()).await.is_none(), "nothing is changed");
    case.migrated(&to).await;
    case.is_followed().await;
    assert_eq!(case.running().await, before, "no Pod is replaced");
    let config = case.get(&case.held()).await.data["spec"]["config"].clone();
    assert_eq!(config["deploymentConfig"]["env"], json!([{"name": "LEVEL", "value": "warn"}]));
    let all = ["--all", "-n", case.space()];
    let did = world.migrate(&[&all[..], &to[..]].concat()).await;
    assert!(did.code == Some(1) && did.err.contains("there is no subscription to migrate"), "{did:?}");

    world.migrate(&[&all[..], &["--back", "--apply"][..]].concat()).await;
    case.is_olms().await;
    assert_eq!(case.running().await, before, "no Pod is replaced");
    let group = case.operator.group_target();
    case.merge_into(&group, &json!({"spec": {"serviceAccountName": "installer"}})).await;
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": case.space()}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": case.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": case.space()}]}),
    ] {
        case.create(&object).await;
    }
    case.migrated(&to).await;
    let account = case.get(&case.held()).await.data["spec"]["serviceAccount"].clone();
    assert_eq!(account, json!({"name": "installer", "namespace": case.space()}));
    assert_eq!(case.running().await, before, "no Pod is replaced");
}
