//! One BundleDeployment with a namespace of its own, both of one unique name.

use std::ops::Deref;

use kube::api::DynamicObject;
use rukpak_tests::ImageBuilder;
use rukpak_tests::installation::Installation;
pub use rukpak_tests::installation::{installed, message};
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::{World, deployment, image};
use serde_json::{Value, json};

/// What a test works on.
pub struct Case {
    pub world: &'static World,
    /// Its name is also that of the namespace.
    deployment: Installation,
}

/// A case is above all its BundleDeployment.
impl Deref for Case {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.deployment
    }
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
        Self { world, deployment: Installation { client, name } }
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

    /// Bundles with the owner labels of the BundleDeployment, the oldest first.
    pub async fn bundles(&self) -> Vec<DynamicObject> {
        let mut bundles = self.owned("core.rukpak.io/v1alpha1", "Bundle").await;
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
