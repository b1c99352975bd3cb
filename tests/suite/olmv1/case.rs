//! One package, the catalogs that offer it and the extension of its name.

use std::ops::Deref;

use kube::api::DynamicObject;
use rukpak_tests::installation::Installation;
use rukpak_tests::registry::{Cosign, Pushed};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{CatalogImage, Documents};
use serde_json::{Value, json};

use super::world::World;
use crate::platform::packages::{self, Files};

/// What a test works on. What it says itself, it says of its catalogs and its extension; it does with any object what can be done with
/// the BundleDeployment of its name.
pub struct Case<'a> {
    pub world: &'a World,
    deployment: Installation,
}

impl Deref for Case<'_> {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.deployment
    }
}

/// Names a ClusterCatalog.
pub fn catalog(name: &str) -> Target {
    Target::cluster("olm.operatorframework.io/v1", "ClusterCatalog", name)
}

/// The bundle that is asked for is installed.
pub fn rolled_out() -> Expected<'static> {
    Expected::is_true("Progressing", "Succeeded").saying("Desired state reached")
}

/// Something is installed.
pub fn installed() -> Expected<'static> {
    Expected::is_true("Installed", "Succeeded").saying("Installed bundle ")
}

/// What is asked for failed, and is tried again.
pub fn retrying(message: &str) -> Expected<'_> {
    Expected::is_true("Progressing", "Retrying").saying(message)
}

/// A catalog is unpacked and served.
pub fn serving() -> Expected<'static> {
    Expected::is_true("Serving", "Available").saying("Serving desired content from resolved source")
}

impl Case<'static> {
    /// A new name in the shared world.
    pub async fn new(prefix: &str) -> Self {
        Self::within(World::shared().await, prefix).await
    }
}

impl<'a> Case<'a> {
    /// A new name in some world.
    pub async fn within(world: &'a World, prefix: &str) -> Self {
        let name = verbs::unique_name(prefix);
        Self { world, deployment: Installation { client: world.admin().await, name } }
    }

    /// Names the extension.
    pub fn extension(&self) -> Target {
        Target::cluster("olm.operatorframework.io/v1", "ClusterExtension", &self.name)
    }

    /// The namespace that it is installed in.
    pub fn space(&self) -> String {
        format!("{}-ns", self.name)
    }

    /// Waits for an Event about the object whose message begins so. They are written beside a reconcile, a moment later.
    pub async fn until_told(&self, (kind, name): (&str, &str), message: &str) {
        let told = async || {
            let events = verbs::list(&self.client, "v1", "Event", "").await.expect("events are listed");
            events.iter().any(|event| {
                event.data["involvedObject"]["kind"] == kind
                    && event.data["involvedObject"]["name"] == name
                    && event.data["message"].as_str().unwrap_or_default().starts_with(message)
            })
        };
        let end = std::time::Instant::now() + verbs::PATIENCE;
        while !told().await {
            assert!(std::time::Instant::now() < end, "no Event tells of {kind} {name}: {message}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Names the ConfigMap that says which version is installed.
    pub fn settings(&self) -> Target {
        Target::namespaced("v1", "ConfigMap", &self.space(), "settings")
    }

    /// Names the definition that all bundles of the package hold.
    pub fn definition(&self) -> Target {
        packages::definition(&self.name)
    }

    /// Creates the namespace.
    pub async fn make_space(&self) {
        let metadata = json!({"name": self.space()});
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await;
    }

    /// Pushes a bundle; returns its reference.
    pub async fn push(&self, version: &str, files: Files) -> String {
        packages::push(&self.world.registry, &self.name, version, files).await
    }

    /// Pushes good bundles; returns the catalog in which each replaces the one before, and the images.
    pub async fn chain(&self, versions: &[&str]) -> (Documents, Vec<String>) {
        packages::chain(&self.world.registry, &self.name, versions).await
    }

    /// Serves good bundles from a catalog, each of which replaces the one before.
    pub async fn offer(&self, versions: &[&str]) -> Vec<String> {
        let (documents, images) = self.chain(versions).await;
        self.serve(documents).await;
        images
    }

    /// Makes other documents the content of this case's catalog, by another reference.
    pub async fn renew(&self, tag: &str, documents: Documents) {
        let (reference, digest) = self.push_catalog(tag, documents).await;
        let patch = json!({"spec": {"source": {"image": {"ref": reference}}}});
        self.merge_into(&catalog(&self.name), &patch).await;
        let is_there = |object: &DynamicObject| text(object, "/status/resolvedSource/image/ref").ends_with(&digest);
        self.until_object(&catalog(&self.name), "the new content", is_there).await;
    }

    /// The object of the extension: this case's catalogs, and what `filter` and `spec` say besides.
    pub fn object(&self, filter: &Value, spec: &Value) -> Value {
        let mut catalog = json!({"packageName": self.name, "selector": {"matchLabels": {"case": self.name}}});
        for (key, value) in filter.as_object().into_iter().flatten() {
            catalog[key] = value.clone();
        }
        let source = json!({"sourceType": "Catalog", "catalog": catalog});
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": self.name}, "spec": {"namespace": self.space(), "source": source},
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        object
    }

    /// Creates the namespace and the extension.
    pub async fn extend(&self, filter: Value, spec: Value) -> DynamicObject {
        self.make_space().await;
        self.create(&self.object(&filter, &spec)).await
    }

    /// Offers good bundles, and waits until the version that `filter` leaves is installed.
    pub async fn install(&self, versions: &[&str], filter: Value) -> Vec<String> {
        let images = self.offer(versions).await;
        self.extend(filter, json!({})).await;
        self.until_at(&self.extension(), rolled_out()).await;
        images
    }

    /// Changes the catalog's part of the extension's spec.
    pub async fn ask(&self, filter: Value) {
        self.merge_into(&self.extension(), &json!({"spec": {"source": {"catalog": filter}}})).await;
    }

    /// Waits until this version is installed, and nothing is left to be done.
    pub async fn until_version(&self, version: &str) -> DynamicObject {
        let wanted = |object: &DynamicObject| {
            text(object, "/status/install/bundle/version") == version
                && rolled_out().met_by(object)
                && is_observed(object)
        };
        self.until_object(&self.extension(), &format!("version {version}"), wanted).await
    }

    /// Pushes a catalog image; returns its reference with tag, and its digest.
    pub async fn push_catalog(&self, tag: &str, documents: Documents) -> (String, String) {
        let image = CatalogImage::of(documents).expect("an image");
        let pushed = image.push(&self.world.registry, &format!("catalogs/{}", self.name), tag).await;
        let pushed = pushed.expect("the registry takes it");
        (pushed.reference.clone(), pushed.digest.clone())
    }

    /// Pushes a catalog image that a ContentPolicy asks for a signature with `key`, and has none yet.
    pub async fn push_guarded(&self, documents: Documents, key: &Cosign) -> Pushed {
        let (reference, digest) = self.push_catalog("v1", documents).await;
        let repository = reference.rsplit_once(':').expect("it has a tag").0;
        let signer = json!({"name": "release", "publicKey": {"data": key.public_key()}});
        let rule = json!({"name": "ours", "scopes": [repository], "action": "Require", "signers": [signer]});
        self.create(&json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "ContentPolicy",
                            "metadata": {"name": self.name}, "spec": {"rules": [rule]}}))
            .await;
        let pinned = format!("{repository}@{digest}");
        Pushed { reference, pinned, digest, layers: Vec::new(), manifests: Vec::new() }
    }

    /// Creates the ClusterCatalog `name` of an image.
    pub async fn create_catalog(&self, name: &str, image: &Value, spec: &Value) -> DynamicObject {
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": name, "labels": {"case": self.name}},
            "spec": {"source": {"type": "Image", "image": image}},
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        self.create(&object).await
    }

    /// Pushes a catalog, creates the ClusterCatalog of this case's name, and waits until it is served.
    pub async fn serve(&self, documents: Documents) -> DynamicObject {
        let (reference, _) = self.push_catalog("v1", documents).await;
        self.create_catalog(&self.name, &json!({"ref": reference}), &json!({})).await;
        self.until_at(&catalog(&self.name), serving()).await
    }
}

/// The text at a pointer; empty if there is none.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether what is said of progress is about the spec as it is.
pub fn is_observed(object: &DynamicObject) -> bool {
    let progressing = verbs::condition(object, "Progressing");
    progressing.is_some_and(|condition| condition["observedGeneration"] == json!(object.metadata.generation))
}
