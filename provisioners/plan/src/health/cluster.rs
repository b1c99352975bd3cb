//! What the cluster itself provides: APIs, services, volumes.

use super::Health;
use super::object::{Condition, Object};

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
pub(super) fn custom_resource_definition(conditions: &[Condition<'_>]) -> Health {
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
pub(super) fn service(object: &Object<'_>) -> Health {
    if object.text("/spec/type") == "LoadBalancer" && object.text("/spec/clusterIP").is_empty() {
        return Health::in_progress("ClusterIP not set. Service type: LoadBalancer");
    }
    Health::current("Service is ready")
}

pub(super) fn persistent_volume_claim(object: &Object<'_>) -> Health {
    match object.text("/status/phase") {
        "Bound" => Health::current("PVC is Bound"),
        "" => Health::in_progress("PVC is not Bound. phase: unknown"),
        phase => Health::in_progress(format!("PVC is not Bound. phase: {phase}")),
    }
}
