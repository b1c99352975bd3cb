//! What a bundle of our own is rendered to, and what happens to it when it is broken.

use proptest::prelude::*;
use rukpak_content::{BundleTree, Limits};
use rukpak_plain::Object;
use rukpak_registry::config::Config;
use rukpak_registry::render::{CA_ANNOTATION, serving_certificates};
use rukpak_registry::{Certificates, RenderOptions, load, render};
use serde_json::{Value, json};

mod support;

use support::chain;
use support::fixture::{CSV, FILES, kite, text};
use support::rendering::{bundle, csv_with, find, options, rendered};

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
        let namespace_template = bundle.namespace_template().unwrap_or_default();
        let options = RenderOptions {
            with_namespace,
            namespace_template,
            ..RenderOptions::v1alpha1(&bundle, Certificates::CertManager)
        };
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
        "tolerations": [{"operator": "Exists"}, {"operator": "Exists"}], "volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}],
        "imagePullSecrets": [{"name": "login"}, {"name": "login"}]}});
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
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "login"}]));
    assert_eq!(pod["metadata"]["annotations"]["capabilities"], "of the template");
    assert_eq!(deployment["metadata"]["annotations"], json!({"capabilities": "mine", "team": "sky"}));
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
        ["manifests/service.yaml, document 1 (line 2): the Service kite-manager-service is generated: \
          its ports and its selector replace those written here"]
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
