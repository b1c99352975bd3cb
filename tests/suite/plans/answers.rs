//! Yes by patch, yes by git, no; and what is said meanwhile.

use rukpak_tests::verbs::{self, Expected};
use serde_json::json;

use super::case::{Asked, digest, names, target_of, until_ready, until_rejected};
use crate::engine::case::Case;
use crate::engine::worlds;

#[tokio::test]
async fn nothing_is_written_before_the_yes_and_all_of_it_after() {
    let case = Case::new("plan-first").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    assert_eq!(names(&plan, "created"), ["a"]);
    assert_eq!(plan.data["spec"]["deployment"]["name"], case.name);
    assert!(!case.exists("a").await);
    let status = case.status().await;
    assert!(status["inventory"]["kinds"].is_null(), "{status:#}");
    assert!(verbs::condition(&case.get(&case.target()).await.unwrap(), "Installed").is_none(), "nothing was tried");

    case.answer(&plan, "Approved").await;
    case.installed().await;
    until_ready(&case).await;
    assert!(case.exists("a").await);
    let applied = case.until_phase(&plan, "Applied").await;
    assert_eq!(applied.data["status"]["created"], plan.data["status"]["created"], "it still says what was done");
    assert_eq!(case.plans().await.len(), 1);
}

#[tokio::test]
async fn an_upgrade_waits_and_what_runs_stays_installed_and_is_repaired() {
    let case = Case::new("plan-upgrade").await;
    let v1 = [case.config_map("a", json!({"x": "1"})), case.config_map("gone", json!({"x": "1"}))];
    case.create_asking("Upgrades", &v1).await;
    let first = until_ready(&case).await;
    assert!(case.plans().await.is_empty(), "a first installation is not asked about");

    case.change("v2", &[case.config_map("a", json!({"x": "2"})), case.config_map("new", json!({"x": "2"}))]).await;
    let plan = case.asked().await;
    assert_eq!((names(&plan, "created"), names(&plan, "changed")), (vec!["new".into()], vec!["a".into()]));
    assert_eq!(names(&plan, "deleted"), ["gone"]);
    let waiting = case.get(&case.target()).await.unwrap();
    let installed = Expected::is_true("Installed", "InstallationSucceeded");
    assert!(installed.met_by(&waiting), "{:#}", waiting.data["status"]);
    assert_eq!(waiting.data["status"]["activeBundle"], first.data["status"]["activeBundle"]);
    let message = verbs::condition(&waiting, "Ready").unwrap()["message"].as_str().unwrap();
    let name = plan.metadata.name.as_deref().unwrap();
    let way_out = format!("kubectl patch plan {name} --type merge -p '{{\"spec\":{{\"approval\":\"Approved\"}}}}'");
    assert!(message.contains(&way_out) && message.contains("deletes 1 object"), "{message}");
    let told = case.told("WaitingForApproval").await;
    assert_eq!((told.tone.as_str(), told.count), ("Normal", 1));

    case.edit("somebody", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    assert!(!case.exists("new").await && case.exists("gone").await);

    case.answer(&plan, "Approved").await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    case.until_gone(&case.config_map_target("gone")).await;
    until_ready(&case).await;
    case.until_phase(&plan, "Applied").await;
}

#[tokio::test]
async fn the_digest_in_the_spec_counts_as_a_yes_for_that_plan() {
    let case = Case::new("plan-git").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    case.edit("git", &case.target(), json!({"spec": {"approvedPlan": digest(&plan)}})).await;
    until_ready(&case).await;
    case.until_phase(&plan, "Applied").await;

    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let next = case.asked_beside(&[&plan]).await;
    assert_ne!(digest(&next), digest(&plan), "the digest in the spec is not for this one");
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1");
}

#[tokio::test]
async fn a_rejected_plan_holds_until_something_else_is_asked_for() {
    let case = Case::new("plan-no").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    case.answer(&plan, "Rejected").await;
    let rejected = until_rejected(&case).await;
    assert!(Expected::is_true("Stalled", "PlanRejected").met_by(&rejected), "{:#}", rejected.data["status"]);
    case.until_phase(&plan, "Rejected").await;
    case.edit("user", &case.target(), json!({"spec": {"progressDeadline": "1h"}})).await;
    case.until_value(&case.target(), "/status/observedGeneration", &json!(2)).await;
    until_rejected(&case).await;
    assert!(!case.exists("a").await);

    case.change("v2", &[case.config_map("b", json!({"x": "1"}))]).await;
    let next = case.asked_beside(&[&plan]).await;
    case.until_phase(&plan, "Expired").await;
    case.answer(&next, "Approved").await;
    until_ready(&case).await;
    assert!(case.exists("b").await && !case.exists("a").await);
}

#[tokio::test]
async fn a_waiting_plan_outlives_the_controller() {
    let alone = worlds::alone().await;
    let case = alone.case("plan-restart").await;
    case.create_asking("Upgrades", &[case.config_map("a", json!({"x": "1"}))]).await;
    until_ready(&case).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let plan = case.asked().await;

    alone.kill().await;
    alone.start().await;
    let now = json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": "now"}}});
    case.edit("user", &case.target(), now).await;
    case.until_value(&case.target(), "/status/lastHandledReconcileAt", &json!("now")).await;
    let again = case.asked().await;
    assert_eq!((digest(&again), &again.metadata.uid), (digest(&plan), &plan.metadata.uid), "nothing has changed");
    case.installed().await;
    assert_eq!(case.plans().await.len(), 1);

    // The answer comes while nobody listens.
    alone.stop().await;
    case.answer(&plan, "Approved").await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1");
    alone.start().await;
    until_ready(&case).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    case.until_phase(&plan, "Applied").await;
}

#[tokio::test]
async fn a_plan_goes_with_its_deployment() {
    let case = Case::new("plan-gone").await;
    case.create_asking("Always", &[case.config_map("a", json!({"x": "1"}))]).await;
    let plan = case.asked().await;
    case.delete(&case.target()).await;
    case.until_gone(&target_of(&plan)).await;
}
