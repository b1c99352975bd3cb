//! OLM v1 on the node: one ClusterCatalog, one ClusterExtension, and `rukpakctl`, which reads the catalog through a forwarded port.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rukpak_tests::tools::{self, PATIENCE};
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::{CatalogImage, Documents, ImageBuilder, Registry, RegistryOptions, fixtures};

use crate::Clock;
use crate::node::{ADDRESS, Node};
use crate::programs::POD_IMAGE;
use crate::steps::{NAMESPACE, rollout};

const PACKAGE: &str = "pump-operator";
const GROUP: &str = "olm.operatorframework.io/v1";

/// Installs a package of a catalog, looks at it, and removes both.
pub async fn all(node: &Node, clock: &Clock) -> Result<()> {
    let registry =
        Registry::start(RegistryOptions { plain_address: Some(ADDRESS), ..RegistryOptions::default() }).await?;
    reachable(node, &registry).await?;
    let reference = published(&registry).await?;
    let (catalog, extension) =
        (Target::cluster(GROUP, "ClusterCatalog", "pumps"), Target::cluster(GROUP, "ClusterExtension", PACKAGE));
    let file = node.folder("extension")?.join("objects.yaml");
    std::fs::write(&file, objects(&reference))?;
    let began = Instant::now();
    node.hands.kubectl(&format!("apply -f {}", file.display())).await?;
    verbs::await_condition(&node.client, &catalog, Expected::is_true("Serving", "Available"), PATIENCE).await?;
    let settled = Expected::is_true("Progressing", "Succeeded").saying("Desired state reached");
    verbs::await_condition(&node.client, &extension, settled, PATIENCE).await?;
    node.hands.kubectl("-n olm-pumps rollout status deployment/pump-manager --timeout=60s").await?;
    clock.say(&format!(
        "clusterextension/{PACKAGE} is installed and runs {:.1} s after kubectl apply",
        began.elapsed().as_secs_f64()
    ));
    forwarded(node, clock).await?;
    node.hands.kubectl(&format!("delete -f {} --wait=false", file.display())).await?;
    let gone = [Target::namespaced("apps/v1", "Deployment", "olm-pumps", "pump-manager"), extension, catalog];
    for target in gone {
        verbs::await_deleted(&node.client, &target, PATIENCE * 2).await?;
    }
    verbs::await_deleted(&node.client, &Target::cluster("v1", "Namespace", "olm-pumps"), PATIENCE * 2).await?;
    clock.say("clusterextension and clustercatalog are gone, with all that was installed");
    Ok(())
}

/// Both programs that pull images may ask the registry of the node.
async fn reachable(node: &Node, registry: &Registry) -> Result<()> {
    let add =
        |flag: String| format!(r#"{{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"{flag}"}}"#);
    let (plain, allowed) =
        (add(format!("--plain-http-registry={}", registry.host())), add(format!("--source-allow-cidr={ADDRESS}/32")));
    for deployment in ["core", "platform-operators-controller-manager"] {
        node.hands
            .kubectl(&format!("-n {NAMESPACE} patch deployment {deployment} --type=json -p [{plain},{allowed}]"))
            .await?;
        rollout(node, deployment).await?;
    }
    Ok(())
}

/// Pushes the bundle, whose operator is the node's own program, and its catalog; returns the reference of the catalog.
async fn published(registry: &Registry) -> Result<String> {
    let mut files = fixtures::read("registry/pump")?;
    for (_, text) in &mut files {
        *text = text.replace(
            "image: example.rukpak.io/pump:1.0.0",
            &format!("image: {POD_IMAGE}\n                    args: [serve, '1']"),
        );
    }
    let bundle = registry.push("bundles/pump-operator", "v1.0.0", &ImageBuilder::of_files(files)).await?.reference;
    let catalog = CatalogImage::of(Documents::package(PACKAGE, &[("1.0.0", &bundle)]))?;
    Ok(catalog.push(registry, "catalogs/pumps", "v1").await?.reference)
}

fn objects(catalog: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: olm-pumps}}\n---\n\
         apiVersion: {GROUP}\nkind: ClusterCatalog\nmetadata: {{name: pumps}}\n\
         spec: {{source: {{type: Image, image: {{ref: '{catalog}'}}}}}}\n---\n\
         apiVersion: {GROUP}\nkind: ClusterExtension\nmetadata: {{name: {PACKAGE}}}\n\
         spec: {{namespace: olm-pumps, source: {{sourceType: Catalog, catalog: {{packageName: {PACKAGE}}}}}}}\n"
    )
}

/// `rukpakctl`, which forwards a port to the Pod behind Service `catalogd-service`.
async fn forwarded(node: &Node, clock: &Clock) -> Result<()> {
    let program = tools::workspace_binary("rukpakctl")?;
    let said = node.hands.run(&program, ["extension", "why", PACKAGE]).await?;
    let last = said.lines().last().context("it says nothing")?;
    ensure!(last == format!("{PACKAGE}.v1.0.0 of catalog pumps is chosen"), "{said}");
    clock.say(&format!("rukpakctl extension why {PACKAGE}: {last}"));
    let said = node.hands.run(&program, ["catalog", "list", "cluster:pumps"]).await?;
    ensure!(said.contains(PACKAGE), "{said}");
    clock.say(&format!("rukpakctl catalog list cluster:pumps: {}", said.lines().last().unwrap_or_default()));
    Ok(())
}
