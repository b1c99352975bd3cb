//! One BundleDeployment of a bundle from `fixtures/registry`, with names of its own.

use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, image, until};
use rukpak_tests::{ImageBuilder, fixtures};
use serde_json::{Value, json};

/// Class of Bundles that are `registry+v1`.
pub const REGISTRY: &str = "core-rukpak-io-registry";
/// Class of BundleDeployments as upstream has it.
pub const PLAIN: &str = "core-rukpak-io-plain";
/// Longest wait for garbage collection, while other tests make and remove kinds.
const COLLECTED: Duration = Duration::from_mins(3);

/// Pairs of path and text.
pub type Files = Vec<(String, String)>;

/// What a test works on.
pub struct Case<'a> {
    pub world: &'a World,
    pub client: Client,
    /// Name of the BundleDeployment, and the suffix of every cluster-scoped name of its bundle.
    pub name: String,
}

/// Installed, as the suites of RukPak wait for it.
pub fn installed() -> Expected<'static> {
    Expected::is_true("Installed", "InstallationSucceeded").saying("Instantiated bundle")
}

/// A BundleDeployment of class `class` with a `registry+v1` template.
pub fn deployment(class: &str, name: &str, source: &Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "metadata": {"name": name},
           "spec": {"provisionerClassName": class, "template": {
               "metadata": {"labels": {"app": name}},
               "spec": {"provisionerClassName": REGISTRY, "source": source}}}})
}

/// The text of a condition's message.
pub fn message(object: &DynamicObject, condition: &str) -> String {
    let message = verbs::condition(object, condition).and_then(|condition| condition["message"].as_str());
    message.unwrap_or_else(|| panic!("there is no condition {condition}: {:#}", object.data)).to_owned()
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
        Self { world, client: world.admin().await, name: verbs::unique_name(prefix) }
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

    /// Names the BundleDeployment.
    pub fn target(&self) -> Target {
        Target::bundle_deployment(&self.name)
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

    /// Waits until an object is as wanted.
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
            Err(error) => panic!("{error:#}\n{}", verbs::diagnose(&self.client, &self.target()).await),
        }
    }

    /// Waits until another Bundle than `active` is installed.
    pub async fn until_upgraded(&self, before: &DynamicObject) -> DynamicObject {
        let active = |object: &DynamicObject| object.data["status"]["activeBundle"].clone();
        let is_new = |object: &DynamicObject| active(object) != active(before) && installed().met_by(object);
        self.until_object(&self.target(), "another version", is_new).await
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until garbage collection has taken an object. It learns new kinds every 30 s, and stands still meanwhile.
    pub async fn until_collected(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, COLLECTED).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// An object that exists.
    pub async fn get(&self, target: &Target) -> DynamicObject {
        self.find(target).await.unwrap_or_else(|| panic!("{target} does not exist"))
    }

    /// An object that may exist.
    pub async fn find(&self, target: &Target) -> Option<DynamicObject> {
        verbs::get(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Objects of a kind with the owner labels of the BundleDeployment.
    pub async fn owned(&self, api_version: &str, kind: &str) -> Vec<DynamicObject> {
        let labels = format!("core.rukpak.io/owner-kind=BundleDeployment,core.rukpak.io/owner-name={}", self.name);
        verbs::list(&self.client, api_version, kind, &labels).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Deletes the BundleDeployment.
    pub async fn remove(&self) {
        verbs::delete(&self.client, &self.target()).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
}
