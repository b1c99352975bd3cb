//! A package of a catalog, by its name: installed in an old version, upgraded along its channel, removed.

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use rukpak_tests::tools::PATIENCE;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{CatalogImage, Documents, ImageBuilder, fixtures};
use serde_json::{Value, json};

use super::{Demo, definition, uid};
use crate::objects::Objects;
use crate::show::Show;

/// Where the package is installed; the name follows from the package's.
pub const NAMESPACE: &str = "pump-operator-system";
/// Name of the PlatformOperator, and of the BundleDeployment that it makes.
pub const NAME: &str = "pumps";
/// The package.
const PACKAGE: &str = "pump-operator";
/// What the manager calls the catalog.
const CATALOG: &str = "demo";
/// The definition in both versions of the package.
const DEFINITION: &str = "pumps.example.rukpak.io";
/// The custom resource that has to survive the upgrade.
const PUMP: &str = "north";
/// The versions, the old one first.
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// In the fixture.
const FIELDS: &str = "litres: {type: integer}";
/// In version 1.1.0.
const MORE_FIELDS: &str = "{bar: {type: integer}, litres: {type: integer}}";

impl Demo<'_> {
    /// All steps with the package.
    pub(super) async fn package(&self, show: &mut Show) -> Result<()> {
        self.install_package(show).await?;
        self.upgrade_package(show).await?;
        self.remove_package(show).await
    }

    async fn install_package(&self, show: &mut Show) -> Result<()> {
        show.step("A package by its name");
        let catalog = self.publish_catalog(show).await?;
        self.setup.start_platform(CATALOG, &catalog).await?;
        show.remark(&format!(
            "The catalog holds package {PACKAGE}; in its channel stable, 1.1.0 replaces 1.0.0. rukpak-platform runs with \
             --catalog={CATALOG}=image:{catalog}"
        ));
        self.create(show, &operator_yaml("    channel: stable\n    version: 1.0.x\n")).await?;
        let operator = self.await_package(VERSIONS[0]).await?;
        self.get(show, &operator_target()).await?;
        show.conditions(&operator, &["Installed", "Ready"]);
        self.typed(show, &format!("kubectl get platformoperator {NAME} -o jsonpath='{{.status.source}}'")).await?;
        let deployment = self.package_deployment().await?;
        self.get(show, &Target::bundle_deployment(NAME)).await?;
        show.conditions(&deployment, &["HasValidBundle", "Installed", "Healthy", "Ready"]);
        self.get(show, &manager()).await?;
        let count = Objects::of(&self.setup.admin, &deployment).await?.len();
        show.done(format!("version {} of channel stable, Ready=True, {count} objects", VERSIONS[0]));
        Ok(())
    }

    async fn upgrade_package(&self, show: &mut Show) -> Result<()> {
        show.step("The package follows its channel");
        self.create(show, &pump_yaml()).await?;
        let pump = self.show_pump(show).await?;
        let crd = self.show_definition(show).await?;
        let before = Objects::of(&self.setup.admin, &self.package_deployment().await?).await?;
        let patch = json!({"spec": {"package": {"version": null}, "upgradePolicy": "Automatic"}});
        self.typed(show, &format!("kubectl patch platformoperator {NAME} --type=merge -p '{patch}'")).await?;

        let operator = self.await_package(VERSIONS[1]).await?;
        self.get(show, &operator_target()).await?;
        show.conditions(&operator, &["Installed", "Ready"]);
        let deployment = self.package_deployment().await?;
        let difference = Objects::of(&self.setup.admin, &deployment).await?.since(&before);
        show.remark(&format!("added +, changed ~, pruned -, against {}:", VERSIONS[0]));
        show.lines(difference.lines());
        self.show_image(show, VERSIONS[1]).await?;
        let crd_after = self.show_definition(show).await?;
        let pump_after = self.show_pump(show).await?;
        ensure!(uid(&crd_after) == uid(&crd), "the definition was made anew");
        ensure!(fields(&crd_after)["bar"].is_object(), "the definition is still that of version {}", VERSIONS[0]);
        ensure!(uid(&pump_after) == uid(&pump), "the custom resource was made anew");
        ensure!(pump_after.data["spec"] == pump.data["spec"], "the custom resource was changed");
        show.remark("the definition got a field and kept its UID, and the Pump is as it was");
        show.done(format!("now {}: the CRD kept its UID, its custom resource survived", VERSIONS[1]));
        Ok(())
    }

    async fn remove_package(&self, show: &mut Show) -> Result<()> {
        show.step("A deleted PlatformOperator takes its package along");
        let admin = &self.setup.admin;
        let deployment = Target::bundle_deployment(NAME);
        let objects = Objects::of(admin, &self.object(&deployment).await?).await?;
        self.delete(show, &operator_target()).await?;
        verbs::await_deleted(admin, &deployment, PATIENCE).await?;
        self.gone(show, &objects, NAME).await?;
        for (words, target) in [
            (format!("bundledeployment {NAME}"), deployment),
            (format!("crd {DEFINITION}"), definition(DEFINITION)),
            (format!("namespace {NAMESPACE}"), Target::cluster("v1", "Namespace", NAMESPACE)),
        ] {
            verbs::await_deleted(admin, &target, PATIENCE).await?;
            self.missing(show, &words).await?;
        }
        show.done(format!("the BundleDeployment, its Bundles and all {} objects are gone", objects.len()));
        Ok(())
    }

    /// For a look around: the package as most people want it.
    pub(super) async fn install_newest_package(&self, show: &Show) -> Result<()> {
        self.create(show, &operator_yaml("")).await?;
        self.await_package(VERSIONS[1]).await.map(|_| ())
    }

    /// Pushes both versions and the catalog with them; returns the catalog's reference.
    async fn publish_catalog(&self, show: &Show) -> Result<String> {
        let registry = &self.setup.registry;
        let mut images = Vec::new();
        for version in VERSIONS {
            let image = ImageBuilder::of_files(bundle(version, self.setup.pods_become_ready())?);
            let pushed = registry.push(&format!("example/packages/{PACKAGE}"), &format!("v{version}"), &image).await?;
            show.lines([format!("{}  {}", pushed.reference, pushed.digest)]);
            images.push(pushed.reference);
        }
        let versions: Vec<(&str, &str)> = VERSIONS.into_iter().zip(images.iter().map(String::as_str)).collect();
        let catalog = CatalogImage::of(Documents::package(PACKAGE, &versions))?;
        let pushed = catalog.push(registry, "example/catalog", "v1").await?;
        show.lines([format!("{}  {}", pushed.reference, pushed.digest)]);
        Ok(pushed.reference)
    }

    /// Waits until this version is chosen and ready.
    async fn await_package(&self, version: &str) -> Result<DynamicObject> {
        let is_there = |object: &DynamicObject| {
            let status = &object.data["status"];
            status["source"]["version"] == version
                && status["observedGeneration"] == json!(object.metadata.generation)
                && Expected::is_true("Installed", "InstallSuccessful").met_by(object)
                && Expected::is_true("Ready", "Succeeded").met_by(object)
        };
        let what = format!("version {version} to be ready");
        let wanted = |object: Option<&DynamicObject>| object.is_some_and(is_there);
        let found = verbs::await_object(&self.setup.admin, &operator_target(), &what, PATIENCE, wanted).await?;
        let operator = found.context("a ready PlatformOperator that does not exist")?;
        let image = &self.package_deployment().await?.data["spec"]["template"]["spec"]["source"]["image"]["ref"];
        ensure!(*image == operator.data["status"]["source"]["image"], "the BundleDeployment has image {image}");
        Ok(operator)
    }

    /// The BundleDeployment of the package, which must be ready and the PlatformOperator's.
    async fn package_deployment(&self) -> Result<DynamicObject> {
        let deployment = self.object(&Target::bundle_deployment(NAME)).await?;
        let owner = deployment.metadata.owner_references.iter().flatten().find(|owner| owner.name == NAME);
        ensure!(owner.is_some_and(|owner| owner.kind == "PlatformOperator"), "the BundleDeployment has no such owner");
        let ready = Expected { kind: "Ready", status: "True", reason: None, message: "" };
        let target = Target::bundle_deployment(NAME);
        verbs::await_condition(&self.setup.admin, &target, ready, PATIENCE).await
    }

    /// Which image the package's Deployment asks for; it has to be that of `version`.
    async fn show_image(&self, show: &Show, version: &str) -> Result<()> {
        let path = "{.spec.template.spec.containers[0].image}";
        let command = format!("kubectl get deployment {} -n {NAMESPACE} -o jsonpath='{path}'", manager().name);
        self.typed(show, &command).await?;
        let deployment = self.object(&manager()).await?;
        let image = deployment.data.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        let image = image.context("the Deployment has no image")?;
        ensure!(image.ends_with(&format!(":{version}")), "this is not the image of version {version}");
        Ok(())
    }

    async fn show_pump(&self, show: &Show) -> Result<DynamicObject> {
        let pump = self.object(&pump_target()).await?;
        let path = "{.metadata.uid}{\"\\n\"}{.spec}{\"\\n\"}";
        self.typed(show, &format!("kubectl get pump {PUMP} -n {NAMESPACE} -o jsonpath='{path}'")).await?;
        Ok(pump)
    }

    async fn show_definition(&self, show: &Show) -> Result<DynamicObject> {
        let crd = self.object(&definition(DEFINITION)).await?;
        let path =
            "{.metadata.uid}{\"\\n\"}{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties}{\"\\n\"}";
        self.typed(show, &format!("kubectl get crd {DEFINITION} -o jsonpath='{path}'")).await?;
        Ok(crd)
    }
}

/// The files of the package in a version. Where nobody makes Pods ready, without Pods: an upgrade waits for health.
fn bundle(version: &str, has_pods: bool) -> Result<Vec<(String, String)>> {
    let mut files = fixtures::read("registry/pump")?;
    let mut edit = |old: &str, new: &str| -> Result<()> {
        ensure!(files.iter().any(|(_, text)| text.contains(old)), "the fixture holds no {old:?}");
        for (_, text) in &mut files {
            *text = text.replace(old, new);
        }
        Ok(())
    };
    edit(VERSIONS[0], version)?;
    if version != VERSIONS[0] {
        edit(&format!("properties:\n                {FIELDS}"), &format!("properties: {MORE_FIELDS}"))?;
    }
    if !has_pods {
        edit("replicas: 1", "replicas: 0")?;
    }
    Ok(files)
}

/// The fields of a Pump's spec.
fn fields(crd: &DynamicObject) -> &Value {
    &crd.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
}

fn operator_target() -> Target {
    Target::cluster("platform.openshift.io/v1alpha1", "PlatformOperator", NAME)
}

fn manager() -> Target {
    Target::namespaced("apps/v1", "Deployment", NAMESPACE, "pump-manager")
}

fn pump_target() -> Target {
    Target::namespaced("example.rukpak.io/v1", "Pump", NAMESPACE, PUMP)
}

/// The PlatformOperator with further lines about the package.
fn operator_yaml(choice: &str) -> String {
    format!(
        "apiVersion: platform.openshift.io/v1alpha1
kind: PlatformOperator
metadata:
  name: {NAME}
spec:
  package:
    name: {PACKAGE}
{choice}"
    )
}

fn pump_yaml() -> String {
    format!(
        "apiVersion: example.rukpak.io/v1
kind: Pump
metadata:
  name: {PUMP}
  namespace: {NAMESPACE}
spec:
  litres: 7
"
    )
}
