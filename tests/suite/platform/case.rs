//! One PlatformOperator with a package of its name.

use std::fmt::Write;
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject};
use kube::{Client, ResourceExt};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{Documents, ImageBuilder};
use serde_json::{Value, json};

use super::packages::{self, ALL, Files};
use super::recording::Recording;
use super::world::Platform;

/// How long something must stay as it is.
const CONSISTENTLY: Duration = Duration::from_secs(1);

/// What a test works on.
pub struct Case<'a> {
    pub world: &'a Platform,
    pub client: Client,
    /// Name of the PlatformOperator, its package and its BundleDeployment.
    pub name: String,
}

/// Installed, as OpenShift's suite waits for it.
pub fn installed() -> Expected<'static> {
    Expected::is_true("Installed", "InstallSuccessful").saying("Successfully applied")
}

/// Not installed, because no bundle could be chosen.
pub fn source_failed(message: &str) -> Expected<'_> {
    Expected::is_false("Installed", "SourceFailed").saying(message)
}

/// Names a PlatformOperator.
pub fn platform_operator(name: &str) -> Target {
    Target::cluster("platform.openshift.io/v1alpha1", "PlatformOperator", name)
}

/// A PlatformOperator.
#[expect(clippy::needless_pass_by_value, reason = "callers make the spec in place")]
pub fn operator(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": {"name": name}, "spec": spec})
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
        Self { world, client: world.admin().await, name: verbs::unique_name(prefix) }
    }

    /// Names the PlatformOperator.
    pub fn target(&self) -> Target {
        platform_operator(&self.name)
    }

    /// Names the BundleDeployment.
    pub fn deployment(&self) -> Target {
        Target::bundle_deployment(&self.name)
    }

    /// Names the definition that all bundles of the package hold.
    pub fn definition(&self) -> Target {
        let name = format!("pumps.{}", packages::group(&self.name));
        Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name)
    }

    /// Names the ConfigMap that says which version is installed.
    pub fn settings(&self) -> Target {
        Target::namespaced("v1", "ConfigMap", &format!("{}-system", self.name), "settings")
    }

    /// Pushes a bundle; returns its reference.
    pub async fn push(&self, version: &str, files: Files) -> String {
        let tag = format!("v{}", version.replace('+', "_"));
        let pushed = self.world.registry.push(&self.name, &tag, &ImageBuilder::of_files(files)).await;
        pushed.expect("the registry takes it").reference
    }

    /// Pushes good bundles; returns the catalog in which each replaces the one before, and the images.
    pub async fn chain(&self, versions: &[&str]) -> (Documents, Vec<String>) {
        let mut images = Vec::new();
        for version in versions {
            images.push(self.push(version, packages::bundle(&self.name, version, ALL)).await);
        }
        let pairs: Vec<(&str, &str)> = versions.iter().copied().zip(images.iter().map(String::as_str)).collect();
        (Documents::package(&self.name, &pairs), images)
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
        verbs::create(&self.client, object).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Merges a patch into any object.
    pub async fn merge(&self, target: &Target, patch: &Value) -> DynamicObject {
        verbs::merge(&self.client, target, patch).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Points the BundleDeployment at another image, by hand.
    pub async fn edit(&self, image: &str) {
        let patch = json!({"spec": {"template": {"spec": {"source": {"image": {"ref": image}}}}}});
        self.merge(&self.deployment(), &patch).await;
    }

    /// Waits for a condition of the PlatformOperator.
    pub async fn until(&self, expected: Expected<'_>) -> DynamicObject {
        self.until_at(&self.target(), expected).await
    }

    /// Waits for a condition of any object.
    pub async fn until_at(&self, target: &Target, expected: Expected<'_>) -> DynamicObject {
        let found = verbs::await_condition(&self.client, target, expected, SOON).await;
        match found {
            Ok(object) => object,
            Err(error) => panic!("{error:#}\n{}", self.story(target).await),
        }
    }

    /// Waits until this version is chosen and installed.
    pub async fn until_version(&self, version: &str) -> DynamicObject {
        let is_ready = Expected::is_true("Ready", "Succeeded");
        let wanted = |object: &DynamicObject| version_of(object) == version && is_ready.met_by(object);
        self.until_object(&self.target(), &format!("version {version}"), wanted).await
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
            Ok(found) => found.expect("absence is not wanted"),
            Err(error) => panic!("{error:#}\n{}", self.story(target).await),
        }
    }

    /// What a person wants to see when a wait was in vain: all that the wait could be about.
    async fn story(&self, target: &Target) -> String {
        let mut names = vec![self.name.as_str(), target.name.as_str()];
        names.dedup();
        let aggregated = ("config.openshift.io/v1", "ClusterOperator", "platform-operators-aggregated");
        let mut targets = vec![Target::cluster(aggregated.0, aggregated.1, aggregated.2)];
        for name in names {
            targets.extend([platform_operator(name), Target::bundle_deployment(name)]);
            let labels = format!("core.rukpak.io/owner-name={name}");
            let bundles = verbs::list(&self.client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await;
            targets.extend(bundles.unwrap_or_default().iter().map(|bundle| Target::bundle(&bundle.name_any())));
        }
        let mut story = String::new();
        for target in targets {
            let text = match verbs::get(&self.client, &target).await {
                Ok(Some(mut object)) => {
                    object.metadata.managed_fields = None;
                    serde_json::to_string_pretty(&object).expect("an object is JSON")
                }
                Ok(None) => "(does not exist)".to_owned(),
                Err(error) => format!("(cannot be read: {error:#})"),
            };
            writeln!(story, "--- {target}\n{text}").expect("a String takes everything");
        }
        story
    }

    /// Watches an object for a second, in which it must stay as it should.
    pub async fn stays(&self, target: &Target, what: &str, allowed: impl Fn(&DynamicObject) -> bool) {
        let allowed = |object: Option<&DynamicObject>| object.is_some_and(&allowed);
        let held = verbs::holds_for(&self.client, target, what, CONSISTENTLY, allowed).await;
        held.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, target: &Target) {
        verbs::await_deleted(&self.client, target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// An object that may exist.
    pub async fn find(&self, target: &Target) -> Option<DynamicObject> {
        verbs::get(&self.client, target).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// An object that exists.
    pub async fn get(&self, target: &Target) -> DynamicObject {
        self.find(target).await.unwrap_or_else(|| panic!("{target} does not exist"))
    }

    /// Records what happens to an object from now on.
    pub async fn record(&self, target: &Target) -> Recording {
        Recording::of(&self.client, target).await
    }

    /// Deletes an object as asked.
    pub async fn delete(&self, target: &Target, parameters: &DeleteParams) {
        let api = target.api(&self.client).await.expect("the kind is served");
        api.delete(&target.name, parameters).await.unwrap_or_else(|error| panic!("{target}: {error}"));
    }

    /// Deletes the PlatformOperator and waits until it is gone with all that it brought.
    pub async fn remove(&self) {
        self.delete(&self.target(), &DeleteParams::foreground()).await;
        self.until_gone(&self.target()).await;
    }
}
