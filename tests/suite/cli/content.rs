//! `rukpakctl content`, as RukPak's clients know it.

use std::collections::BTreeMap;
use std::path::Path;

use rukpak_tests::fixtures;
use rukpak_tests::verbs::{Expected, unique_name};
use rukpak_tests::world::{World, bundle, image, until_bundle};
use serde_json::json;

use crate::cli::hands::{Hands, manifest, text};

/// May look, and make nothing: what these hands can do leaves nothing behind.
async fn reader(name: &str) -> Hands {
    let rules = json!([
        {"apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["get"]},
        {"nonResourceURLs": ["/bundles/*"], "verbs": ["get"]},
    ]);
    Hands::account(name, &rules).await
}

/// The files of a folder and their texts.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("it is readable") {
            let path = entry.expect("it is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_str().expect("UTF-8").to_owned();
                files.insert(name, std::fs::read_to_string(path).expect("it is readable"));
            }
        }
    }
    files
}

#[tokio::test]
async fn the_files_of_a_git_bundle_are_listed_and_extracted() {
    let name = unique_name("k4");
    let world = World::shared().await;
    let repository = world.git.repository(&name).unwrap();
    let wanted: BTreeMap<String, String> = (1..=7)
        .map(|index| (format!("manifests/part-{index}.yaml"), manifest(&format!("{name}-{index}"), "x")))
        .collect();
    let written: Vec<(&str, &str)> = wanted.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    repository.write(&written).unwrap();
    repository.commit("first").unwrap();
    let hands = reader(&name).await;
    let source = json!({"type": "git", "git": {"repository": world.git.url(&name), "ref": {"branch": "main"}}});
    hands.create(&bundle(&name, source)).await;
    until_bundle(&hands.client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;

    let did = hands.run(&["content", &name]).await;
    let names = ["manifests/".to_owned()].into_iter().chain(wanted.keys().cloned());
    assert_eq!(did.out.lines().map(str::to_owned).collect::<Vec<_>>(), names.collect::<Vec<_>>());
    assert_eq!(did.err, "");

    let folder = rukpak_tests::tools::temp_folder("content").unwrap();
    let target = folder.path().join("new/folder");
    let did = hands.run(&["content", &name, "--extract", text(&target)]).await;
    assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (Some(0), "", ""));
    assert_eq!(files(&target), wanted);
    let again = hands.run(&["content", &name, "--extract", text(&target)]).await;
    assert_eq!((again.code, again.out.as_str()), (Some(2), ""), "{again:?}");
    let words = format!("content command failed: {} is not empty: ", text(&target));
    assert!(again.err.starts_with(&words), "{again:?}");
}

#[tokio::test]
async fn what_a_registry_bundle_holds_is_its_plain_form() {
    let name = unique_name("plain-form");
    let hands = reader(&name).await;
    let folder = rukpak_tests::tools::workspace_folder().join("provisioners/registry/tests/fixtures/kite");
    let world = World::shared().await;
    let reference = world.push(&name, &rukpak_tests::ImageBuilder::of_folder(&folder).unwrap()).await;
    let mut object = bundle(&name, image(&reference));
    object["spec"]["provisionerClassName"] = json!("core-rukpak-io-registry");
    hands.create(&object).await;
    until_bundle(&hands.client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let did = hands.run(&["content", &name]).await;
    assert_eq!(did.out, "manifests/\nmanifests/manifest.yaml\n");
}

#[tokio::test]
async fn an_unknown_bundle() {
    let hands = Hands::admin().await;
    let did = hands.run(&["content", "badname"]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""));
    assert_eq!(did.err, "content command failed: bundles.core.rukpak.io \"badname\" not found\n");
}

#[tokio::test]
async fn a_failing_bundle() {
    let hands = Hands::admin().await;
    let name = unique_name("k7");
    let reference = World::shared().await.push(&name, &fixtures::empty_image()).await;
    hands.create(&bundle(&name, image(&reference))).await;
    until_bundle(&hands.client, &name, Expected::is_false("Unpacked", "UnpackFailed")).await;
    let did = hands.run(&["content", &name]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(1), ""));
    assert_eq!(did.err, "content command failed: error: url is not available\n");
}

#[tokio::test]
async fn who_may_not_read_is_told_so() {
    let name = unique_name("reader");
    let rules = json!([{"apiGroups": ["core.rukpak.io"], "resources": ["bundles"], "verbs": ["get"]}]);
    let hands = Hands::account(&name, &rules).await;
    let reference = World::shared().await.push(&name, &fixtures::renamed_image("plain/valid", &name).unwrap()).await;
    hands.create(&bundle(&name, image(&reference))).await;
    until_bundle(&hands.client, &name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    let did = hands.run(&["content", &name]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(2), ""), "{did:?}");
    let words = "content command failed: Forbidden: user \"system:serviceaccount:rukpak-system:";
    assert!(did.err.starts_with(words), "{did:?}");
    // The port is right and the name is not: no certificate bears it.
    let wrong = format!("https://127.0.0.1:{}", World::shared().await.controller.content_port);
    let did = Hands::admin().await.run_alone(&["content", &name, "--endpoint", &wrong]).await;
    assert_eq!((did.code, did.out.as_str()), (Some(2), ""), "{did:?}");
    assert!(did.err.contains("certificate"), "{did:?}");
}
