//! The rules of the kinds, one row each.

use serde_json::{Value, json};

use super::super::State::{Current, Failed, InProgress, Unknown};
use super::{NOW, check, condition, expect, with};

#[test]
fn deployment() {
    let full = |n: i64| json!({"replicas": n, "updatedReplicas": n, "availableReplicas": n, "readyReplicas": n});
    let but = |field: &str, value: i64| {
        let mut status = with(full(2), "Available", "True", "");
        status[field] = value.into();
        status
    };
    let two = json!({"replicas": 2});
    let deadline = json!({"progressDeadlineSeconds": 600});
    let both = json!({
        "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1,
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            {"type": "Available", "status": "True"},
        ],
    });
    let mut unfinished = both.clone();
    unfinished["conditions"][0]["status"] = "Unknown".into();
    let exceeded = condition("Progressing", "False", "ProgressDeadlineExceeded", "");
    let rows = [
        (two.clone(), but("replicas", 2), Current, "Deployment is available. Replicas: 2"),
        (
            json!({"replicas": 0}),
            with(json!({}), "Available", "True", ""),
            Current,
            "Deployment is available. Replicas: 0",
        ),
        (two.clone(), exceeded, Failed, "Progress deadline exceeded"),
        (json!({}), json!({}), InProgress, "Replicas: 0/1"),
        (two.clone(), but("replicas", 1), InProgress, "Replicas: 1/2"),
        (two.clone(), but("updatedReplicas", 1), InProgress, "Updated: 1/2"),
        (two.clone(), but("replicas", 3), InProgress, "Pending termination: 1"),
        (two.clone(), but("availableReplicas", 1), InProgress, "Available: 1/2"),
        (two, but("readyReplicas", 1), InProgress, "Ready: 1/2"),
        (deadline.clone(), both, Current, "Deployment is available. Replicas: 1"),
        (deadline.clone(), unfinished, InProgress, "ReplicaSet not Available"),
        (deadline, with(full(1), "Available", "True", ""), InProgress, "ReplicaSet not Available"),
        (json!({}), full(1), InProgress, "Deployment not Available"),
        (json!({}), with(full(1), "Progressing", "True", ""), InProgress, "Deployment not Available"),
        (json!({}), with(full(1), "Available", "False", ""), InProgress, "Deployment not Available"),
    ];
    check("apps/v1 Deployment", &rows);
    check("extensions/v1beta1 Deployment", &rows);
}

#[test]
fn replica_set() {
    let but = |field: &str, value: i64| {
        let mut status = json!({"replicas": 1, "fullyLabeledReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
        status[field] = value.into();
        status
    };
    let failure = with(but("replicas", 1), "ReplicaFailure", "True", "");
    check(
        "apps/v1 ReplicaSet",
        &[
            (json!({}), but("replicas", 1), Current, "ReplicaSet is available. Replicas: 1"),
            (json!({}), failure, InProgress, "Replica Failure condition. Check Pods"),
            (json!({}), but("fullyLabeledReplicas", 0), InProgress, "Labelled: 0/1"),
            (json!({}), but("availableReplicas", 0), InProgress, "Available: 0/1"),
            (json!({}), but("readyReplicas", 0), InProgress, "Ready: 0/1"),
            (json!({}), but("replicas", 3), InProgress, "Pending termination: 2"),
        ],
    );
}

#[test]
fn stateful_set() {
    let but = |field: &str, value: Value| {
        let mut status = json!({
            "observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "currentReplicas": 1, "updatedReplicas": 0,
            "currentRevision": "a", "updateRevision": "a",
        });
        status[field] = value;
        status
    };
    let partition =
        |from: i64| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": from}}});
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    let stale = "StatefulSet generation is 2, but latest observed generation is 1";
    check(
        "apps/v1 StatefulSet",
        &[
            (json!({}), but("replicas", 1.into()), Current, "All replicas scheduled as expected. Replicas: 1"),
            (on_delete, json!({}), Current, "StatefulSet is using the ondelete update strategy"),
            (json!({}), but("observedGeneration", 1.into()), InProgress, stale),
            (json!({}), but("replicas", 0.into()), InProgress, "Replicas: 0/1"),
            (json!({}), but("readyReplicas", 0.into()), InProgress, "Ready: 0/1"),
            (json!({}), but("replicas", 2.into()), InProgress, "Pending termination: 1"),
            (partition(0), but("updatedReplicas", 0.into()), InProgress, "updated: 0/1"),
            (partition(1), but("updateRevision", "b".into()), Current, "Partition rollout complete. updated: 0"),
            (json!({}), but("currentReplicas", 0.into()), InProgress, "current: 0/1"),
            (json!({}), but("updateRevision", "b".into()), InProgress, "Waiting for updated revision to match current"),
        ],
    );
}

#[test]
fn daemon_set() {
    let but = |field: &str, value: Value| {
        let mut status = json!({
            "observedGeneration": 2, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
            "updatedNumberScheduled": 1, "numberAvailable": 1, "numberReady": 1,
        });
        status[field] = value;
        status
    };
    let null = Value::Null;
    check(
        "apps/v1 DaemonSet",
        &[
            (json!({}), but("numberReady", 1.into()), Current, "All replicas scheduled as expected. Replicas: 1"),
            (
                json!({}),
                but("observedGeneration", null.clone()),
                InProgress,
                "DaemonSet status.observedGeneration not found",
            ),
            (json!({}), but("desiredNumberScheduled", null), InProgress, "Missing .status.desiredNumberScheduled"),
            (json!({}), but("currentNumberScheduled", 0.into()), InProgress, "Current: 0/1"),
            (json!({}), but("updatedNumberScheduled", 0.into()), InProgress, "Updated: 0/1"),
            (json!({}), but("numberAvailable", 0.into()), InProgress, "Available: 0/1"),
            (json!({}), but("numberReady", 0.into()), InProgress, "Ready: 0/1"),
        ],
    );
    let unborn = json!({"status": but("numberReady", 1.into())});
    expect("apps/v1 DaemonSet", &unborn, InProgress, "DaemonSet metadata.generation not found");
}

#[test]
fn job() {
    let suspended = condition("Suspended", "True", "", "");
    let started = json!({"startTime": NOW, "succeeded": 1, "active": 2, "failed": 3});
    let complete = with(json!({"succeeded": 3}), "Complete", "True", "");
    check(
        "batch/v1 Job",
        &[
            (json!({"completions": 3}), complete.clone(), Current, "Job Completed. succeeded: 3/3"),
            (json!({"parallelism": 4}), complete, Current, "Job Completed. succeeded: 3/4"),
            (json!({}), with(json!({"failed": 6}), "Failed", "True", ""), Failed, "Job Failed. failed: 6/1"),
            (json!({}), condition("Failed", "False", "", ""), InProgress, "Job not started"),
            (json!({"suspend": true}), suspended.clone(), Current, "Job is suspended"),
            (json!({"suspend": false}), suspended, InProgress, "Job not started"),
            (json!({}), json!({}), InProgress, "Job not started"),
            (json!({}), started, Current, "Job in progress. success:1, active: 2, failed: 3"),
        ],
    );
}

#[test]
fn pod() {
    let phase = |phase: &str| json!({"phase": phase});
    let waiting = |reason: &str| {
        json!({"phase": "Running", "containerStatuses": [
            {"name": "ok", "state": {"running": {}}},
            {"name": "a", "state": {"waiting": {"reason": reason}}},
            {"name": "b", "state": {"waiting": {"reason": reason}}},
        ]})
    };
    let running = |name, status| with(phase("Running"), name, status, "");
    check(
        "v1 Pod",
        &[
            (json!({}), json!({}), InProgress, "Pod phase not available"),
            (json!({}), phase("Succeeded"), Current, "Pod has completed successfully"),
            (json!({}), phase("Failed"), Current, "Pod has completed, but not successfully"),
            (json!({}), running("Ready", "True"), Current, "Pod is Ready"),
            (json!({}), running("Ready", "False"), InProgress, "Pod is running but is not Ready"),
            (json!({}), running("Initialized", "True"), InProgress, "Pod is running but is not Ready"),
            (json!({}), waiting("ImagePullBackOff"), InProgress, "Pod is running but is not Ready"),
            (json!({}), waiting("CrashLoopBackOff"), Failed, "Containers in CrashLoop state: a,b"),
            (json!({}), phase("Pending"), InProgress, "Pod is in the Pending phase"),
            (json!({}), phase("Lost"), Unknown, "unknown phase Lost"),
        ],
    );
}

#[test]
fn a_pod_has_fifteen_seconds_to_be_scheduled() {
    let status = with(json!({"phase": "Pending"}), "PodScheduled", "False", "Unschedulable");
    let rows = [
        (json!("2024-05-06T07:08:31Z"), InProgress, "Pod has not been scheduled"),
        (json!("2024-05-06T07:08:16Z"), InProgress, "Pod has not been scheduled"),
        (json!("2024-05-06T07:08:15Z"), Failed, "Pod could not be scheduled"),
        (json!("yesterday"), Failed, "Pod could not be scheduled"),
        (json!(null), Failed, "Pod could not be scheduled"),
    ];
    for (created, state, message) in rows {
        let fields = json!({"metadata": {"creationTimestamp": created}, "status": status});
        expect("v1 Pod", &fields, state, message);
    }
    let gated = with(json!({"phase": "Pending"}), "PodScheduled", "False", "SchedulingGated");
    expect("v1 Pod", &json!({"status": gated}), InProgress, "Pod is in the Pending phase");
}

#[test]
fn custom_resource_definition() {
    let accepted = json!({"conditions": [
        {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"},
    ]});
    check(
        "apiextensions.k8s.io/v1 CustomResourceDefinition",
        &[
            (json!({}), accepted, Current, "CRD is established"),
            (json!({}), json!({}), InProgress, "Install in progress"),
            (json!({}), condition("NamesAccepted", "True", "", ""), InProgress, "Install in progress"),
            (json!({}), condition("NamesAccepted", "False", "Conflict", "taken"), Failed, "taken"),
            (json!({}), condition("Established", "False", "Installing", "m"), InProgress, "Install in progress"),
            (json!({}), condition("Established", "False", "NotAccepted", "no"), Failed, "no"),
        ],
    );
}

#[test]
fn api_service() {
    let rows = [
        (json!({}), json!({}), InProgress, "Available condition not found"),
        (json!({}), condition("testing", "True", "", ""), InProgress, "Available condition not found"),
        (json!({}), condition("Available", "False", "", "no endpoints"), InProgress, "no endpoints"),
        (json!({}), condition("Available", "Unknown", "", ""), Current, "APIService is available"),
        (json!({}), condition("Available", "True", "", ""), Current, "APIService is available"),
    ];
    check("apiregistration.k8s.io/v1 APIService", &rows);
    check("apiregistration.k8s.io/v1beta1 APIService", &[(json!({}), json!({}), Current, "Resource is current")]);
}

#[test]
fn service_volume_claim_and_disruption_budget() {
    let balancer = json!({"type": "LoadBalancer"});
    let addressed = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"});
    check(
        "v1 Service",
        &[
            (json!({}), json!({}), Current, "Service is ready"),
            (balancer, json!({}), InProgress, "ClusterIP not set. Service type: LoadBalancer"),
            (addressed, json!({"loadBalancer": {}}), Current, "Service is ready"),
        ],
    );
    check(
        "v1 PersistentVolumeClaim",
        &[
            (json!({}), json!({"phase": "Bound"}), Current, "PVC is Bound"),
            (json!({}), json!({"phase": "Lost"}), InProgress, "PVC is not Bound. phase: Lost"),
            (json!({}), json!({}), InProgress, "PVC is not Bound. phase: unknown"),
        ],
    );
    let stale = "PodDisruptionBudget generation is 2, but latest observed generation is 1";
    check(
        "policy/v1 PodDisruptionBudget",
        &[
            (json!({}), json!({"observedGeneration": 1}), InProgress, stale),
            (json!({}), json!({"observedGeneration": 2}), Current, "AllowedDisruptions has been computed."),
        ],
    );
}
