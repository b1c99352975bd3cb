//! What the webhook says of sources that the schema takes: W1 to W3, and the holes that RukPak left open.

use rukpak_tests::verbs::{Target, unique_name};
use rukpak_tests::world::World;
use serde_json::{Value, json};

use super::direct::words_on_creation;
use super::helpers::{assert_denied, bundle, create, git, image, patch, refused};

const OUTSIDE: &str =
    "bundle.spec.source.git.directory begins with \"../\": directory must define path within the repository";

/// Each type with its member, and the member's name in messages.
fn members() -> [(&'static str, Value, &'static str); 5] {
    [
        ("image", image()["image"].clone(), "image"),
        ("git", git()["git"].clone(), "git"),
        ("configMaps", json!([{"configMap": {"name": "a"}, "path": "manifests"}]), "configmaps"),
        ("http", json!({"url": "https://example.test/b.tgz"}), "http"),
        ("upload", json!({}), "upload"),
    ]
}

#[tokio::test]
async fn w1_whole_sources_are_taken() {
    let client = World::shared().await.admin().await;
    for (type_, member, _) in members() {
        let mut source = json!({"type": type_});
        source[type_] = member;
        create(&client, &bundle(&unique_name("w1"), &source)).await;
    }
}

#[tokio::test]
async fn w2_w3_a_member_of_another_type_is_no_source() {
    let client = World::shared().await.admin().await;
    for (type_, _, word) in members() {
        for (other, member, _) in members() {
            if other == type_ {
                continue;
            }
            let mut source = json!({"type": type_});
            source[other] = member;
            let denial = refused(&client, &bundle(&unique_name("w2"), &source)).await;
            assert_denied(&denial, &format!("bundle.spec.source.{word} must be set for source type \"{word}\""));
        }
    }
}

/// RukPak reports them when they are unpacked. Types are case-sensitive.
#[tokio::test]
async fn an_unknown_type_is_taken() {
    let client = World::shared().await.admin().await;
    for type_ in ["tomorrow", "Image"] {
        let source = json!({"type": type_, "image": image()["image"]});
        create(&client, &bundle(&unique_name("unknown"), &source)).await;
    }
    assert_eq!(words_on_creation(&json!({"type": "", "image": image()["image"]})).await, None);
}

#[tokio::test]
async fn a_git_directory_stays_in_the_repository() {
    let client = World::shared().await.admin().await;
    let with = |directory: &str| {
        let mut source = git();
        source["git"]["directory"] = json!(directory);
        bundle(&unique_name("directory"), &source)
    };
    for outside in ["..", "../", "../a", "./..", "a/../..", "a/../../b", "a//../../b"] {
        assert_denied(&refused(&client, &with(outside)).await, OUTSIDE);
    }
    let absolute =
        "bundle.spec.source.git.directory \"/a\" is absolute: directory must define path within the repository";
    assert_denied(&refused(&client, &with("/a")).await, absolute);
    for inside in [".", "./", "a", "./dev/deploy", "a/../b/", "..a", "a/..b"] {
        create(&client, &with(inside)).await;
    }
    assert_eq!(words_on_creation(&with("")["spec"]["source"]).await, None);
}

#[tokio::test]
async fn empty_texts_are_no_sources() {
    let one = "bundle.spec.source.git.ref must have exactly one of branch, tag and commit";
    let commit =
        "bundle.spec.source.git.ref.commit \"abc\" is not a full commit id: 40 hexadecimal characters are needed";
    let git_with = |name: &str, value: Value| {
        let mut source = git();
        source["git"][name] = value;
        source
    };
    for (source, text) in [
        (json!({"type": "image", "image": {"ref": ""}}), "bundle.spec.source.image.ref must not be empty"),
        (git_with("repository", json!("")), "bundle.spec.source.git.repository must not be empty"),
        (git_with("ref", json!({"branch": ""})), one),
        (git_with("ref", json!({"commit": "abc"})), commit),
        (json!({"type": "http", "http": {"url": ""}}), "bundle.spec.source.http.url must not be empty"),
    ] {
        assert_eq!(words_on_creation(&source).await.as_deref(), Some(text), "{source}");
    }
}

#[tokio::test]
async fn config_maps_are_checked_one_by_one() {
    let client = World::shared().await.admin().await;
    let with = |entries: Value| bundle(&unique_name("maps"), &json!({"type": "configMaps", "configMaps": entries}));
    let denial = refused(&client, &with(json!([]))).await;
    assert_denied(&denial, "bundle.spec.source.configmaps must be set for source type \"configmaps\"");
    let outside = |index: usize, path: &str| {
        format!("bundle.spec.source.configmaps[{index}].path is invalid: \"{path}\" is outside bundle root")
    };
    for path in ["..", "../a", "a/../../b", "/a"] {
        let denial = refused(&client, &with(json!([{"configMap": {"name": "a"}, "path": path}]))).await;
        assert_denied(&denial, &outside(0, path));
    }
    let entries = json!([{"configMap": {"name": "a"}, "path": "../x"}, {"configMap": {}},
                         {"configMap": {"name": "c"}, "path": "manifests"}, {"configMap": {"name": "d"}, "path": "/y"}]);
    let unnamed = "bundle.spec.source.configmaps[1].configmap.name must not be empty";
    let denial = refused(&client, &with(entries)).await;
    assert_denied(&denial, &format!("[{}, {unnamed}, {}]", outside(0, "../x"), outside(3, "/y")));
}

/// What is checked again on every update has to hold for what was admitted.
#[tokio::test]
async fn an_admitted_bundle_can_be_labelled() {
    let client = World::shared().await.admin().await;
    for source in [json!({"type": "tomorrow", "upload": {}}), git()] {
        let name = unique_name("label");
        create(&client, &bundle(&name, &source)).await;
        patch(&client, &Target::bundle(&name), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    }
}
