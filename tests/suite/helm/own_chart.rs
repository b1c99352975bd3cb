//! The chart of the programs themselves: it installs what the manifests install.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use rukpak_tests::plane::{Plane, yaml};
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Target};
use serde_json::{Value, json};

const IMAGE: &str = "registry.example.com/rukpak:v1";

/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Value>;

/// Runs Helm in the folder of the repository.
fn helm(arguments: &[&str]) -> Output {
    let mut helm = Command::new(tools::helm().expect("Helm is built"));
    helm.args(arguments).current_dir(tools::workspace_folder()).output().expect("Helm can be started")
}

/// What the chart renders with these values, for the namespace `rukpak-system` if no other is named.
fn render(values: &str, namespace: &str) -> Output {
    let versions = ["--kube-version", "1.30.0"];
    let arguments = [&["template", "r", "charts/rukpak-rs", "--namespace", namespace, "--set", values], &versions[..]];
    helm(&arguments.concat())
}

fn rendered(values: &str, namespace: &str) -> Objects {
    let output = render(values, namespace);
    assert!(output.status.success(), "{values}: {}", String::from_utf8_lossy(&output.stderr));
    objects(std::str::from_utf8(&output.stdout).expect("text"))
}

fn objects(text: &str) -> Objects {
    let objects = yaml::objects(text).expect("manifests").into_iter().map(|object| {
        let object = serde_json::to_value(object).expect("an object");
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        ((text("/kind"), text("/metadata/name")), object)
    });
    objects.collect()
}

fn key(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[test]
fn renders_the_manifests() {
    for (apis, file) in [
        ("core", "install.yaml"),
        ("platform", "install-platform.yaml"),
        ("olm", "install-olm.yaml"),
        ("olmv0", "install-olmv0.yaml"),
    ] {
        let path = tools::workspace_folder().join("manifests").join(file);
        let manifests = std::fs::read_to_string(path).expect("it is there");
        let mut expected = objects(&manifests.replace("registry.invalid/rukpak:set-me", IMAGE));
        assert!(expected.remove(&key("Namespace", "rukpak-system")).is_some(), "Helm makes it");
        for (_, definition) in expected.iter_mut().filter(|((kind, _), _)| kind == "CustomResourceDefinition") {
            definition["metadata"]["annotations"]["helm.sh/resource-policy"] = json!("keep");
        }
        let found = rendered(&format!("image={IMAGE},disruptionBudget=false,apis={apis}"), "rukpak-system");
        let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "{file}");
        for (key, object) in &expected {
            assert_eq!(found[key], *object, "{file}: {key:?}");
        }
    }
}

#[test]
fn renders_all_that_can_be_set() {
    let values = format!(
        "image={IMAGE},apis=olm,podMonitors=true,networkPolicies.apiServerCidr=192.0.2.1/32,imagePullSecrets[0].name=login,\
         controller.replicas=2,controller.args={{--concurrency=4}},controller.resources.limits.memory=4Gi,\
         webhook.priorityClassName=system-cluster-critical,platform.nodeSelector.disk=fast,platform.tolerations[0].operator=Exists"
    );
    let found = rendered(&values, "elsewhere");
    let text = json!(found.values().collect::<Vec<_>>()).to_string();
    for left in ["rukpak-system", "SET-ME", "set-me"] {
        assert!(!text.contains(left), "{left}");
    }
    for (kind, name) in [
        ("PodDisruptionBudget", "rukpak-webhooks"),
        ("NetworkPolicy", "core"),
        ("PodMonitor", "rukpak-platform-operators"),
        ("PrometheusRule", "rukpak"),
    ] {
        assert_eq!(found[&key(kind, name)]["metadata"]["namespace"], "elsewhere", "{kind} {name}");
    }

    let deployment = |name: &str| found[&key("Deployment", name)]["spec"].clone();
    let controller = deployment("core");
    let container = &controller["template"]["spec"]["containers"][0];
    assert_eq!(controller["replicas"], 2);
    assert_eq!(container["args"].as_array().and_then(|arguments| arguments.last()), Some(&json!("--concurrency=4")));
    assert_eq!(container["resources"]["limits"], json!({"memory": "4Gi", "ephemeral-storage": "20Gi"}));
    let pod = |name: &str| deployment(name)["template"]["spec"].clone();
    assert_eq!(pod("rukpak-webhooks")["priorityClassName"], "system-cluster-critical");
    let platform = pod("platform-operators-controller-manager");
    assert_eq!(platform["nodeSelector"], json!({"disk": "fast"}));
    assert_eq!(platform["tolerations"], json!([{"operator": "Exists"}]));
    for name in ["core", "rukpak-webhooks", "platform-operators-controller-manager"] {
        assert_eq!(pod(name)["imagePullSecrets"], json!([{"name": "login"}]), "{name}");
    }
}

#[test]
fn refuses_what_it_does_not_know() {
    for (values, text) in [
        ("apis=core", "set image to yours, with its registry"),
        ("image=rukpak", "does not match pattern"),
        ("image=registry.example.com/rukpak", "does not match pattern"),
        ("image=registry.example.com/rukpak:v1,contoller.replicas=2", "contoller"),
        ("image=registry.example.com/rukpak:v1,apis=v0", "apis"),
        ("image=registry.example.com/rukpak:v1,networkPolicies.apiServerCidr=here", "apiServerCidr"),
    ] {
        let output = render(values, "rukpak-system");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && complaint.contains(text), "{values}: {complaint}");
    }
}

/// Helm's own requests: what it creates, upgrades and leaves.
#[tokio::test]
async fn is_installed_upgraded_and_removed() {
    let plane = Plane::start().await.unwrap();
    let client = plane.admin().await.unwrap();
    let kubeconfig = plane.kubeconfig_path().to_str().unwrap();
    let run = |verb: &[&str], more: &[&str]| {
        let arguments = [verb, &["--namespace", "rukpak-system", "--kubeconfig", kubeconfig], more].concat();
        let output = helm(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let image = format!("image={IMAGE}");
    run(&["install", "rukpak", "charts/rukpak-rs", "--create-namespace"], &["--set", &image]);
    let definition = |name: &str| Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name);
    let deployment = |name: &str| Target::namespaced("apps/v1", "Deployment", "rukpak-system", name);
    let extensions = definition("clusterextensions.olm.operatorframework.io");
    let is_there = async |target: &Target| verbs::get(&client, target).await.unwrap().is_some();
    assert!(is_there(&deployment("core")).await && !is_there(&extensions).await);

    run(&["upgrade", "rukpak", "charts/rukpak-rs"], &["--set", &image, "--set", "apis=olm,webhook.replicas=3"]);
    assert!(is_there(&deployment("platform-operators-controller-manager")).await && is_there(&extensions).await);
    let webhook = verbs::get(&client, &deployment("rukpak-webhooks")).await.unwrap().unwrap();
    assert_eq!(webhook.data["spec"]["replicas"], 3);

    run(&["uninstall", "rukpak"], &["--wait"]);
    assert!(!is_there(&deployment("core")).await);
    assert!(
        is_there(&extensions).await && is_there(&definition("bundles.core.rukpak.io")).await,
        "they hold all objects"
    );
}
