//! What docs/rukpakctl.md takes for granted: images of an operator in three versions, and folders.

use rukpak_tests::ImageBuilder;
use rukpak_tests::tools::workspace_folder;
use rukpak_tests::world::World;

use super::session::Session;

/// The namespace, the account and the settings of an operator.
const PUMP: &str = "apiVersion: v1
kind: Namespace
metadata: {name: pumps}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: pump-operator, namespace: pumps}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pump-settings, namespace: pumps}
data: {version: VERSION}
";

/// A Deployment that runs an image of this registry.
fn valve(registry: &str) -> String {
    let labels = "{app: valve}";
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: valve, namespace: default}}
spec:
  selector: {{matchLabels: {labels}}}
  template:
    metadata: {{labels: {labels}}}
    spec:
      containers:
      - {{name: valve, image: '{registry}/valve:v1.0.0'}}
"
    )
}

/// Publishes `valve-operator` and the image that it runs; `pump-operator` in versions that work, and in one without `apiVersion`; puts the folder `kite` where the page has it.
pub async fn prepare(world: &World, session: &Session) {
    let broken = PUMP.replace("apiVersion: v1\n", "");
    for (tag, text) in [("v1.0.0", PUMP), ("v1.1.0", PUMP), ("v1.2.0", broken.as_str())] {
        let image = ImageBuilder::of_files([("manifests/a.yaml", text.replace("VERSION", tag))]);
        world.registry.push("pump-operator", tag, &image).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let bundle = ("manifests/valve.yaml", valve(world.registry.host()));
    for (name, file) in [("valve-operator", bundle), ("valve", ("valve", "#!/bin/sh\n".to_owned()))] {
        let image = ImageBuilder::of_files([file]);
        world.registry.push(name, "v1.0.0", &image).await.unwrap_or_else(|error| panic!("{error:#}"));
    }
    let fixtures = workspace_folder().join("provisioners/registry/tests/fixtures/kite");
    session.enter(&format!("cp -r {} kite", fixtures.display())).await;
}
