//! The README's first steps.

use kube::Client;
use rukpak_tests::fixtures;
use rukpak_tests::kubectl::Terminal;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::world::World;

use super::page::{Page, Step};
use super::{REGISTRY, differences, followed};

/// What the first block takes for granted: a Bundle from git.
const FROM_GIT: &str = "pump-operator-git";

/// Installs with what the README has people type, and compares what it shows; then removes it.
pub async fn follow(world: &World, client: &Client, terminal: &Terminal) {
    let page = Page::read("README.md");
    let enter = async |text: String| {
        let printed = terminal.enter(&text).await.expect("bash is there");
        printed.of_success().unwrap_or_else(|error| panic!("{text}: {error:#}"))
    };
    let operator = fixtures::image("operator/v1").expect("the fixture can be read");
    let pushed = world.registry.push("pump-operator", "v1.0.0", &operator).await.expect("the registry takes it");
    let registry = pushed.reference.split('/').next().expect("a reference has a host");
    let _kubelet = Kubelet::play(client.clone(), "rukpak-example-pumps");

    let deployment = &page.block("kind: BundleDeployment").text;
    assert!(deployment.contains(&format!("{REGISTRY}/pump-operator:v1.0.0")), "{deployment}");
    enter(format!("kubectl apply -f - <<EOF\n{}\nEOF", deployment.replace(REGISTRY, registry))).await;
    enter(format!("kubectl apply -f - <<EOF\n{}\nEOF", from_git(world))).await;

    let waits = page.block("kubectl wait --for=condition=Installed");
    for (command, line) in waits.text.lines().zip(waits.line..) {
        let step = Step { line, command: command.to_owned(), output: Vec::new() };
        let printed = followed(terminal, &step, |printed| printed.succeeded).await;
        assert!(printed.succeeded, "line {line}: {command}: {}", printed.lines.join("\n"));
    }
    enter(format!("kubectl wait --for=condition=Unpacked bundle/{FROM_GIT}")).await;
    let first = &page.blocks()[0];
    let differences = differences(terminal, &first.steps(), registry).await;
    assert!(differences.is_empty(), "README.md is not true any more:\n{}", differences.join("\n\n"));

    // Nothing new that nobody follows. The image and the manifests: docs/install.md says the same, and is followed.
    assert_eq!(page.blocks().len(), 4, "{:?}", page.blocks());
    page.block("make image");
    enter(format!("kubectl delete bundledeployment/pump-operator bundle/{FROM_GIT}")).await;
}

/// A Bundle of a tag of a repository that is made for it.
fn from_git(world: &World) -> String {
    let name = "pump-operator";
    let repository = world.git.repository(name).expect("a repository can be made");
    repository.copy(&fixtures::folder("operator/v1").expect("the fixture is there")).expect("it can be copied");
    repository.commit("v1.0.0").expect("it can be committed");
    repository.annotated_tag("v1.0.0").expect("it can be tagged");
    let url = world.git.url(name);
    format!(
        "apiVersion: core.rukpak.io/v1alpha1
kind: Bundle
metadata:
  name: {FROM_GIT}
spec:
  provisionerClassName: core-rukpak-io-plain
  source: {{type: git, git: {{repository: '{url}', ref: {{tag: v1.0.0}}}}}}"
    )
}
