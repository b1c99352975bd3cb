//! One PlatformOperator with a package of its name, what a test does with it, and what it leaves behind.

use std::ops::Deref;
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject};
use rukpak_tests::Documents;
use rukpak_tests::installation::Installation;
pub use rukpak_tests::openshift::{operator, platform_operator};
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::packages::{self, Files};
use super::recording::Recording;
use super::world::Platform;

/// How long something must stay as it is.
pub const CONSISTENTLY: Duration = Duration::from_secs(1);

/// What a test works on.
pub struct Case<'a> {
    pub world: &'a Platform,
    /// Its name is also that of the PlatformOperator and of the package.
    deployment: Installation,
}

/// What a PlatformOperator leaves behind, for garbage collection to take.
pub struct Remains {
    deployment: Installation,
    targets: [Target; 4],
}

/// What a case says itself, it says of its PlatformOperator; it does with any object what can be done with its BundleDeployment.
impl Deref for Case<'_> {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.deployment
    }
}

/// Installed, as OpenShift's suite waits for it.
pub fn installed() -> Expected<'static> {
    Expected::is_true("Installed", "InstallSuccessful").saying("Successfully applied")
}

/// Not installed, because no bundle could be chosen.
pub fn source_failed(message: &str) -> Expected<'_> {
    Expected::is_false("Installed", "SourceFailed").saying(message)
}

/// The image of a BundleDeployment.
pub fn image_of(deployment: &DynamicObject) -> &str {
    deployment.data.pointer("/spec/template/spec/source/image/ref").and_then(Value::as_str).unwrap_or_default()
}

/// The version that a PlatformOperator says to have chosen.
pub fn version_of(operator: &DynamicObject) -> &str {
    operator.data.pointer("/status/source/version").and_then(Value::as_str).unwrap_or_default()
}

/// The text of a condition's message; empty if there is none.
pub fn message(object: &DynamicObject, condition: &str) -> String {
    let found = verbs::condition(object, condition).and_then(|condition| condition["message"].as_str());
    found.unwrap_or_default().to_owned()
}

/// The object's UID.
pub fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().expect("the API server gave it one")
}

impl Case<'static> {
    /// A new name in the shared world.
    pub async fn new(prefix: &str) -> Self {
        Self::within(Platform::shared().await, prefix).await
    }
}

impl<'a> Case<'a> {
    /// A new name in some world.
    pub async fn within(world: &'a Platform, prefix: &str) -> Self {
        Self::named(world, verbs::unique_name(prefix)).await
    }

    /// This name, which nobody else may have.
    pub async fn named(world: &'a Platform, name: String) -> Self {
        Self { world, deployment: Installation { client: world.admin().await, name } }
    }

    /// Names the PlatformOperator.
    pub fn target(&self) -> Target {
        platform_operator(&self.name)
    }

    /// Names the BundleDeployment.
    pub fn deployment(&self) -> Target {
        self.deployment.target()
    }

    /// Names the definition that all bundles of the package hold.
    pub fn definition(&self) -> Target {
        packages::definition(&self.name)
    }

    /// Names the ConfigMap that says which version is installed.
    pub fn settings(&self) -> Target {
        Target::namespaced("v1", "ConfigMap", &format!("{}-system", self.name), "settings")
    }

    /// Pushes a bundle; returns its reference.
    pub async fn push(&self, version: &str, files: Files) -> String {
        packages::push(&self.world.registry, &self.name, version, files).await
    }

    /// Pushes good bundles; returns the catalog in which each replaces the one before, and the images.
    pub async fn chain(&self, versions: &[&str]) -> (Documents, Vec<String>) {
        packages::chain(&self.world.registry, &self.name, versions).await
    }

    /// Puts the package into OpenShift's catalog, in place of what this case had there.
    pub async fn publish(&self, documents: Documents) {
        self.world.main.publish(&self.client, &self.name, documents).await;
    }

    /// Creates the PlatformOperator with these fields besides the package's name.
    pub async fn create(&self, package: &Value, upgrade_policy: Option<&str>) -> DynamicObject {
        let mut spec = json!({"package": package});
        spec["package"]["name"] = json!(self.name);
        if let Some(policy) = upgrade_policy {
            spec["upgradePolicy"] = json!(policy);
        }
        self.make(&operator(&self.name, spec)).await
    }

    /// Publishes good bundles, creates the PlatformOperator and waits until the newest is installed; returns the images.
    pub async fn install(&self, versions: &[&str], upgrade_policy: Option<&str>) -> Vec<String> {
        let (documents, images) = self.chain(versions).await;
        self.publish(documents).await;
        self.create(&json!({}), upgrade_policy).await;
        self.until(installed()).await;
        images
    }

    /// Creates any object.
    pub async fn make(&self, object: &Value) -> DynamicObject {
        self.deployment.create(object).await
    }

    /// Merges a patch into any object.
    pub async fn merge(&self, target: &Target, patch: &Value) -> DynamicObject {
        self.merge_into(target, patch).await
    }

    /// Points the BundleDeployment at another image, by hand.
    pub async fn edit(&self, image: &str) {
        let patch = json!({"spec": {"template": {"spec": {"source": {"image": {"ref": image}}}}}});
        self.deployment.merge(&patch).await;
    }

    /// Waits for a condition of the PlatformOperator.
    pub async fn until(&self, expected: Expected<'_>) -> DynamicObject {
        self.until_at(&self.target(), expected).await
    }

    /// Waits until this version is chosen and installed.
    pub async fn until_version(&self, version: &str) -> DynamicObject {
        let is_ready = Expected::is_true("Ready", "Succeeded");
        let wanted = |object: &DynamicObject| version_of(object) == version && is_ready.met_by(object);
        self.until_object(&self.target(), &format!("version {version}"), wanted).await
    }

    /// Watches an object for a second, in which it must stay as it should.
    pub async fn stays(&self, target: &Target, what: &str, allowed: impl Fn(&DynamicObject) -> bool) {
        self.holds_for(target, what, CONSISTENTLY, |object| object.is_some_and(&allowed)).await;
    }

    /// Records what happens to an object from now on.
    pub async fn record(&self, target: &Target) -> Recording {
        Recording::of(&self.client, target).await
    }

    /// Deletes the PlatformOperator and waits until it is gone with all that it brought.
    pub async fn remove(&self) {
        self.delete_as(&self.target(), &DeleteParams::foreground()).await;
        self.until_gone(&self.target()).await;
    }

    /// Deletes the PlatformOperator and waits until it is gone, no longer: all that it brought goes a little later. A namespace
    /// takes 5 s, for which nobody need have a world to himself.
    #[must_use = "what it brought has to go too"]
    pub async fn leave(&self) -> Remains {
        let space = Target::cluster("v1", "Namespace", &format!("{}-system", self.name));
        let targets = [self.deployment(), self.settings(), self.definition(), space];
        self.delete_as(&self.target(), &DeleteParams::background()).await;
        self.until_gone(&self.target()).await;
        let deployment = Installation { client: self.client.clone(), name: self.name.clone() };
        Remains { deployment, targets }
    }
}

impl Remains {
    /// Waits until nothing is left.
    pub async fn until_gone(self) {
        for target in &self.targets {
            self.deployment.until_gone(target).await;
        }
    }
}
