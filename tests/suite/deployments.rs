//! BundleDeployments: P23 to P38.

use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};

use rukpak_tests::world::{World, deployment, image, until};

#[tokio::test]
async fn p29_a_valid_image_is_installed() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("p29");
    let namespace = verbs::namespace(&client, "p29").await.unwrap();
    let files = [(
        "manifests/a.yaml",
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\ndata:\n  on: \"1\"\n"
        ),
    )];
    let reference = world.push(&name, &ImageBuilder::of_files(files)).await;
    verbs::create(&client, &deployment(&name, image(&reference))).await.unwrap();
    let installed = Expected::is_true("Installed", "InstallationSucceeded").saying("Instantiated bundle");
    until(&client, &name, installed).await;
    until(&client, &name, Expected::is_true("Healthy", "Healthy")).await;
    until(&client, &name, Expected::is_true("Ready", "Succeeded")).await;
    let target = Target::namespaced("v1", "ConfigMap", &namespace, &name);
    let object = verbs::get(&client, &target).await.unwrap().unwrap();
    // An unquoted `on` is a boolean, and a boolean key is the text "true": YAML as kubectl reads it.
    assert_eq!(object.data["data"]["true"], "1");
}
