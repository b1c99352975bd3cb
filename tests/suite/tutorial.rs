//! The documentation's walk-throughs, followed: what stands behind `$` is run, and what it prints is compared with what the
//! page shows.

#[path = "tutorial/page.rs"]
mod page;

use std::path::Path;

use kube::api::{Patch, PatchParams};
use page::{Page, shown};
use rukpak_tests::catalog::{CatalogServer, Documents};
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::plane::install::InstallOptions;
use rukpak_tests::process::{PLATFORM_ACCOUNT, PlatformOptions};
use rukpak_tests::tools::workspace_folder;
use rukpak_tests::verbs::Target;
use rukpak_tests::world::{World, WorldOptions};
use rukpak_tests::{ImageBuilder, fixtures, kubectl, verbs};
use serde_json::json;

/// What the page calls the registry.
const REGISTRY: &str = "registry.example.com";

/// An image of the package in a version.
async fn pushed(world: &World, version: &str) -> String {
    let mut files = fixtures::read("registry/pump").expect("the fixture can be read");
    for (_, text) in &mut files {
        *text = text.replace("1.0.0", version);
    }
    let tag = format!("v{version}");
    let image = ImageBuilder::of_files(files);
    world.registry.push("bundles/pump-operator", &tag, &image).await.expect("the registry takes it").reference
}

/// The manifests that PlatformOperators need, and OpenShift's and OLM's own kinds.
fn manifests() -> InstallOptions {
    let mut options = InstallOptions::default();
    let fixtures = fixtures::folder("openshift").expect("there is such a fixture");
    options.files = vec![workspace_folder().join("manifests/install-platform.yaml")];
    options.files.extend(["catalogsources.yaml", "clusteroperators.yaml"].map(|file| fixtures.join(file)));
    options.accounts.push(PLATFORM_ACCOUNT.to_owned());
    options
}

#[tokio::test]
async fn the_walk_through_of_platform_operators_is_true() {
    let world = World::start_with(WorldOptions { install: manifests(), ..WorldOptions::default() }).await;
    let world = world.unwrap_or_else(|error| panic!("{error:#}"));
    let client = world.admin().await;
    let (old, new) = (pushed(&world, "1.0.0").await, pushed(&world, "1.1.0").await);
    let catalog = Documents::package("pump-operator", &[("1.0.0", &old), ("1.1.0", &new)]);
    let server = CatalogServer::start(catalog).expect("the catalog server starts");
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-marketplace"}}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
               "metadata": {"name": "redhat-operators", "namespace": "openshift-marketplace"},
               "spec": {"sourceType": "grpc"}}),
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
               "metadata": {"name": "platform-operators-aggregated"}, "spec": {}}),
    ] {
        verbs::create(&client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let source = Target::namespaced(
        "operators.coreos.com/v1alpha1",
        "CatalogSource",
        "openshift-marketplace",
        "redhat-operators",
    );
    // As OLM does once it has a connection.
    let ready = json!({"status": {"connectionState": {"address": server.address(), "lastObservedState": "READY"}}});
    let api = source.api(&client).await.expect("CatalogSources are served");
    api.patch_status(&source.name, &PatchParams::default(), &Patch::Merge(&ready)).await.expect("a status is taken");
    let environment = vec![("RELEASE_VERSION".to_owned(), "4.12.0".to_owned())];
    let options = PlatformOptions { environment, ..PlatformOptions::default() };
    let platform = world.plane.start_platform(options).await.unwrap_or_else(|error| panic!("{error:#}"));
    platform.wait_ready().await.unwrap_or_else(|error| panic!("{error:#}"));

    let _kubelet = Kubelet::play(client.clone(), "pump-operator-system");

    let page = Page::read(Path::new("docs/platform.md"));
    let registry = old.split('/').next().expect("a reference has a host").to_owned();
    let mut differences = Vec::new();
    for step in page.steps() {
        let printed = kubectl::run(&client, &step.command, &step.input).await;
        let printed = printed.unwrap_or_else(|error| panic!("line {}: kubectl {}: {error:#}", step.line, step.command));
        let printed: Vec<String> = printed.iter().map(|line| line.replace(&registry, REGISTRY)).collect();
        if shown(&printed) != shown(&step.output) {
            let (command, page, here) = (&step.command, step.output.join("\n"), printed.join("\n"));
            differences
                .push(format!("line {}: $ kubectl {command}\n--- the page\n{page}\n--- here\n{here}", step.line));
        }
    }
    assert!(page.steps().len() > 20, "only {} commands were found", page.steps().len());
    assert!(differences.is_empty(), "docs/platform.md is not true any more:\n{}", differences.join("\n\n"));
}
