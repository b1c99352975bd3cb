//! OLM v1's API on any cluster: `overlays/olm`.

use rukpak_crds::olm::ClusterCatalog;
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
        "ClusterRole catalogd-metrics-reader",
        "ClusterRole clustercatalog-editor-role",
        "ClusterRole clusterextension-editor-role",
        "ClusterRole clusterextension-viewer-role",
        "ClusterRole clusterextensions-manager-role",
        "ClusterRole clusterobjectset-editor-role",
        "ClusterRole operator-controller-metrics-reader",
        "ClusterRoleBinding clusterextensions-manager-rolebinding",
        "CustomResourceDefinition clustercatalogs.olm.operatorframework.io",
        "CustomResourceDefinition clusterextensions.olm.operatorframework.io",
        "CustomResourceDefinition clusterobjectsets.olm.operatorframework.io",
        "Deployment platform-operators-controller-manager",
        "Role clustercatalogs-certificate",
        "Role clusterobjectsets-content",
        "RoleBinding clustercatalogs-certificate",
        "RoleBinding clusterobjectsets-content",
        "Service catalogd-service",
        "Service operator-controller-service",
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

/// It is what upstream's tutorials wait for first.
#[test]
fn the_default_catalog_is_upstreams_and_says_nothing_that_nobody_reads() {
    let objects = keyed(documents(&folder().join("olm-default-catalogs.yaml")));
    let catalog = get(&objects, "ClusterCatalog", "operatorhubio");
    let read: ClusterCatalog = serde_json::from_value(catalog.clone()).unwrap();
    assert_eq!(json!(read.spec)["source"], catalog["spec"]["source"]);
    assert_eq!(catalog["spec"]["source"]["image"]["ref"], "quay.io/operatorhubio/catalog:latest");
}

#[test]
fn metrics_are_scraped_where_those_of_upstream_were() {
    let objects = rendered();
    for (component, port) in [("catalogd", 7443), ("operator-controller", 8443)] {
        let service = get(&objects, "Service", &format!("{component}-service"));
        let open = json!({"name": "metrics", "port": port, "targetPort": 8443, "protocol": "TCP"});
        assert!(service["spec"]["ports"].as_array().unwrap().contains(&open), "{service}");
        let role = get(&objects, "ClusterRole", &format!("{component}-metrics-reader"));
        assert_eq!(role["rules"], json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
    }
}

/// Upstream's end-to-end tests among them.
#[test]
fn tools_of_upstream_find_what_they_look_for_by_its_names() {
    let (mut usual, mut named) = (rendered(), build(&folder().join("overlays/olm-names")));
    let key = |name: &str| ("Deployment".to_owned(), name.to_owned());
    let original = usual.remove(&key(MANAGER)).unwrap();
    for component in ["operator-controller", "catalogd"] {
        let deployment = named.remove(&key(&format!("{component}-controller-manager"))).unwrap();
        // Either may lead.
        assert_eq!(manager(&deployment), manager(&original), "{component}");
        let service = get(&named, "Service", &format!("{component}-service"));
        let labels = json!({"app": "platform-operators", "app.kubernetes.io/name": component});
        assert_eq!(service["spec"]["selector"], labels);
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
        assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], labels);
        for object in [service, &deployment] {
            assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/part-of"], "olm", "{component}");
        }
        let selected = format!("{component}-controller-manager");
        assert_eq!(service["metadata"]["labels"]["control-plane"], json!(selected));
    }
    assert_eq!(named.keys().collect::<Vec<_>>(), usual.keys().collect::<Vec<_>>(), "the rest is as it was");
}

/// Beside what PlatformOperators need: ClusterExtensions that others depend on, metadata and statuses of OLM's kinds, the phases of
/// ClusterObjectSets with their Secrets, sets that show revisions, and questions that are not kept.
#[test]
fn the_manager_writes_little_more() {
    let objects = rendered();
    let mut written = Vec::new();
    for (kind, name) in [
        ("ClusterRole", "clusterextensions-manager-role"),
        ("Role", "clustercatalogs-certificate"),
        ("Role", "clusterobjectsets-content"),
    ] {
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
        "create clusterobjectsets",
        "create secrets",
        "create secrets catalogd-service-cert catalogd-ca",
        "create subjectaccessreviews",
        "create tokenreviews",
        "delete bundledeployments",
        "delete clusterobjectsets",
        "delete secrets",
        "patch clustercatalogs",
        "patch clustercatalogs/status",
        "patch clusterextensions",
        "patch clusterextensions/status",
        "patch clusterobjectsets",
        "patch clusterobjectsets/status",
        "patch secrets",
        "patch secrets catalogd-service-cert catalogd-ca",
        "update clusterextensions/finalizers",
        "update clusterobjectsets/finalizers",
    ];
    assert_eq!(written, expected);
}
