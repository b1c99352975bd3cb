//! What a bundle of our own is rendered to, and what happens to it when it is broken.

use proptest::prelude::*;
use rukpak_content::{BundleTree, Limits};
use rukpak_plain::Object;
use rukpak_registry::config::Config;
use rukpak_registry::render::{CA_ANNOTATION, serving_certificates};
use rukpak_registry::{Bundle, Certificates, Proxy, RenderOptions, load, render};
use serde_json::{Value, json};

mod support;

use support::chain;
use support::fixture::{CSV, FILES, kite, text};

fn bundle(changes: &[(&str, &str)]) -> Bundle {
    load(&kite(changes), &Limits::default()).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn options(certificates: Certificates) -> RenderOptions {
    RenderOptions {
        install_namespace: "sky".into(),
        target_namespaces: None,
        with_namespace: false,
        certificates,
        deployment_config: None,
        object_labels: std::collections::BTreeMap::new(),
        api_roles: false,
        operator_condition: false,
    }
}

fn rendered(bundle: &Bundle, options: &RenderOptions) -> Vec<Object> {
    render(bundle, options).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn find<'a>(objects: &'a [Object], kind: &str) -> Vec<&'a Object> {
    objects.iter().filter(|object| object.kind() == kind).collect()
}

fn csv_with(from: &str, to: &str) -> String {
    assert!(text(CSV).contains(from), "{from}");
    text(CSV).replace(from, to)
}

#[test]
fn the_order_is_that_of_the_generators() {
    let bundle = bundle(&[]);
    let objects = rendered(&bundle, &RenderOptions::v1alpha1(&bundle, Certificates::CertManager));
    let kinds: Vec<_> = objects.iter().map(Object::kind).collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterRole",
            "ClusterRoleBinding",
            "CustomResourceDefinition",
            "ConfigMap",
            "PriorityClass",
            "ServiceMonitor",
            "Deployment",
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
            "Service",
            "Issuer",
            "Certificate",
        ]
    );
    assert_eq!(objects[0].name(), "kites");
    assert!(objects.iter().filter_map(Object::namespace).all(|namespace| namespace == "kites"));
    let optional: Vec<&str> = bundle.optional(&objects).map(Object::kind).collect();
    assert_eq!(optional, ["ServiceMonitor"]);
    assert_eq!(bundle.metadata.dependencies.len(), 1);
}

#[test]
fn the_namespace_has_the_labels_and_annotations_of_the_template() {
    let made = |template: &str, with_namespace: bool| {
        let line = "    operatorframework.io/suggested-namespace: kites\n";
        let csv =
            csv_with(line, &format!("{line}    operatorframework.io/suggested-namespace-template: '{template}'\n"));
        let bundle = bundle(&[(CSV, &csv)]);
        let options = RenderOptions { with_namespace, ..RenderOptions::v1alpha1(&bundle, Certificates::CertManager) };
        let objects = rendered(&bundle, &options);
        find(&objects, "Namespace")
            .into_iter()
            .map(|object| object.clone().into_value()["metadata"].clone())
            .collect::<Vec<_>>()
    };
    let template = r#"{"metadata": {"name": "other", "labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {}}"#;
    let expected = json!({"name": "kites", "labels": {"a": "b"}, "annotations": {"c": "d"}});
    assert_eq!(made(template, true), [expected], "its name is not RukPak's choice");
    assert_eq!(made("no JSON", true), [json!({"name": "kites"})], "it is remarked");
    assert_eq!(made(template, false), [] as [Value; 0]);
}

#[test]
fn permissions_become_cluster_roles_when_all_namespaces_are_watched() {
    let objects = rendered(&bundle(&[]), &options(Certificates::CertManager));
    let roles = find(&objects, "ClusterRole");
    let bindings = find(&objects, "ClusterRoleBinding");
    assert_eq!((roles.len(), bindings.len()), (3, 3));
    assert_eq!(roles[1].as_value()["rules"], json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]));
    assert_eq!(bindings[1].as_value()["subjects"][0]["name"], "default");
    let seen = json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]});
    assert_eq!(roles[2].as_value()["rules"][1], seen);
    // The names were worked out apart, from SHA-224 over the JSON that Go writes.
    let names = [
        "kite.v1.2.0-kite-m-169zwn1j7ntkbkpk32nbslftlezbnaamerjwrnrqlv1w",
        "kite.v1.2.0-default-1w0nxhf3ku8aavcvr46u43p72jecq62vm78we9qvg7uu",
        "kite.v1.2.0-kite-m-1t9pek2zarpuq9agwixn2vnbogljcpq4lmvn0gd95jzy",
    ];
    assert_eq!(roles.iter().map(|role| role.name()).collect::<Vec<_>>(), names);
    for (role, binding) in roles.iter().zip(&bindings) {
        assert_eq!(binding.as_value()["roleRef"]["name"], role.name());
    }
}

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
    let rule = json!({"verbs": ["get", "update", "patch"], "apiGroups": ["operators.coreos.com"],
        "resources": ["operatorconditions"], "resourceNames": ["kite.v1.2.0"]});
    let subject = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "sky"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kite.v1.2.0"});
    assert_eq!(
        added,
        [
            json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": metadata, "spec": spec}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}),
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

#[test]
fn permissions_become_roles_in_each_namespace_that_is_watched() {
    let csv = csv_with("AllNamespaces, supported: true", "MultiNamespace, supported: true");
    let csv = csv.replace("    - type: ConversionWebhook", "    - type: ValidatingAdmissionWebhook");
    let mut options = options(Certificates::CertManager);
    options.target_namespaces = Some(vec!["a".into(), "b".into()]);
    let objects = rendered(&bundle(&[(CSV, &csv)]), &options);
    let roles = find(&objects, "Role");
    assert_eq!(roles.iter().map(|role| role.namespace().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(find(&objects, "ClusterRole").len(), 2);
    let bindings = find(&objects, "RoleBinding");
    assert_eq!(bindings[1].as_value()["subjects"][0]["namespace"], "sky");
    let pod = find(&objects, "Deployment")[0].as_value()["spec"]["template"].clone();
    assert_eq!(pod["metadata"]["annotations"]["olm.targetNamespaces"], "a,b");
    let hook = find(&objects, "ValidatingWebhookConfiguration")[0].as_value()["webhooks"][0].clone();
    assert_eq!(hook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["a", "b"]));
}

#[test]
fn deployments_carry_annotations_and_certificates() {
    let objects = rendered(&bundle(&[]), &options(Certificates::CertManager));
    let deployment = find(&objects, "Deployment")[0].as_value();
    assert_eq!(deployment["metadata"], json!({"name": "kite.manager", "namespace": "sky", "labels": {"app": "kite"}}));
    assert_eq!(deployment["spec"]["revisionHistoryLimit"], 1);
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["capabilities"], "of the template");
    assert_eq!(
        (&annotations["olm.targetNamespaces"], &annotations["olm.operatorNamespace"]),
        (&json!(""), &json!("sky"))
    );
    let properties = annotations["olm.properties"].as_str().unwrap();
    assert!(properties.starts_with(r#"[{"type":"olm.maxOpenShiftVersion","value":"\u003c4.9"}"#), "{properties}");
    let pod = &deployment["spec"]["template"]["spec"];
    let names = |list: &Value| list.as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&pod["volumes"]), ["data", "webhook-cert", "apiservice-cert"]);
    assert_eq!(names(&pod["containers"][0]["volumeMounts"]), ["data", "webhook-cert", "apiservice-cert"]);
    assert_eq!(pod["volumes"][2]["secret"]["items"][1], json!({"key": "tls.key", "path": "apiserver.key"}));
}

/// The reference takes them for cluster-scoped: then they would go wherever the applier puts objects without a namespace.
#[test]
fn vertical_pod_autoscalers_go_to_the_install_namespace() {
    let autoscaler = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: kite}\n";
    let bundle = bundle(&[("manifests/autoscaler.yaml", autoscaler)]);
    let objects = rendered(&bundle, &options(Certificates::CertManager));
    assert_eq!(find(&objects, "VerticalPodAutoscaler")[0].namespace(), Some("sky"));
}

#[test]
fn webhooks_have_a_service_with_their_ports() {
    let objects = rendered(&bundle(&[]), &options(Certificates::CertManager));
    let service = find(&objects, "Service")[0].as_value();
    let expected = json!({"selector": {"app": "kite"}, "ports": [
        {"name": "443", "port": 443, "targetPort": 9443}, {"name": "444", "port": 444, "targetPort": "convert"}]});
    assert_eq!((&service["metadata"]["name"], &service["spec"]), (&json!("kite-manager-service"), &expected));
    let mutating = find(&objects, "MutatingWebhookConfiguration")[0].as_value();
    assert_eq!(mutating["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], "sky/kite-manager-service-cert");
    assert_eq!(mutating["webhooks"][0]["clientConfig"]["service"]["port"], 443);
    assert_eq!(mutating["webhooks"][0]["reinvocationPolicy"], "Never");
    let crd = find(&objects, "CustomResourceDefinition")[0].as_value();
    let service = &crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service, &json!({"namespace": "sky", "name": "kite-manager-service", "path": "/", "port": 444}));
}

#[test]
fn self_managed_certificates_are_placeholders() {
    let bundle = bundle(&[]);
    let objects = rendered(&bundle, &options(Certificates::SelfManaged { placeholder: "Y2E=".into() }));
    let certificates = serving_certificates(&bundle, "sky");
    assert_eq!(certificates.len(), 1);
    assert_eq!(certificates[0].dns_names[1], "kite-manager-service.sky.svc");
    let secret = find(&objects, "Secret")[0].as_value();
    assert_eq!((&secret["type"], &secret["data"]["tls.key"]), (&json!("kubernetes.io/tls"), &json!("Y2E=")));
    assert_eq!(secret["metadata"]["name"], certificates[0].secret);
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let hook = find(&objects, kind)[0];
        assert_eq!(hook.annotation(CA_ANNOTATION), Some("sky/kite-manager-service-cert"));
        assert_eq!(hook.as_value()["webhooks"][0]["clientConfig"]["caBundle"], "Y2E=");
    }
    let crd = find(&objects, "CustomResourceDefinition")[0].as_value();
    assert_eq!(crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"], "Y2E=");
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
    let rule = json!({"verbs": ["get", "list", "watch"], "apiGroups": ["a.io"], "resources": ["bs"]});
    assert_eq!(role["rules"], json!([rule]));
}

#[test]
fn an_aggregated_api_without_its_deployment_is_refused() {
    let owned = "  apiservicedefinitions: {owned: [{name: as, group: a.io, version: v1, kind: A, deploymentName: gone}]}\n  \
        install:\n";
    let bundle = bundle(&[(CSV, &csv_with("  install:\n", owned))]);
    let error = render(&bundle, &options(Certificates::CertManager)).unwrap_err();
    assert_eq!(error.to_string(), "API service 'v1.a.io' references non-existent deployment 'gone'");
}

#[test]
fn the_service_ca_is_asked_by_annotations() {
    let objects = rendered(&bundle(&[]), &options(Certificates::ServiceCa));
    assert!(find(&objects, "Secret").is_empty() && find(&objects, "Certificate").is_empty());
    let service = find(&objects, "Service")[0];
    let asked = service.annotation("service.beta.openshift.io/serving-cert-secret-name");
    assert_eq!(asked, Some("kite-manager-service-cert"));
    let crd = find(&objects, "CustomResourceDefinition")[0];
    assert_eq!(crd.annotation("service.beta.openshift.io/inject-cabundle"), Some("true"));
}

#[test]
fn the_users_configuration_changes_the_pods() {
    let bundle = bundle(&[]);
    let config = json!({"deploymentConfig": {"env": [{"name": "LEVEL", "value": "debug"}, {"name": "NEW", "value": "1"}],
        "nodeSelector": {"disk": "ssd"}, "annotations": {"capabilities": "mine", "team": "sky"},
        "tolerations": [{"operator": "Exists"}, {"operator": "Exists"}], "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}]}});
    let config = Config::read(&bundle.csv, "sky", &config).unwrap();
    let mut options = options(Certificates::CertManager);
    options.deployment_config = config.deployment;
    let deployment = find(&rendered(&bundle, &options), "Deployment")[0].as_value();
    let pod = &deployment["spec"]["template"];
    let expected = json!([{"name": "LEVEL", "value": "debug"}, {"name": "NEW", "value": "1"}]);
    assert_eq!(pod["spec"]["containers"][0]["env"], expected);
    assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["spec"]["volumes"][0], json!({"name": "data", "emptyDir": {"medium": "Memory"}}));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(pod["metadata"]["annotations"]["capabilities"], "of the template");
    assert_eq!(deployment["metadata"]["annotations"], json!({"capabilities": "mine", "team": "sky"}));
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

#[test]
fn a_shipped_service_account_takes_the_place_of_the_generated_one() {
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: kite-manager, labels: {a: b}}\n";
    let objects = rendered(&bundle(&[("manifests/sa.yaml", account)]), &options(Certificates::CertManager));
    let accounts = find(&objects, "ServiceAccount");
    assert_eq!((accounts.len(), accounts[0].label("a"), accounts[0].namespace()), (1, Some("b"), Some("sky")));
}

#[test]
fn the_generated_service_is_merged_into_a_shipped_one_of_its_name() {
    let shipped = r"
apiVersion: v1
kind: Service
metadata:
  name: kite-manager-service
  namespace: elsewhere
  labels: {team: sky}
  annotations: {service.beta.openshift.io/serving-cert-secret-name: metrics-cert}
spec:
  type: NodePort
  selector: {app: other, tier: web}
  ports:
    - {name: metrics, port: 8443, targetPort: https}
    - {name: webhook, port: 443, protocol: TCP, targetPort: 1, appProtocol: https}
    - {port: 443, protocol: UDP}
    - {port: 9000}
";
    let bundle = bundle(&[("manifests/service.yaml", shipped)]);
    let objects = rendered(&bundle, &options(Certificates::CertManager));
    let services = find(&objects, "Service");
    assert_eq!(services.len(), 1);
    let annotations = json!({"service.beta.openshift.io/serving-cert-secret-name": "metrics-cert"});
    let metadata = json!({"name": "kite-manager-service", "namespace": "sky", "labels": {"team": "sky"},
        "annotations": annotations});
    let ports = json!([
        {"name": "metrics", "port": 8443, "targetPort": "https"},
        {"name": "443", "port": 443, "protocol": "TCP", "targetPort": 9443, "appProtocol": "https"},
        {"name": "udp-443", "port": 443, "protocol": "UDP"},
        {"name": "tcp-9000", "port": 9000},
        {"name": "444", "port": 444, "targetPort": "convert"},
    ]);
    let spec = json!({"type": "NodePort", "selector": {"app": "kite"}, "ports": ports});
    let service = services[0].as_value();
    assert_eq!((&service["metadata"], &service["spec"]), (&metadata, &spec));
    assert_eq!(
        bundle.remarks(),
        [
            "manifests/service.yaml, document 1 (line 2): the Service kite-manager-service is generated for the webhooks: \
          its ports and its selector replace those written here"
        ]
    );
    // The service CA is asked for the certificate that the webhooks serve with.
    let objects = rendered(&bundle, &options(Certificates::ServiceCa));
    let asked = find(&objects, "Service")[0].annotation("service.beta.openshift.io/serving-cert-secret-name");
    assert_eq!(asked, Some("kite-manager-service-cert"));
}

#[test]
fn a_service_of_another_api_is_not_merged_with_the_one_for_webhooks() {
    let knative = "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: kite-manager-service}\nspec: {template: {}}\n";
    let bundle = bundle(&[("manifests/service.yaml", knative)]);
    let objects = rendered(&bundle, &options(Certificates::CertManager));
    let versions: Vec<_> = find(&objects, "Service").iter().map(|service| service.api_version().to_owned()).collect();
    assert_eq!((versions, bundle.remarks()), (vec!["serving.knative.dev/v1".to_owned(), "v1".to_owned()], vec![]));
}

#[test]
fn a_shipped_webhook_service_without_ports_or_twice_is_one_service() {
    let bare = "apiVersion: v1\nkind: Service\nmetadata: {name: kite-manager-service}\n";
    let twice = bundle(&[("manifests/a.yaml", bare), ("manifests/b.yaml", bare)]);
    let objects = rendered(&twice, &options(Certificates::CertManager));
    let generated = rendered(&bundle(&[]), &options(Certificates::CertManager));
    assert_eq!(find(&objects, "Service"), find(&generated, "Service"));
}

#[test]
fn one_object_twice_is_refused_if_it_differs() {
    let same = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kite-settings}\ndata: {wind: strong}\n";
    let objects = rendered(&bundle(&[("manifests/same.yaml", same)]), &options(Certificates::CertManager));
    assert_eq!(find(&objects, "ConfigMap").len(), 1);
    let other = same.replace("strong", "weak");
    let error = render(&bundle(&[("manifests/other.yaml", &other)]), &options(Certificates::CertManager)).unwrap_err();
    assert!(chain(&error).contains("ConfigMap \"sky/kite-settings\" is declared twice"), "{}", chain(&error));
}

#[test]
fn kinds_that_olm_reads_by_name_need_no_version() {
    let more = r#"
kind: List
items:
  - {kind: ClusterRole, metadata: {name: kite-reader}, rules: []}
  - {kind: ConfigMap, apiVersion: "", metadata: {name: kite-colours}}
  - {kind: Service, metadata: {name: kite-manager-service}}
"#;
    let csv = csv_with("apiVersion: operators.coreos.com/v1alpha1\n", "");
    let bundle = bundle(&[(CSV, &csv), ("manifests/z.yaml", more)]);
    let objects = rendered(&bundle, &options(Certificates::CertManager));
    let version_of =
        |name: &str| objects.iter().find(|object| object.name() == name).map(|object| object.api_version().to_owned());
    assert_eq!(version_of("kite-reader").as_deref(), Some("rbac.authorization.k8s.io/v1"));
    assert_eq!(version_of("kite-colours").as_deref(), Some("v1"));
    assert_eq!(find(&objects, "Service").len(), 1);
    let place = "manifests/z.yaml, document 1 (line 2), items[0]";
    let remark =
        format!("{place}: apiVersion is missing: read as rbac.authorization.k8s.io/v1, as OLM reads this kind");
    assert_eq!(bundle.remarks()[1], remark, "{:?}", bundle.remarks());
}

#[test]
fn one_object_in_two_versions_of_its_api_is_refused() {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: kite-reader}\n";
    let old = role.replace("/v1", "/v1beta1");
    let bundle = bundle(&[("manifests/new.yaml", role), ("manifests/old.yaml", &old)]);
    let error = chain(&render(&bundle, &options(Certificates::CertManager)).unwrap_err());
    assert_eq!(
        error,
        "render the bundle: ClusterRole.rbac.authorization.k8s.io \"kite-reader\" is declared twice with different content: \
         manifests/new.yaml, document 1 (line 1) and manifests/old.yaml, document 1 (line 1): remove one of them"
    );
}

#[test]
fn options_are_refused_in_the_words_of_the_reference() {
    let mut bad = options(Certificates::CertManager);
    bad.target_namespaces = Some(vec!["a".into()]);
    bad.install_namespace = String::new();
    let refusal = render(&bundle(&[]), &bad).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "invalid option(s): install namespace must be specified\ninvalid target namespaces [a]: supported install modes \
         [AllNamespaces] do not support target namespaces [a]"
    );
    let crd = text("manifests/kites.crd.yaml").replace("  scope:", "  preserveUnknownFields: true\n  scope:");
    let error =
        render(&bundle(&[("manifests/kites.crd.yaml", &crd)]), &options(Certificates::CertManager)).unwrap_err();
    assert!(error.to_string().contains("must have .spec.preserveUnknownFields set to false"), "{error}");
}

/// All that this crate does with a tree; it must not panic, and must do the same twice.
fn answer(tree: &BundleTree) -> String {
    let bundle = match load(tree, &Limits::default()) {
        Ok(bundle) => bundle,
        Err(error) => return chain(&error),
    };
    let remarks = bundle.remarks().join("\n");
    let options = RenderOptions::v1alpha1(&bundle, Certificates::SelfManaged { placeholder: "Y2E=".into() });
    match render(&bundle, &options) {
        Ok(objects) => serde_json::to_string(&objects).expect("objects are JSON") + &remarks,
        Err(error) => chain(&error) + &remarks,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_mangled_bundle_gives_the_same_answer_twice(
        file in 0..FILES.len(),
        cut in any::<prop::sample::Index>(),
        length in 0..200_usize,
        insert in r#"[ -~\n]{0,20}|null|\[\]|\{\}|: 5|- |""|true"#,
    ) {
        let (path, text) = FILES[file];
        let start = cut.index(text.len());
        let mut mangled = String::from(&text[..start]);
        mangled.push_str(&insert);
        mangled.push_str(&text[(start + length).min(text.len())..]);
        let tree = kite(&[(path, &mangled)]);
        prop_assert_eq!(answer(&tree), answer(&tree));
    }

    #[test]
    fn a_line_replaced_by_another_gives_the_same_answer_twice(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let lines: Vec<_> = text(CSV).lines().collect();
        let mut mangled = lines.clone();
        mangled[from.index(lines.len())] = lines[to.index(lines.len())];
        let tree = kite(&[(CSV, &mangled.join("\n"))]);
        prop_assert_eq!(answer(&tree), answer(&tree));
    }
}
