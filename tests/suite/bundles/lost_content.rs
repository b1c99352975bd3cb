//! Content that the store lost comes back by the pin, or not at all.

use rukpak_tests::plane::install::CONTROLLER_ACCOUNT;
use rukpak_tests::registry::Pushed;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::image;
use rukpak_tests::{ImageBuilder, Layer};
use serde_json::{Value, json};

use crate::bundles::hands::{Hands, Scene, git, good, manifest};

/// An unpacked Bundle of an image, its status, and what was pushed.
async fn unpacked(scene: &Scene, hands: &Hands, name: &str) -> (Value, Pushed) {
    let pushed = scene.world.registry.push(name, "v1", &good(name)).await.expect("the registry takes it");
    hands.bundle(name, image(&pushed.reference)).await;
    (hands.unpacked(name).await.data["status"].clone(), pushed)
}

/// Removes the content of a Bundle, and returns where it was and what.
fn lose(hands: &Hands, name: &str) -> (std::path::PathBuf, Vec<u8>) {
    let file = hands.content_file(name).expect("the store has a ref");
    let bytes = std::fs::read(&file).expect("the file can be used");
    std::fs::remove_file(&file).expect("the file can be used");
    (file, bytes)
}

#[tokio::test]
async fn an_image_comes_back_although_its_tag_moved() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("lost");
    let (status, _) = unpacked(scene, &hands, &name).await;
    scene.world.registry.push(&name, "v1", &good("moved")).await.unwrap();
    let (file, bytes) = lose(&hands, &name);
    hands.touch(&name).await;
    hands.on_disk("the content", || file.is_file()).await;
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(hands.get(&name).await.data["status"], status, "a cache that was lost is nobody's news");
}

#[tokio::test]
async fn content_without_its_ref_is_verified_before_it_is_used_again() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("damaged");
    let (status, _) = unpacked(scene, &hands, &name).await;
    let file = hands.content_file(&name).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    std::fs::remove_file(hands.reference_file(&name)).unwrap();
    hands.touch(&name).await;
    hands.on_disk("the ref", || hands.reference(&name).is_some()).await;
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(hands.get(&name).await.data["status"], status);
}

#[tokio::test]
async fn a_commit_comes_back_although_its_branch_moved() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("lost");
    let repository = scene.world.git.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("first").unwrap();
    hands.bundle(&name, git(&scene.world.git.url(&name), &json!({"branch": "main"}))).await;
    let status = hands.unpacked(&name).await.data["status"].clone();
    repository.write(&[("manifests/object.yaml", manifest("moved"))]).unwrap();
    repository.commit("second").unwrap();
    let (file, bytes) = lose(&hands, &name);
    hands.touch(&name).await;
    hands.on_disk("the content", || file.is_file()).await;
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(hands.get(&name).await.data["status"], status);
}

/// Waits until a Bundle that was unpacked says that it is not, with its pin untouched and nothing in the store.
async fn refused(hands: &Hands, name: &str, reason: &str, text: &str, pin: &Value) {
    let object = hands.condition(name, Expected::is_false("Unpacked", reason).saying(text)).await;
    let status = &object.data["status"];
    assert_eq!(status["pin"], *pin, "the pin is for ever");
    assert!(status["resolvedSource"].is_null(), "upstream clears it: {status}");
    assert!(!hands.content_file(name).is_some_and(|file| file.exists()), "{name} has content of no pin");
}

#[tokio::test]
async fn a_commit_that_is_gone_is_said_and_nothing_else_is_taken() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("rewritten");
    let repository = scene.world.git.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    let first = repository.commit("first").unwrap();
    hands.bundle(&name, git(&scene.world.git.url(&name), &json!({"branch": "main"}))).await;
    let status = hands.unpacked(&name).await.data["status"].clone();
    // A history without the commit.
    repository.git(&["switch", "--quiet", "--orphan", "other"]).unwrap();
    repository.write(&[("manifests/object.yaml", manifest("rewritten"))]).unwrap();
    repository.git(&["add", "--all"]).unwrap();
    repository.git(&["commit", "--quiet", "--message", "rewritten"]).unwrap();
    repository.git(&["push", "--quiet", "--force", "origin", "HEAD:main"]).unwrap();
    lose(&hands, &name);
    hands.touch(&name).await;
    let text = format!("checkout commit \"{first}\": no branch or tag of {}", scene.world.git.url(&name));
    refused(&hands, &name, "UnpackFailed", &text, &status["pin"]).await;
    assert!(!hands.holds("rewritten"));
    // Once something leads to the commit again, so does the Bundle.
    repository.git(&["push", "--quiet", "origin", &format!("{first}:refs/tags/rescued")]).unwrap();
    let back = hands.unpacked(&name).await;
    assert_eq!(back.data["status"]["pin"], status["pin"]);
    assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest(&name));
}

#[tokio::test]
async fn other_bytes_under_the_pinned_digest_are_said_and_not_taken() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let (name, other) = (unique_name("forged"), unique_name("forgery"));
    let (status, pushed) = unpacked(scene, &hands, &name).await;
    // A layer that is whole, and is not the one that the manifest names.
    let forgery = Layer::of_files([("manifests/object.yaml", manifest(&other))]);
    let forged = scene.world.registry.push(&other, "v1", &ImageBuilder::new([forgery])).await.unwrap();
    let blob = |digest: &str| scene.world.registry.read_blob(digest).unwrap();
    let original = blob(&pushed.layers[0]);
    scene.world.registry.overwrite_blob(&pushed.layers[0], &blob(&forged.layers[0])).unwrap();
    lose(&hands, &name);
    hands.touch(&name).await;
    refused(&hands, &name, "UnpackFailed", &pushed.layers[0], &status["pin"]).await;
    assert!(!hands.holds(&other));
    scene.world.registry.overwrite_blob(&pushed.layers[0], &original).unwrap();
    let back = hands.unpacked(&name).await;
    assert_eq!(back.data["status"]["pin"], status["pin"]);
    assert_eq!(back.data["status"]["resolvedSource"], status["resolvedSource"]);
}

#[tokio::test]
async fn content_other_than_the_pinned_is_said_and_not_taken() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let (first, name) = (unique_name("whole"), unique_name("changed"));
    let (status, pushed) = unpacked(scene, &hands, &first).await;
    let found = status["pin"]["contentDigest"].as_str().unwrap();
    let pinned = format!("sha256:{}", "0".repeat(64));
    // A Bundle that was never unpacked has no pin yet, and its controller sets it once.
    let later = format!("{}later", pushed.reference.strip_suffix("v1").unwrap());
    hands.bundle(&name, image(&later)).await;
    let controller = scene.world.plane.as_account(CONTROLLER_ACCOUNT).await.unwrap();
    let api = Target::bundle(&name).api(&controller).await.unwrap();
    let pin = json!({"imageDigest": pushed.digest, "contentDigest": pinned});
    let patch = kube::api::Patch::Merge(json!({"status": {"pin": pin}}));
    api.patch_status(&name, &kube::api::PatchParams::default(), &patch).await.unwrap();
    let text = format!(
        "source bundle content: {} now holds other content than when the Bundle was unpacked: expected {pinned}, \
         found {found}",
        pushed.digest
    );
    let object = hands.condition(&name, Expected::is_false("Unpacked", "UnpackFailed").saying(&text)).await;
    assert_eq!(object.data["status"]["pin"], pin);
    assert!(verbs::condition(&object, "Stalled").is_some());
    // No ref names what nobody pinned.
    assert_ne!(hands.reference(&name).map(|found| found["content"].clone()), Some(json!(pinned)));
    assert!(hands.content_file(&first).unwrap().is_file());
}
