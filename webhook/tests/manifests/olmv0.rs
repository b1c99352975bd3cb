//! OLM v0's API on any cluster: `overlays/olmv0`.

use serde_json::{Value, json};

use super::assert_rendered;
use super::build::{Objects, build, documents, folder, get, keyed, manager};
use super::platform::MANAGER;

fn rendered() -> Objects {
    keyed(documents(&folder().join("install-olmv0.yaml")))
}

#[test]
fn install_olmv0_yaml_is_the_olmv0_overlay() {
    assert_rendered(&build(&folder().join("overlays/olmv0")), &rendered());
}

#[test]
fn it_is_everything_of_the_platform_overlay_and_the_kinds_are_followed() {
    let (platform, mut rendered) = (keyed(documents(&folder().join("install-platform.yaml"))), rendered());
    let arguments = manager(get(&rendered, "Deployment", MANAGER))["args"].clone();
    assert!(arguments.as_array().unwrap().contains(&json!("--olmv0=on")), "{arguments}");
    for (key, object) in platform.iter().filter(|((_, name), _)| name != MANAGER) {
        assert!(rendered.remove(key).as_ref() == Some(object), "{key:?}");
    }
}

#[test]
fn the_api_server_finds_packages_where_they_are_served() {
    let objects = rendered();
    let container = manager(get(&objects, "Deployment", MANAGER));
    assert!(container["args"].as_array().unwrap().contains(&json!("--packages-bind-address=:8444")));
    let port = json!({"name": "packages", "containerPort": 8444});
    assert!(container["ports"].as_array().unwrap().contains(&port));
    let spec = &get(&objects, "APIService", "v1.packages.operators.coreos.com")["spec"];
    let service = get(&objects, "Service", spec["service"]["name"].as_str().unwrap());
    assert_eq!(spec["service"]["namespace"], service["metadata"]["namespace"]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "packages");
    // Applying the manifest again must not empty it.
    assert_eq!(spec.get("caBundle"), None);
}

#[test]
fn clients_of_catalogs_find_the_registry_where_it_is_served() {
    let objects = rendered();
    let container = manager(get(&objects, "Deployment", MANAGER));
    let port = &get(&objects, "Service", "rukpak-registry-service")["spec"]["ports"][0];
    assert_eq!((&port["port"], &port["targetPort"]), (&json!(50051), &json!("registry")));
    assert!(container["args"].as_array().unwrap().contains(&json!("--registry-bind-address=:50051")));
    assert!(container["ports"].as_array().unwrap().contains(&json!({"name": "registry", "containerPort": 50051})));
}

/// Whoever has `admin` or `edit` in a namespace may look, and no more: a Subscription can install with the rights of the controller.
#[test]
fn only_reading_is_given_to_whoever_administers_a_namespace() {
    let objects = rendered();
    let aggregated = "rbac.authorization.k8s.io/aggregate-to-edit";
    let mut read = 0;
    for ((kind, name), role) in &objects {
        let of_olm = |rule: &&Value| rule["apiGroups"] == json!(["operators.coreos.com"]);
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        if kind != "ClusterRole" || role["metadata"]["labels"][aggregated].is_null() {
            continue;
        }
        for rule in rules.iter().filter(of_olm) {
            read += 1;
            assert_eq!(rule["verbs"], json!(["get", "list", "watch"]), "{name}");
        }
    }
    assert_eq!(read, 1);
    let asks = get(&objects, "ClusterRole", "subscription-editor-role")["rules"].to_string();
    assert!(!asks.contains("\"update\",\"patch\",\"delete\"],\"resources\":[\"operatorgroups"), "{asks}");
}

/// Beside what PlatformOperators need.
#[test]
fn the_manager_writes_what_follows_from_subscriptions() {
    let objects = rendered();
    let mut written = Vec::new();
    for rule in get(&objects, "ClusterRole", "subscriptions-manager-role")["rules"].as_array().unwrap() {
        let strings = |field: &str| -> Vec<String> {
            let list = rule[field].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        for verb in strings("verbs").iter().filter(|verb| !["get", "list", "watch"].contains(&verb.as_str())) {
            written.extend(strings("resources").iter().map(|resource| format!("{verb} {resource}")));
        }
    }
    written.sort();
    let expected = [
        "create clusterserviceversions",
        "create installplans",
        "create operators",
        "create services",
        "create subjectaccessreviews",
        "delete bundledeployments",
        "delete clusterserviceversions",
        "delete installplans",
        "impersonate serviceaccounts",
        "patch apiservices",
        "patch catalogsources/status",
        "patch clusterserviceversions",
        "patch clusterserviceversions/status",
        "patch installplans",
        "patch installplans/status",
        "patch olmconfigs/status",
        "patch operatorgroups/status",
        "patch operators",
        "patch operators/status",
        "patch services",
        "patch subscriptions/status",
    ];
    assert_eq!(written, expected);
}
