//! First installations: R1, what is rendered, and where bundles come from.

use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::until_bundle;
use serde_json::{Value, json};

use super::case::{Case, PLAIN, REGISTRY, deployment, installed, message, uid};

/// Every object of `mill/v1` is there, marked, and where it belongs.
async fn has_mill(case: &Case<'_>) {
    let rbac = "rbac.authorization.k8s.io/v1";
    let bundle_deployment = case.get(&case.target()).await;
    let expected = [
        ("v1", "Namespace", 1),
        ("v1", "ServiceAccount", 1),
        (rbac, "ClusterRole", 2),
        (rbac, "ClusterRoleBinding", 2),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", 1),
        ("v1", "ConfigMap", 3),
        ("v1", "Service", 2),
        ("v1", "Secret", 1),
        ("apps/v1", "Deployment", 1),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", 1),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", 1),
        (rbac, "Role", 0),
    ];
    for (api_version, kind, count) in expected {
        let owned = case.owned(api_version, kind).await;
        assert_eq!(owned.len(), count, "{kind}: {owned:#?}");
        for object in &owned {
            let owners = object.metadata.owner_references.iter().flatten();
            let is_ours =
                owners.clone().any(|owner| owner.uid == uid(&bundle_deployment) && owner.controller == Some(true));
            assert!(is_ours, "{kind}: {:#?}", object.metadata);
            if let Some(namespace) = &object.metadata.namespace {
                assert_eq!(*namespace, case.namespace(), "{kind} {:?}", object.metadata.name);
            }
        }
    }
}

#[tokio::test]
async fn r1_a_bundle_installs_under_a_deployment_of_class_plain() {
    let case = Case::new("r1").await;
    let done = case.install("mill/v1").await;
    let active = done.data.pointer("/status/activeBundle").and_then(Value::as_str).expect("there is an active bundle");
    assert_eq!(message(&done, "Installed"), format!("Instantiated bundle {active} successfully"));
    assert_eq!(message(&done, "HasValidBundle"), format!("Successfully unpacked the {active} Bundle"));
    has_mill(&case).await;

    let operator = case.get(&case.inside("apps/v1", "Deployment", "mill-manager")).await;
    let annotations = &operator.data["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["olm.targetNamespaces"], "");
    assert_eq!(annotations["olm.operatorNamespace"], case.namespace());
    assert_eq!(annotations["capabilities"], "of the template", "the template's own win over the CSV's");
    assert_eq!(annotations["operatorframework.io/suggested-namespace"], case.namespace());
    assert_eq!(operator.data["spec"]["revisionHistoryLimit"], 1);
    assert_eq!(operator.metadata.labels.clone().unwrap_or_default()["app"], "mill");

    // The permission is promoted: it holds everywhere, and namespaces can be listed.
    let roles = case.owned("rbac.authorization.k8s.io/v1", "ClusterRole").await;
    let rule = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]});
    let promoted = roles.iter().filter(|role| role.data["rules"].as_array().is_some_and(|rules| rules.contains(&rule)));
    assert_eq!(promoted.count(), 1, "{roles:#?}");
}

#[tokio::test]
async fn a_deployment_of_class_registry_installs_the_same() {
    let case = Case::new("r1-own-class").await;
    let source = case.push("v1", case.files("mill/v1")).await;
    case.create(&deployment(REGISTRY, &case.name, &source)).await;
    case.until(installed()).await;
    has_mill(&case).await;
}

/// 7.8: the namespace of a Service is filled in or overridden, and a cluster-scoped object keeps none.
#[tokio::test]
async fn manifests_go_to_the_install_namespace() {
    let case = Case::new("parts").await;
    case.install("parts").await;
    for name in ["without-namespace", "with-namespace"] {
        let service = case.get(&case.inside("v1", "Service", name)).await;
        assert_eq!(service.metadata.namespace, Some(case.namespace()));
    }
    let class = case.get(&Target::cluster("scheduling.k8s.io/v1", "PriorityClass", &case.namespace())).await;
    assert_eq!((class.metadata.namespace.clone(), &class.data["value"]), (None, &json!(5)));
    assert_eq!(case.owned("v1", "Namespace").await.len(), 1);
    assert_eq!(case.owned("v1", "Service").await.len(), 2, "and nothing beside them");
}

/// 7.8: a kind that bundles may not have.
#[tokio::test]
async fn an_unsupported_kind_is_refused_with_what_to_do() {
    let case = Case::new("event").await;
    case.deploy(case.files("event"), &Value::Null).await;
    let text = "convert registry+v1 bundle to plain+v0 bundle: bundle contains unsupported resource: Name: pump-started, \
                Kind: Event: take the object out of the bundle";
    let refused = case.until(Expected::is_false("HasValidBundle", "UnpackFailed").saying(text)).await;
    assert!(verbs::condition(&refused, "Installed").is_none(), "{:#}", refused.data);
    assert!(case.find(&Target::cluster("v1", "Namespace", &case.namespace())).await.is_none());
}

#[tokio::test]
async fn a_bundle_comes_from_a_folder_of_a_git_branch_and_from_a_tag() {
    let case = Case::new("git").await;
    let repository = case.world.git.repository(&case.name).unwrap();
    let write = |fixture: &str| {
        let files = case.files(fixture);
        let inner: Vec<_> = files.iter().map(|(path, text)| (format!("deploy/olm/{path}"), text.clone())).collect();
        let inner: Vec<(&str, String)> = inner.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        repository.write(&inner).unwrap();
    };
    write("mill/v1");
    repository.commit("one").unwrap();
    repository.annotated_tag("v1.0.0").unwrap();
    write("mill/v2");
    repository.remove("deploy/olm/manifests/defaults.yaml").unwrap();
    let second = repository.commit("two").unwrap();
    let source = |reference: Value| {
        json!({"type": "git", "git": {"repository": case.world.git.url(&case.name), "directory": "./deploy/olm",
                                      "ref": reference}})
    };
    case.create(&deployment(PLAIN, &case.name, &source(json!({"tag": "v1.0.0"})))).await;
    let first = case.until(installed()).await;
    has_mill(&case).await;
    let settings = case.inside("v1", "ConfigMap", "mill-settings");
    assert_eq!(case.get(&settings).await.data["data"]["wind"], "light");

    let branch = source(json!({"branch": "main", "tag": null}));
    case.merge(&json!({"spec": {"template": {"spec": {"source": branch}}}})).await;
    let done = case.until_upgraded(&first).await;
    assert_eq!(case.get(&settings).await.data["data"]["wind"], "strong");
    let active = done.data["status"]["activeBundle"].as_str().unwrap();
    let bundle = case.get(&Target::bundle(active)).await;
    assert_eq!(bundle.data["status"]["resolvedSource"]["git"]["ref"]["commit"], second);
}

/// What a Bundle of its own unpacked to is what a deployment of its resolved source installs.
#[tokio::test]
async fn a_standalone_bundle_is_unpacked_and_can_be_installed() {
    let case = Case::new("alone").await;
    let source = case.push("v1", case.files("mill/v1")).await;
    let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": case.name},
                        "spec": {"provisionerClassName": REGISTRY, "source": source}});
    case.create(&bundle).await;
    let expected = Expected::is_true("Unpacked", "UnpackSuccessful").saying("Successfully unpacked the image Bundle");
    let unpacked = until_bundle(&case.client, &case.name, expected).await;
    assert_eq!(unpacked.data["status"]["phase"], "Unpacked");
    assert!(
        case.find(&Target::cluster("v1", "Namespace", &case.namespace())).await.is_none(),
        "a Bundle installs nothing"
    );

    let resolved = unpacked.data["status"]["resolvedSource"].clone();
    assert!(resolved["image"]["ref"].as_str().unwrap().contains("@sha256:"), "{resolved}");
    case.create(&deployment(PLAIN, &case.name, &resolved)).await;
    case.until(installed()).await;
    has_mill(&case).await;
    case.remove().await;
    case.until_gone(&Target::cluster("v1", "Namespace", &case.namespace())).await;
    assert!(case.find(&Target::bundle(&case.name)).await.is_some(), "it is nobody's");
}

/// A standalone Bundle has no deployment that could say what is watched.
#[tokio::test]
async fn a_standalone_bundle_must_support_all_namespaces() {
    let case = Case::new("alone-own").await;
    let source = case.push("v1", case.files("own")).await;
    let bundle = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": case.name},
                        "spec": {"provisionerClassName": REGISTRY, "source": source}});
    case.create(&bundle).await;
    let text = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled";
    until_bundle(&case.client, &case.name, Expected::is_false("Unpacked", "UnpackFailed").saying(text)).await;
}
