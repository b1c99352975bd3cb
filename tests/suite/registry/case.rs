//! One BundleDeployment of a bundle from `fixtures/registry`, with names of its own.

use std::ops::Deref;

use kube::api::DynamicObject;
use rukpak_tests::installation::Installation;
pub use rukpak_tests::installation::{installed, message};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{World, image};
use rukpak_tests::{ImageBuilder, fixtures};
use serde_json::{Value, json};

/// Class of Bundles that are `registry+v1`.
pub const REGISTRY: &str = "core-rukpak-io-registry";
/// Class of BundleDeployments as upstream has it.
pub const PLAIN: &str = "core-rukpak-io-plain";
/// Pairs of path and text.
pub type Files = Vec<(String, String)>;

/// What a test works on.
pub struct Case<'a> {
    pub world: &'a World,
    /// Its name is also the suffix of every cluster-scoped name of its bundle.
    deployment: Installation,
}

/// A case is above all its BundleDeployment.
impl Deref for Case<'_> {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.deployment
    }
}

/// A BundleDeployment of class `class` with a `registry+v1` template.
pub fn deployment(class: &str, name: &str, source: &Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
           "spec": {"provisionerClassName": class, "template": {
               "metadata": {"labels": {"app": name}},
               "spec": {"provisionerClassName": REGISTRY, "source": source}}}})
}

/// The object's UID.
pub fn uid(object: &DynamicObject) -> &str {
    object.metadata.uid.as_deref().expect("the API server gave it one")
}

impl Case<'static> {
    /// A new name in the shared world.
    pub async fn new(prefix: &str) -> Self {
        Self::in_world(World::shared().await, prefix).await
    }
}

impl<'a> Case<'a> {
    /// A new name in some world.
    pub async fn in_world(world: &'a World, prefix: &str) -> Self {
        let deployment = Installation { client: world.admin().await, name: verbs::unique_name(prefix) };
        Self { world, deployment }
    }

    /// The files of a fixture, with this case's names.
    pub fn files(&self, fixture: &str) -> Files {
        fixtures::renamed(&format!("registry/{fixture}"), &self.name).expect("the fixture can be read")
    }

    /// Where the fixtures are installed.
    pub fn namespace(&self) -> String {
        format!("rukpak-example-{}", self.name)
    }

    /// The API group of the fixtures' kinds.
    pub fn group(&self) -> String {
        format!("{}.example.rukpak.io", self.name)
    }

    /// Names an object in the namespace of the fixtures.
    pub fn inside(&self, api_version: &str, kind: &str, name: &str) -> Target {
        Target::namespaced(api_version, kind, &self.namespace(), name)
    }

    /// Pushes a bundle; returns its source.
    pub async fn push(&self, version: &str, files: Files) -> Value {
        image(&self.world.push(&format!("{}-{version}", self.name), &ImageBuilder::of_files(files)).await)
    }

    /// Pushes a bundle and makes a BundleDeployment of class plain of it, with `config` unless null.
    pub async fn deploy(&self, files: Files, config: &Value) {
        let source = self.push("v1", files).await;
        let mut object = deployment(PLAIN, &self.name, &source);
        if !config.is_null() {
            object["spec"]["config"] = config.clone();
        }
        self.create(&object).await;
    }

    /// Deploys a fixture as it is and waits until it is installed.
    pub async fn install(&self, fixture: &str) -> DynamicObject {
        self.deploy(self.files(fixture), &Value::Null).await;
        self.until(installed()).await
    }

    /// Sets `spec.config`, or removes it with null.
    pub async fn configure(&self, config: &Value) {
        let mut config = config.clone();
        if let Some(fields) = config.as_object_mut() {
            // A merge keeps what it does not mention.
            for key in ["watchNamespace", "watchNamespaces", "deploymentConfig"] {
                fields.entry(key).or_insert(Value::Null);
            }
        }
        self.merge(&json!({"spec": {"config": config}})).await;
    }

    /// Changes the template's source to another version of the bundle.
    pub async fn upgrade(&self, version: &str, files: Files) {
        let source = self.push(version, files).await;
        self.merge(&json!({"spec": {"template": {"spec": {"source": source}}}})).await;
    }

    /// Waits until another Bundle than `active` is installed.
    pub async fn until_upgraded(&self, before: &DynamicObject) -> DynamicObject {
        let active = |object: &DynamicObject| object.data["status"]["activeBundle"].clone();
        let is_new = |object: &DynamicObject| active(object) != active(before) && installed().met_by(object);
        self.until_object(&self.target(), "another version", is_new).await
    }

    /// Waits until another Bundle than `active` is installed and healthy, and what it does not have is pruned.
    pub async fn until_pruned(&self, before: &DynamicObject) -> DynamicObject {
        self.until_upgraded(before).await;
        self.until(Expected { kind: "Ready", status: "True", reason: None, message: "" }).await
    }

    /// Deletes the BundleDeployment.
    pub async fn remove(&self) {
        self.delete(&self.target()).await;
    }
}
