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
