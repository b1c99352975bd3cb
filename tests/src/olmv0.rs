//! OLM v0, as far as somebody looks at it who takes over what it has installed: its kinds, and what it makes of a bundle.
//!
//! OLM's programs do not run. What they would write is written here: objects with their labels, owner references and generated names,
//! by POSTs and updates. The garbage collector is the real one.

mod objects;

use std::collections::BTreeMap;
use std::path::PathBuf;

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::verbs::{self, Target};
use crate::{TestCa, tools};

const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
/// Under which OLM's two programs write.
const OLM: &str = "olm";
const CATALOG: &str = "catalog";

/// The file with the definitions of OLM's kinds, but for CatalogSources.
pub fn definitions() -> PathBuf {
    tools::crate_folder().join("fixtures/olmv0/definitions.yaml")
}

/// What is subscribed to, and how.
#[derive(Debug, Clone)]
pub struct Subscribed {
    /// Namespace of the Subscription and of the operator.
    pub namespace: String,
    /// The package, and the name of the Subscription.
    pub package: String,
    /// Namespaces that the OperatorGroup targets; one empty name means all.
    pub targets: Vec<String>,
    /// Namespace and name of the CatalogSource.
    pub catalog: (String, String),
    /// `spec.installPlanApproval`.
    pub approval: String,
    /// `spec.config`.
    pub config: Value,
}

/// What OLM has installed.
#[derive(Debug, Clone)]
pub struct Operator {
    /// How it was asked for.
    pub subscribed: Subscribed,
    /// The name of the ClusterServiceVersion.
    pub csv: String,
    /// The ClusterServiceVersion as it is in the bundle.
    pub manifest: Value,
    /// All other manifests of the bundle.
    pub others: Vec<Value>,
    /// The UID of everything that was made, by what it is.
    pub uids: BTreeMap<String, (Target, String)>,
    /// UID of the ClusterServiceVersion.
    pub csv_uid: String,
}

/// All of them panic with what the API server says where it refuses something.
#[expect(clippy::missing_panics_doc, reason = "said once for all")]
impl Operator {
    /// Has OLM install the bundle with these files (pairs of path and text) from this image.
    pub async fn install(client: &Client, files: &[(String, String)], image: &str, subscribed: Subscribed) -> Self {
        let (mut manifest, mut others) = (Value::Null, Vec::new());
        for (_, text) in files.iter().filter(|(path, _)| path.starts_with("manifests/")) {
            let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}"));
            for document in documents {
                if document["kind"] == "ClusterServiceVersion" {
                    manifest = document;
                } else {
                    others.push(document);
                }
            }
        }
        let csv = manifest["metadata"]["name"].as_str().expect("the bundle has a CSV").to_owned();
        let (uids, csv_uid) = (BTreeMap::new(), String::new());
        let mut operator = Self { subscribed, csv, manifest, others, uids, csv_uid };
        operator.group(client).await;
        operator.version(client).await;
        operator.subscription(client, image).await;
        operator.definitions(client).await;
        operator.rights(client).await;
        operator.manifests(client).await;
        operator.webhooks(client).await;
        operator.deployments(client).await;
        operator.condition(client).await;
        operator.for_users(client).await;
        operator
    }

    /// Names the Subscription.
    pub fn subscription_target(&self) -> Target {
        Target::namespaced(V1ALPHA1, "Subscription", &self.subscribed.namespace, &self.subscribed.package)
    }

    /// Names the ClusterServiceVersion.
    pub fn csv_target(&self) -> Target {
        Target::namespaced(V1ALPHA1, "ClusterServiceVersion", &self.subscribed.namespace, &self.csv)
    }

    /// Names the OperatorGroup.
    pub fn group_target(&self) -> Target {
        Target::namespaced("operators.coreos.com/v1", "OperatorGroup", &self.subscribed.namespace, "group")
    }

    /// Names the InstallPlan.
    pub fn plan_target(&self) -> Target {
        let name = format!("install-{}", self.subscribed.package);
        Target::namespaced(V1ALPHA1, "InstallPlan", &self.subscribed.namespace, &name)
    }

    /// The label of all components.
    fn component(&self) -> String {
        format!("operators.coreos.com/{}.{}", self.subscribed.package, self.subscribed.namespace)
    }

    /// Labels of what has an owner by labels.
    fn owner_labels(&self) -> Value {
        json!({
            "olm.managed": "true", "olm.owner": self.csv, "olm.owner.kind": "ClusterServiceVersion",
            "olm.owner.namespace": self.subscribed.namespace, self.component(): "",
        })
    }

    /// The owner reference to the ClusterServiceVersion.
    fn owner(&self) -> Value {
        json!([{"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion", "name": self.csv, "uid": self.csv_uid,
                "controller": false, "blockOwnerDeletion": false}])
    }

    /// Creates an object as one of OLM's programs.
    async fn post(&mut self, client: &Client, manager: &str, object: &Value) -> DynamicObject {
        let named = Target { name: String::new(), ..kind_of(object) };
        let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let api = named.api(client).await.unwrap_or_else(|error| panic!("{error:#}"));
        let new: DynamicObject = serde_json::from_value(object.clone()).expect("it is an object");
        let made = api.create(&parameters, &new).await.unwrap_or_else(|error| panic!("{object:#}: {error}"));
        let target = Target { name: made.metadata.name.clone().unwrap_or_default(), ..named };
        self.uids.insert(target.to_string(), (target, made.metadata.uid.clone().expect("it has one")));
        made
    }

    async fn say(&self, client: &Client, target: &Target, status: Value) {
        let api = target.api(client).await.unwrap_or_else(|error| panic!("{error:#}"));
        let parameters = PatchParams { field_manager: Some(OLM.to_owned()), ..PatchParams::default() };
        let said = api.patch_status(&target.name, &parameters, &Patch::Merge(json!({ "status": status }))).await;
        said.unwrap_or_else(|error| panic!("{target}: {error}"));
    }

    async fn group(&mut self, client: &Client) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.subscribed.namespace}});
        verbs::apply(client, &namespace).await.unwrap_or_else(|error| panic!("{error:#}"));
        let target = self.group_target();
        if verbs::get(client, &target).await.unwrap_or_else(|error| panic!("{error:#}")).is_some() {
            return;
        }
        let all = self.subscribed.targets.iter().any(String::is_empty);
        let spec = if all { json!({}) } else { json!({"targetNamespaces": self.subscribed.targets}) };
        let group = json!({"apiVersion": target.api_version, "kind": target.kind, "spec": spec,
            "metadata": {"name": target.name, "namespace": target.namespace}});
        self.post(client, "kubectl-create", &group).await;
        let status = json!({"namespaces": self.subscribed.targets, "lastUpdated": "2026-01-01T00:00:00Z"});
        self.say(client, &target, status).await;
    }

    /// The ClusterServiceVersion, and its copy in the first other namespace that is watched.
    async fn version(&mut self, client: &Client) {
        let Subscribed { namespace, targets, .. } = self.subscribed.clone();
        let mut csv = self.manifest.clone();
        csv["metadata"]["namespace"] = json!(namespace);
        csv["metadata"]["finalizers"] = json!(["operators.coreos.com/csv-cleanup"]);
        csv["metadata"]["labels"] = json!({"olm.managed": "true", self.component(): ""});
        if !csv["metadata"]["annotations"].is_object() {
            csv["metadata"]["annotations"] = json!({});
        }
        for (key, text) in [
            ("olm.operatorGroup", "group"),
            ("olm.operatorNamespace", namespace.as_str()),
            ("olm.targetNamespaces", targets.join(",").as_str()),
            ("operatorframework.io/properties", r#"{"properties":[]}"#),
        ] {
            csv["metadata"]["annotations"][key] = json!(text);
        }
        let made = self.post(client, CATALOG, &csv).await;
        self.csv_uid = made.metadata.uid.expect("it has one");
        let phase = |reason: &str, message: &str| json!({"phase": "Succeeded", "reason": reason, "message": message});
        let target = self.csv_target();
        self.say(client, &target, phase("InstallSucceeded", "install strategy completed with no errors")).await;
        self.manifest["metadata"]["annotations"] = csv["metadata"]["annotations"].clone();
        let elsewhere = if targets[0].is_empty() { format!("{namespace}-watched") } else { targets[0].clone() };
        if elsewhere == namespace {
            return;
        }
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}});
        verbs::apply(client, &space).await.unwrap_or_else(|error| panic!("{error:#}"));
        let mut copy = csv.clone();
        copy["metadata"]["namespace"] = json!(elsewhere);
        copy["metadata"]["labels"] = json!({"olm.copiedFrom": namespace, "olm.managed": "true"});
        copy["metadata"].as_object_mut().expect("an object").remove("finalizers");
        self.post(client, OLM, &copy).await;
        let copied = Target { namespace: Some(elsewhere), ..target };
        self.say(client, &copied, phase("Copied", "The operator is running in another namespace")).await;
    }

    async fn subscription(&mut self, client: &Client, image: &str) {
        let (target, plan) = (self.subscription_target(), self.plan_target());
        let Subscribed { package, catalog, approval, config, .. } = self.subscribed.clone();
        let mut spec = json!({"name": package, "channel": "stable", "source": catalog.1, "sourceNamespace": catalog.0,
                              "installPlanApproval": approval});
        if !config.is_null() {
            spec["config"] = config;
        }
        let metadata = json!({"name": target.name, "namespace": target.namespace, "labels": {self.component(): ""}});
        let object = json!({"apiVersion": V1ALPHA1, "kind": "Subscription", "metadata": metadata, "spec": spec});
        let made = self.post(client, "kubectl-create", &object).await;
        let owner =
            json!([{"apiVersion": V1ALPHA1, "kind": "Subscription", "name": target.name, "uid": made.metadata.uid}]);
        let metadata = json!({"name": plan.name, "namespace": plan.namespace, "ownerReferences": owner,
                              "labels": {"olm.managed": "true", self.component(): ""}});
        let spec =
            json!({"clusterServiceVersionNames": [self.csv], "approval": approval, "approved": true, "generation": 1});
        let object = json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan", "metadata": metadata, "spec": spec});
        let made = self.post(client, CATALOG, &object).await;
        let reference = json!({"namespace": catalog.0, "name": catalog.1});
        let lookups = if image.is_empty() {
            json!([])
        } else {
            json!([{"path": image, "identifier": self.csv, "replaces": "", "catalogSourceRef": reference}])
        };
        let status = json!({"phase": "Complete", "catalogSources": [catalog.1], "bundleLookups": lookups});
        self.say(client, &plan, status).await;
        let reference = json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan", "namespace": plan.namespace, "name": plan.name,
                               "uid": made.metadata.uid});
        let status = json!({"installedCSV": self.csv, "currentCSV": self.csv, "state": "AtLatestKnown",
            "installPlanRef": reference, "installPlanGeneration": 1, "lastUpdated": "2026-01-01T00:00:00Z"});
        self.say(client, &target, status).await;
    }
}

/// Names the kind and the namespace of an object.
fn kind_of(object: &Value) -> Target {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Target {
        api_version: text("/apiVersion").expect("it has a version"),
        kind: text("/kind").expect("it has a kind"),
        namespace: text("/metadata/namespace"),
        name: String::new(),
    }
}

/// The two programs of OLM, with so many replicas each, as its manifests have them.
pub fn programs(namespace: &str, replicas: u32) -> [Value; 2] {
    ["olm-operator", "catalog-operator"].map(|name| {
        let labels = json!({ "app": name });
        let pod = json!({"containers": [{"name": name, "image": "registry.example/olm:v1"}]});
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels}, "spec": pod}}})
    })
}

/// A certificate authority as OLM makes one, and a certificate of it for a Service.
fn certificate(service: &str, namespace: &str) -> (String, crate::Leaf) {
    let host = format!("{service}.{namespace}");
    let ca = TestCa::new("Red Hat, Inc.").unwrap_or_else(|error| panic!("{error:#}"));
    let leaf = ca.server(&[&host, &format!("{host}.svc"), &format!("{host}.svc.cluster.local")]);
    (ca.pem(), leaf.unwrap_or_else(|error| panic!("{error:#}")))
}
