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
fn a_deployment_without_a_spec_keeps_its_labels() {
    let deployments = json!([{"name": "a", "label": {"x": "y"}}]);
    let csv = Csv::read(json!({"spec": {"install": {"spec": {"deployments": deployments}}}})).unwrap();
    assert_eq!(csv.spec.install.spec.deployments[0].label["x"], "y");
}

#[test]
fn a_name_that_is_too_long_is_refused_with_its_place() {
    let of = |bytes: usize| {
        let name = "a".repeat(bytes);
        let spec = |part: &str, value: serde_json::Value| json!({"spec": {part: value}});
        let install = |part: &str, value: serde_json::Value| spec("install", json!({"spec": {part: value}}));
        [
            ("metadata.name", json!({"metadata": {"name": name}})),
            ("spec.installModes[].type", spec("installModes", json!([{"type": name, "supported": true}]))),
            ("spec.install.spec.deployments[].name", install("deployments", json!([{"name": name, "spec": {}}]))),
            (
                "spec.install.spec.permissions[].serviceAccountName",
                install("clusterPermissions", json!([{"serviceAccountName": name}])),
            ),
            (
                "spec.customresourcedefinitions",
                spec("customresourcedefinitions", json!({"required": [{"kind": name}]})),
            ),
            ("spec.apiservicedefinitions", spec("apiservicedefinitions", json!({"owned": [{"group": name}]}))),
            ("spec.webhookdefinitions", spec("webhookdefinitions", json!([{"generateName": name}]))),
        ]
    };
    for (place, csv) in of(1025) {
        let error = Csv::read(csv).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.ends_with("is longer than 1024 bytes"), "{error}");
    }
    for (place, csv) in of(1024) {
        assert!(Csv::read(csv).is_ok(), "{place}");
    }
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
