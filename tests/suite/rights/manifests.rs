//! What needs no cluster: verbs that are never granted, and Pods that the namespace lets in.

use serde_json::{Value, json};

use super::installed;

#[test]
fn no_rule_grants_every_verb_and_nobody_is_cluster_admin() {
    for role in installed("ClusterRole").into_iter().chain(installed("Role")) {
        for rule in role.data["rules"].as_array().into_iter().flatten() {
            let verbs = rule["verbs"].as_array().expect("verbs");
            assert!(!verbs.is_empty() && !verbs.contains(&json!("*")), "{:?}: {rule}", role.metadata.name);
        }
    }
    for binding in installed("ClusterRoleBinding").into_iter().chain(installed("RoleBinding")) {
        assert_ne!(binding.data["roleRef"]["name"], "cluster-admin", "{:?}", binding.metadata.name);
    }
}

/// The Pod security standard `restricted`, field by field as the documentation of Kubernetes lists it.
#[test]
fn the_namespace_lets_our_pods_in() {
    let [namespace] = installed("Namespace").try_into().expect("one namespace");
    let labels = namespace.metadata.labels.expect("it has labels");
    // For upstream's clients, which start a Pod here.
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "baseline");
    assert_eq!(labels["pod-security.kubernetes.io/warn"], "restricted");
    let deployments = installed("Deployment");
    assert_eq!(deployments.len(), 2);
    for deployment in deployments {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let pod = &deployment.data["spec"]["template"]["spec"];
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            assert_ne!(pod[field], true, "{name}: {field}");
        }
        let volumes = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            let mut kinds = volume.as_object().expect("a volume").keys().filter(|key| *key != "name");
            assert!(kinds.all(|kind| volumes.contains(&kind.as_str())), "{name}: {volume}");
        }
        check_security(&name, pod, &pod["securityContext"]);
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        for container in lists.iter().flat_map(|list| pod[*list].as_array().into_iter().flatten()) {
            check_container(&name, pod, container);
        }
    }
}

fn check_security(name: &str, pod: &Value, security: &Value) {
    let either = |field: &str| security.get(field).or_else(|| pod["securityContext"].get(field)).cloned();
    assert_eq!(either("runAsNonRoot"), Some(json!(true)), "{name}");
    assert_ne!(either("runAsUser"), Some(json!(0)), "{name}");
    let profile = either("seccompProfile").expect("a seccomp profile");
    assert!(["RuntimeDefault", "Localhost"].iter().any(|kind| profile["type"] == *kind), "{name}: {profile}");
    for field in ["seLinuxOptions", "appArmorProfile", "windowsOptions", "sysctls"] {
        assert!(security.get(field).is_none(), "{name}: {field} is not needed");
    }
}

fn check_container(name: &str, pod: &Value, container: &Value) {
    let security = &container["securityContext"];
    check_security(name, pod, security);
    assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
    assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}), "{name}");
    assert!(security.get("privileged").is_none_or(|privileged| privileged == false), "{name}");
    assert!(security.get("procMount").is_none_or(|mount| mount == "Default"), "{name}");
    let ports: Vec<&Value> = container["ports"].as_array().into_iter().flatten().collect();
    assert!(ports.iter().all(|port| port.get("hostPort").is_none_or(|port| port == 0)), "{name}");
    // A probe that names a port names one that is open.
    for probe in ["livenessProbe", "readinessProbe"] {
        let port = &container[probe]["httpGet"]["port"];
        assert!(ports.iter().any(|open| open["name"] == *port), "{name}: {probe} asks {port}");
    }
}
