//! The rules of single kinds: what the cluster itself provides (APIs, services, volumes), Pods, and their controllers.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::{Condition, Object};
use super::{Health, State};

/// The value by which the Deployment controller knows "no deadline"; it then never writes `Progressing`.
const NO_DEADLINE: i64 = i32::MAX as i64;
/// How long after its creation a Pod may be unschedulable before that counts as a failure.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

/// Step 6 of the list: what the rule of its kind says of an object. `None` if it has none.
pub(super) fn by_kind(object: &Object<'_>, conditions: &[Condition<'_>], now: Timestamp) -> Option<Health> {
    Some(match (object.group, object.kind) {
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") => Health::current("Resource is always ready"),
        ("", "PersistentVolumeClaim") => persistent_volume_claim(object),
        ("", "Pod") => pod(object, conditions, now),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => custom_resource_definition(conditions),
        ("apps" | "extensions", "DaemonSet") => daemon_set(object),
        ("apps" | "extensions", "Deployment") => deployment(object, conditions),
        ("apps" | "extensions", "ReplicaSet") => replica_set(object, conditions),
        ("apps", "StatefulSet") => stateful_set(object),
        ("batch", "Job") => job(object, conditions),
        // Its controller writes nothing but the observed generation, which step 3 has compared.
        ("policy", "PodDisruptionBudget") => Health::current("AllowedDisruptions has been computed."),
        _ => return None,
    })
}

/// Whether the rule for APIServices applies; it is written for this version only.
pub(super) fn is_api_service(group: &str, version: &str, kind: &str) -> bool {
    (group, version, kind) == ("apiregistration.k8s.io", "v1", "APIService")
}

/// An APIService needs an `Available` condition that is not False; Unknown passes, as upstream has it.
pub(super) fn api_service(conditions: &[Condition<'_>]) -> Health {
    match conditions.iter().find(|c| c.name == "Available") {
        None => Health::in_progress("Available condition not found"),
        Some(available) if available.is_false() => Health::in_progress(available.message),
        Some(_) => Health::current("APIService is available"),
    }
}

/// In the order of the list: the API server writes `NamesAccepted` before `Established`.
fn custom_resource_definition(conditions: &[Condition<'_>]) -> Health {
    conditions
        .iter()
        .find_map(|c| match (c.name, c.status) {
            ("NamesAccepted", "False") => Some(Health::failed(c.message)),
            ("Established", "False") if c.reason != "Installing" => Some(Health::failed(c.message)),
            ("Established", "True") => Some(Health::current("CRD is established")),
            _ => None,
        })
        .unwrap_or_else(|| Health::in_progress("Install in progress"))
}

/// A load balancer's address is not waited for, only the cluster's own.
fn service(object: &Object<'_>) -> Health {
    if object.text("/spec/type") == "LoadBalancer" && object.text("/spec/clusterIP").is_empty() {
        return Health::in_progress("ClusterIP not set. Service type: LoadBalancer");
    }
    Health::current("Service is ready")
}

fn persistent_volume_claim(object: &Object<'_>) -> Health {
    match object.text("/status/phase") {
        "Bound" => Health::current("PVC is Bound"),
        "" => Health::in_progress("PVC is not Bound. phase: unknown"),
        phase => Health::in_progress(format!("PVC is not Bound. phase: {phase}")),
    }
}

fn pod(object: &Object<'_>, conditions: &[Condition<'_>], now: Timestamp) -> Health {
    match object.text("/status/phase") {
        "Succeeded" => Health::current("Pod has completed successfully"),
        "Failed" => Health::current("Pod has completed, but not successfully"),
        "Running" => running(object, conditions),
        "Pending" => pending(object, conditions, now),
        "" => Health::in_progress("Pod phase not available"),
        phase => Health::new(State::Unknown, format!("unknown phase {phase}")),
    }
}

fn running(object: &Object<'_>, conditions: &[Condition<'_>]) -> Health {
    if conditions.iter().any(|c| c.name == "Ready" && c.is_true()) {
        return Health::current("Pod is Ready");
    }
    let crashing: Vec<&str> = object
        .list("/status/containerStatuses")
        .iter()
        .filter(|container| text(container, "/state/waiting/reason") == Some("CrashLoopBackOff"))
        .filter_map(|container| text(container, "/name"))
        .collect();
    if crashing.is_empty() {
        return Health::in_progress("Pod is running but is not Ready");
    }
    Health::failed(format!("Containers in CrashLoop state: {}", crashing.join(",")))
}

fn pending(object: &Object<'_>, conditions: &[Condition<'_>], now: Timestamp) -> Health {
    let unschedulable = conditions
        .iter()
        .find(|c| c.name == "PodScheduled" && c.is_false())
        .is_some_and(|c| c.reason == "Unschedulable");
    if !unschedulable {
        return Health::in_progress("Pod is in the Pending phase");
    }
    let created: Option<Timestamp> = object.text("/metadata/creationTimestamp").parse().ok();
    if created.is_some_and(|created| now.duration_since(created) < SCHEDULE_WINDOW) {
        return Health::in_progress("Pod has not been scheduled");
    }
    Health::failed("Pod could not be scheduled")
}

fn text<'a>(container: &'a Value, pointer: &str) -> Option<&'a str> {
    container.pointer(pointer).and_then(Value::as_str)
}

fn deployment(object: &Object<'_>, conditions: &[Condition<'_>]) -> Health {
    let deadline_exceeded = |c: &Condition<'_>| c.name == "Progressing" && c.reason == "ProgressDeadlineExceeded";
    if conditions.iter().any(deadline_exceeded) {
        return Health::failed("Progress deadline exceeded");
    }
    let wanted = object.count("/spec/replicas", 1);
    let replicas = object.count("/status/replicas", 0);
    let updated = object.count("/status/updatedReplicas", 0);
    fewer("Replicas", replicas, wanted)
        .or_else(|| fewer("Updated", updated, wanted))
        .or_else(|| surplus(replicas, wanted))
        .or_else(|| fewer("Available", object.count("/status/availableReplicas", 0), updated))
        .or_else(|| fewer("Ready", object.count("/status/readyReplicas", 0), wanted))
        .or_else(|| rollout_unfinished(object, conditions))
        .unwrap_or_else(|| Health::current(format!("Deployment is available. Replicas: {replicas}")))
}

/// What the conditions of a Deployment with the right numbers still lack.
fn rollout_unfinished(object: &Object<'_>, conditions: &[Condition<'_>]) -> Option<Health> {
    let progressed = object.count("/spec/progressDeadlineSeconds", NO_DEADLINE) == NO_DEADLINE
        || conditions.iter().any(|c| c.name == "Progressing" && c.is_true() && c.reason == "NewReplicaSetAvailable");
    let available = conditions.iter().any(|c| c.name == "Available" && c.is_true());
    match (progressed, available) {
        (false, _) => Some(Health::in_progress("ReplicaSet not Available")),
        (true, false) => Some(Health::in_progress("Deployment not Available")),
        (true, true) => None,
    }
}

fn replica_set(object: &Object<'_>, conditions: &[Condition<'_>]) -> Health {
    if conditions.iter().any(|c| c.name == "ReplicaFailure" && c.is_true()) {
        return Health::in_progress("Replica Failure condition. Check Pods");
    }
    let wanted = object.count("/spec/replicas", 1);
    let replicas = object.count("/status/replicas", 0);
    fewer("Labelled", object.count("/status/fullyLabeledReplicas", 0), wanted)
        .or_else(|| fewer("Available", object.count("/status/availableReplicas", 0), wanted))
        .or_else(|| fewer("Ready", object.count("/status/readyReplicas", 0), wanted))
        .or_else(|| surplus(replicas, wanted))
        .unwrap_or_else(|| Health::current(format!("ReplicaSet is available. Replicas: {replicas}")))
}

/// A StatefulSet's controller writes no conditions, so numbers and revisions are all there is to see.
fn stateful_set(object: &Object<'_>) -> Health {
    if object.text("/spec/updateStrategy/type") == "OnDelete" {
        return Health::current("StatefulSet is using the ondelete update strategy");
    }
    let wanted = object.count("/spec/replicas", 1);
    let replicas = object.count("/status/replicas", 0);
    fewer("Replicas", replicas, wanted)
        .or_else(|| fewer("Ready", object.count("/status/readyReplicas", 0), wanted))
        .or_else(|| surplus(replicas, wanted))
        .unwrap_or_else(|| stateful_rollout(object, wanted, replicas))
}

/// How far the update of a StatefulSet with the right number of ready pods is. With a partition only the pods above it
/// are updated, and the revisions differ for good.
fn stateful_rollout(object: &Object<'_>, wanted: i64, replicas: i64) -> Health {
    let partition = object.count("/spec/updateStrategy/rollingUpdate/partition", -1);
    if partition != -1 {
        let updated = object.count("/status/updatedReplicas", 0);
        return fewer("updated", updated, wanted.saturating_sub(partition))
            .unwrap_or_else(|| Health::current(format!("Partition rollout complete. updated: {updated}")));
    }
    if let Some(health) = fewer("current", object.count("/status/currentReplicas", 0), wanted) {
        return health;
    }
    if object.text("/status/currentRevision") != object.text("/status/updateRevision") {
        return Health::in_progress("Waiting for updated revision to match current");
    }
    Health::current(format!("All replicas scheduled as expected. Replicas: {replicas}"))
}

/// A DaemonSet that its controller has seen has both generations; the general rule would let their absence pass.
fn daemon_set(object: &Object<'_>) -> Health {
    for (section, read) in
        [("metadata.generation", object.generation()), ("status.observedGeneration", object.observed_generation())]
    {
        if !matches!(read, Ok(Some(_))) {
            return Health::in_progress(format!("{} {section} not found", object.kind));
        }
    }
    let wanted = object.count("/status/desiredNumberScheduled", -1);
    if wanted == -1 {
        return Health::in_progress("Missing .status.desiredNumberScheduled");
    }
    fewer("Current", object.count("/status/currentNumberScheduled", 0), wanted)
        .or_else(|| fewer("Updated", object.count("/status/updatedNumberScheduled", 0), wanted))
        .or_else(|| fewer("Available", object.count("/status/numberAvailable", 0), wanted))
        .or_else(|| fewer("Ready", object.count("/status/numberReady", 0), wanted))
        .unwrap_or_else(|| Health::current(format!("All replicas scheduled as expected. Replicas: {wanted}")))
}

/// A Job is current as soon as it runs.
fn job(object: &Object<'_>, conditions: &[Condition<'_>]) -> Health {
    let completions = object.count("/spec/completions", object.count("/spec/parallelism", 1));
    let succeeded = object.count("/status/succeeded", 0);
    let failed = object.count("/status/failed", 0);
    let ended = conditions.iter().filter(|c| c.is_true()).find_map(|c| match c.name {
        "Complete" => Some(Health::current(format!("Job Completed. succeeded: {succeeded}/{completions}"))),
        "Failed" => Some(Health::failed(format!("Job Failed. failed: {failed}/{completions}"))),
        // The condition outlives a resumption until the controller looks again.
        "Suspended" if object.flag("/spec/suspend") => Some(Health::current("Job is suspended")),
        _ => None,
    });
    if let Some(health) = ended {
        return health;
    }
    if object.text("/status/startTime").is_empty() {
        return Health::in_progress("Job not started");
    }
    let active = object.count("/status/active", 0);
    Health::current(format!("Job in progress. success:{succeeded}, active: {active}, failed: {failed}"))
}

fn fewer(what: &str, have: i64, wanted: i64) -> Option<Health> {
    (have < wanted).then(|| Health::in_progress(format!("{what}: {have}/{wanted}")))
}

fn surplus(have: i64, wanted: i64) -> Option<Health> {
    (have > wanted).then(|| Health::in_progress(format!("Pending termination: {}", have.saturating_sub(wanted))))
}
