//! What an operator watches, and what its user changes in it: R2, and `spec.config`.

use kube::api::DynamicObject;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::until_bundle;
use serde_json::{Value, json};

use super::case::{Case, Files, installed, message, uid};

/// R2, word for word.
const R2: &str = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The fixture `own` with other install modes.
fn with_modes(case: &Case<'_>, modes: &[&str]) -> Files {
    let lines: Vec<String> = modes.iter().map(|mode| format!("    - {{type: {mode}, supported: true}}\n")).collect();
    let mut files = case.files("own");
    for (_, text) in &mut files {
        *text = text.replace("    - {type: OwnNamespace, supported: true}\n", &lines.concat());
    }
    files
}

/// The operator's Deployment.
fn operator(case: &Case<'_>) -> Target {
    case.inside("apps/v1", "Deployment", "pump-manager")
}

/// Waits until the operator watches `targets`.
async fn until_watching(case: &Case<'_>, targets: &str) {
    let annotation = "/spec/template/metadata/annotations/olm.targetNamespaces";
    let is_so = |object: &DynamicObject| object.data.pointer(annotation) == Some(&json!(targets));
    case.until_object(&operator(case), "its targets", is_so).await;
}

/// The namespaces with a Role of the deployment.
async fn role_namespaces(case: &Case<'_>) -> Vec<String> {
    let mut namespaces: Vec<String> = Vec::new();
    let bindings = case.owned(RBAC, "RoleBinding").await;
    for role in case.owned(RBAC, "Role").await {
        let binding = bindings.iter().find(|binding| {
            binding.metadata.name == role.metadata.name && binding.metadata.namespace == role.metadata.namespace
        });
        let binding = binding.expect("it is bound");
        assert_eq!(binding.data["subjects"][0]["namespace"], case.namespace());
        namespaces.extend(role.metadata.namespace);
    }
    namespaces.sort();
    namespaces
}

#[tokio::test]
async fn r2_without_all_namespaces_it_is_refused_until_a_namespace_is_named() {
    let case = Case::new("r2").await;
    case.deploy(case.files("own"), &Value::Null).await;
    let refused = case.until(Expected::is_false("HasValidBundle", "UnpackFailed").saying(R2)).await;
    let [bundle] = case.owned("core.rukpak.io/v1alpha1", "Bundle").await.try_into().expect("there is one Bundle");
    let name = bundle.metadata.name.clone().unwrap();
    let failed = until_bundle(&case.client, &name, Expected::is_false("Unpacked", "UnpackFailed").saying(R2)).await;
    let hint = "set watchNamespace in spec.config of the BundleDeployment";
    assert_eq!(message(&failed, "Unpacked"), format!("{R2}: {hint}"));
    let expected = format!("Failed to unpack the {name} Bundle: {}", message(&failed, "Unpacked"));
    assert_eq!(message(&refused, "HasValidBundle"), expected);
    assert_eq!(failed.data["status"]["phase"], "Failing");
    assert!(Expected::is_false("Ready", "WatchNamespaceRequired").met_by(&failed), "{:#}", failed.data);

    case.configure(&json!({"watchNamespace": case.namespace()})).await;
    let done = case.until(installed()).await;
    let [same] = case.owned("core.rukpak.io/v1alpha1", "Bundle").await.try_into().expect("there is one Bundle");
    assert_eq!(uid(&same), uid(&bundle), "the template did not change");
    until_watching(&case, &case.namespace()).await;
    assert_eq!(role_namespaces(&case).await, [case.namespace()]);
    let before = case.get(&operator(&case)).await;

    case.configure(&Value::Null).await;
    let expected = Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(R2);
    let now = case.until(expected).await;
    assert_eq!(message(&now, "Installed"), message(&done, "Installed"), "the installed version stays");
    assert_eq!(now.data["status"]["activeBundle"], done.data["status"]["activeBundle"]);
    let after = case.get(&operator(&case)).await;
    assert_eq!(after.metadata.generation, before.metadata.generation);
    // And it is still guarded.
    let account = case.inside("v1", "ServiceAccount", "pump-manager");
    let first = case.get(&account).await;
    verbs::delete(&case.client, &account).await.unwrap();
    case.until_object(&account, "another UID", |object| object.metadata.uid != first.metadata.uid).await;

    case.configure(&json!({"watchNamespace": case.namespace()})).await;
    case.until(Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
    case.until(installed()).await;
}

#[tokio::test]
async fn targets_follow_the_configuration_in_place() {
    let case = Case::new("targets").await;
    // What leaves the bundle is deleted when the new version is healthy.
    let _kubelet = Kubelet::play(case.client.clone(), &case.namespace());
    let one = verbs::namespace(&case.client, "target-a").await.unwrap();
    let two = verbs::namespace(&case.client, "target-b").await.unwrap();
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace"];
    case.deploy(with_modes(&case, &modes), &json!({"watchNamespace": one})).await;
    case.until(installed()).await;
    let first = case.get(&operator(&case)).await;
    assert_eq!(role_namespaces(&case).await, [one.as_str()]);
    until_watching(&case, &one).await;

    case.configure(&json!({"watchNamespaces": [one, two]})).await;
    until_watching(&case, &format!("{one},{two}")).await;
    case.until(installed()).await;
    assert_eq!(role_namespaces(&case).await, [one.as_str(), two.as_str()]);

    case.configure(&json!({"watchNamespace": case.namespace()})).await;
    until_watching(&case, &case.namespace()).await;
    let roles = case.owned(RBAC, "Role").await;
    for role in roles.iter().filter(|role| role.metadata.namespace != Some(case.namespace())) {
        let (namespace, name) = (role.metadata.namespace.as_deref().unwrap(), role.metadata.name.as_deref().unwrap());
        case.until_gone(&Target::namespaced(RBAC, "Role", namespace, name)).await;
    }
    case.until(installed()).await;
    assert_eq!(role_namespaces(&case).await, [case.namespace()]);
    assert_eq!(uid(&case.get(&operator(&case)).await), uid(&first), "changed in place");
}

/// Each refusal has the words of the reference; the installed version stays whole meanwhile.
#[tokio::test]
async fn a_bad_configuration_is_refused_and_changes_nothing() {
    let case = Case::new("bad").await;
    let install = case.namespace();
    case.deploy(with_modes(&case, &["OwnNamespace"]), &json!({"watchNamespace": install})).await;
    let done = case.until(installed()).await;
    let before = case.get(&operator(&case)).await;
    let long = "a".repeat(64);
    let only_own = format!(
        "invalid format for field \"watchNamespace\": invalid value \"default\": must be \"{install}\" (the namespace where \
         the operator is installed) because this operator only supports OwnNamespace install mode"
    );
    let refusals = [
        (json!({"watchNamespace": "default"}), only_own.as_str()),
        (json!({"watchNamespace": install, "colour": "red"}), "unknown field \"colour\""),
        (json!({"watchNamespaces": ["default"]}), "unknown field \"watchNamespaces\""),
        (json!({"watchNamespace": 7}), "invalid type for field \"watchNamespace\": got number, want string"),
        (json!({"watchNamespace": ""}), "field \"watchNamespace\" must have minimum length of 1 (len=0)"),
        (json!({"watchNamespace": long}), "field \"watchNamespace\" must have maximum length of 63 (len=64)"),
        (
            json!({"watchNamespace": "Upper"}),
            "field \"watchNamespace\" must match pattern \"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$\"",
        ),
        (
            json!({"watchNamespace": install, "deploymentConfig": 7}),
            "invalid type for field \"deploymentConfig\": got number, want object",
        ),
        (json!({"watchNamespace": install, "deploymentConfig": {"selector": {}}}), "deploymentConfig"),
    ];
    for (config, problem) in refusals {
        // Members that an earlier round set would stay.
        case.merge(&json!({"spec": {"config": {"colour": null}}})).await;
        case.configure(&config).await;
        let expected = Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(problem);
        let refused = case.until(expected).await;
        let text = message(&refused, "HasValidBundle");
        let prefix = "convert registry+v1 bundle to plain+v0 bundle: invalid BundleDeployment configuration (spec.config): \
                      invalid configuration: ";
        assert!(text.starts_with(prefix), "{text}");
        assert_eq!(message(&refused, "Installed"), message(&done, "Installed"), "{config}");
    }
    assert_eq!(case.get(&operator(&case)).await.metadata.generation, before.metadata.generation);
    case.merge(&json!({"spec": {"config": {"colour": null}}})).await;
    case.configure(&json!({"watchNamespace": install})).await;
    case.until(Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
}

#[tokio::test]
async fn install_modes_are_refused_in_the_words_of_the_reference() {
    let single = Case::new("single").await;
    let install = single.namespace();
    single.deploy(with_modes(&single, &["SingleNamespace"]), &json!({"watchNamespace": install})).await;
    let text = format!(
        "invalid format for field \"watchNamespace\": invalid value \"{install}\": must be different from \"{install}\" (the \
         install namespace) because this operator uses SingleNamespace install mode to watch a different namespace"
    );
    single.until(Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(&text)).await;

    let all = Case::new("all").await;
    all.deploy(with_modes(&all, &["AllNamespaces"]), &json!({"watchNamespace": "default"})).await;
    all.until(Expected::is_false("HasValidBundle", "BundleLoadFailed").saying("unknown field \"watchNamespace\""))
        .await;

    let multi = Case::new("multi").await;
    let install = multi.namespace();
    multi.deploy(with_modes(&multi, &["MultiNamespace"]), &json!({"watchNamespaces": ["default", install]})).await;
    let text = format!(
        "invalid option(s): invalid target namespaces [default {install}]: supported install modes [MultiNamespace] do not \
         support targeting own namespace"
    );
    multi.until(Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(&text)).await;

    let none = Case::new("none").await;
    none.deploy(with_modes(&none, &[]), &Value::Null).await;
    none.until(Expected::is_false("HasValidBundle", "UnpackFailed").saying(R2)).await;
}

#[tokio::test]
async fn the_operators_deployment_is_configured_in_place() {
    let case = Case::new("configured").await;
    case.deploy(with_modes(&case, &["AllNamespaces"]), &Value::Null).await;
    case.until(installed()).await;
    let before = case.get(&operator(&case)).await;
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["big"]}]}]}}});
    let toleration = json!({"key": "busy", "operator": "Exists", "effect": "NoSchedule"});
    let config = json!({"deploymentConfig": {
        "env": [{"name": "LEVEL", "value": "debug"}, {"name": "EXTRA", "value": "yes"}],
        "envFrom": [{"configMapRef": {"name": "more"}}],
        "resources": {"limits": {"memory": "64Mi"}},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [toleration],
        "affinity": affinity,
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "annotations": {"team": "red", "olm.targetNamespaces": "never"},
    }});
    case.configure(&config).await;
    let pod = "/spec/template/spec";
    let is_new = |object: &DynamicObject| object.data.pointer(pod).is_some_and(|pod| !pod["affinity"].is_null());
    let now = case.until_object(&operator(&case), "its configuration", is_new).await;
    assert_eq!(uid(&now), uid(&before), "changed in place");
    let pod = &now.data["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let env = json!([{"name": "LEVEL", "value": "debug"}, {"name": "EXTRA", "value": "yes"}]);
    assert_eq!(container["env"], env);
    assert_eq!(container["envFrom"], json!([{"configMapRef": {"name": "more"}}]));
    assert_eq!(container["resources"], json!({"limits": {"memory": "64Mi"}}));
    assert_eq!(container["volumeMounts"], json!([{"name": "scratch", "mountPath": "/scratch"}]));
    assert_eq!(pod["nodeSelector"], json!({"disk": "fast"}));
    assert_eq!(pod["tolerations"], json!([toleration]));
    assert_eq!(pod["affinity"], affinity);
    assert_eq!(pod["volumes"], json!([{"name": "scratch", "emptyDir": {}}]));
    assert_eq!(now.metadata.annotations.clone().unwrap_or_default()["team"], "red");
    let annotations = &now.data["spec"]["template"]["metadata"]["annotations"];
    assert_eq!((&annotations["team"], &annotations["olm.targetNamespaces"]), (&json!("red"), &json!("")));
    case.until(installed()).await;

    // A volume without a name is of the right type and still no volume: the API server says so, and the old one stays.
    case.configure(&json!({"deploymentConfig": {"volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}})).await;
    let failed = case.until(Expected { kind: "Installed", status: "False", reason: None, message: "nowhere" }).await;
    assert_eq!(message(&failed, "HasValidBundle").split(' ').next(), Some("Successfully"));
    let kept = case.get(&operator(&case)).await;
    assert_eq!(kept.data["spec"], now.data["spec"]);

    case.configure(&Value::Null).await;
    let is_old = |object: &DynamicObject| pods(object) == pods(&before);
    let now = case.until_object(&operator(&case), "what it was at first", is_old).await;
    assert_eq!(uid(&now), uid(&before));
    case.until(installed()).await;
}

/// By the patch of the documentation: OLM v0 mounts nothing by itself, either.
#[tokio::test]
async fn trusted_authorities_are_mounted_as_the_documentation_says() {
    let page = std::fs::read_to_string(tools::workspace_folder().join("docs/registry.md")).expect("the page is there");
    let begin = "kubectl patch bundledeployment greeter-operator --type=merge -p '";
    let patch = page.split_once(begin).and_then(|(_, rest)| rest.split_once('\'')).expect("the patch is there").0;
    let patch: Value = serde_json::from_str(patch).expect("the patch is JSON");

    let case = Case::new("trusted").await;
    case.deploy(with_modes(&case, &["AllNamespaces"]), &Value::Null).await;
    case.until(installed()).await;
    case.merge(&patch).await;
    let is_mounted =
        |object: &DynamicObject| object.data.pointer("/spec/template/spec/containers/0/volumeMounts/0").is_some();
    let operator = case.until_object(&operator(&case), "the authorities", is_mounted).await;
    let pod = &operator.data["spec"]["template"]["spec"];
    let mount = json!({"name": "trusted-ca", "mountPath": "/etc/pki/ca-trust/extracted/pem", "readOnly": true});
    assert_eq!(pod["containers"][0]["volumeMounts"], json!([mount]));
    let items = json!([{"key": "ca-bundle.crt", "path": "tls-ca-bundle.pem"}]);
    assert_eq!(pod["volumes"][0]["configMap"]["name"], "trusted-ca");
    assert_eq!(pod["volumes"][0]["configMap"]["items"], items);
    case.until(installed()).await;
}

/// The pods of a Deployment, without what a server-side apply leaves of a field whose members it takes away: nothing.
fn pods(deployment: &DynamicObject) -> Value {
    let mut template = deployment.data["spec"]["template"].clone();
    if let Some(spec) = template["spec"].as_object_mut() {
        spec.retain(|key, value| key != "affinity" || *value != json!({"nodeAffinity": {}}));
    }
    template
}
