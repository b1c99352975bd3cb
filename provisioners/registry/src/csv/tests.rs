use serde_json::json;

use super::*;

#[test]
fn null_is_absent_and_unknown_fields_are_ignored() {
    let csv = Csv::read(json!({
        "metadata": {"name": "a.v1", "annotations": null, "labels": {"x": "y"}},
        "spec": {"install": {"spec": {"deployments": null, "permissions": [{"rules": null}]}}, "icon": 5,
            "webhookdefinitions": null, "installModes": [{"type": "AllNamespaces", "supported": true}]},
    }))
    .unwrap();
    assert_eq!(csv.metadata.name, "a.v1");
    assert_eq!(csv.spec.install.spec.permissions, [Permission::default()]);
    assert_eq!(csv.supported_modes(), ["AllNamespaces"]);
}

#[test]
fn a_wrong_type_is_reported_with_its_path() {
    let field = |value| Csv::read(value).unwrap_err().to_string();
    let modes = field(json!({"spec": {"installModes": [{"type": "A", "supported": "yes"}]}}));
    assert!(modes.starts_with("spec.installModes[0].supported: invalid type: string"), "{modes}");
    let replicas = field(json!({"spec": {"install": {"spec": {"deployments": [
        {"name": "a", "spec": {}}, {"name": "b", "spec": {"replicas": "3"}}]}}}}));
    assert!(replicas.contains("spec.install.spec.deployments[1]"), "{replicas}");
    assert!(replicas.contains("spec.replicas: invalid type: string"), "{replicas}");
}

#[test]
fn fields_that_kubernetes_does_not_know_are_left_out_and_named() {
    let csv = Csv::read(json!({"spec": {"install": {"spec": {"deployments": [{"name": "a", "spec": {
        "strategi": {}, "template": {"spec": {"containers": [{"name": "c", "port": 1,
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}}}}]}}}}))
    .unwrap();
    let deployment = &csv.spec.install.spec.deployments[0];
    assert_eq!(deployment.unknown_fields.lines(), ["spec.strategi", "spec.template.spec.containers[0].port"]);
    let kept = serde_json::to_value(&deployment.spec).unwrap();
    assert_eq!(kept["template"]["spec"]["containers"][0]["resources"]["limits"], json!({"cpu": "1", "memory": "1Gi"}));
}

#[test]
fn an_absent_port_is_443() {
    let webhook = Webhook { container_port: 0, ..Webhook::default() };
    assert_eq!((webhook.port(), webhook.webhook_kind()), (443, None));
}

/// What a node of a Deployment counts for (`load::TYPED`) is chosen by these.
#[test]
fn typed_structures_are_no_larger_than_what_their_nodes_count_for() {
    use k8s_openapi::api::core::v1::{Container, EnvVar, EphemeralContainer, PodSpec, Probe, Volume, VolumeMount};
    let largest = [
        size_of::<Deployment>(),
        size_of::<Container>(),
        size_of::<EphemeralContainer>(),
        size_of::<Volume>(),
        size_of::<PodSpec>(),
        size_of::<Probe>(),
        size_of::<EnvVar>(),
        size_of::<VolumeMount>(),
    ];
    assert!(largest.iter().all(|size| *size <= 4096), "{largest:?}");
}
