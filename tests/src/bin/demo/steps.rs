//! The steps of the demo, in order.

mod chart;
mod package;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use rukpak_tests::fixtures;
use rukpak_tests::kubectl::Printed;
use rukpak_tests::tools::PATIENCE;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::json;

use crate::objects::{Objects, selector};
use crate::setup::Setup;
use crate::show::Show;

pub use self::package::{NAME as PLATFORM_OPERATOR, NAMESPACE as PACKAGE_NAMESPACE};

/// Namespace of the example operator.
pub const NAMESPACE: &str = "rukpak-example-pumps";
/// Name of the BundleDeployment.
const OPERATOR: &str = "pump-operator";
/// What is there for a look around, beside the package.
pub const INSTALLED_AGAIN: &str = OPERATOR;
/// Name of the Bundle from git.
const FROM_GIT: &str = "pump-operator-git";
/// The operator's CRD.
const DEFINITION: &str = "pumpstations.example.rukpak.io";
/// What the documentation of immutability shows.
const DENIAL: &str = "Error from server (bundle.spec is immutable): admission webhook \"vbundles.core.rukpak.io\" denied the \
                      request: bundle.spec is immutable";
/// Versions and the fixtures they are built from.
const VERSIONS: [(&str, &str); 3] =
    [("v1.0.0", "operator/v1"), ("v2.0.0", "operator/v2"), ("v3.0.0", "operator/v3-broken")];

/// The demo with what its steps hand on.
pub struct Demo<'a> {
    setup: &'a Setup,
    deployment: Target,
    /// Image references by version.
    images: Vec<String>,
}

impl<'a> Demo<'a> {
    /// Nothing shown yet.
    pub fn new(setup: &'a Setup) -> Self {
        Self { setup, deployment: Target::bundle_deployment(OPERATOR), images: Vec::new() }
    }

    /// All steps; the first that does not happen ends the demo.
    pub async fn play(&mut self, show: &mut Show, keep: bool) -> Result<()> {
        self.publish(show).await?;
        self.unpack(show).await?;
        self.deny(show).await?;
        self.install(show).await?;
        self.pivot(show).await?;
        self.refuse(show).await?;
        self.repair(show).await?;
        self.remove(show).await?;
        self.chart(show).await?;
        self.package(show).await?;
        if keep {
            self.create(show, &deployment_yaml(&self.images[1])).await?;
            self.await_version(1, None).await?;
            self.install_newest_package(show).await?;
        }
        Ok(())
    }

    async fn publish(&mut self, show: &mut Show) -> Result<()> {
        show.step("Build and push bundles of a small operator, as images and as git tags");
        let repository = self.setup.git.repository(OPERATOR)?;
        for (version, fixture) in VERSIONS {
            let image = fixtures::image(fixture)?;
            let pushed = self.setup.registry.push(&format!("example/{OPERATOR}"), version, &image).await?;
            if version != VERSIONS[0].0 {
                repository.remove("manifests")?;
            }
            repository.copy(&fixtures::folder(fixture)?)?;
            let commit = repository.commit(&format!("{OPERATOR} {version}"))?;
            repository.annotated_tag(version)?;
            show.lines([
                format!("{}  {}", pushed.reference, pushed.digest),
                format!("{}  tag {version}, commit {commit}", self.setup.git.url(OPERATOR)),
            ]);
            self.images.push(pushed.reference);
        }
        show.done("3 images pushed, 3 git tags pushed");
        Ok(())
    }

    async fn unpack(&self, show: &mut Show) -> Result<()> {
        show.step("A Bundle from a git tag is unpacked");
        self.create(show, &bundle_yaml(&self.setup.git.url(OPERATOR))).await?;
        let target = Target::bundle(FROM_GIT);
        let expected = Expected::is_true("Unpacked", "UnpackSuccessful").saying("Successfully unpacked the git Bundle");
        let bundle = verbs::await_condition(&self.setup.admin, &target, expected, PATIENCE).await?;
        ensure!(bundle.data["status"]["phase"] == "Unpacked", "the phase is {}", bundle.data["status"]["phase"]);
        let commit = bundle.data["status"]["resolvedSource"]["git"]["ref"]["commit"].as_str();
        let commit = commit.context("the resolved source names no commit")?.to_owned();
        self.get(show, &target).await?;
        show.conditions(&bundle, &["Unpacked", "Ready"]);
        let path = "{.status.resolvedSource.git.ref}{\"\\n\"}{.status.pin}";
        self.typed(show, &format!("kubectl get bundle {FROM_GIT} -o jsonpath='{path}'")).await?;
        show.done(format!("tag v1.0.0 is commit {}", &commit[..commit.len().min(12)]));
        Ok(())
    }

    async fn deny(&self, show: &mut Show) -> Result<()> {
        show.step("Its spec is immutable");
        let patch = json!({"spec": {"source": {"git": {"ref": {"tag": "v2.0.0"}}}}});
        let printed = self.enter(show, &format!("kubectl patch bundle {FROM_GIT} --type=merge -p '{patch}'")).await?;
        let line = printed.lines.last().map_or("", String::as_str);
        ensure!(!printed.succeeded && line == DENIAL, "the refusal reads otherwise than documented: {DENIAL}");
        show.done("the documented patch of its ref was denied with the documented text");
        Ok(())
    }

    async fn install(&self, show: &mut Show) -> Result<()> {
        show.step("A BundleDeployment installs version 1");
        self.create(show, &deployment_yaml(&self.images[0])).await?;
        let deployment = self.await_version(0, None).await?;
        self.get(show, &self.deployment).await?;
        show.conditions(&deployment, &["HasValidBundle", "Installed", "Healthy", "Ready"]);
        let objects = Objects::of(&self.setup.admin, &deployment).await?;
        show.command(&format!("kubectl get <kinds of status.inventory> -A -l {}", selector(OPERATOR)));
        show.lines(objects.table());
        for kind in ["CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Deployment"] {
            ensure!(objects.targets().any(|target| target.kind == kind), "no {kind} was installed");
        }
        self.get(show, &workload()).await?;
        let health = if self.setup.pods_become_ready() { ", Healthy=True" } else { "" };
        show.done(format!("Installed=True{health}, {} objects: CRD, RBAC, Deployment and more", objects.len()));
        Ok(())
    }

    async fn pivot(&self, show: &mut Show) -> Result<()> {
        show.step("Upgrade to version 2");
        let (before, active) = self.state().await?;
        self.switch(show, 1).await?;
        let deployment = self.await_version(1, Some(&active)).await?;
        let after = Objects::of(&self.setup.admin, &deployment).await?;
        let difference = after.since(&before);
        self.get(show, &self.deployment).await?;
        show.remark("added +, changed ~, pruned -, against version 1:");
        show.lines(difference.lines());
        ensure!(!difference.added.is_empty(), "version 2 added nothing");
        ensure!(!difference.changed.is_empty(), "version 2 changed nothing");
        ensure!(!difference.pruned.is_empty(), "version 2 pruned nothing");
        let (added, changed, pruned) = (difference.added.len(), difference.changed.len(), difference.pruned.len());
        show.done(format!("{added} added, {changed} changed, {pruned} pruned, {} left alone", difference.same));
        Ok(())
    }

    async fn refuse(&self, show: &mut Show) -> Result<()> {
        show.step("Broken version 3 is refused, version 2 stays");
        let (before, active) = self.state().await?;
        self.switch(show, 2).await?;
        let expected = Expected::is_false("Installed", "ErrorGettingReleaseState").saying("selector");
        let deployment = verbs::await_condition(&self.setup.admin, &self.deployment, expected, PATIENCE).await?;
        self.get(show, &self.deployment).await?;
        show.conditions(&deployment, &["HasValidBundle", "Installed", "Stalled"]);
        ensure!(deployment.data["status"]["activeBundle"] == active.as_str(), "activeBundle has changed");
        let difference = Objects::of(&self.setup.admin, &deployment).await?.since(&before);
        show.lines(difference.lines());
        ensure!(difference.is_none(), "the refused version changed objects");
        show.remark(&format!(
            "all {} objects of version 2 are as they were, activeBundle is still {active}",
            before.len()
        ));
        self.switch(show, 1).await?;
        let mended = self.await_version(1, None).await?;
        show.conditions(&mended, &["Installed", "Ready"]);
        show.done(format!("all {} objects unchanged, the condition says why; back on version 2", before.len()));
        Ok(())
    }

    async fn repair(&self, show: &mut Show) -> Result<()> {
        show.step("A deleted object comes back");
        let old = uid(&self.object(&workload()).await?);
        show.remark(&format!("Deployment {OPERATOR} is deleted by one request, for the time it takes:"));
        let began = Instant::now();
        verbs::delete(&self.setup.admin, &workload()).await?;
        let what = "the Deployment with another UID";
        verbs::await_object(&self.setup.admin, &workload(), what, PATIENCE, |object| {
            object.is_some_and(|object| uid(object) != old && object.metadata.deletion_timestamp.is_none())
        })
        .await?;
        let took = began.elapsed();
        if self.setup.pods_become_ready() {
            verbs::await_object(&self.setup.admin, &workload(), "a ready Pod", PATIENCE, |object| {
                object.is_some_and(|object| object.data["status"]["readyReplicas"] == 1)
            })
            .await?;
        }
        self.get(show, &workload()).await?;
        show.remark(&format!("back {} ms after the delete request", took.as_millis()));
        show.done(format!("the Deployment was back after {} ms", took.as_millis()));
        Ok(())
    }

    async fn remove(&self, show: &mut Show) -> Result<()> {
        show.step("Deletion leaves nothing behind");
        let (objects, _) = self.state().await?;
        for target in [&self.deployment, &Target::bundle(FROM_GIT)] {
            self.delete(show, target).await?;
        }
        self.gone(show, &objects, OPERATOR).await?;
        self.missing(show, &format!("crd {DEFINITION}")).await?;
        show.done(format!("all {} objects and every Bundle are gone, the CRD included", objects.len()));
        Ok(())
    }

    /// Deletes an object and waits for its end.
    async fn delete(&self, show: &Show, target: &Target) -> Result<()> {
        self.typed(show, &format!("kubectl delete {} {}", target.kind.to_lowercase(), target.name)).await
    }

    /// Waits until what a deleted BundleDeployment had is gone, and every Bundle.
    async fn gone(&self, show: &Show, objects: &Objects, deployment: &str) -> Result<()> {
        let admin = &self.setup.admin;
        eprintln!("waiting for Kubernetes' garbage collector");
        for target in objects.targets() {
            verbs::await_deleted(admin, target, PATIENCE).await?;
        }
        for bundle in verbs::list(admin, "core.rukpak.io/v1alpha1", "Bundle", "").await? {
            let bundle = Target::bundle(&bundle.metadata.name.unwrap_or_default());
            verbs::await_deleted(admin, &bundle, PATIENCE).await?;
        }
        show.command(&format!("kubectl get <kinds of status.inventory> -A -l {}", selector(deployment)));
        let left = objects.left(admin, deployment).await?;
        show.lines(left.table().into_iter().skip(1));
        ensure!(left.len() == 0, "{} objects are left", left.len());
        show.lines(["No resources found"]);
        Ok(())
    }

    /// Creates the one object of a YAML document and shows both.
    async fn create(&self, show: &Show, text: &str) -> Result<()> {
        self.typed(show, &format!("kubectl create -f - <<EOF\n{}\nEOF", text.trim_end())).await
    }

    /// Types a command that has to succeed, and shows what it prints.
    async fn typed(&self, show: &Show, command: &str) -> Result<()> {
        let printed = self.enter(show, command).await?;
        ensure!(printed.succeeded, "{command} failed: {}", printed.lines.join("\n"));
        Ok(())
    }

    async fn enter(&self, show: &Show, command: &str) -> Result<Printed> {
        show.command(command);
        let printed = self.setup.terminal.enter(command).await?;
        show.lines(&printed.lines);
        Ok(printed)
    }

    /// Points the template to another version.
    async fn switch(&self, show: &Show, version: usize) -> Result<()> {
        let patch = json!({"spec": {"template": {"spec": {"source": {"image": {"ref": self.images[version]}}}}}});
        self.typed(show, &format!("kubectl patch bundledeployment {OPERATOR} --type=merge -p '{patch}'")).await
    }

    /// Waits until a version is installed (and healthy, where Pods become ready), with another Bundle than `but`.
    async fn await_version(&self, version: usize, but: Option<&str>) -> Result<DynamicObject> {
        let complete = Expected { kind: "Ready", status: "True", reason: None, message: "" };
        let installed = Expected::is_true("Installed", "InstallationSucceeded");
        let is_there = |object: &DynamicObject| {
            object.data["spec"]["template"]["spec"]["source"]["image"]["ref"] == self.images[version].as_str()
                && object.data["status"]["observedGeneration"] == json!(object.metadata.generation)
                && object.data["status"]["activeBundle"].as_str().is_some_and(|active| Some(active) != but)
                && installed.met_by(object)
                && (complete.met_by(object) || !self.setup.pods_become_ready())
        };
        let what = format!("{} to be installed", VERSIONS[version].0);
        let wanted = |object: Option<&DynamicObject>| object.is_some_and(is_there);
        let found = verbs::await_object(&self.setup.admin, &self.deployment, &what, PATIENCE, wanted).await?;
        found.context("an installed deployment that does not exist")
    }

    /// What the deployment has in the cluster, and its active Bundle.
    async fn state(&self) -> Result<(Objects, String)> {
        let deployment = self.object(&self.deployment).await?;
        let active = deployment.data["status"]["activeBundle"].as_str().context("no active Bundle")?.to_owned();
        Ok((Objects::of(&self.setup.admin, &deployment).await?, active))
    }

    async fn object(&self, target: &Target) -> Result<DynamicObject> {
        verbs::get(&self.setup.admin, target).await?.with_context(|| format!("{target} does not exist"))
    }

    /// `kubectl get` of one object.
    async fn get(&self, show: &Show, target: &Target) -> Result<()> {
        let namespace = target.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        self.typed(show, &format!("kubectl get {} {}{namespace}", target.kind.to_lowercase(), target.name)).await
    }

    /// What is said of an object that must not exist.
    async fn missing(&self, show: &Show, words: &str) -> Result<()> {
        let printed = self.enter(show, &format!("kubectl get {words}")).await?;
        ensure!(!printed.succeeded && printed.lines.concat().contains("(NotFound)"), "{words} still exists");
        Ok(())
    }
}

fn workload() -> Target {
    Target::namespaced("apps/v1", "Deployment", NAMESPACE, OPERATOR)
}

fn definition(name: &str) -> Target {
    Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
}

fn uid(object: &DynamicObject) -> String {
    object.metadata.uid.clone().unwrap_or_default()
}

fn bundle_yaml(repository: &str) -> String {
    format!(
        "apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: {FROM_GIT}
spec:
  provisionerClassName: core-rukpak-io-plain
  source:
    type: git
    git:
      repository: {repository}
      ref:
        tag: v1.0.0
"
    )
}

fn deployment_yaml(image: &str) -> String {
    format!(
        "apiVersion: core.rukpak.io/v1alpha1
kind: BundleDeployment
metadata:
  name: {OPERATOR}
spec:
  provisionerClassName: core-rukpak-io-plain
  template:
    metadata:
      labels:
        app: {OPERATOR}
    spec:
      provisionerClassName: core-rukpak-io-plain
      source:
        type: image
        image:
          ref: {image}
"
    )
}
