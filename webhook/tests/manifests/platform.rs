//! PlatformOperators on any cluster: `overlays/platform`.

use serde_json::{Value, json};

use super::build::{Objects, build, documents, folder, get, keyed, manager};
use super::{assert_rendered, installed};

/// Of the ServiceAccount and of the Deployment.
pub const MANAGER: &str = "platform-operators-controller-manager";

fn rendered() -> Objects {
    keyed(documents(&folder().join("install-platform.yaml")))
}

#[test]
fn install_platform_yaml_is_the_platform_overlay() {
    assert_rendered(&build(&folder().join("overlays/platform")), &rendered());
}

#[test]
fn it_is_the_usual_installation_and_the_manager() {
    let (usual, mut rendered) = (installed(), rendered());
    for (key, object) in &usual {
        assert!(rendered.remove(key).as_ref() == Some(object), "{key:?}");
    }
    assert!(rendered.keys().all(|(_, name)| name.starts_with("platform")), "{:?}", rendered.keys());
    let image = |name: &str, objects: &Objects| manager(get(objects, "Deployment", name))["image"].clone();
    assert_eq!(image(MANAGER, &rendered), image("core", &usual));
}

#[test]
fn the_manager_is_reached_probed_and_given_a_catalog() {
    let objects = rendered();
    let deployment = get(&objects, "Deployment", MANAGER);
    let container = manager(deployment);
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert!(arguments.iter().any(|argument| argument.starts_with("--catalog=")), "{arguments:?}");
    assert_eq!(container["command"], json!(["/rukpak-platform"]));
    for (flag, name) in [("--metrics-bind-address=:", "metrics"), ("--health-probe-bind-address=:", "health")] {
        let port: u16 = arguments.iter().find_map(|argument| argument.strip_prefix(flag)).unwrap().parse().unwrap();
        assert!(container["ports"].as_array().unwrap().contains(&json!({"name": name, "containerPort": port})));
    }
    assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/healthz", "port": "health"}));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "health"}));
    let storage = arguments.iter().find_map(|argument| argument.strip_prefix("--storage-dir=")).unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| storage.starts_with(mount["mountPath"].as_str().unwrap())), "{storage}");
    let service = get(&objects, "Service", "platform-operators-controller-manager-metrics-service");
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "metrics");
}

#[test]
fn the_example_of_catalogs_mounts_what_its_flags_name() {
    let objects = build(&folder().join("overlays/catalogs"));
    let deployment = get(&objects, "Deployment", MANAGER);
    let container = manager(deployment);
    let list = |value: &Value| value.as_array().unwrap().clone();
    let (mounts, volumes) =
        (list(&container["volumeMounts"]), list(&deployment["spec"]["template"]["spec"]["volumes"]));
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    for (begin, kind) in [("--catalog=internal=dir:", "configMap"), ("--registry-auth-file=", "secret")] {
        let path = arguments.iter().find_map(|argument| argument.strip_prefix(begin)).unwrap();
        let mount = mounts.iter().find(|mount| path.starts_with(mount["mountPath"].as_str().unwrap())).unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        assert!(volume[kind].is_object() && mount["readOnly"] == true, "{path}: {volume}");
        if let Some(item) = volume[kind].pointer("/items/0/path") {
            assert!(path.ends_with(&format!("/{}", item.as_str().unwrap())), "{path}");
        }
    }
}

/// What may be written at all, and where: everything else is read.
#[test]
fn the_manager_writes_little() {
    let objects = rendered();
    let mut written = Vec::new();
    for role in
        [("ClusterRole", "platform-operators-manager-role"), ("Role", "platform-operators-leader-election-role")]
    {
        for rule in get(&objects, role.0, role.1)["rules"].as_array().unwrap() {
            let strings = |name: &str| rule[name].as_array().cloned().unwrap_or_default();
            let writes = |verb: &Value| !["get", "list", "watch"].iter().any(|read| verb == read);
            for verb in strings("verbs").into_iter().filter(writes) {
                let names = strings("resourceNames");
                written
                    .extend(strings("resources").into_iter().map(|resource| (verb.clone(), resource, names.clone())));
            }
        }
    }
    let words = |(verb, resource, names): &(Value, Value, Vec<Value>)| {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        format!("{} {} {}", verb.as_str().unwrap(), resource.as_str().unwrap(), names.join(" ")).trim_end().to_owned()
    };
    let mut written: Vec<String> = written.iter().map(words).collect();
    written.sort();
    let expected = [
        "create bundledeployments",
        "create events",
        "create leases",
        "create plans",
        "create platformoperators",
        "delete plans",
        "patch bundledeployments",
        "patch clusteroperators/status platform-operators-aggregated",
        "patch leases ffdf93bc.openshift.io",
        "patch plans/status",
        "patch platformoperators",
        "patch platformoperators/status",
        "update platformoperators/finalizers",
    ];
    assert_eq!(written, expected);
}
