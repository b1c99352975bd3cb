//! One deployment and the namespace that its objects live in.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, World, deployment, image, until};
use serde_json::{Value, json};

/// Garbage collection pauses for up to 30 s when kinds come and go, as they do here all the time.
///
/// A list of a kind whose conversion is down is given up after 50 s, and an upgrade may need three of them.
const PATIENCE: Duration = Duration::from_mins(4);
/// Field manager of the engine.
pub const OURS: &str = "rukpak-core";

/// A BundleDeployment to be, its namespace and a client.
pub struct Case<'a> {
    pub world: &'a World,
    pub client: Client,
    /// Name of the BundleDeployment, and of the image's repository.
    pub name: String,
    /// A namespace that exists and is nobody's.
    pub namespace: String,
}

/// What Events of one reason tell.
#[derive(Debug)]
pub struct Told {
    /// `Normal` or `Warning`.
    pub tone: String,
    pub message: String,
    /// How many there are.
    pub count: usize,
}

impl Case<'static> {
    /// In the world that all share.
    pub async fn new(prefix: &str) -> Self {
        Self::in_world(World::shared().await, prefix).await
    }
}

impl<'a> Case<'a> {
    /// In a world of one's own.
    pub async fn in_world(world: &'a World, prefix: &str) -> Self {
        let client = world.admin().await;
        let namespace = verbs::namespace(&client, prefix).await.expect("the API server agrees");
        Self { world, client, name: unique_name(prefix), namespace }
    }

    /// Another deployment with the same namespace.
    pub fn sibling(&self) -> Self {
        Self {
            world: self.world,
            client: self.client.clone(),
            name: unique_name("sibling"),
            namespace: self.namespace.clone(),
        }
    }

    pub fn target(&self) -> Target {
        Target::bundle_deployment(&self.name)
    }

    /// Pushes the objects as a bundle, a file each; returns the reference.
    pub async fn push(&self, tag: &str, objects: &[Value]) -> String {
        let files = objects.iter().enumerate().map(|(index, object)| {
            let kind = object["kind"].as_str().unwrap_or("object").to_lowercase();
            (format!("manifests/{index:03}-{kind}.yaml"), object.to_string())
        });
        let image = ImageBuilder::of_files(files);
        let pushed = self.world.registry.push(&format!("bundles/{}", self.name), tag, &image).await;
        pushed.expect("the registry takes it").reference
    }

    /// Creates the BundleDeployment; waits for nothing.
    pub async fn create(&self, objects: &[Value]) -> DynamicObject {
        let reference = self.push("v1", objects).await;
        verbs::create(&self.client, &deployment(&self.name, image(&reference))).await.expect("the API server agrees")
    }

    /// Creates the BundleDeployment and waits until it is installed.
    pub async fn install(&self, objects: &[Value]) -> DynamicObject {
        self.create(objects).await;
        self.installed().await
    }

    /// Changes the template; waits for nothing.
    pub async fn change(&self, tag: &str, objects: &[Value]) {
        let reference = self.push(tag, objects).await;
        self.edit(
            "user",
            &self.target(),
            json!({"spec": {"template": {"spec": {"source": {"image": {"ref": reference}}}}}}),
        )
        .await;
    }

    /// Changes the template and waits until the new version is installed.
    pub async fn pivot(&self, tag: &str, objects: &[Value]) -> DynamicObject {
        let before = self.status().await["activeBundle"].clone();
        self.change(tag, objects).await;
        let done = |object: &DynamicObject| {
            object.data["status"]["activeBundle"] != before
                && Expected::is_true("Installed", "InstallationSucceeded").met_by(object)
        };
        self.until(&self.target(), "the new version", |object| object.is_some_and(done))
            .await
            .expect("the API server agrees")
    }

    pub async fn installed(&self) -> DynamicObject {
        until(&self.client, &self.name, Expected::is_true("Installed", "InstallationSucceeded")).await
    }

    pub async fn ready(&self) -> DynamicObject {
        until(&self.client, &self.name, Expected::is_true("Ready", "Succeeded")).await
    }

    /// Waits for `Installed=False`; returns the message.
    pub async fn refused(&self, reason: &str, message: &str) -> String {
        let expected = Expected::is_false("Installed", reason).saying(message);
        let object = until(&self.client, &self.name, expected).await;
        verbs::condition(&object, "Installed").expect("the API server agrees")["message"]
            .as_str()
            .expect("it is text")
            .to_owned()
    }

    pub async fn status(&self) -> Value {
        self.get(&self.target()).await.expect("it is there").data["status"].clone()
    }

    /// The digest in the status that stands for what was applied.
    pub async fn proof(&self) -> Value {
        self.status().await["inventory"]["appliedDigest"].clone()
    }

    /// Waits until the status has another proof than `before`: that of a repair comes some seconds later.
    pub async fn until_noted(&self, before: &Value) {
        let is_other = |object: &DynamicObject| object.data["status"]["inventory"]["appliedDigest"] != *before;
        self.until(&self.target(), "the proof of the repair", |object| object.is_some_and(is_other)).await;
    }

    pub async fn uid(&self) -> String {
        self.get(&self.target()).await.expect("it is there").metadata.uid.expect("it is there")
    }

    pub async fn get(&self, target: &Target) -> Option<DynamicObject> {
        verbs::get(&self.client, target).await.expect("the API server agrees")
    }

    /// Waits as long as things may take here.
    pub async fn until(
        &self,
        target: &Target,
        what: &str,
        wanted: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Option<DynamicObject> {
        match verbs::await_object(&self.client, target, what, PATIENCE, wanted).await {
            Ok(object) => object,
            Err(error) => {
                let about = verbs::diagnose(&self.client, &self.target()).await;
                panic!("{error:#}\n=== the deployment\n{about}")
            }
        }
    }

    /// Waits until the object has the value at the pointer.
    pub async fn until_value(&self, target: &Target, pointer: &str, value: &Value) -> DynamicObject {
        let found = |object: &DynamicObject| object.data.pointer(pointer) == Some(value);
        let what = format!("{pointer} = {value}");
        self.until(target, &what, |object| object.is_some_and(found)).await.expect("the API server agrees")
    }

    /// Waits until it is there and carries our marks; returns it.
    pub async fn until_owned(&self, target: &Target) -> DynamicObject {
        let uid = self.uid().await;
        let what = "an owned object";
        self.until(target, what, |object| object.is_some_and(|object| is_owned(object, &self.name, &uid)))
            .await
            .expect("the API server agrees")
    }

    pub async fn until_gone(&self, target: &Target) {
        self.until(target, "its end", |object| object.is_none()).await;
    }

    /// Waits until there are Events about the deployment with that reason; returns them all.
    pub async fn events(&self, reason: &str) -> Vec<Event> {
        self.events_of(&self.target(), reason).await
    }

    async fn events_of(&self, target: &Target, reason: &str) -> Vec<Event> {
        let uid = self.get(target).await.expect("it is there").metadata.uid.expect("it is there");
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let about = format!("involvedObject.uid={uid},reason={reason}");
        let seen = watcher(api.clone(), watcher::Config::default().fields(&about)).default_backoff().applied_objects();
        let first = tokio::time::timeout(SOON, std::pin::pin!(seen).next()).await;
        first.unwrap_or_else(|_| panic!("no Event {reason}")).expect("it is endless").expect("it can be watched");
        api.list(&ListParams::default().fields(&about)).await.expect("the API server agrees").items
    }

    /// Waits until the deployment has an Event with that reason.
    pub async fn told(&self, reason: &str) -> Told {
        self.told_of(&self.target(), reason).await
    }

    /// Waits until the object has an Event with that reason.
    pub async fn told_of(&self, target: &Target, reason: &str) -> Told {
        let events = self.events_of(target, reason).await;
        let Event { type_, message, .. } = events[0].clone();
        Told { tone: type_.unwrap_or_default(), message: message.unwrap_or_default(), count: events.len() }
    }

    /// Nothing changes the object for that long.
    pub async fn stays(&self, target: &Target, period: Duration) {
        let before = self.get(target).await.expect("it is there");
        let version = before.metadata.resource_version.clone();
        let same =
            |object: Option<&DynamicObject>| object.is_some_and(|object| object.metadata.resource_version == version);
        if let Err(error) = verbs::holds_for(&self.client, target, "no change", period, same).await {
            let after = self.get(target).await;
            panic!("before: {}\nafter: {}\n{error:#}", json!(before), json!(after));
        }
    }

    /// Merges a patch as some manager.
    pub async fn edit(&self, manager: &str, target: &Target, patch: Value) -> DynamicObject {
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let api = target.api(&self.client).await.expect("the kind is served");
        api.patch(&target.name, &parameters, &Patch::Merge(patch)).await.expect("the API server agrees")
    }

    /// Merges a patch into a subresource as some manager.
    pub async fn edit_sub(&self, sub: &str, manager: &str, target: &Target, patch: Value) {
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let api = target.api(&self.client).await.expect("the kind is served");
        api.patch_subresource(sub, &target.name, &parameters, &Patch::Merge(patch))
            .await
            .expect("the API server agrees");
    }

    /// Creates a foreign object.
    pub async fn foreign(&self, object: &Value) -> DynamicObject {
        verbs::create(&self.client, object).await.expect("the API server agrees")
    }

    pub async fn delete(&self, target: &Target) {
        verbs::delete(&self.client, target).await.expect("the API server agrees");
    }

    pub fn config_map(&self, name: &str, data: Value) -> Value {
        let metadata = json!({"name": name, "namespace": self.namespace});
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object["data"] = data;
        object
    }

    pub fn in_namespace(&self, api_version: &str, kind: &str, name: &str) -> Target {
        Target::namespaced(api_version, kind, &self.namespace, name)
    }

    /// Many ConfigMaps, with a value that tells the version.
    pub fn config_maps(&self, count: usize, version: &str) -> Vec<Value> {
        (0..count).map(|index| self.config_map(&format!("many-{index:04}"), json!({"version": version}))).collect()
    }

    pub fn config_map_target(&self, name: &str) -> Target {
        self.in_namespace("v1", "ConfigMap", name)
    }

    pub fn workload(&self, name: &str, replicas: i64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/none:1", "env": [{"name": "A", "value": "1"}]}]}}}})
    }
}

/// Whether the object carries both marks.
pub fn is_owned(object: &DynamicObject, name: &str, uid: &str) -> bool {
    let label = |key: &str| object.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    label("core.rukpak.io/owner-kind") == Some("BundleDeployment")
        && label("core.rukpak.io/owner-name") == Some(name)
        && object
            .metadata
            .owner_references
            .iter()
            .flatten()
            .any(|owner| owner.uid == uid && owner.controller == Some(true))
}

/// A definition of a kind `<prefix>` whose spec has `size`, at least 1; returns it with its group.
pub fn definition(prefix: &str) -> (Value, String) {
    let group = format!("{}.engine.test", unique_name(prefix));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}});
    (definition, group)
}

pub fn definition_target(group: &str) -> Target {
    Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("gadgets.{group}"))
}

pub fn gadget(group: &str, namespace: &str, name: &str, size: i64) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"size": size}})
}
