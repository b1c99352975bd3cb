//! What a Bundle resolved to once is what it stays.

use std::time::Duration;

use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::image;
use serde_json::{Value, json};

use crate::bundles::hands::{Hands, PATIENCE, Scene, git, good, manifest};

/// Long enough for a touched Bundle to be looked at: that takes milliseconds.
const WHILE: Duration = Duration::from_secs(2);

/// Touches a Bundle and watches that its status stays the same to the letter.
async fn stays(hands: &Hands, name: &str, before: &Value) {
    hands.touch(name).await;
    let same =
        |object: Option<&kube::api::DynamicObject>| object.is_some_and(|object| object.data["status"] == *before);
    verbs::holds_for(&hands.client, &Target::bundle(name), "its status", WHILE, same).await.expect("nothing changes");
}

#[tokio::test]
async fn a_moved_tag_changes_nothing() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let server = scene.faulty_registry();
    let name = unique_name("moved");
    let pushed = scene.world.registry.push(&name, "v1", &good(&name)).await.unwrap();
    let repository = format!("{}/{name}", server.host());
    hands.bundle(&name, image(&format!("{repository}:v1"))).await;
    let status = hands.unpacked(&name).await.data["status"].clone();
    let content = hands.reference(&name).unwrap()["content"].clone();
    assert_eq!(status["pin"], json!({"imageDigest": pushed.digest, "contentDigest": content}));
    assert_eq!(status["resolvedSource"], image(&format!("{repository}@{}", pushed.digest)));

    let moved = scene.world.registry.push(&name, "v1", &good("moved")).await.unwrap();
    assert_ne!(moved.digest, pushed.digest);
    server.forget();
    stays(&hands, &name, &status).await;
    assert_eq!(server.seen(), [], "an unpacked Bundle asks nobody");
    assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest(&name));
}

#[tokio::test]
async fn a_moved_branch_changes_nothing() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let server = scene.faulty_git();
    let name = unique_name("moved");
    let repository = scene.world.git.repository(&name).unwrap();
    repository.write(&[("here/manifests/object.yaml", manifest(&name))]).unwrap();
    let commit = repository.commit("first").unwrap();
    let source = json!({"type": "git", "git": {
        "repository": format!("{}/{name}.git", server.url()), "directory": "./here/", "ref": {"branch": "main"},
        "auth": {"secret": {}, "insecureSkipVerify": true}}});
    hands.bundle(&name, source.clone()).await;
    let status = hands.unpacked(&name).await.data["status"].clone();
    let content = hands.reference(&name).unwrap()["content"].clone();
    assert_eq!(status["pin"], json!({"gitCommit": commit, "contentDigest": content}));
    let mut resolved = source;
    resolved["git"]["ref"] = json!({"commit": commit});
    assert_eq!(status["resolvedSource"], resolved);

    repository.write(&[("here/manifests/object.yaml", manifest("moved"))]).unwrap();
    assert_ne!(repository.commit("second").unwrap(), commit);
    server.forget();
    stays(&hands, &name, &status).await;
    assert_eq!(server.seen(), [], "an unpacked Bundle asks nobody");
    assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest(&name));
}

#[tokio::test]
async fn a_bundle_made_anew_takes_what_the_tag_names_now() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("anew");
    let repository = scene.world.git.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("first").unwrap();
    repository.light_tag("v1").unwrap();
    let source = git(&scene.world.git.url(&name), &json!({"tag": "v1"}));
    hands.bundle(&name, source.clone()).await;
    hands.unpacked(&name).await;
    repository.write(&[("manifests/object.yaml", manifest("anew"))]).unwrap();
    let second = repository.commit("second").unwrap();
    repository.light_tag("v1").unwrap();
    let target = Target::bundle(&name);
    verbs::delete(&hands.client, &target).await.unwrap();
    verbs::await_deleted(&hands.client, &target, PATIENCE).await.unwrap();
    hands.bundle(&name, source).await;
    let bundle = hands.unpacked(&name).await;
    assert_eq!(bundle.data["status"]["pin"]["gitCommit"], second.as_str());
    assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest("anew"));
}

/// The pin is made by the first success, not by the first attempt.
#[tokio::test]
async fn a_broken_tag_can_be_mended() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("mended");
    let repository = scene.world.git.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", "kind: [")]).unwrap();
    repository.commit("broken").unwrap();
    repository.annotated_tag("v1").unwrap();
    hands.bundle(&name, git(&scene.world.git.url(&name), &json!({"tag": "v1"}))).await;
    hands.failing(&name, "manifests/object.yaml, document 1").await;
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    let mended = repository.commit("mended").unwrap();
    repository.annotated_tag("v1").unwrap();
    let bundle = hands.unpacked(&name).await;
    assert_eq!(bundle.data["status"]["pin"]["gitCommit"], mended.as_str());
}
