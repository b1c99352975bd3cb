//! What is typed: a bundle from its folder to its removal, and packages of a catalog. Each story leaves the cluster as it found it.

use std::path::Path;

use kube::api::DynamicObject;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::openshift::{operator, platform_operator};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, deployment};
use rukpak_tests::{CatalogImage, ImageBuilder, fixtures, tools};
use serde_json::{Value, json};

use crate::output::goldens::Goldens;
use crate::output::session::{Cluster, Form, Session};

/// The folders of bundles that are typed of.
const FOLDERS: [&str; 6] = ["pump-v1", "pump-v2", "pump-v3", "pump-operator", "broken", "valve"];

/// Types everything in one form.
pub async fn tell(cluster: &Cluster, form: Form, goldens: &mut Goldens) {
    let mut session = Session::new(cluster, form, goldens);
    prepare(&session).await;
    bundles(&mut session).await;
    images(&mut session).await;
    catalogs(&mut session).await;
    deployments(&mut session).await;
    plans(&mut session).await;
    packages(&mut session).await;
    session.enter("version").await;
}

/// Folders of bundles and of a catalog, and the image that one bundle runs.
async fn prepare(session: &Session<'_>) {
    let here = tools::workspace_folder().join("tests/suite/output/bundles");
    for name in FOLDERS {
        copy(session, &here.join(name), name);
    }
    let cli = tools::workspace_folder().join("provisioners/cli/tests/cli/fixtures");
    copy(session, &cli.join("pumps"), "pumps");
    copy(session, &tools::workspace_folder().join("provisioners/registry/tests/fixtures/kite"), "kite");
    copy(session, &tools::workspace_folder().join("examples/rights"), "rights");
    let image = ImageBuilder::of_files([("valve", "#!/bin/sh\n")]);
    session
        .cluster
        .world
        .registry
        .push(&format!("{}/valve", session.form.name()), "v1.0.0", &image)
        .await
        .expect("the registry takes it");
}

/// Copies files; `REGISTRY` in them is the registry.
fn copy(session: &Session<'_>, from: &Path, to: &str) {
    let target = session.folder.join(to);
    std::fs::create_dir_all(&target).expect("a folder");
    for entry in tools::listing(from).unwrap_or_else(|error| panic!("{error:#}")) {
        let name = format!("{to}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            copy(session, &entry.path(), &name);
        } else {
            let text = std::fs::read_to_string(entry.path()).expect("a text");
            let text = text.replace("REGISTRY", &session.registry());
            std::fs::write(session.folder.join(name), text).expect("it is written");
        }
    }
}

/// Without a cluster: what a bundle is.
async fn bundles(session: &mut Session<'_>) {
    session.enter("validate ./pump-v1").await;
    session.enter("validate ./broken").await;
    session.enter("validate ./nothing-here").await;
    session.enter("render ./pump-v1").await;
    session.enter("render ./broken").await;
    session.enter("rights ./pump-v1 --name pump --service-account pumps/installer").await;
    session.enter("policy rights/install-policy.yaml").await;
    session.enter("examples ./pump-operator").await;
    session.enter("examples ./pump-operator pump").await;
    session.enter("examples ./pump-operator valve").await;
}

/// Registries and layouts.
async fn images(session: &mut Session<'_>) {
    session.enter("package ./valve REGISTRY/bundles/valve:v1.0.0").await;
    session.enter("package ./broken REGISTRY/bundles/broken:v1.0.0").await;
    session.enter("pull REGISTRY/bundles/valve:v1.0.0 ./pulled").await;
    session.enter("pull REGISTRY/bundles/valve:v9 ./none").await;
    session.enter("export REGISTRY/bundles/valve:v1.0.0 ./layout").await;
    session.enter("export ./broken ./none").await;
    session.enter("import ./layout REGISTRY/mirror").await;
    session.enter("import ./pump-v1 REGISTRY/mirror").await;
}

/// Catalogs in folders.
async fn catalogs(session: &mut Session<'_>) {
    session.enter("catalog list ./pumps").await;
    session.enter("catalog list ./pumps pump").await;
    session.enter("catalog list ./pumps pomp").await;
    session.enter("catalog show ./pumps pump").await;
    session.enter("catalog show ./pumps pump --channel stable --from 1.0.0").await;
    session.enter("catalog show ./pumps pump 7.0.0").await;
}

/// A BundleDeployment from its installation to its removal.
async fn deployments(session: &mut Session<'_>) {
    let client = session.cluster.client.clone();
    let _kubelet = Kubelet::play(client.clone(), "pumps");
    let pump = Target::bundle_deployment("pump");
    session.enter("status").await;
    session.enter("install pump ./pump-v1").await;
    session.enter("install pump ./pump-v1").await;
    session.enter("install broken ./broken").await;
    session.enter("status").await;
    session.enter("status pump").await;
    session.enter("tree pump").await;
    let settings = Target::namespaced("v1", "ConfigMap", "pumps", "pump-settings");
    verbs::merge(&client, &settings, &json!({"data": {"colour": "green"}})).await.expect("it is patched");
    session.enter("why configmap/pump-settings -n pumps").await;
    session.enter("why configmap/kube-root-ca.crt -n pumps").await;
    session.enter("why configmap/none -n pumps").await;
    session.enter("rights bundledeployment/pump").await;
    session.enter("diff pump").await;
    session.enter("diff pump ./pump-v2").await;
    session.enter("upgrade pump ./pump-v2").await;
    one_bundle(session, "pump").await;
    session.enter("upgrade pump ./pump-v3").await;
    session.enter("status pump").await;
    session.enter("tree pump").await;
    session.enter("reconcile pump").await;
    session.enter("history pump").await;
    session.enter("rollback pump").await;
    session.enter("history pump").await;
    session.enter("rollback pump --to-revision 9").await;
    session.enter("suspend pump").await;
    let is_suspended = Expected::is_true("Suspended", "Suspended");
    verbs::await_condition(&client, &pump, is_suspended, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    session.enter("resume pump").await;
    let installed = Expected::is_true("Ready", "Succeeded");
    let object =
        verbs::await_condition(&client, &pump, installed, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    session.enter("reconcile pump").await;
    let bundle = object.data["status"]["activeBundle"].as_str().expect("a name").to_owned();
    session.enter_of(&format!("content {bundle}"), "content pump-<hash>").await;
    session.enter("content none").await;
    session.enter("run valve ./valve").await;
    session.enter("run valve ./pump-v3/manifests").await;
    for name in ["status", "tree", "history", "why", "diff", "suspend", "resume", "reconcile", "rollback", "delete"] {
        let object = if name == "why" { "bundledeployment/nobody" } else { "nobody" };
        session.enter(&format!("{name} {object}")).await;
    }
    session.enter("delete pump").await;
    session.enter("delete valve").await;
    let namespace = Target::cluster("v1", "Namespace", "pumps");
    verbs::await_deleted(&client, &namespace, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// A BundleDeployment that asks before it is installed.
async fn plans(session: &mut Session<'_>) {
    let client = session.cluster.client.clone();
    let asking = Target::bundle_deployment("asking");
    let mut object = deployment("asking", json!({"type": "upload", "upload": {}}));
    object["spec"]["approval"] = json!("Always");
    verbs::create(&client, &object).await.expect("the API server agrees");
    session.enter("plan list").await;
    session.enter("run asking ./valve").await;
    let waits = Expected { kind: "Ready", status: "Unknown", reason: Some("WaitingForApproval"), message: "" };
    verbs::await_condition(&client, &asking, waits, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    let plans = verbs::list(&client, "core.rukpak.io/v1alpha1", "Plan", "core.rukpak.io/owner-name=asking").await;
    let name = plans.expect("it is served")[0].metadata.name.clone().expect("it has a name");
    let plan = Target::cluster("core.rukpak.io/v1alpha1", "Plan", &name);
    for (verb, phase) in [("show", "Waiting"), ("reject", "Rejected"), ("approve", "Applied"), ("reject", "Applied")] {
        session.enter_of(&format!("plan {verb} {name}"), &format!("plan {verb} asking-<digest>")).await;
        let is_there = |object: &DynamicObject| object.data["status"]["phase"] == phase;
        let found = verbs::await_object(&client, &plan, phase, SOON, |object| object.is_some_and(is_there)).await;
        found.unwrap_or_else(|error| panic!("{error:#}"));
    }
    session.enter("plan list asking").await;
    for verb in ["show", "approve", "reject"] {
        session.enter(&format!("plan {verb} none")).await;
    }
    verbs::delete(&client, &asking).await.expect("the API server agrees");
    verbs::await_deleted(&client, &plan, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
}

/// Waits until the Bundles of earlier revisions are gone, which the controller deletes after the upgrade.
async fn one_bundle(session: &Session<'_>, name: &str) {
    let client = &session.cluster.client;
    let deployment =
        verbs::get(client, &Target::bundle_deployment(name)).await.expect("an answer").expect("it is there");
    let active = deployment.data["status"]["activeBundle"].as_str().expect("a name");
    let labels = format!("core.rukpak.io/owner-name={name}");
    let bundles = verbs::list(client, "core.rukpak.io/v1alpha1", "Bundle", &labels).await.expect("a list");
    for bundle in bundles.iter().filter_map(|bundle| bundle.metadata.name.as_deref()).filter(|name| *name != active) {
        verbs::await_deleted(client, &Target::bundle(bundle), SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

fn catalog(name: &str) -> Target {
    Target::cluster("olm.operatorframework.io/v1", "ClusterCatalog", name)
}

fn extension(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": "pump-operator-system", "source": {"sourceType": "Catalog",
                 "catalog": {"packageName": "pump-operator", "version": version}}},
    })
}

/// ClusterExtensions and PlatformOperators, from a ClusterCatalog.
async fn packages(session: &mut Session<'_>) {
    let (client, world) = (session.cluster.client.clone(), &session.cluster.world);
    let until = async |target: &Target, expected: Expected<'_>| {
        let found = verbs::await_condition(&client, target, expected, SOON).await;
        found.unwrap_or_else(|error| panic!("{error:#}"))
    };
    let create = async |object: Value| {
        verbs::create(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    };
    let _kubelet = Kubelet::play(client.clone(), "pump-operator-system");
    let (documents, _) =
        fixtures::publish_pump(&world.registry, &["1.0.0", "1.1.0"]).await.expect("the registry takes it");
    let image = CatalogImage::of(documents).expect("an image");
    let image = image.push(&world.registry, "catalogs/operators", "v1").await.expect("the registry takes it");
    create(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "operators"},
        "spec": {"source": {"type": "Image", "image": {"ref": image.reference}}},
    }))
    .await;
    until(&catalog("operators"), Expected::is_true("Serving", "Available")).await;
    create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pump-operator-system"}})).await;

    session.enter("extension list").await;
    create(extension("pump-operator", "1.0.0")).await;
    let target = Target::cluster("olm.operatorframework.io/v1", "ClusterExtension", "pump-operator");
    until(&target, Expected::is_true("Progressing", "Succeeded")).await;
    until(&Target::bundle_deployment("pump-operator"), Expected::is_true("Ready", "Succeeded")).await;
    session.enter("extension list").await;
    session.enter("extension show pump-operator").await;
    session.enter("extension show nobody").await;
    session.enter("extension why pump-operator").await;
    session.enter("extension why nobody").await;
    session.enter("catalog list cluster:operators").await;
    session.enter("export pomp ./none --catalog cluster:operators").await;
    session.enter("export pump-operator ./none --catalog cluster:operators --version 3.x").await;
    session.enter("status").await;
    session.enter("tree pump-operator").await;
    session.enter("migrate clusterextension/pump-operator --to platformoperator").await;
    session.enter("migrate clusterextension/pump-operator --to bundledeployment --apply").await;
    session.enter("migrate clusterextension/nobody").await;
    verbs::await_deleted(&client, &target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    verbs::delete(&client, &Target::bundle_deployment("pump-operator")).await.expect("it is deleted");
    let gone = [Target::bundle_deployment("pump-operator"), Target::cluster("v1", "Namespace", "pump-operator-system")];
    verbs::delete(&client, &gone[1]).await.expect("it is deleted");
    for target in &gone {
        verbs::await_deleted(&client, target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    create(operator("pump-operator", json!({"package": {"name": "pump-operator"}}))).await;
    until(&platform_operator("pump-operator"), Expected::is_true("Ready", "Succeeded")).await;
    session.enter("status").await;
    session.enter("migrate platformoperator/pump-operator").await;
    for target in [platform_operator("pump-operator"), catalog("operators")] {
        verbs::delete(&client, &target).await.expect("it is deleted");
        verbs::await_deleted(&client, &target, SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    verbs::await_deleted(&client, &gone[0], SOON).await.unwrap_or_else(|error| panic!("{error:#}"));
}
