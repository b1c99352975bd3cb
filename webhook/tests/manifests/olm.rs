//! OLM v1's API on any cluster: `overlays/olm`.

use serde_json::{Value, json};

use super::assert_rendered;
use super::build::{Objects, build, documents, folder, get, keyed, manager};
use super::platform::MANAGER;

fn rendered() -> Objects {
    keyed(documents(&folder().join("install-olm.yaml")))
}

#[test]
fn install_olm_yaml_is_the_olm_overlay() {
    assert_rendered(&build(&folder().join("overlays/olm")), &rendered());
}

#[test]
fn it_is_everything_of_the_platform_overlay_and_olms_kinds() {
    let (platform, mut rendered) = (keyed(documents(&folder().join("install-platform.yaml"))), rendered());
    for (key, object) in platform.iter().filter(|((_, name), _)| name != MANAGER) {
        assert!(rendered.remove(key).as_ref() == Some(object), "{key:?}");
    }
    let rest: Vec<String> = rendered.keys().map(|(kind, name)| format!("{kind} {name}")).collect();
    let expected = [
        "ClusterRole clustercatalog-editor-role",
        "ClusterRole clusterextension-editor-role",
        "ClusterRole clusterextension-viewer-role",
        "ClusterRole clusterextensions-manager-role",
        "ClusterRoleBinding clusterextensions-manager-rolebinding",
        "CustomResourceDefinition clustercatalogs.olm.operatorframework.io",
        "CustomResourceDefinition clusterextensions.olm.operatorframework.io",
        "Deployment platform-operators-controller-manager",
        "Role clustercatalogs-certificate",
        "RoleBinding clustercatalogs-certificate",
        "Service catalogd-service",
        "ServiceAccount platform-operators-controller-manager",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn who_may_ask_for_extensions_may_not_say_what_packages_are() {
    let objects = rendered();
    let rules = get(&objects, "ClusterRole", "clusterextension-editor-role")["rules"].as_array().unwrap();
    let on_catalogs =
        rules.iter().filter(|rule| rule["resources"].as_array().unwrap().contains(&json!("clustercatalogs")));
    let verbs: Vec<&Value> = on_catalogs.map(|rule| &rule["verbs"]).collect();
    assert_eq!(verbs, [&json!(["get", "list", "watch"])]);
}

#[test]
fn catalogs_are_served_under_the_name_that_catalogds_clients_know() {
    let objects = rendered();
    let deployment = get(&objects, "Deployment", MANAGER);
    let container = manager(deployment);
    let arguments = container["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--catalogs-bind-address=:8443")), "{arguments:?}");
    assert!(container["ports"].as_array().unwrap().contains(&json!({"name": "catalogs", "containerPort": 8443})));
    let service = get(&objects, "Service", "catalogd-service");
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(
        (&service["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["targetPort"]),
        // A number: `kubectl operator olmv1 search` forwards a port to it, and reads no names.
        (&json!(443), &json!(8443))
    );
}

/// Beside what PlatformOperators need: ClusterExtensions that others depend on, metadata and statuses of OLM's kinds, and two Secrets
/// by name.
#[test]
fn the_manager_writes_little_more() {
    let objects = rendered();
    let mut written = Vec::new();
    for (kind, name) in [("ClusterRole", "clusterextensions-manager-role"), ("Role", "clustercatalogs-certificate")] {
        for rule in get(&objects, kind, name)["rules"].as_array().unwrap() {
            let strings = |field: &str| -> Vec<String> {
                let list = rule[field].as_array().cloned().unwrap_or_default();
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let (names, resources) = (strings("resourceNames").join(" "), strings("resources"));
            for verb in strings("verbs").iter().filter(|verb| !["get", "list", "watch"].contains(&verb.as_str())) {
                let line = |resource: &String| format!("{verb} {resource} {names}").trim_end().to_owned();
                written.extend(resources.iter().map(line));
            }
        }
    }
    written.sort();
    let expected = [
        "create clusterextensions",
        "create secrets catalogd-service-cert catalogd-ca",
        "patch clustercatalogs",
        "patch clustercatalogs/status",
        "patch clusterextensions",
        "patch clusterextensions/status",
        "patch secrets catalogd-service-cert catalogd-ca",
        "update clusterextensions/finalizers",
    ];
    assert_eq!(written, expected);
}
