//! What RukPak promises of Bundles from images and git.

use std::time::Duration;

use rukpak_tests::verbs::{self, Denial, Expected, Target, unique_name};
use rukpak_tests::world::{self, PASSWORD, USER, image};
use rukpak_tests::{GitServer, RepoBuilder, fixtures};
use serde_json::{Value, json};

use crate::bundles::hands::{Hands, Scene, git, good, manifest};

/// How long the reference watches for something that must not happen.
const NEVER: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_unknown_class_is_left_alone() {
    let hands = Scene::shared().await.hands().await;
    let name = unique_name("p1");
    let mut bundle = world::bundle(&name, image("localhost:1/nowhere:v1"));
    bundle["spec"]["provisionerClassName"] = json!("non-existent-class-name");
    let created = verbs::create(&hands.client, &bundle).await.unwrap();
    let untouched = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.metadata.resource_version == created.metadata.resource_version)
    };
    verbs::holds_for(&hands.client, &Target::bundle(&name), "no write", NEVER, untouched).await.unwrap();
    assert!(hands.get(&name).await.data["status"].is_null());
}

#[tokio::test]
async fn an_image_is_unpacked() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p2");
    let pushed = scene.world.registry.push(&name, "v1", &fixtures::image("plain/valid").unwrap()).await.unwrap();
    hands.bundle(&name, image(&pushed.reference)).await;
    let bundle = hands.unpacked(&name).await;
    let status = &bundle.data["status"];
    assert_eq!(status["phase"], "Unpacked");
    assert_eq!(status["resolvedSource"], image(&pushed.pinned));
    let condition = verbs::condition(&bundle, "Unpacked").unwrap();
    assert_eq!(condition["message"], "Successfully unpacked the image Bundle");
    let expected = fixtures::renamed("plain/valid", "").unwrap().into_iter().map(|(path, _)| path);
    assert!(hands.content(&name).into_keys().eq(expected), "{:?}", hands.content(&name).keys());
}

/// Changes a Bundle while it waits and when it is unpacked; returns the two refusals.
async fn change(patch: &Value) -> [Denial; 2] {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("immutable");
    let target = Target::bundle(&name);
    hands.bundle(&name, image(&format!("{}/{name}:v1", scene.world.registry.host()))).await;
    hands.pending(&name, "Back-off").await;
    let early = verbs::merge_expecting_denial(&hands.client, &target, patch).await.expect("a denial");
    scene.world.registry.push(&name, "v1", &good(&name)).await.expect("the registry takes it");
    let before = hands.unpacked(&name).await;
    let late = verbs::merge_expecting_denial(&hands.client, &target, patch).await.expect("a denial");
    assert_eq!(hands.get(&name).await.data["spec"], before.data["spec"]);
    [early, late]
}

fn assert_immutable(denials: [Denial; 2]) {
    for denial in denials {
        assert_eq!(denial.code, 403);
        assert_eq!(denial.reason, "bundle.spec is immutable");
        let text = "admission webhook \"vbundles.core.rukpak.io\" denied the request: bundle.spec is immutable";
        assert_eq!(denial.message, text);
    }
}

#[tokio::test]
async fn the_image_cannot_be_changed() {
    assert_immutable(change(&json!({"spec": {"source": {"image": {"ref": "localhost:1/other:v2"}}}})).await);
}

#[tokio::test]
async fn the_class_cannot_be_changed() {
    assert_immutable(change(&json!({"spec": {"provisionerClassName": "non-existent-class-name"}})).await);
}

#[tokio::test]
async fn a_private_image_is_pulled_with_its_secret() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p6");
    let registry = &scene.world.private_registry;
    let pushed = registry.push(&name, "v1", &good(&name)).await.unwrap();
    hands.create(&registry.pull_secret(&name, USER, PASSWORD)).await;
    let source = json!({"type": "image", "image": {"ref": pushed.reference, "pullSecret": name}});
    hands.bundle(&name, source).await;
    let bundle = hands.unpacked(&name).await;
    // Upstream drops the pull secret.
    assert_eq!(bundle.data["status"]["resolvedSource"], image(&pushed.pinned));
}

#[tokio::test]
async fn a_missing_image_is_waited_for_and_taken_when_it_comes() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p7");
    let reference = format!("{}/bundles/{name}:non-existent-tag", scene.world.registry.host());
    hands.bundle(&name, image(&reference)).await;
    let message = hands.pending(&name, "Back-off").await;
    assert_eq!(message, format!("Back-off pulling image \"{reference}\""));
    let pushed = scene.world.registry.push(&format!("bundles/{name}"), "non-existent-tag", &good(&name)).await.unwrap();
    assert_eq!(pushed.reference, reference);
    hands.unpacked(&name).await;
}

/// Waits for the refusal of an image and returns what it says.
async fn refusal(name: &str, image_: &rukpak_tests::ImageBuilder, text: &str) -> String {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name(name);
    hands.bundle(&name, image(&scene.world.push(&name, image_).await)).await;
    hands.failing(&name, text).await
}

#[tokio::test]
async fn an_image_without_manifests_is_refused() {
    let text = "get objects from bundle manifests: readdir manifests: file does not exist";
    refusal("p8", &fixtures::empty_image(), text).await;
}

#[tokio::test]
async fn an_image_with_no_objects_is_refused() {
    let text = "found zero objects: plain+v0 bundles are required to contain at least one object";
    let message = refusal("p9", &fixtures::no_manifests_image(), text).await;
    assert!(message.starts_with("invalid bundle: "), "{message}");
}

#[tokio::test]
async fn a_folder_among_the_manifests_is_refused() {
    let text = "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: \
                found \"manifests/emptydir\"";
    let message = refusal("p21", &fixtures::image("plain/subdir").unwrap(), text).await;
    assert!(message.starts_with("get objects from bundle manifests: "), "{message}");
}

/// A repository with one commit.
fn repository(server: &GitServer, name: &str, folder: &str) -> (RepoBuilder, String) {
    let repository = server.repository(name).expect("git can do it");
    let path = format!("{folder}manifests/object.yaml");
    repository.write(&[(path.as_str(), manifest(name)), ("README.md", "# Hello\n".to_owned())]).expect("git can do it");
    let commit = repository.commit("first").expect("git can do it");
    (repository, commit)
}

/// Unpacks a git source, and checks what upstream's tests check and a bit more.
async fn unpacks(hands: &Hands, name: &str, source: Value, commit: &str) {
    hands.bundle(name, source.clone()).await;
    let bundle = hands.unpacked(name).await;
    let mut expected = source;
    expected["git"]["ref"] = json!({"commit": commit});
    assert_eq!(bundle.data["status"]["resolvedSource"], expected);
    assert_eq!(crate::bundles::hands::message(&bundle, "Unpacked"), "Successfully unpacked the git Bundle");
    assert_eq!(hands.reference(name).expect("the store has a ref")["source"], commit);
    assert_eq!(hands.content(name)["manifests/object.yaml"], manifest(name));
}

#[tokio::test]
async fn git_by_commit() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p10");
    let (repository, commit) = repository(&scene.world.git, &name, "");
    // Not the tip of anything: such a commit is found behind the branch.
    repository.write(&[("manifests/object.yaml", manifest("later"))]).unwrap();
    repository.commit("second").unwrap();
    unpacks(&hands, &name, git(&scene.world.git.url(&name), &json!({"commit": commit})), &commit).await;
}

#[tokio::test]
async fn git_by_tag() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let (light, annotated) = (unique_name("p11"), unique_name("p11"));
    for (name, is_light) in [(light, true), (annotated, false)] {
        let (repository, commit) = repository(&scene.world.git, &name, "");
        if is_light {
            repository.light_tag("v0.0.2").unwrap()
        } else {
            repository.annotated_tag("v0.0.2").unwrap()
        };
        repository.write(&[("manifests/object.yaml", manifest("later"))]).unwrap();
        repository.commit("second").unwrap();
        unpacks(&hands, &name, git(&scene.world.git.url(&name), &json!({"tag": "v0.0.2"})), &commit).await;
    }
}

#[tokio::test]
async fn git_by_branch() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p12");
    let (repository, commit) = repository(&scene.world.git, &name, "");
    repository.branch("feature/x").unwrap().branch("main").unwrap();
    repository.write(&[("manifests/object.yaml", manifest("later"))]).unwrap();
    repository.commit("second").unwrap();
    let url = scene.world.git.url(&name);
    assert_eq!(url.rsplit('.').next(), Some("git"));
    unpacks(&hands, &name, git(&url, &json!({"branch": "feature/x"})), &commit).await;
}

#[tokio::test]
async fn git_directory() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p13");
    let (_, commit) = repository(&scene.world.git, &name, "dev/deploy/");
    let mut source = git(&scene.world.git.url(&name), &json!({"commit": commit}));
    source["git"]["directory"] = json!("./dev/deploy");
    unpacks(&hands, &name, source, &commit).await;
    assert!(!hands.content(&name).contains_key("README.md"), "only the folder is content");
}

#[tokio::test]
async fn private_git_over_https() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p14");
    let (_, commit) = repository(&scene.world.private_git, &name, "");
    hands
        .create(&json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
                        "metadata": {"name": name, "namespace": "rukpak-system"},
                        "stringData": {"username": USER, "password": PASSWORD}}))
        .await;
    let mut source = git(&scene.world.private_git.url(&name), &json!({"branch": "main"}));
    source["git"]["auth"] = json!({"secret": {"name": name}});
    unpacks(&hands, &name, source, &commit).await;
}

#[tokio::test]
async fn git_over_ssh() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("p15");
    let repository = scene.world.ssh.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    let commit = repository.commit("first").unwrap();
    hands.create(&scene.world.ssh.secret(&name).unwrap()).await;
    let mut source = git(&scene.world.ssh.url(&name), &json!({"branch": "main"}));
    source["git"]["auth"] = json!({"secret": {"name": name}, "insecureSkipVerify": true});
    unpacks(&hands, &name, source.clone(), &commit).await;
    // And with the host's key verified.
    let verified = unique_name("p15");
    source["git"]["auth"] = json!({"secret": {"name": name}});
    hands.bundle(&verified, source).await;
    hands.unpacked(&verified).await;
    // Same tree, same digest, one copy.
    assert_eq!(hands.content_file(&verified), hands.content_file(&name));
}

#[tokio::test]
async fn content_leaves_with_its_bundle() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let (name, twin) = (unique_name("p36"), unique_name("p36"));
    let reference = scene.world.push(&name, &good(&name)).await;
    for name in [&name, &twin] {
        hands.bundle(name, image(&reference)).await;
        hands.unpacked(name).await;
    }
    let content = hands.content_file(&name).unwrap();
    assert!(content.is_file());
    let target = Target::bundle(&name);
    verbs::delete(&hands.client, &target).await.unwrap();
    verbs::await_deleted(&hands.client, &target, crate::bundles::hands::PATIENCE).await.unwrap();
    hands.on_disk("the end of the ref", || hands.reference(&name).is_none()).await;
    assert!(content.is_file(), "another Bundle has the same content");
    verbs::delete(&hands.client, &Target::bundle(&twin)).await.unwrap();
    hands.on_disk("the end of the content", || !content.exists()).await;
    assert!(!hands.holds(&name));
    // No finalizer of ours: the object goes at once, whether the controller runs or not.
    assert!(hands.reference(&twin).is_none());
}

#[tokio::test]
async fn upstreams_finalizer_is_taken_off() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("finalizer");
    let mut bundle = world::bundle(&name, image(&scene.world.push(&name, &good(&name)).await));
    let (upstreams, foreign) = ("core.rukpak.io/delete-cached-bundle", "example.com/mine");
    bundle["metadata"]["finalizers"] = json!([upstreams, foreign]);
    hands.create(&bundle).await;
    let unpacked = hands.condition(&name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    assert_eq!(unpacked.metadata.finalizers, Some(vec![foreign.to_owned()]));
    let target = Target::bundle(&name);
    verbs::merge(&hands.client, &target, &json!({"metadata": {"finalizers": null}})).await.unwrap();
}
