//! One namespace with a package of its own, and what a test types there.

use std::ops::Deref;

use kube::api::DynamicObject;
use rukpak_tests::installation::Installation;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::{CatalogImage, Documents};
use serde_json::{Value, json};

use super::world::{GLOBAL, World};
use crate::platform::packages::{self, Files};

const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
/// All install modes.
pub const ANY: [&str; 4] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];

/// What a test works on. What it does with an object, it does as with a BundleDeployment.
pub struct Case {
    pub world: &'static World,
    /// Name of the package, its CatalogSource and its Subscription.
    pub package: String,
    pub space: String,
    deployment: Installation,
    /// What has its Pods run, and be ready.
    pub kubelet: Option<Kubelet>,
}

impl Deref for Case {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.deployment
    }
}

/// A good bundle with a Deployment, for these install modes.
pub fn bundle(package: &str, version: &str, modes: &[&str]) -> Files {
    let mut files = packages::with_deployment(packages::bundle(package, version, packages::ALL));
    let modes: Vec<Value> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
    let one = format!("\"installModes\":[{}]", json!({"supported": true, "type": packages::ALL}));
    for (path, text) in &mut files {
        if path.ends_with("csv.yaml") {
            assert!(text.contains(&one), "{text}");
            *text = text.replace(&one, &format!("\"installModes\":{}", json!(modes)));
        }
    }
    files
}

/// The text at a pointer; empty if there is none.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The reason of a condition; empty if there is none.
pub fn reason<'a>(object: &'a DynamicObject, condition: &str) -> &'a str {
    verbs::condition(object, condition).and_then(|found| found["reason"].as_str()).unwrap_or_default()
}

impl Case {
    /// A namespace and a package of a new name.
    pub async fn new(prefix: &str) -> Self {
        Self::beside(prefix, None).await
    }

    /// The same in the namespace of another case.
    pub async fn beside(prefix: &str, space: Option<&str>) -> Self {
        Self::within(World::shared().await, prefix, space).await
    }

    /// The same in another world.
    pub async fn within(world: &'static World, prefix: &str, space: Option<&str>) -> Self {
        let client = world.admin().await;
        let package = verbs::unique_name(prefix);
        let space = space.unwrap_or(&package).to_owned();
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
        verbs::apply(&client, &object).await.expect("a namespace");
        let kubelet = Some(Kubelet::play(client.clone(), &space));
        let deployment = Installation { client, name: format!("{package}.{space}") };
        Self { world, package, space, deployment, kubelet }
    }

    /// Types a command; returns the lines that it prints.
    pub async fn types(&self, command: &str) -> Vec<String> {
        let printed = self.world.terminal.enter(command).await.expect("bash runs");
        printed.of_success().unwrap_or_else(|error| panic!("{command}\n{error:#}"))
    }

    /// Types `kubectl apply` of these objects.
    pub async fn applies(&self, objects: &[Value]) {
        let texts: Vec<String> = objects.iter().map(ToString::to_string).collect();
        self.types(&format!("kubectl apply -f - <<'END'\n{}\nEND", texts.join("\n---\n"))).await;
    }

    /// Pushes bundles that support all modes; returns their images.
    pub async fn push(&self, versions: &[&str]) -> Vec<String> {
        let mut images = Vec::new();
        for version in versions {
            let files = bundle(&self.package, version, &ANY);
            images.push(packages::push(&self.world.registry, &self.package, version, files).await);
        }
        images
    }

    /// Pushes a catalog with bundles of these versions; returns its image.
    pub async fn catalog(&self, versions: &[&str]) -> String {
        let images = self.push(versions).await;
        let pairs: Vec<(&str, &str)> = versions.iter().copied().zip(images.iter().map(String::as_str)).collect();
        self.push_catalog(Documents::package(&self.package, &pairs)).await
    }

    /// Pushes a catalog; returns its image.
    pub async fn push_catalog(&self, documents: Documents) -> String {
        let image = CatalogImage::of(documents).expect("a catalog");
        let repository = format!("catalogs/{}", self.package);
        let tag = verbs::unique_name("t");
        image.push(&self.world.registry, &repository, &tag).await.expect("the registry takes it").reference
    }

    /// A CatalogSource of an image, where all may name it.
    pub fn source(&self, image: &str) -> Value {
        json!({"apiVersion": V1ALPHA1, "kind": "CatalogSource",
               "metadata": {"name": self.package, "namespace": GLOBAL},
               "spec": {"sourceType": "grpc", "image": image, "displayName": "Ours", "publisher": "Us"}})
    }

    /// An OperatorGroup.
    pub fn group(&self, name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
               "metadata": {"name": name, "namespace": self.space}, "spec": spec})
    }

    /// A Subscription to the package, with more in its spec.
    pub fn subscription(&self, more: &Value) -> Value {
        let mut spec = json!({"name": self.package, "source": self.package, "sourceNamespace": GLOBAL});
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        json!({"apiVersion": V1ALPHA1, "kind": "Subscription",
               "metadata": {"name": self.package, "namespace": self.space}, "spec": spec})
    }

    /// Types everything that an installation takes: CatalogSource, OperatorGroup for all namespaces, Subscription.
    pub async fn subscribes(&self, versions: &[&str], more: &Value) {
        let image = self.catalog(versions).await;
        self.applies(&[self.source(&image), self.group("group", &json!({})), self.subscription(more)]).await;
    }

    /// Types the image of another catalog into the CatalogSource.
    pub async fn publishes(&self, versions: &[&str]) {
        let image = self.catalog(versions).await;
        let patch = json!({"spec": {"image": image}});
        let name = &self.package;
        self.types(&format!("kubectl -n {GLOBAL} patch catalogsource {name} --type=merge -p '{patch}'")).await;
    }

    /// Names an object of the namespace.
    pub fn named(&self, kind: &str, name: &str) -> Target {
        let version = match kind {
            "OperatorGroup" => "operators.coreos.com/v1",
            "CatalogSource" | "Subscription" | "InstallPlan" | "ClusterServiceVersion" => V1ALPHA1,
            "Deployment" => "apps/v1",
            _ => "v1",
        };
        Target::namespaced(version, kind, &self.space, name)
    }

    pub fn subscribed(&self) -> Target {
        self.named("Subscription", &self.package)
    }

    /// Names the ClusterServiceVersion of a version.
    pub fn csv(&self, version: &str) -> Target {
        self.named("ClusterServiceVersion", &self.csv_name(version))
    }

    pub fn csv_name(&self, version: &str) -> String {
        format!("{}.v{version}", self.package)
    }

    /// Names the ConfigMap that every bundle brings.
    pub fn settings(&self) -> Target {
        self.named("ConfigMap", "settings")
    }

    /// Waits until a version is Succeeded; returns its ClusterServiceVersion.
    pub async fn until_succeeded(&self, version: &str) -> DynamicObject {
        self.until_phase(version, "Succeeded", "InstallSucceeded").await
    }

    /// Waits until a version is in this phase for this reason.
    pub async fn until_phase(&self, version: &str, phase: &str, reason: &str) -> DynamicObject {
        let wanted = |csv: &DynamicObject| (text(csv, "/status/phase"), text(csv, "/status/reason")) == (phase, reason);
        self.until_object(&self.csv(version), &format!("{phase} for {reason}"), wanted).await
    }

    /// Waits until the Subscription says this of a condition.
    pub async fn until_said(&self, condition: &str, why: &str) -> DynamicObject {
        let wanted = |object: &DynamicObject| reason(object, condition) == why;
        self.until_object(&self.subscribed(), &format!("{condition} for {why}"), wanted).await
    }

    /// Waits until the InstallPlan for a version is referred to and in a phase; returns it.
    pub async fn until_planned(&self, version: &str, phase: &str) -> DynamicObject {
        let name = self.csv_name(version);
        let is_current = |object: &DynamicObject| {
            text(object, "/status/currentCSV") == name && !text(object, "/status/installPlanRef/name").is_empty()
        };
        let subscription = self.until_object(&self.subscribed(), "an InstallPlan", is_current).await;
        let plan = self.named("InstallPlan", text(&subscription, "/status/installPlanRef/name"));
        self.until_object(&plan, phase, |plan| text(plan, "/status/phase") == phase).await
    }
}
