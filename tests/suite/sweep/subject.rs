//! What one point is about: a deployment, or a Bundle, with a namespace of the same name.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::{deployment, image};
use serde_json::{Value, json};

use crate::sweep::check;
use crate::sweep::operation::Operation;
use crate::sweep::release::Release;
use crate::sweep::renewal;
use crate::sweep::stage::Stage;

/// Kinds of the bundles: API version, kind, plural, and whether they are in the namespace.
const KINDS: [(&str, &str, &str, bool); 8] = [
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("v1", "Service", "services", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
];
/// What the cluster itself puts into each namespace, by the beginnings of names.
const SYSTEM: [&str; 3] = ["kube-root-ca.crt", "default", "sa-token-"];
/// Garbage collection pauses for up to 30 s when kinds come and go.
const GONE_WITHIN: Duration = Duration::from_mins(1);
/// Name of the deployment that an object says it belongs to.
pub const OWNER_NAME: &str = "core.rukpak.io/owner-name";

/// Objects by kind and name.
pub type Objects = BTreeMap<String, DynamicObject>;

pub struct Subject<'a> {
    pub stage: &'a Stage,
    /// Of the deployment or Bundle, and of the namespace.
    pub name: String,
    /// Objects that are nobody's business, as they were made.
    foreign: Objects,
    /// The objects when the operation began.
    pub before: Objects,
    /// Custom objects that are to be migrated, as they were made.
    pub stored: Vec<DynamicObject>,
}

/// As objects are known in [`Objects`].
pub fn key(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

impl<'a> Subject<'a> {
    /// A namespace with foreign objects, one of them with our labels on it.
    pub async fn new(stage: &'a Stage, prefix: &str) -> Self {
        let name = verbs::namespace(&stage.client, prefix).await.expect("the API server agrees");
        let mut foreign = Objects::new();
        let mut labelled = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"by": "somebody"},
            "metadata": {"name": "labelled", "namespace": name}});
        labelled["metadata"]["labels"] = json!({"core.rukpak.io/owner-kind": "BundleDeployment", OWNER_NAME: name});
        let plain = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign", "namespace": name}});
        for object in [labelled, plain] {
            let made = verbs::create(&stage.client, &object).await.expect("the API server agrees");
            foreign.insert(key(text(&object["kind"]), text(&object["metadata"]["name"])), made);
        }
        Self { stage, name, foreign, before: Objects::new(), stored: Vec::new() }
    }

    pub fn target(&self) -> Target {
        Target::bundle_deployment(&self.name)
    }

    pub fn inside(&self, api_version: &str, kind: &str, name: &str) -> Target {
        Target::namespaced(api_version, kind, &self.name, name)
    }

    /// Pushes a release; returns it as a source.
    pub async fn push(&self, release: Release) -> Value {
        let pushed = self.stage.registry.push(&self.name, release.tag(), &release.image(&self.name)).await;
        image(&pushed.expect("the registry takes it").reference)
    }

    /// A release that was pushed, as a source.
    pub fn source(&self, release: Release) -> Value {
        image(&format!("{}/{}:{}", self.stage.registry.host(), self.name, release.tag()))
    }

    /// Creates the deployment.
    pub async fn create(&self, source: Value) {
        verbs::create(&self.stage.client, &deployment(&self.name, source)).await.expect("the API server agrees");
    }

    /// Creates a deployment with a webhook.
    pub async fn install_operator(&self) {
        let pushed = self.stage.registry.push(&self.name, "operator", &renewal::image(&self.name)).await;
        let mut object = deployment(&self.name, image(&pushed.expect("the registry takes it").reference));
        object["spec"]["template"]["spec"]["provisionerClassName"] = json!("core-rukpak-io-registry");
        verbs::create(&self.stage.client, &object).await.expect("the API server agrees");
    }

    /// Changes the template.
    pub async fn change(&self, source: Value) {
        self.edit(&self.target(), json!({"spec": {"template": {"spec": {"source": source}}}})).await;
    }

    /// Merges a patch.
    pub async fn edit(&self, target: &Target, patch: Value) {
        verbs::merge(&self.stage.client, target, &patch).await.expect("the API server agrees");
    }

    pub async fn delete(&self, target: &Target) {
        verbs::delete(&self.stage.client, target).await.expect("the API server agrees");
    }

    /// Deletes the deployment, objects first: the controller says what is waited for.
    pub async fn delete_in_the_foreground(&self) {
        let api = self.target().api(&self.stage.client).await.expect("the kind is served");
        api.delete(&self.name, &DeleteParams::foreground()).await.expect("the API server agrees");
    }

    /// Deletes what is left of it, and waits until nothing of it is there; else what is.
    pub async fn end(&self, operation: Operation) -> Result<(), String> {
        match operation {
            Operation::Bundle => {
                let target = Target::bundle(&self.name);
                self.delete(&target).await;
                let gone = verbs::await_deleted(&self.stage.client, &target, GONE_WITHIN).await;
                gone.map_err(|error| format!("deleted: {error:#}"))
            }
            Operation::Orphaning => {
                self.delete(&self.target()).await;
                check::wait(self, Operation::Orphaned, GONE_WITHIN).await.map_err(|wrong| format!("deleted: {wrong}"))
            }
            _ => {
                self.delete(&self.target()).await;
                let gone = check::wait(self, Operation::Deletion, GONE_WITHIN).await;
                gone.map_err(|wrong| format!("deleted: {wrong}"))
            }
        }
    }

    /// Every object of the bundles' kinds in the namespace, and those that say they are the deployment's; without what is
    /// foreign, about which `problems` hears if it is not as it was.
    pub async fn objects(&self, problems: &mut Vec<String>) -> Result<Objects, kube::Error> {
        let mut objects = Objects::new();
        let owned = ListParams::default().labels(&format!("{OWNER_NAME}={}", self.name));
        for (api_version, kind, plural, is_inside) in KINDS {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let client = self.stage.client.clone();
            let found = if is_inside {
                let api: Api<DynamicObject> = Api::namespaced_with(client, &self.name, &resource);
                api.list(&ListParams::default()).await?
            } else {
                Api::<DynamicObject>::all_with(client, &resource).list(&owned).await?
            };
            for object in found {
                let name = object.metadata.name.clone().unwrap_or_default();
                if !SYSTEM.iter().any(|system| name.starts_with(system)) {
                    objects.insert(key(kind, &name), object);
                }
            }
        }
        for (key, made) in &self.foreign {
            let now = objects.remove(key);
            if now.is_none_or(|now| now.metadata.resource_version != made.metadata.resource_version) {
                problems.push(format!("{key} is foreign and was changed or deleted"));
            }
        }
        Ok(objects)
    }

    /// Remembers the objects as they are.
    pub async fn remember(&mut self) {
        self.before = self.objects(&mut Vec::new()).await.expect("the API server agrees");
    }

    /// The Bundles of the deployment.
    pub async fn bundles(&self) -> Result<Vec<DynamicObject>, kube::Error> {
        let kind = GroupVersionKind::gvk("core.rukpak.io", "v1alpha1", "Bundle");
        let api: Api<DynamicObject> =
            Api::all_with(self.stage.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "bundles"));
        Ok(api.list(&ListParams::default().labels(&format!("{OWNER_NAME}={}", self.name))).await?.items)
    }
}

/// Text, or none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
