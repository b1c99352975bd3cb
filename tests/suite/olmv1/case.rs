//! One package, the catalogs that offer it and the extension of its name.

use std::ops::Deref;

use kube::api::DynamicObject;
use rukpak_tests::installation::Installation;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{CatalogImage, Documents};
use serde_json::{Value, json};

use super::world::World;

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

    /// Pushes a catalog image; returns its reference with tag, and its digest.
    pub async fn push_catalog(&self, tag: &str, documents: Documents) -> (String, String) {
        let image = CatalogImage::of(documents).expect("an image");
        let pushed = image.push(&self.world.registry, &format!("catalogs/{}", self.name), tag).await;
        let pushed = pushed.expect("the registry takes it");
        (pushed.reference.clone(), pushed.digest.clone())
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
