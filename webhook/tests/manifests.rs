//! The manifests hang together, and with the binary.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

#[path = "manifests/build.rs"]
mod build;
#[path = "manifests/image.rs"]
mod image;
#[path = "manifests/network.rs"]
mod network;
#[path = "manifests/olm.rs"]
mod olm;
#[path = "manifests/olmv0.rs"]
mod olmv0;
#[path = "manifests/openshift.rs"]
mod openshift;
#[path = "manifests/platform.rs"]
mod platform;
#[path = "manifests/tenants.rs"]
mod tenants;
#[path = "manifests/warnings.rs"]
mod warnings;

use std::path::PathBuf;

use build::{Objects, build, documents, folder, get, keyed, manager, options, overlays};
use rukpak_crds::names::LEADER;
use rukpak_runtime::certificates::service_names;
use rukpak_webhook::{
    BUNDLE_PATH, BUNDLE_WEBHOOK, CERTIFICATE_SECRET, CONFIGURATION, CRD_PATH, DEFINITION_WEBHOOK, SERVICE,
};
use serde_json::{Value, json};

fn installed() -> Objects {
    keyed(documents(&folder().join("install.yaml")))
}

/// Whether rendered objects are those of the overlay.
fn assert_rendered(built: &Objects, rendered: &Objects) {
    assert_eq!(built.keys().collect::<Vec<_>>(), rendered.keys().collect::<Vec<_>>(), "run manifests/render.sh");
    for (key, object) in built {
        // Whole objects are too long to print.
        assert!(object == &rendered[key], "{key:?} differs: run manifests/render.sh");
    }
}

#[test]
fn install_yaml_is_the_self_signed_overlay() {
    assert_rendered(&build(&folder().join("overlays/self-signed")), &installed());
}

/// Whoever may create a Bundle need not be allowed to read Secrets, and names the host that a login is sent to.
#[test]
fn every_controller_sends_logins_only_to_hosts_that_their_secrets_name() {
    let mut controllers = 0;
    for overlay in overlays() {
        for (key, object) in build(&overlay).into_iter().filter(|((kind, _), _)| kind == "Deployment") {
            let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            let is_controller = |container: &&Value| container["command"] == json!(["/rukpak-controller"]);
            for container in containers.iter().filter(is_controller) {
                controllers += 1;
                let arguments = container["args"].as_array().unwrap();
                assert!(arguments.contains(&json!("--require=secret-hosts")), "{key:?} of {}", overlay.display());
                let takes_back = json!("--require=none");
                assert!(!arguments.contains(&takes_back), "{key:?} of {}", overlay.display());
            }
        }
    }
    assert!(controllers >= 4, "{controllers}");
}

#[test]
fn definitions_are_the_generated_ones() {
    for (to, file) in [
        ("base/crds", "core.rukpak.io_bundles.yaml"),
        ("base/crds", "core.rukpak.io_bundledeployments.yaml"),
        ("base/crds", "core.rukpak.io_contentpolicies.yaml"),
        ("base/crds", "core.rukpak.io_plans.yaml"),
        ("base/platform/crds", "platform.openshift.io_platformoperators.yaml"),
        ("base/olm/crds", "olm.operatorframework.io_clustercatalogs.yaml"),
        ("base/olm/crds", "olm.operatorframework.io_clusterextensions.yaml"),
        ("base/olm/crds", "olm.operatorframework.io_clusterobjectsets.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_catalogsources.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_clusterserviceversions.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_installplans.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_olmconfigs.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_operatorconditions.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_operatorgroups.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_operators.yaml"),
        ("base/olmv0/crds", "operators.coreos.com_subscriptions.yaml"),
    ] {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
        let generated = read(folder().join("../crds/generated").join(file));
        assert!(generated == read(folder().join(to).join(file)), "{file} is out of date: run `make crds`");
    }
}

#[test]
fn the_configuration_leads_to_the_process() {
    let objects = installed();
    let configuration = get(&objects, "ValidatingWebhookConfiguration", CONFIGURATION);
    let [bundles, definitions] = configuration["webhooks"].as_array().unwrap().as_slice() else {
        panic!("the one for ConfigMaps would keep its own Pod from starting: {configuration}")
    };
    let entries = [
        // The status holds the pin.
        (bundles, BUNDLE_WEBHOOK, BUNDLE_PATH, json!(["bundles", "bundles/status"])),
        (definitions, DEFINITION_WEBHOOK, CRD_PATH, json!(["customresourcedefinitions"])),
    ];
    for (webhook, name, path, resource) in entries {
        assert_eq!(webhook["name"], name);
        assert_eq!((&webhook["failurePolicy"], &webhook["sideEffects"]), (&json!("Fail"), &json!("NoneOnDryRun")));
        assert_eq!(webhook["rules"][0]["operations"], json!(["CREATE", "UPDATE"]));
        assert_eq!(webhook["rules"][0]["resources"], resource);
        let client = &webhook["clientConfig"];
        assert!(client.get("caBundle").is_none(), "applying the manifest again must not empty it");
        assert_eq!((&client["service"]["name"], &client["service"]["path"]), (&json!(SERVICE), &json!(path)));
    }
    let owned = json!({"matchLabels": {"core.rukpak.io/owner-kind": "BundleDeployment"}});
    assert_eq!(definitions["objectSelector"], owned);
    let client = &bundles["clientConfig"]["service"];
    assert_eq!(
        (&client["namespace"], &client["port"]),
        (&definitions["clientConfig"]["service"]["namespace"], &definitions["clientConfig"]["service"]["port"])
    );
    let service = get(&objects, "Service", SERVICE);
    assert_eq!(service["metadata"]["namespace"], client["namespace"]);
    assert_eq!(service["spec"]["ports"][0]["port"], client["port"]);
    let namespace = client["namespace"].as_str().unwrap();
    assert_eq!(service_names(SERVICE, namespace)[0], format!("{SERVICE}.{namespace}.svc"));

    let deployment = get(&objects, "Deployment", "rukpak-webhooks");
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    let port = service["spec"]["ports"][0]["targetPort"].as_u64().unwrap();
    assert_eq!(options(deployment).webhook_bind_address.to_string(), format!(":{port}"));
    assert!(manager(deployment)["ports"].as_array().unwrap().iter().any(|open| open["containerPort"] == port));
}

/// What selects, of the Pods of a Deployment, the one that leads.
fn of_the_leader(deployment: &Value) -> Value {
    let mut labels = deployment["spec"]["template"]["metadata"]["labels"].clone();
    assert!(labels[LEADER].is_null(), "it is set by whoever leads");
    labels[LEADER] = json!("true");
    labels
}

#[test]
fn the_service_of_the_controller_keeps_its_names() {
    let objects = installed();
    let service = get(&objects, "Service", "core");
    assert_eq!(
        (&service["spec"]["ports"][0]["name"], &service["spec"]["ports"][0]["port"]),
        (&json!("https"), &json!(443))
    );
    let deployment = get(&objects, "Deployment", "core");
    assert_eq!(service["spec"]["selector"], of_the_leader(deployment));
    let ports = manager(deployment)["ports"].as_array().unwrap();
    assert!(ports.iter().any(|port| port["name"] == service["spec"]["ports"][0]["targetPort"]));
}

#[test]
fn pods_are_restricted_probed_and_known() {
    let objects = installed();
    let namespace = get(&objects, "Namespace", "rukpak-system");
    for (mode, level) in [("enforce", "baseline"), ("audit", "restricted"), ("warn", "restricted")] {
        assert_eq!(namespace["metadata"]["labels"][format!("pod-security.kubernetes.io/{mode}")], level);
    }
    for (name, account, app) in
        [("core", "core-admin", "core"), ("rukpak-webhooks", "rukpak-webhooks-admin", "webhooks")]
    {
        let deployment = get(&objects, "Deployment", name);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], json!({"app": app}));
        assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], json!({"app": app}));
        assert_eq!(pod["serviceAccountName"], account);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"], json!({"type": "RuntimeDefault"}));
        let manager = manager(deployment);
        let security = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        });
        assert_eq!(manager["securityContext"], security);
        assert_eq!(manager["livenessProbe"]["httpGet"], json!({"path": "/healthz", "port": "health"}));
        assert_eq!(manager["readinessProbe"]["httpGet"], json!({"path": "/readyz", "port": "health"}));
        assert_eq!(get(&objects, "ServiceAccount", account)["metadata"]["namespace"], "rukpak-system");
    }
}

/// It fails closed: a second Pod answers while one is moved, and no node gives all its memory to whoever calls it.
#[test]
fn the_webhook_has_two_pods_and_limits() {
    let objects = installed();
    let deployment = get(&objects, "Deployment", "rukpak-webhooks");
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert!(deployment["spec"]["template"]["spec"].get("priorityClassName").is_none());
    let [budget] = documents(&folder().join("disruption-budget.yaml")).try_into().unwrap();
    assert_eq!((&budget["kind"], &budget["spec"]["minAvailable"]), (&json!("PodDisruptionBudget"), &json!(1)));
    assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"]);
    assert_eq!(budget["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    let limits = &manager(deployment)["resources"]["limits"];
    assert!(limits["memory"].is_string() && limits["ephemeral-storage"].is_string(), "{limits}");
    let user = format!(
        "system:serviceaccount:rukpak-system:{}",
        get(&objects, "Deployment", "core")["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap()
    );
    assert_eq!(options(deployment).controller_username(), user);
}

/// Lists of everything are lists of Secrets, for whoever gets the webhook to list.
#[test]
fn the_webhook_lists_what_is_named() {
    for ((kind, name), role) in installed().iter().filter(|((kind, _), _)| kind.ends_with("Role")) {
        if !name.starts_with("rukpak-webhook") {
            continue;
        }
        for rule in role["rules"].as_array().into_iter().flatten() {
            assert!(!rule.to_string().contains("\"*\""), "{kind} {name}: {rule}");
        }
    }
    let role = get(&installed(), "ClusterRole", "rukpak-webhook-objects").clone();
    assert!(role.get("rules").is_none(), "the controller keeps them: applying the file again leaves them alone");
}

#[test]
fn no_role_has_the_verb_star_and_the_webhook_writes_by_name() {
    let objects = installed();
    let reads = ["get", "list"];
    for ((kind, name), object) in &objects {
        for rule in object["rules"].as_array().into_iter().flatten() {
            let verbs = rule["verbs"].as_array().unwrap();
            assert!(!verbs.contains(&json!("*")), "{kind} {name}");
            let only_reads = verbs.iter().all(|verb| reads.iter().any(|read| verb == read));
            // A question that is not kept, and what it has denied.
            let creates = [json!(["subjectaccessreviews"]), json!(["events"])];
            let only_reads = only_reads || (verbs == &[json!("create")] && creates.contains(&rule["resources"]));
            if name.starts_with("rukpak-webhooks") && !only_reads {
                assert_eq!(rule["resourceNames"].as_array().map(Vec::len), Some(1), "{kind} {name}: {rule}");
            }
        }
    }
    let secret = &get(&objects, "Role", "rukpak-webhooks-certificate")["rules"][0]["resourceNames"][0];
    assert_eq!(secret, CERTIFICATE_SECRET);
    let configuration = &get(&objects, "ClusterRole", "rukpak-webhooks-admin")["rules"][4]["resourceNames"][0];
    assert_eq!(configuration, CONFIGURATION);
    for (_, binding) in objects.iter().filter(|((kind, _), _)| kind.ends_with("RoleBinding")) {
        let role = &binding["roleRef"];
        get(&objects, role["kind"].as_str().unwrap(), role["name"].as_str().unwrap());
        for subject in binding["subjects"].as_array().unwrap() {
            let account = get(&objects, subject["kind"].as_str().unwrap(), subject["name"].as_str().unwrap());
            assert_eq!(account["metadata"]["namespace"], subject["namespace"]);
        }
    }
}

#[test]
fn the_cert_manager_overlay_lines_up() {
    let objects = build(&folder().join("overlays/cert-manager"));
    let certificate = get(&objects, "Certificate", "rukpak-webhook-certificate");
    let names = service_names(SERVICE, "rukpak-system");
    for name in certificate["spec"]["dnsNames"].as_array().unwrap() {
        assert!(names.iter().any(|known| name == known), "{name}");
    }
    let configuration = get(&objects, "ValidatingWebhookConfiguration", CONFIGURATION);
    let inject = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
    assert_eq!(inject, "rukpak-system/rukpak-webhook-certificate");

    let deployment = get(&objects, "Deployment", "rukpak-webhooks");
    let mounts = manager(deployment)["volumeMounts"].as_array().unwrap();
    let folder_of = options(deployment).cert_dir.unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"].as_str() == folder_of.to_str()).unwrap();
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    assert_eq!(volume["secret"]["secretName"], certificate["spec"]["secretName"]);
}

/// A patch replaces the list of arguments as a whole, so nothing of the base must be missing in it.
#[test]
fn the_cert_manager_overlay_adds_to_the_base() {
    let (base, overlay) = (build(&folder().join("base")), build(&folder().join("overlays/cert-manager")));
    let with_certificates = "--content-certificates=external";
    for (name, added) in [("core", with_certificates), ("rukpak-webhooks", "--cert-dir=/etc/rukpak/serving-cert")] {
        let (before, mut after) = (get(&base, "Deployment", name), get(&overlay, "Deployment", name).clone());
        let arguments = after["spec"]["template"]["spec"]["containers"][0]["args"].as_array_mut().unwrap();
        let at = arguments.iter().position(|argument| argument == added);
        arguments.remove(at.unwrap_or_else(|| panic!("{name}: {arguments:?}")));
        for (path, field) in [("/spec/template/spec/containers/0", "volumeMounts"), ("/spec/template/spec", "volumes")]
        {
            let holder = after.pointer_mut(path).and_then(Value::as_object_mut).unwrap();
            let Some(list) = holder.get_mut(field).and_then(Value::as_array_mut) else { continue };
            list.retain(|item| item["name"] != "serving-cert");
            if list.is_empty() {
                holder.remove(field);
            }
        }
        assert!(after == *before, "{name}: {after:#} is not {before:#}");
    }
}

/// kustomize reads every one of them, and no image is named that somebody could publish.
#[test]
fn every_overlay_can_be_built() {
    let overlays = overlays();
    assert!(overlays.len() >= 6, "{overlays:?}");
    for overlay in overlays {
        let objects = build(&overlay);
        for ((_, name), deployment) in objects.iter().filter(|((kind, _), _)| kind == "Deployment") {
            assert_eq!(manager(deployment)["image"], "registry.invalid/rukpak:set-me", "{}: {name}", overlay.display());
        }
        assert!(!objects.is_empty(), "{}", overlay.display());
    }
}
