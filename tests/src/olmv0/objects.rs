//! What OLM makes of the parts of a bundle.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use serde_json::{Value, json};

use super::{CATALOG, OLM, Operator, certificate};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Operator {
    fn is_global(&self) -> bool {
        self.subscribed.targets.iter().any(String::is_empty)
    }

    fn webhook_definitions(&self) -> Vec<Value> {
        items(&self.manifest, "/spec/webhookdefinitions").to_vec()
    }

    /// The CRDs, without an owner.
    pub(super) async fn definitions(&mut self, client: &Client) {
        for mut definition in self.others.clone() {
            if definition["kind"] == "CustomResourceDefinition" {
                definition["metadata"]["labels"] = json!({"olm.managed": "true", self.component(): ""});
                definition["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-x": format!("{}/{}", self.subscribed.namespace, self.csv)});
                self.post(client, CATALOG, &definition).await;
            }
        }
    }

    /// ServiceAccounts, Roles in the operator's namespace, ClusterRoles with a name of their own; in an OperatorGroup for all namespaces
    /// Roles once more as ClusterRoles.
    pub(super) async fn rights(&mut self, client: &Client) {
        let strategy = self.manifest["spec"]["install"]["spec"].clone();
        let mut accounts: Vec<&str> = Vec::new();
        for (list, is_cluster) in [("/permissions", false), ("/clusterPermissions", true)] {
            for (index, permission) in items(&strategy, list).iter().enumerate() {
                let account = permission["serviceAccountName"].as_str().unwrap_or("default");
                if !accounts.contains(&account) {
                    accounts.push(account);
                    let metadata = json!({"name": account, "namespace": self.subscribed.namespace,
                        "labels": {"olm.managed": "true", self.component(): ""}, "ownerReferences": self.owner()});
                    let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
                    self.post(client, CATALOG, &object).await;
                }
                let hash = format!("9aB{index}xYz");
                if is_cluster {
                    self.grant(client, &format!("{}-{hash}", self.csv), account, &permission["rules"], true).await;
                    continue;
                }
                let name = format!("{}-{account}-{hash}", self.csv);
                self.grant(client, &name, account, &permission["rules"], false).await;
                if self.is_global() {
                    self.grant(client, &name, account, &permission["rules"], true).await;
                }
            }
        }
    }

    async fn grant(&mut self, client: &Client, name: &str, account: &str, rules: &Value, is_cluster: bool) {
        let (prefix, name) = (if is_cluster { "Cluster" } else { "" }, name.to_lowercase());
        let mut labels = self.owner_labels();
        labels["olm.permissions.hash"] = json!("4Xq");
        let mut metadata = json!({"name": name, "labels": labels});
        if !is_cluster {
            metadata["namespace"] = json!(self.subscribed.namespace);
            metadata["ownerReferences"] = self.owner();
        }
        let role = json!({"apiVersion": RBAC, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules});
        self.post(client, CATALOG, &role).await;
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": name});
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": self.subscribed.namespace});
        let binding = json!({"apiVersion": RBAC, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                             "roleRef": reference, "subjects": [subject]});
        self.post(client, CATALOG, &binding).await;
    }

    /// Everything else of the bundle that lies in a namespace.
    pub(super) async fn manifests(&mut self, client: &Client) {
        for mut object in self.others.clone() {
            if object["kind"] == "CustomResourceDefinition" {
                continue;
            }
            object["metadata"]["namespace"] = json!(self.subscribed.namespace);
            object["metadata"]["labels"] = json!({"olm.managed": "true", self.component(): ""});
            object["metadata"]["ownerReferences"] = self.owner();
            self.post(client, CATALOG, &object).await;
        }
    }

    /// Service, Secret and rights for each Deployment with webhooks, and a configuration under a random name for each webhook.
    pub(super) async fn webhooks(&mut self, client: &Client) {
        let definitions = self.webhook_definitions();
        let Some(first) = definitions.first() else { return };
        let deployment = first["deploymentName"].as_str().expect("it has one").to_owned();
        let (service, namespace) = (format!("{deployment}-service"), self.subscribed.namespace.clone());
        let (authority, leaf) = certificate(&service, &namespace);
        let deployments = items(&self.manifest, "/spec/install/spec/deployments");
        let selector = deployments
            .iter()
            .find(|one| one["name"] == deployment)
            .map(|one| one["spec"]["selector"]["matchLabels"].clone());
        let port = first["containerPort"].clone();
        let metadata = json!({"name": service, "namespace": namespace, "labels": self.owner_labels(), "ownerReferences": self.owner()});
        let ports = json!([{"name": port.to_string(), "port": port, "targetPort": first["targetPort"]}]);
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports, "selector": selector}});
        self.post(client, "olm.install", &object).await;
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        let metadata = json!({"name": format!("{service}-cert"), "namespace": namespace, "labels": {"olm.managed": "true"},
            "annotations": {"olmcahash": "abc"}, "ownerReferences": self.owner()});
        let data = json!({"tls.crt": encoded(&leaf.cert_pem), "tls.key": encoded(&leaf.key_pem), "olmCAKey": encoded(&authority)});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data});
        self.post(client, OLM, &object).await;
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": [format!("{service}-cert")]}]);
        self.grant(client, &format!("{service}-cert"), "default", &rules, false).await;
        let client_config = |path: &Value| {
            json!({"caBundle": encoded(&authority),
            "service": {"name": service, "namespace": namespace, "port": port, "path": path}})
        };
        for definition in definitions {
            let kind = match definition["type"].as_str() {
                Some("ValidatingAdmissionWebhook") => "ValidatingWebhookConfiguration",
                Some("MutatingAdmissionWebhook") => "MutatingWebhookConfiguration",
                _ => {
                    self.convert(client, &definition, &client_config(&definition["webhookPath"])).await;
                    continue;
                }
            };
            let name = definition["generateName"].as_str().expect("it has one");
            let mut labels = self.owner_labels();
            labels["olm.webhook-description-generate-name"] = json!(name);
            let hook = json!({"name": name, "clientConfig": client_config(&definition["webhookPath"]),
                "rules": definition["rules"], "sideEffects": "None", "failurePolicy": definition["failurePolicy"],
                "admissionReviewVersions": definition["admissionReviewVersions"], "timeoutSeconds": definition["timeoutSeconds"]});
            let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"generateName": format!("{name}-"), "labels": labels}, "webhooks": [hook]});
            self.post(client, OLM, &object).await;
        }
    }

    async fn convert(&self, client: &Client, definition: &Value, config: &Value) {
        for name in items(definition, "/conversionCRDs").iter().filter_map(Value::as_str) {
            let target = crate::verbs::Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name);
            let webhook =
                json!({"clientConfig": config, "conversionReviewVersions": definition["admissionReviewVersions"]});
            let patch = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}});
            let api = target.api(client).await.unwrap_or_else(|error| panic!("{error:#}"));
            let parameters =
                kube::api::PatchParams { field_manager: Some(OLM.to_owned()), ..kube::api::PatchParams::default() };
            let patched = api.patch(name, &parameters, &kube::api::Patch::Merge(patch)).await;
            patched.unwrap_or_else(|error| panic!("{target}: {error}"));
        }
    }

    /// The Deployments: with all annotations of the ClusterServiceVersion on their Pods, the settings of the Subscription, the name of
    /// the OperatorCondition, and the certificate.
    pub(super) async fn deployments(&mut self, client: &Client) {
        let serving: Vec<Value> =
            self.webhook_definitions().iter().map(|hook| hook["deploymentName"].clone()).collect();
        for entry in items(&self.manifest.clone(), "/spec/install/spec/deployments") {
            let name = entry["name"].as_str().expect("it has one");
            let mut labels = self.owner_labels();
            labels["olm.deployment-spec-hash"] = json!("6Rz");
            for (key, value) in entry["label"].as_object().into_iter().flatten() {
                labels[key] = value.clone();
            }
            let mut spec = entry["spec"].clone();
            spec["revisionHistoryLimit"] = json!(1);
            let template = &mut spec["template"];
            for (key, value) in self.manifest["metadata"]["annotations"].as_object().into_iter().flatten() {
                template["metadata"]["annotations"][key] = value.clone();
            }
            if serving.contains(&entry["name"]) {
                mount(template, &format!("{name}-service-cert"));
            }
            for container in template["spec"]["containers"].as_array_mut().expect("it has some") {
                configure(container, &self.subscribed.config);
                let condition = json!({"name": "OPERATOR_CONDITION_NAME", "value": self.csv});
                push(&mut container["env"], condition);
            }
            let metadata = json!({"name": name, "namespace": self.subscribed.namespace, "labels": labels,
                                  "ownerReferences": self.owner()});
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
            self.post(client, OLM, &object).await;
        }
    }

    /// The OperatorCondition, which the ClusterServiceVersion controls, and the right to write it.
    pub(super) async fn condition(&mut self, client: &Client) {
        let mut owner = self.owner();
        owner[0]["controller"] = json!(true);
        let metadata = json!({"name": self.csv, "namespace": self.subscribed.namespace,
                              "labels": {"olm.managed": "true", self.component(): ""}, "ownerReferences": owner});
        let object = json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "metadata": metadata, "spec": {}});
        self.post(client, OLM, &object).await;
        let rules = json!([{"apiGroups": ["operators.coreos.com"], "resources": ["operatorconditions"],
                            "verbs": ["get", "update", "patch"], "resourceNames": [self.csv]}]);
        self.grant(client, &self.csv.clone(), "default", &rules, false).await;
    }

    /// ClusterRoles for users of the APIs, which the CRDs own, and the Operator.
    pub(super) async fn for_users(&mut self, client: &Client) {
        for owned in items(&self.manifest.clone(), "/spec/customresourcedefinitions/owned") {
            let (name, version) =
                (owned["name"].as_str().expect("a name"), owned["version"].as_str().expect("a version"));
            let key = format!("CustomResourceDefinition {name}");
            let uid = self.uids.get(&key).map(|(_, uid)| uid.clone()).expect("it was made");
            let owner = json!([{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": name, "uid": uid}]);
            let (plural, group) = name.split_once('.').expect("it has a group");
            for (suffix, verbs) in [("admin", json!(["*"])), ("view", json!(["get", "list", "watch"]))] {
                let labels = json!({"olm.managed": "true", format!("rbac.authorization.k8s.io/aggregate-to-{suffix}"): "true",
                                    format!("olm.opgroup.permissions/aggregate-to-abc-{suffix}"): "true"});
                let metadata =
                    json!({"name": format!("{name}-{version}-{suffix}"), "labels": labels, "ownerReferences": owner});
                let rules = json!([{"verbs": verbs, "apiGroups": [group], "resources": [plural]}]);
                let role = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": rules});
                self.post(client, OLM, &role).await;
            }
        }
        let name = format!("{}.{}", self.subscribed.package, self.subscribed.namespace);
        let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": name}, "spec": {}});
        self.post(client, OLM, &object).await;
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// `spec.config` of a Subscription, as far as the tests use it.
fn configure(container: &mut Value, config: &Value) {
    for variable in items(config, "/env") {
        let mut known = container["env"].as_array_mut().into_iter().flatten();
        match known.find(|known| known["name"] == variable["name"]) {
            Some(known) => *known = variable.clone(),
            None => push(&mut container["env"], variable.clone()),
        }
    }
    if !config["resources"].is_null() {
        container["resources"] = config["resources"].clone();
    }
}

/// The two places of the certificate, in the order of OLM.
fn mount(template: &mut Value, secret: &str) {
    let places = [
        ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
        ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ];
    for (name, folder, certificate, key) in places {
        let items = json!([{"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]);
        push(&mut template["spec"]["volumes"], json!({"name": name, "secret": {"secretName": secret, "items": items}}));
        for container in template["spec"]["containers"].as_array_mut().expect("it has some") {
            push(&mut container["volumeMounts"], json!({"name": name, "mountPath": folder}));
        }
    }
    template["metadata"]["annotations"]["olmcahash"] = json!("abc");
}
