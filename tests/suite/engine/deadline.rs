//! `spec.progressDeadline`: an upgrade that is not healthy in time is undone by itself.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition};
use crate::engine::worlds;

/// ConfigMap `a` of some version, and a Deployment that is healthy with no replicas: nobody runs its Pods here.
fn release(case: &Case<'_>, version: &str, replicas: i64) -> [Value; 2] {
    [case.config_map("a", json!({"x": version})), case.workload("w", replicas)]
}

async fn limit(case: &Case<'_>, deadline: &str) {
    case.edit("user", &case.target(), json!({"spec": {"progressDeadline": deadline}})).await;
}

/// The old version is back, and why is said.
async fn came_back(case: &Case<'_>, first: &DynamicObject) {
    let exceeded = Expected::is_true("Stalled", "ProgressDeadlineExceeded");
    let told = until(&case.client, &case.name, exceeded).await;
    let message = verbs::condition(&told, "Stalled").expect("it is there")["message"].as_str().unwrap_or_default();
    assert!(message.contains("/w"), "what held it up is named: {message}");
    until(&case.client, &case.name, Expected::is_false("Installed", "UpgradeFailed")).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    case.until_value(&workload, "/spec/replicas", &json!(0)).await;
    let status = case.status().await;
    assert_eq!(status["inventory"]["contentDigest"], first.data["status"]["inventory"]["contentDigest"]);
    assert_eq!(status["activeBundle"], first.data["status"]["activeBundle"]);
}

#[tokio::test]
async fn an_upgrade_that_is_not_healthy_in_time_is_undone() {
    let case = Case::new("deadline").await;
    case.install(&release(&case, "1", 0)).await;
    let first = case.ready().await;
    limit(&case, "5s").await;
    case.change("v2", &release(&case, "2", 1)).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    came_back(&case, &first).await;
    // It is guarded, and not tried again by itself.
    let target = case.config_map_target("a");
    let stays = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["x"] == "1");
    verbs::holds_for(&case.client, &target, "the old version", Duration::from_secs(8), stays).await.unwrap();
    // Another template is.
    case.pivot("v3", &release(&case, "3", 0)).await;
    let ready = case.ready().await;
    assert!(verbs::condition(&ready, "Stalled").is_none_or(|stalled| stalled["status"] == "False"));
}

#[tokio::test]
async fn an_upgrade_that_is_healthy_in_time_stays() {
    let case = Case::new("in-time").await;
    case.install(&release(&case, "1", 0)).await;
    // Long enough to be healthy on a busy machine.
    limit(&case, "10s").await;
    case.pivot("v2", &release(&case, "2", 0)).await;
    case.ready().await;
    // What falls ill after that is no upgrade that failed.
    let workload = case.in_namespace("apps/v1", "Deployment", "w");
    let generation = case.get(&workload).await.unwrap().metadata.generation.unwrap();
    let ill = json!({"status": {"observedGeneration": generation, "replicas": 1, "unavailableReplicas": 1}});
    case.edit_sub("status", "kwok", &workload, ill).await;
    let target = case.config_map_target("a");
    let stays = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["x"] == "2");
    verbs::holds_for(&case.client, &target, "the new version", Duration::from_secs(14), stays).await.unwrap();
}

#[tokio::test]
async fn a_deadline_goes_on_over_a_restart() {
    let alone = worlds::alone().await;
    let case = alone.case("deadline-restart").await;
    case.install(&release(&case, "1", 0)).await;
    let first = case.ready().await;
    limit(&case, "20s").await;
    case.change("v2", &release(&case, "2", 1)).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    alone.stop().await;
    let since = case.status().await["inventory"]["pending"]["since"].clone();
    assert!(since.is_string(), "when it began is in the status");
    alone.start().await;
    came_back(&case, &first).await;
}

/// It ended while nobody was there.
#[tokio::test]
async fn a_deadline_that_passed_while_the_controller_was_down_is_kept() {
    let alone = worlds::alone().await;
    let case = alone.case("deadline-down").await;
    case.install(&release(&case, "1", 0)).await;
    let first = case.ready().await;
    limit(&case, "2s").await;
    case.change("v2", &release(&case, "2", 1)).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    alone.kill().await;
    tokio::time::sleep(Duration::from_secs(2)).await; // the very time that is to pass
    alone.start().await;
    came_back(&case, &first).await;
}

/// Its time begins when it is set: the version may have run for a month.
#[tokio::test]
async fn counts_deadline_from_when_it_is_set() {
    let case = Case::new("deadline-later").await;
    case.install(&release(&case, "1", 0)).await;
    let first = case.ready().await;
    case.pivot("v2", &release(&case, "2", 1)).await;
    tokio::time::sleep(Duration::from_secs(10)).await; // the very time that would be over

    limit(&case, "10s").await;

    let target = case.config_map_target("a");
    let stays = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["x"] == "2");
    verbs::holds_for(&case.client, &target, "the new version", Duration::from_secs(3), stays).await.unwrap();
    came_back(&case, &first).await;
}

/// A first installation has nothing to go back to.
#[tokio::test]
async fn a_first_installation_that_is_not_healthy_in_time_stays_and_says_so() {
    let case = Case::new("deadline-first").await;
    case.create(&release(&case, "1", 1)).await;
    limit(&case, "3s").await;
    until(&case.client, &case.name, Expected::is_true("Stalled", "ProgressDeadlineExceeded")).await;
    assert!(case.get(&case.config_map_target("a")).await.is_some());
}

#[tokio::test]
async fn a_deadline_that_is_no_duration_is_refused_by_the_api_server() {
    let case = Case::new("deadline-bad").await;
    case.install(&release(&case, "1", 0)).await;
    let patch = json!({"spec": {"progressDeadline": "soon"}});
    let denial = verbs::merge_expecting_denial(&case.client, &case.target(), &patch).await.unwrap();
    assert!(denial.message.contains("progressDeadline"), "{}", denial.message);
}

/// The upgrade failed for another reason before: that is the reason.
#[tokio::test]
async fn an_upgrade_that_is_refused_does_not_wait_for_its_deadline() {
    let case = Case::new("deadline-refused").await;
    case.install(&release(&case, "1", 0)).await;
    limit(&case, "10m").await;
    let (crd, group) = definition("refused");
    let bad = crate::engine::case::gadget(&group, &case.namespace, "bad", 0);
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), case.workload("w", 0), crd, bad]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
}
