//! What is rendered as by OLM v0 and not by OLM v1.

use rukpak_plain::Object;
use rukpak_registry::config::Config;
use rukpak_registry::render::{CA_ANNOTATION, IN_COMMON};
use rukpak_registry::{Certificates, Places, Proxy, render};
use serde_json::{Value, json};

mod support;

use support::fixture::CSV;
use support::rendering::{bundle, csv_with, find, options, rendered};

#[test]
fn roles_for_the_apis_are_those_of_olm_v0_and_only_on_request() {
    let (bundle, mut options) = (bundle(&[]), options(Certificates::CertManager));
    let without = rendered(&bundle, &options);
    let config = Config::read(&bundle.csv, "sky", &json!({"apiRoles": true})).unwrap();
    options.api_roles = config.api_roles;
    let with = rendered(&bundle, &options);
    let added: Vec<Value> = with.iter().filter(|object| !without.contains(object)).map(Object::as_value).collect();
    assert_eq!(with.len(), without.len() + added.len());

    let role = |name: &str, into: &str, rule: Value| {
        let labels = json!({format!("rbac.authorization.k8s.io/aggregate-to-{into}"): "true"});
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("kites.sky.example.org-v1-{name}"), "labels": labels}, "rules": [rule]})
    };
    let of_kites = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": ["sky.example.org"], "resources": ["kites"]});
    let definition = json!({"verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"], "resourceNames": ["kites.sky.example.org"]});
    assert_eq!(
        added,
        [
            role("admin", "admin", of_kites(&["*"])),
            role("edit", "edit", of_kites(&["create", "update", "patch", "delete"])),
            role("view", "view", of_kites(&["get", "list", "watch"])),
            role("crdview", "view", definition),
        ]
    );
}

#[test]
fn an_operator_condition_is_that_of_olm_v0_and_only_on_request() {
    let (bundle, mut options) = (bundle(&[]), options(Certificates::CertManager));
    let without = rendered(&bundle, &options);
    let config = Config::read(&bundle.csv, "sky", &json!({"operatorCondition": true})).unwrap();
    options.operator_condition = config.operator_condition;
    let with = rendered(&bundle, &options);
    let key = |object: &&Object| without.iter().all(|known| known.key() != object.key());
    let added: Vec<Value> = with.iter().filter(key).map(Object::as_value).collect();

    let metadata = json!({"name": "kite.v1.2.0", "namespace": "sky"});
    // The operator and people write conditions and overrides: nothing is said of them.
    let spec = json!({"serviceAccounts": ["default", "kite-manager"], "deployments": ["kite.manager"]});
    let may_write = json!({"verbs": ["get", "update", "patch"], "apiGroups": ["operators.coreos.com"],
        "resources": ["operatorconditions"], "resourceNames": ["kite.v1.2.0"]});
    let subject = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "sky"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kite.v1.2.0"});
    assert_eq!(
        added,
        [
            json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": metadata, "spec": spec}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [may_write]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
                "subjects": [subject("default"), subject("kite-manager")], "roleRef": role}),
        ]
    );
    let variables = |objects: &[Object]| {
        find(objects, "Deployment")[0].as_value()["spec"]["template"]["spec"]["containers"][0]["env"].clone()
    };
    let level = json!({"name": "LEVEL", "value": "info"});
    assert_eq!(variables(&without), json!([level]));
    assert_eq!(variables(&with), json!([level, {"name": "OPERATOR_CONDITION_NAME", "value": "kite.v1.2.0"}]));
}

/// But for CRDs, which say so, two installations have no object of the same name.
#[test]
fn installations_in_several_namespaces_share_definitions_alone() {
    let bundle = bundle(&[]);
    let of = |namespace: &str, places: Places| {
        let mut options = options(Certificates::CertManager);
        (options.install_namespace, options.places) = (namespace.to_owned(), places);
        rendered(&bundle, &options)
    };
    let shared = |places: Places| {
        let (one, other) = (of("sky", places), of("sea", places));
        let both = one.iter().filter(|object| other.iter().any(|theirs| theirs.key() == object.key()));
        both.map(|object| object.kind().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(shared(Places::One).contains("ClusterRole"));
    let several = shared(Places::Several);
    assert!(several.contains("CustomResourceDefinition"), "{several:?}");
    for kind in ["ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]
    {
        assert!(!several.contains(kind), "{kind}");
    }
    let definition = |places: Places| find(&of("sky", places), "CustomResourceDefinition")[0].clone();
    assert_eq!(definition(Places::Several).annotation(IN_COMMON), Some("kite"));
    assert_eq!(definition(Places::One).annotation(IN_COMMON), None);
}

/// Two resources of one version, and a second Deployment without webhooks.
#[test]
fn aggregated_apis_have_one_api_service_a_version_and_rights_for_their_servers() {
    let owned = "  apiservicedefinitions: {owned: [{name: as, group: a.io, version: v1, kind: A, deploymentName: kite.manager, \
        containerPort: 5443}, {name: bs, group: a.io, version: v1, kind: B, deploymentName: kite.manager, containerPort: 5443}]}\n  \
        install:\n";
    let bundle = bundle(&[(CSV, &csv_with("  install:\n", owned))]);
    let mut options = options(Certificates::SelfManaged { placeholder: "Y2E=".into() });
    options.api_roles = true;
    let objects = rendered(&bundle, &options);

    let services = find(&objects, "APIService");
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].annotation(CA_ANNOTATION), Some("sky/kite-manager-service-cert"));
    let expected = json!({"group": "a.io", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 15,
        "caBundle": "Y2E=", "service": {"namespace": "sky", "name": "kite-manager-service", "port": 5443}});
    let service = services[0].as_value();
    assert_eq!((&service["metadata"]["name"], &service["spec"]), (&json!("v1.a.io"), &expected));

    let ports = &find(&objects, "Service")[0].as_value()["spec"]["ports"];
    assert_eq!(ports[2], json!({"name": "5443", "port": 5443, "targetPort": 5443}), "beside those of webhooks");
    assert_eq!(find(&objects, "Secret").len(), 1, "one certificate for both");

    let bindings: Vec<Value> = objects
        .iter()
        .map(Object::as_value)
        .filter(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.contains("-service-")))
        .filter(|object| object["roleRef"].is_object())
        .collect();
    let names = bindings.iter().map(|binding| (&binding["kind"], &binding["metadata"], &binding["roleRef"]["name"]));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            (
                &json!("ClusterRoleBinding"),
                &json!({"name": "kite-manager-service-system:auth-delegator"}),
                &json!("system:auth-delegator")
            ),
            (
                &json!("RoleBinding"),
                &json!({"name": "kite-manager-service-auth-reader", "namespace": "kube-system"}),
                &json!("extension-apiserver-authentication-reader")
            ),
        ]
    );
    let role = objects.iter().find(|object| object.name() == "bs-v1-view").unwrap().as_value();
    let may_read = json!({"verbs": ["get", "list", "watch"], "apiGroups": ["a.io"], "resources": ["bs"]});
    assert_eq!(role["rules"], json!([may_read]));
}

#[test]
fn an_aggregated_api_without_its_deployment_or_of_kubernetes_own_group_is_refused() {
    let refusal = |group: &str, version: &str, deployment: &str| {
        let owned = format!(
            "  apiservicedefinitions: {{owned: [{{name: as, group: {group}, version: {version}, kind: A, deploymentName: {deployment}}}]}}\n  \
             install:\n"
        );
        let bundle = bundle(&[(CSV, &csv_with("  install:\n", &owned))]);
        render(&bundle, &options(Certificates::CertManager)).unwrap_err().to_string()
    };
    assert_eq!(refusal("a.io", "v1", "gone"), "API service 'v1.a.io' references non-existent deployment 'gone'");
    // A version that is newer than Kubernetes' own would be preferred by every client.
    for group in ["apps", "rbac.authorization.k8s.io"] {
        let expected = format!("API service 'v2.{group}' is of a group of Kubernetes itself");
        assert_eq!(refusal(group, "v2", "kite.manager"), expected);
    }
}

#[test]
fn the_proxy_reaches_all_containers_and_wins_over_the_bundle() {
    let more = "                  - {name: sidecar, image: a, env: [{name: HTTPS_PROXY, value: shipped}]}
                initContainers:
                  - {name: first, image: a}
                volumes:
";
    let bundle = bundle(&[(CSV, &csv_with("                volumes:\n", more))]);
    let mut options = options(Certificates::CertManager);
    let proxy = Proxy { http: String::new(), https: "http://p:3128".into(), no_proxy: ".svc".into() };
    proxy.add_to(&mut options.deployment_config);
    let deployment = find(&rendered(&bundle, &options), "Deployment")[0].as_value();
    let pod = &deployment["spec"]["template"]["spec"];
    let (https, no_proxy) =
        (json!({"name": "HTTPS_PROXY", "value": "http://p:3128"}), json!({"name": "NO_PROXY", "value": ".svc"}));
    let level = json!({"name": "LEVEL", "value": "info"});
    assert_eq!(pod["containers"][0]["env"], json!([level, https, no_proxy]));
    assert_eq!(pod["containers"][1]["env"], json!([https, no_proxy]));
    assert_eq!(pod["initContainers"][0].get("env"), None, "as in OLM");
}
