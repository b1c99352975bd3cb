//! The rules of single kinds: what the cluster itself provides (APIs, services, volumes), Pods, and their controllers; and why Pods do not
//! run, which their controllers only count.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Condition, Health, Object, State};

/// The value by which the Deployment controller knows "no deadline"; it then never writes `Progressing`.
const NO_DEADLINE: i64 = i32::MAX as i64;
/// How long after its creation a Pod may be unschedulable before that counts as a failure.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);
/// Longest text of a Pod that is told. A status is no log.
const LONGEST: usize = 300;
/// What every container waits for at first.
const ON_THE_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Whether the body of an object of this kind can change its health.
///
/// False for the kinds of Kubernetes itself that have neither conditions nor an observed generation, and so no state
/// but [`State::Current`] and, told by their metadata alone, [`State::Terminating`]. True for every other kind.
pub fn has_rule(group: &str, kind: &str) -> bool {
    !matches!(
        (group, kind),
        ("", "ConfigMap" | "Secret" | "ServiceAccount" | "LimitRange" | "ResourceQuota" | "Endpoints" | "PodTemplate")
            | ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
            | ("apps", "ControllerRevision")
            | ("batch", "CronJob")
            | ("coordination.k8s.io", "Lease")
            | ("discovery.k8s.io", "EndpointSlice")
            | ("networking.k8s.io", "IngressClass" | "NetworkPolicy")
            | ("node.k8s.io", "RuntimeClass")
            | ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("storage.k8s.io", "CSIDriver" | "StorageClass")
    )
}

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

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
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

/// Whether objects of this kind make Pods.
pub fn has_pods(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") | ("batch", "Job"))
}

/// The labels of the Pods of `object`, if it is a workload that makes some, as a label selector.
pub fn pods_of(object: &Value) -> Option<String> {
    let (group, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let group = group.split_once('/').map(|(group, _)| group).filter(|group| has_pods(group, kind));
    let labels = object.pointer("/spec/selector/matchLabels").filter(|_| group.is_some())?.as_object()?;
    let labels: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

/// Why the first of these Pods, whole objects, does not run, by name; `None` if nothing is wrong with any of them.
///
/// The Pod with its container and the reason and message of the kubelet: `pod "a-1", container "c": ImagePullBackOff: Back-off
/// pulling image "x"`. An exit code where a container ended, the scheduler's words where no node takes the Pod.
pub fn trouble(pods: &[Value]) -> Option<String> {
    let mut pods: Vec<&Value> = pods.iter().collect();
    pods.sort_by_key(|pod| text_or_empty(pod, "/metadata/name"));
    pods.into_iter().find_map(|pod| {
        let why = container(pod).or_else(|| unscheduled(pod))?;
        Some(bounded(&format!("pod {:?}{why}", text_or_empty(pod, "/metadata/name"))))
    })
}

fn container(pod: &Value) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
    statuses.into_iter().find_map(|status| {
        let name = text_or_empty(status, "/name");
        let ended = ["/state/terminated", "/lastState/terminated"].iter().find_map(|at| status.pointer(at));
        let code = ended.and_then(|ended| ended["exitCode"].as_i64()).filter(|code| *code != 0);
        let code = code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
        match (text_or_empty(status, "/state/waiting/reason"), text_or_empty(status, "/state/waiting/message")) {
            ("", _) => {
                let reason = text_or_empty(status, "/state/terminated/reason");
                (!code.is_empty() && !reason.is_empty()).then(|| format!(", container {name:?}: {reason}{code}"))
            }
            (reason, _) if ON_THE_WAY.contains(&reason) => None,
            (reason, "") => Some(format!(", container {name:?}: {reason}{code}")),
            (reason, message) => Some(format!(", container {name:?}: {reason}: {message}{code}")),
        }
    })
}

fn unscheduled(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled")?;
    let (reason, message) = (text_or_empty(scheduled, "/reason"), text_or_empty(scheduled, "/message"));
    (scheduled["status"] == "False" && !message.is_empty()).then(|| format!(": {reason}: {message}"))
}

fn text_or_empty<'a>(value: &'a Value, pointer: &str) -> &'a str {
    text(value, pointer).unwrap_or_default()
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, status: &Value) -> Value {
        json!({"metadata": {"name": name}, "status": status})
    }

    fn waiting(reason: &str, message: &str) -> Value {
        json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}]})
    }

    #[test]
    fn the_first_pod_that_does_not_run_is_told_of() {
        let fine = json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]});
        let pods = [
            pod("d", &waiting("ErrImagePull", "no such image")),
            pod("a", &fine),
            pod("b", &waiting("ContainerCreating", "")),
            pod("c", &waiting("ImagePullBackOff", "Back-off pulling image \"x\"")),
        ];
        let told = "pod \"c\", container \"c\": ImagePullBackOff: Back-off pulling image \"x\"";
        assert_eq!(trouble(&pods).as_deref(), Some(told));
        assert_eq!(trouble(&pods[1..3]), None);
        assert_eq!(trouble(&[json!({}), json!(null)]), None);
    }

    #[test]
    fn exit_codes_and_the_words_of_the_scheduler_are_told() {
        let crashing = json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]});
        let told = |status: &Value| trouble(&[pod("a", status)]);
        assert_eq!(told(&crashing).as_deref(), Some("pod \"a\", container \"c\": CrashLoopBackOff (exit code 3)"));
        let init = json!({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]});
        assert_eq!(told(&init).as_deref(), Some("pod \"a\", container \"i\": Error (exit code 1)"));
        let done = json!({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
        assert_eq!(told(&done), None);
        let nowhere = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available"}]});
        assert_eq!(told(&nowhere).as_deref(), Some("pod \"a\": Unschedulable: 0/1 nodes are available"));
    }

    #[test]
    fn a_text_has_an_end() {
        let told = trouble(&[pod("a", &waiting("ErrImagePull", &"ä".repeat(1000)))]).unwrap();
        assert_eq!(told.chars().count(), LONGEST + 3);
    }
}
