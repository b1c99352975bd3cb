//! Health: what `Healthy` says of each kind, and when it is read again.

use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, gadget};

fn available(generation: i64, replicas: i64) -> Value {
    json!({"status": {"observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas, "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": ""},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": ""}]}})
}

/// The Pods of a Deployment, made to run as kwok does.
async fn run_pods(case: &Case<'_>, app: &str) {
    // The Deployment's status moves when its Pods are made.
    let target = case.in_namespace("apps/v1", "Deployment", app);
    case.until(&target, "replicas", |object| object.is_some_and(|o| o.data["status"]["replicas"].as_i64() > Some(0)))
        .await;
    let selector = format!("app={app}");
    for pod in verbs::list(&case.client, "v1", "Pod", &selector).await.expect("the API server agrees") {
        if pod.metadata.namespace.as_deref() != Some(&case.namespace) {
            continue;
        }
        let target = case.in_namespace("v1", "Pod", pod.metadata.name.as_deref().expect("the API server agrees"));
        let now = "2026-01-01T00:00:00Z";
        let status = json!({"status": {"phase": "Running", "startTime": now, "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
            {"type": "Initialized", "status": "True", "lastTransitionTime": now},
            {"type": "ContainersReady", "status": "True", "lastTransitionTime": now},
            {"type": "Ready", "status": "True", "lastTransitionTime": now}]}});
        case.edit_sub("status", "kwok", &target, status).await;
    }
}

#[tokio::test]
async fn a_deployment_becomes_healthy_with_its_pods_and_the_old_bundle_waits_for_that() {
    let case = Case::new("health").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    let first = case.ready().await;
    let old = Target::bundle(first.data["status"]["activeBundle"].as_str().unwrap());
    case.pivot("v2", &[case.workload("w", 1)]).await;
    let unhealthy = Expected::is_false("Healthy", "Unhealthy");
    until(&case.client, &case.name, unhealthy).await;
    let line = format!("(apps/v1, Kind=Deployment)({}/w): object InProgress: Available: 0/1", case.namespace);
    let object = until(&case.client, &case.name, unhealthy.saying(&line)).await;
    assert_eq!(verbs::condition(&object, "Healthy").unwrap()["message"], line);
    assert_eq!(verbs::condition(&object, "Installed").unwrap()["status"], "True");
    assert_eq!(verbs::condition(&object, "Ready").unwrap()["status"], "Unknown");
    assert!(case.get(&old).await.is_some(), "the old Bundle waits");
    assert!(case.get(&case.config_map_target("a")).await.is_some(), "and so does what left");

    run_pods(&case, "w").await;
    let healthy = Expected::is_true("Healthy", "Healthy").saying("BundleDeployment is healthy");
    until(&case.client, &case.name, healthy).await;
    case.until_gone(&case.config_map_target("a")).await;
    case.until_gone(&old).await;
    case.ready().await;
}

#[tokio::test]
async fn a_custom_resource_counts_by_its_conditions() {
    let case = Case::new("healthcr").await;
    let (crd, group) = definition("healthcr");
    let object = gadget(&group, &case.namespace, "g", 1);
    case.install(&[crd, object.clone()]).await;
    until(&case.client, &case.name, Expected::is_true("Healthy", "Healthy")).await;
    let target = Target::of(&object).unwrap();
    let say = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "R", "message": "not yet"}]}});
    case.edit_sub("status", "operator", &target, say("False")).await;
    let line = format!("({group}/v1, Kind=Gadget)({}/g): object InProgress: not yet", case.namespace);
    until(&case.client, &case.name, Expected::is_false("Healthy", "Unhealthy").saying(&line)).await;
    case.edit_sub("status", "operator", &target, say("True")).await;
    until(&case.client, &case.name, Expected::is_true("Healthy", "Healthy")).await;
}

#[tokio::test]
async fn written_status_is_read_and_left_alone() {
    let case = Case::new("healthset").await;
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "namespace": case.namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "r"}}, "template": {
            "metadata": {"labels": {"app": "r"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    case.install(&[set, case.workload("zero", 0)]).await;
    until(&case.client, &case.name, Expected::is_true("Healthy", "Healthy")).await;
    let target = case.in_namespace("apps/v1", "Deployment", "zero");
    let generation = case.get(&target).await.unwrap().metadata.generation.unwrap();
    case.edit_sub("status", "kwok", &target, available(generation, 0)).await;
    until(&case.client, &case.name, Expected::is_true("Healthy", "Healthy")).await;
}
