//! Pods.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::{Condition, Object};
use super::{Health, State};

/// How long after its creation a Pod may be unschedulable before that counts as a failure.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

pub(super) fn pod(object: &Object<'_>, conditions: &[Condition<'_>], now: Timestamp) -> Health {
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
