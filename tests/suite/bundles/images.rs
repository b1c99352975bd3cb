//! Images of every kind: media types, compressions, indexes, whiteouts, links, tokens.

use std::collections::BTreeMap;

use rukpak_tests::faulty::TokenAuth;
use rukpak_tests::registry::{Compression, Flavour, Platform, TarEntry, pull_secret_json};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{PASSWORD, USER, image};
use rukpak_tests::{FaultyServer, ImageBuilder, Layer};
use serde_json::{Value, json};

use crate::bundles::hands::{Hands, Scene, good, good_layer, manifest};

/// Pushes an image and waits until a Bundle of it is unpacked; returns the Bundle's name.
async fn unpacked(scene: &Scene, hands: &Hands, built: &ImageBuilder) -> String {
    let name = unique_name("image");
    hands.bundle(&name, image(&scene.world.push(&name, built).await)).await;
    hands.unpacked(&name).await;
    name
}

fn files<const N: usize>(files: [(&str, String); N]) -> BTreeMap<String, String> {
    files.map(|(path, text)| (path.to_owned(), text)).into()
}

#[tokio::test]
async fn every_packing_of_a_tree_is_the_same_content() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let object = unique_name("packing");
    let mut contents = Vec::new();
    for flavour in [Flavour::Oci, Flavour::Docker] {
        for compression in [Compression::Gzip, Compression::Zstd, Compression::None] {
            let built = ImageBuilder::new([good_layer(&object).compression(compression)]).flavour(flavour);
            let name = unpacked(scene, &hands, &built).await;
            assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest(&object), "{flavour:?} {compression:?}");
            contents.push(hands.content_file(&name));
        }
    }
    contents.dedup();
    assert_eq!(contents.len(), 1, "same tree, same digest, one copy");
}

#[tokio::test]
async fn an_index_gives_the_image_of_this_platform() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("index");
    let other = || (Platform::new("linux", "s390x"), vec![good_layer("other")]);
    for flavour in [Flavour::Oci, Flavour::Docker] {
        let built = ImageBuilder::index([other(), (Platform::host(), vec![good_layer(&name)])]).flavour(flavour);
        let own = unique_name("index");
        let pushed = scene.world.registry.push(&own, "v1", &built).await.unwrap();
        hands.bundle(&own, image(&pushed.reference)).await;
        let bundle = hands.unpacked(&own).await;
        assert_eq!(hands.content(&own)["manifests/object.yaml"], manifest(&name));
        // The pin is the index: what the tag names.
        assert_eq!(bundle.data["status"]["pin"]["imageDigest"], pushed.digest.as_str());
        assert_eq!(bundle.data["status"]["resolvedSource"], image(&pushed.pinned));
    }
    // Manifests run anywhere: the only image there is will do.
    let alone = unpacked(scene, &hands, &ImageBuilder::index([other()])).await;
    assert_eq!(hands.content(&alone)["manifests/object.yaml"], manifest("other"));
}

#[tokio::test]
async fn later_layers_hide_what_earlier_ones_held() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let file = |path: &str| TarEntry::file(path, manifest(path.trim_end_matches(".yaml")));
    let layers = [
        Layer::new([file("manifests/a.yaml"), file("manifests/b.yaml"), file("old/c.yaml"), file("old/d.yaml")]),
        Layer::new([
            TarEntry::whiteout("manifests/a.yaml"),
            TarEntry::opaque("old"),
            TarEntry::file("old/e.yaml", "new\n"),
            TarEntry::file("manifests/b.yaml", manifest("replaced")),
        ])
        .compression(Compression::Zstd),
    ];
    let name = unpacked(scene, &hands, &ImageBuilder::new(layers)).await;
    let expected = files([("manifests/b.yaml", manifest("replaced")), ("old/e.yaml", "new\n".to_owned())]);
    assert_eq!(hands.content(&name), expected);
}

#[tokio::test]
async fn hard_links_are_files_and_harmless_links_are_skipped() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let layer = Layer::new([
        TarEntry::directory("./manifests/"),
        TarEntry::file("./shared/object.yaml", manifest("linked")),
        TarEntry::hard_link("./manifests/object.yaml", "./shared/object.yaml"),
        TarEntry::symlink("usr", "/somewhere/else"),
        TarEntry::symlink("manifests/inside.yaml", "object.yaml"),
        TarEntry::file("/etc/passwd", "root\n"),
        TarEntry::device("dev/null"),
        TarEntry::fifo("var/pipe"),
    ]);
    let name = unpacked(scene, &hands, &ImageBuilder::new([layer])).await;
    let expected = files([("manifests/object.yaml", manifest("linked")), ("shared/object.yaml", manifest("linked"))]);
    assert_eq!(hands.content(&name), expected);
}

#[tokio::test]
async fn a_digest_decides_over_a_tag() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let (first, second) = (unique_name("digest"), unique_name("digest"));
    let pushed = scene.world.registry.push(&first, "v1", &good(&first)).await.unwrap();
    scene.world.registry.push(&first, "v1", &good("moved")).await.unwrap();
    let both = format!("{}@{}", pushed.reference, pushed.digest);
    for (name, reference) in [(&first, &pushed.pinned), (&second, &both)] {
        hands.bundle(name, image(reference)).await;
        let bundle = hands.unpacked(name).await;
        assert_eq!(hands.content(name)["manifests/object.yaml"], manifest(&first));
        assert_eq!(bundle.data["status"]["resolvedSource"], image(&pushed.pinned));
    }
}

fn pull_secret(name: &str, host: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
           "metadata": {"name": name, "namespace": "rukpak-system"},
           "stringData": {".dockerconfigjson": pull_secret_json(host, USER, PASSWORD)}})
}

fn with_tokens(scene: &Scene, field: &'static str) -> FaultyServer {
    let tokens = TokenAuth { user: USER.to_owned(), password: PASSWORD.to_owned(), field };
    let registry = &scene.world.registry;
    FaultyServer::before_with_tokens(&scene.ca, &registry.url(), &registry.ca_pem(), tokens)
        .expect("a loopback port is free")
}

#[tokio::test]
async fn a_token_is_bought_with_the_pull_secret() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    for field in ["token", "access_token"] {
        let name = unique_name("token");
        let server = with_tokens(scene, field);
        scene.world.registry.push(&name, "v1", &good(&name)).await.unwrap();
        hands.create(&pull_secret(&name, &server.host())).await;
        let reference = format!("{}/{name}:v1", server.host());
        hands.bundle(&name, json!({"type": "image", "image": {"ref": reference, "pullSecret": name}})).await;
        hands.unpacked(&name).await;
        assert!(server.count("/token") > 0);
    }
}

/// The kubelet gave unpack Pods the pull secrets of their ServiceAccount.
#[tokio::test]
async fn without_a_pull_secret_those_of_the_service_account_count() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("account");
    let server = with_tokens(scene, "token");
    scene.world.registry.push(&name, "v1", &good(&name)).await.unwrap();
    hands.bundle(&name, image(&format!("{}/{name}:v1", server.host()))).await;
    hands.pending(&name, "access denied").await;
    hands.create(&pull_secret(&name, &server.host())).await;
    let account = Target::namespaced("v1", "ServiceAccount", "rukpak-system", "default");
    let secrets = json!({"imagePullSecrets": [{"name": "gone"}, {"name": name}]});
    verbs::merge(&hands.client, &account, &secrets).await.unwrap();
    hands.unpacked(&name).await;
    verbs::merge(&hands.client, &account, &json!({"imagePullSecrets": null})).await.unwrap();
}
