//! One BundleDeployment with a namespace of its own, both of one unique name.

use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, deployment, image, until};
use serde_json::{Value, json};

/// Longest wait for garbage collection, while other tests make and remove kinds.
const COLLECTED: Duration = Duration::from_mins(3);

/// What a test works on.
pub struct Case {
    pub world: &'static World,
    pub client: Client,
    /// Name of the BundleDeployment and of the namespace.
    pub name: String,
}

/// Installed, as the suites of RukPak wait for it.
pub fn installed() -> Expected<'static> {
    Expected::is_true("Installed", "InstallationSucceeded").saying("Instantiated bundle")
}

/// The files of a bundle: one for each object.
pub fn files(objects: &[Value]) -> Vec<(String, String)> {
    let numbered = objects.iter().enumerate();
    numbered.map(|(index, object)| (format!("manifests/{index:02}.yaml"), object.to_string())).collect()
}

/// A git source whose repository nobody serves.
pub fn broken_git(world: &World, repository: &str) -> Value {
    json!({"type": "git", "image": null, "git": {"repository": world.git.url(repository), "ref": {"branch": "main"}}})
}

/// The text of a condition's message.
pub fn message(object: &DynamicObject, condition: &str) -> String {
    verbs::condition(object, condition)
        .and_then(|condition| condition["message"].as_str())
        .unwrap_or_else(|| panic!("there is no condition {condition}: {:#}", object.data))
        .to_owned()
}

/// `status.activeBundle`.
pub fn active(object: &DynamicObject) -> Option<&str> {
    object.data.pointer("/status/activeBundle").and_then(Value::as_str)
}

impl Case {
    /// A new name, with its namespace.
    pub async fn new(prefix: &str) -> Self {
        let world = World::shared().await;
        let client = world.admin().await;
        let name = verbs::namespace(&client, prefix).await.expect("a namespace can be made");
        Self { world, client, name }
    }

    /// A ConfigMap in the namespace.
    pub fn config_map(&self, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.name},
               "data": {"key": "value"}})
    }

    /// Names a ConfigMap of the namespace.
    pub fn config_map_target(&self, name: &str) -> Target {
        Target::namespaced("v1", "ConfigMap", &self.name, name)
    }

    /// Names the BundleDeployment.
    pub fn target(&self) -> Target {
        Target::bundle_deployment(&self.name)
    }

    /// Pushes a bundle of these objects; returns its source.
    pub async fn push(&self, version: &str, objects: &[Value]) -> Value {
        self.push_image(version, &ImageBuilder::of_files(files(objects))).await
    }

    /// Pushes an image; returns its source.
    pub async fn push_image(&self, version: &str, builder: &ImageBuilder) -> Value {
        image(&self.world.push(&format!("{}-{version}", self.name), builder).await)
    }

    /// Creates the BundleDeployment.
    pub async fn deploy(&self, source: Value) -> DynamicObject {
        self.create(&deployment(&self.name, source)).await
    }

    /// Pushes a bundle of these objects, deploys it, and waits until it is installed.
    pub async fn install(&self, objects: &[Value]) -> DynamicObject {
        let source = self.push("v1", objects).await;
        self.deploy(source).await;
        self.until(installed()).await
    }

    /// Changes the source in the template; members to be removed are null.
    pub async fn change_source(&self, source: &Value) {
        self.merge(&json!({"spec": {"template": {"spec": {"source": source}}}})).await;
    }

    /// Merges a patch into the BundleDeployment.
    pub async fn merge(&self, patch: &Value) -> DynamicObject {
        verbs::merge(&self.client, &self.target(), patch).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Creates any object.
    pub async fn create(&self, object: &Value) -> DynamicObject {
        verbs::create(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Waits for a condition of the BundleDeployment.
    pub async fn until(&self, expected: Expected<'_>) -> DynamicObject {
        until(&self.client, &self.name, expected).await
    }

    /// Waits until the BundleDeployment, or any object, is as wanted.
    pub async fn until_object(
        &self,
        target: &Target,
        what: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let found = verbs::await_object(&self.client, target, what, SOON, |object| object.is_some_and(&wanted)).await;
        match found {
            Ok(Some(object)) => object,
            Ok(None) => unreachable!("absence is not wanted"),
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Waits until garbage collection has taken an object. It learns new kinds every 30 s, and stands still meanwhile.
    pub async fn until_collected(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, COLLECTED).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Fails as soon as `allowed` does not hold.
    pub async fn holds_for(
        &self,
        target: &Target,
        what: &str,
        period: Duration,
        allowed: impl Fn(Option<&DynamicObject>) -> bool,
    ) {
        let held = verbs::holds_for(&self.client, target, what, period, allowed).await;
        held.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// An object that exists.
    pub async fn get(&self, target: &Target) -> DynamicObject {
        let found = verbs::get(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"));
        found.unwrap_or_else(|| panic!("{target} does not exist"))
    }

    /// Deletes an object in the background.
    pub async fn delete(&self, target: &Target) {
        verbs::delete(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Bundles with the owner labels of the BundleDeployment, the oldest first.
    pub async fn bundles(&self) -> Vec<DynamicObject> {
        let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={}", self.name);
        let listed = verbs::list(&self.client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await;
        let mut bundles = listed.unwrap_or_else(|error| panic!("{error:#}"));
        bundles.sort_by_key(|bundle| bundle.metadata.creation_timestamp.clone());
        bundles
    }

    /// The one Bundle with the owner labels.
    pub async fn only_bundle(&self) -> DynamicObject {
        let mut bundles = self.bundles().await;
        assert_eq!(bundles.len(), 1, "{bundles:#?}");
        bundles.remove(0)
    }
}

/// The name of an object.
pub fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// A label of an object.
pub fn label<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether the BundleDeployment is the object's controller, in the way that RukPak marks it.
pub fn is_controlled_by(object: &DynamicObject, deployment: &DynamicObject) -> bool {
    object.metadata.owner_references.iter().flatten().any(|owner| {
        owner.api_version == "core.rukpak.io/v1alpha1"
            && owner.kind == "BundleDeployment"
            && owner.name == name(deployment)
            && Some(&owner.uid) == deployment.metadata.uid.as_ref()
            && owner.controller == Some(true)
            && owner.block_owner_deletion == Some(true)
    })
}
