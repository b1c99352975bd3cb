//! `overlays/openshift`, and what is rendered from it for an installer's folder of manifests.

use std::path::PathBuf;

use rukpak_runtime::certificates::service_names;
use serde_json::{Value, json};

use super::build::{Objects, build, documents, folder, get, keyed, manager, options};
use super::platform::MANAGER;
use super::{assert_rendered, of_the_leader};

const NAMESPACE: &str = "openshift-platform-operators";
const ANNOTATIONS: [(&str, &str); 4] = [
    ("release.openshift.io/feature-set", "TechPreviewNoUpgrade"),
    ("include.release.openshift.io/self-managed-high-availability", "true"),
    ("include.release.openshift.io/single-node-developer", "true"),
    ("exclude.release.openshift.io/internal-openshift-hosted", "true"),
];
/// What has another name on OpenShift.
const RENAMED: [(&str, &str); 7] = [
    ("core-admin", "platform-operators-rukpak-core-admin"),
    ("bundle-reader", "platform-operators-rukpak-bundle-reader"),
    ("bundle-uploader", "platform-operators-rukpak-bundle-uploader"),
    ("rukpak-view", "platform-operators-rukpak-view"),
    ("rukpak-edit", "platform-operators-rukpak-edit"),
    ("rukpak-plan-approver", "platform-operators-rukpak-plan-approver"),
    ("rukpak-webhooks-admin", "platform-operators-rukpak-webhooks-admin"),
];
const DEPLOYMENTS: [(&str, &str); 3] = [
    ("core", "platform-operators-rukpak-core"),
    ("rukpak-webhooks", "platform-operators-rukpak-webhooks"),
    (MANAGER, MANAGER),
];
const CONFIGURATION: &str = "platform-operators-rukpak-validating-webhook-configuration";
const WEBHOOK_SERVICE: &str = "platform-operators-rukpak-webhook-service";

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder().join("openshift")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn rendered() -> Objects {
    keyed(files().iter().flat_map(|file| documents(file)))
}

/// Everything for any cluster.
fn usual() -> Objects {
    build(&folder().join("overlays/platform"))
}

#[test]
fn the_files_are_the_overlay_one_object_each() {
    assert_rendered(&build(&folder().join("overlays/openshift")), &rendered());
    for file in files() {
        let name = file.file_name().unwrap().to_str().unwrap();
        let [object] = documents(&file).try_into().unwrap_or_else(|_| panic!("{name}: one object a file"));
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        assert!(name.starts_with("0000_50_platform-operators_") && name.contains(&format!("_{kind}_")), "{name}");
    }
}

#[test]
fn every_object_says_which_clusters_it_is_for() {
    for (key, object) in rendered() {
        for (name, value) in ANNOTATIONS {
            assert_eq!(object["metadata"]["annotations"][name], value, "{key:?}");
        }
        // What is in a namespace is in this one, and names no other.
        let text = object.to_string();
        assert!(!text.contains("\"rukpak-system\"") && !text.contains(".rukpak-system"), "{key:?}");
        if let Some(namespace) = object["metadata"].get("namespace") {
            assert_eq!(namespace, NAMESPACE, "{key:?}");
        }
    }
}

#[test]
fn the_definitions_are_the_usual_ones() {
    let (usual, openshift) = (usual(), rendered());
    let definitions = |objects: &Objects| -> Vec<(String, Value)> {
        let definitions = objects.iter().filter(|((kind, _), _)| kind == "CustomResourceDefinition");
        definitions.map(|((_, name), object)| (name.clone(), object["spec"].clone())).collect()
    };
    assert_eq!(definitions(&usual).len(), 5);
    assert!(definitions(&usual) == definitions(&openshift), "run manifests/render.sh");
}

#[test]
fn the_roles_grant_what_they_grant_elsewhere() {
    let (usual, openshift) = (usual(), rendered());
    let of_kind = |objects: &Objects| objects.keys().filter(|(kind, _)| kind.ends_with("Role")).count();
    // The webhook touches no Secret here.
    assert_eq!(of_kind(&openshift), of_kind(&usual) - 1);
    let renamed = |name: &str| {
        let found = RENAMED.iter().find(|(before, _)| *before == name).map(|(_, after)| *after);
        let kept = || if name == "rukpak-webhooks" { format!("platform-operators-{name}") } else { name.to_owned() };
        found.map_or_else(kept, str::to_owned)
    };
    for ((kind, name), role) in usual.iter().filter(|((kind, _), _)| kind.ends_with("Role")) {
        if name == "rukpak-webhooks-certificate" {
            continue;
        }
        let rules = role
            .get("rules")
            .unwrap_or(&Value::Null)
            .to_string()
            .replace("rukpak-validating-webhook-configuration", CONFIGURATION);
        let found = get(&openshift, kind, &renamed(name));
        assert_eq!(found["rules"].to_string(), rules, "{kind} {name}");
        assert_eq!(found["metadata"]["labels"], role["metadata"]["labels"], "{kind} {name}");
    }
    for (key, binding) in openshift.iter().filter(|((kind, _), _)| kind.ends_with("RoleBinding")) {
        let role = &binding["roleRef"];
        get(&openshift, role["kind"].as_str().unwrap(), role["name"].as_str().unwrap());
        for subject in binding["subjects"].as_array().unwrap() {
            let account = get(&openshift, subject["kind"].as_str().unwrap(), subject["name"].as_str().unwrap());
            assert_eq!(account["metadata"]["namespace"], subject["namespace"], "{key:?}");
        }
    }
}

/// The Deployments are those of any cluster, but for what OpenShift asks for.
#[test]
fn the_deployments_differ_in_what_openshift_asks_for() {
    let (usual, openshift) = (usual(), rendered());
    for (before, after) in DEPLOYMENTS {
        let (before, after) = (get(&usual, "Deployment", before), get(&openshift, "Deployment", after));
        let mut container = manager(after).clone();
        for field in ["args", "env", "volumeMounts"] {
            container[field] = manager(before)[field].clone();
        }
        // A field that is missing was set to null.
        container.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(&container, manager(before));
        let pod = &after["spec"]["template"]["spec"];
        get(&openshift, "ServiceAccount", pod["serviceAccountName"].as_str().unwrap());
        // OpenShift chooses the user, from the namespace's range.
        let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        assert_eq!(pod["securityContext"], security);
        assert_eq!(pod["priorityClassName"], "system-cluster-critical");
        assert!(pod.pointer("/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution").is_none());
        let template = &after["spec"]["template"]["metadata"];
        let partition = &template["annotations"]["target.workload.openshift.io/management"];
        assert_eq!(partition, r#"{"effect": "PreferredDuringScheduling"}"#);
        assert_eq!(after["spec"]["selector"]["matchLabels"], template["labels"]);
    }
    let version = json!({"name": "RELEASE_VERSION", "value": env!("CARGO_PKG_VERSION")});
    let environment = &manager(get(&openshift, "Deployment", MANAGER))["env"];
    assert!(environment.as_array().unwrap().contains(&version), "the version of the workspace: {environment}");
    let webhooks = get(&openshift, "Deployment", "platform-operators-rukpak-webhooks");
    assert_eq!(webhooks["spec"]["replicas"], 2);
    let [budget] = documents(&folder().join("disruption-budget-openshift.yaml")).try_into().unwrap();
    assert_eq!(budget["spec"]["selector"], webhooks["spec"]["selector"]);
    // The controller and the webhook know each other by other names here.
    let core = get(&openshift, "Deployment", "platform-operators-rukpak-core");
    let account = core["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap();
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    assert_eq!(options(webhooks).controller_username(), user);
    get(&openshift, "ClusterRole", "rukpak-webhook-objects");
}

/// The Secret that the service CA makes for a Service.
fn secret_of<'a>(objects: &'a Objects, service: &str) -> &'a Value {
    &get(objects, "Service", service)["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"]
}

#[test]
fn the_service_ca_serves_the_webhook() {
    let objects = rendered();
    let configuration = get(&objects, "ValidatingWebhookConfiguration", CONFIGURATION);
    let inject = &configuration["metadata"]["annotations"]["service.beta.openshift.io/inject-cabundle"];
    assert_eq!(inject, "true");
    let usual = usual();
    let plain = get(&usual, "ValidatingWebhookConfiguration", "rukpak-validating-webhook-configuration");
    let mut webhooks = plain["webhooks"].clone();
    for webhook in webhooks.as_array_mut().unwrap() {
        webhook["clientConfig"]["service"]["name"] = json!(WEBHOOK_SERVICE);
        webhook["clientConfig"]["service"]["namespace"] = json!(NAMESPACE);
    }
    assert_eq!(configuration["webhooks"], webhooks);
    assert_eq!(service_names(WEBHOOK_SERVICE, NAMESPACE)[0], format!("{WEBHOOK_SERVICE}.{NAMESPACE}.svc"));

    let deployment = get(&objects, "Deployment", "platform-operators-rukpak-webhooks");
    let options = options(deployment);
    assert_eq!(options.webhook_configuration, CONFIGURATION);
    let service = get(&objects, "Service", WEBHOOK_SERVICE);
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(format!(":{}", service["spec"]["ports"][0]["targetPort"]), options.webhook_bind_address.to_string());
    let (mount, volume) =
        (&manager(deployment)["volumeMounts"][0], &deployment["spec"]["template"]["spec"]["volumes"][0]);
    assert_eq!(mount["mountPath"].as_str(), options.cert_dir.as_deref().and_then(std::path::Path::to_str));
    assert_eq!(mount["name"], volume["name"]);
    assert_eq!(&volume["secret"]["secretName"], secret_of(&objects, WEBHOOK_SERVICE));
}

#[test]
fn the_service_ca_serves_the_content() {
    let objects = rendered();
    let name = "platform-operators-rukpak-core";
    let (deployment, service) = (get(&objects, "Deployment", name), get(&objects, "Service", name));
    let port = &service["spec"]["ports"][0];
    assert_eq!((&port["name"], &port["port"]), (&json!("https"), &json!(443)));
    assert_eq!(service["spec"]["selector"], of_the_leader(deployment));
    let arguments = manager(deployment)["args"].as_array().unwrap();
    let secret = secret_of(&objects, name).as_str().unwrap();
    for argument in [
        "--content-certificates=external".to_owned(),
        format!("--content-certificate-secret={secret}"),
        format!("--http-external-address=https://{name}.{NAMESPACE}.svc"),
    ] {
        assert!(arguments.contains(&json!(argument)), "{argument}");
    }
    let usual = usual();
    for argument in manager(get(&usual, "Deployment", "core"))["args"].as_array().unwrap() {
        let is_there = arguments.contains(argument);
        assert!(is_there || argument.as_str().unwrap().starts_with("--http-external-address="), "{argument}");
    }
}

#[test]
fn the_cluster_operator_is_there_with_an_empty_status() {
    let objects = rendered();
    let operator = get(&objects, "ClusterOperator", "platform-operators-aggregated");
    assert_eq!((&operator["apiVersion"], &operator["status"]), (&json!("config.openshift.io/v1"), &json!({})));
    let role = get(&objects, "ClusterRole", "platform-operators-manager-role").to_string();
    assert!(role.contains(r#""resourceNames":["platform-operators-aggregated"]"#), "{role}");
}

#[test]
fn the_examples_are_not_installed() {
    let objects = rendered();
    for (file, kind) in [("feature_gate.yaml", "FeatureGate"), ("platform_operator.yaml", "PlatformOperator")] {
        let [example] = documents(&folder().join("overlays/openshift/examples").join(file)).try_into().unwrap();
        assert_eq!(example["kind"], kind);
        assert!(!objects.keys().any(|(installed, _)| installed == kind));
    }
}
