//! Bundles that come whole and are none: the file, the document and the field are named, and nothing stays in the store.

use rukpak_tests::verbs::{self, Expected, unique_name};
use rukpak_tests::world::image;
use rukpak_tests::{ImageBuilder, Layer};

use crate::bundles::hands::{Scene, good, manifest};

const OBJECTS: &str = "get objects from bundle manifests: ";

/// Each file of the table stands beside a good manifest; waits for all refusals, and heals all.
async fn refused_and_healed(table: &[(&str, Vec<u8>, &str)]) {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let mut names = Vec::new();
    for (path, bytes, _) in table {
        let name = unique_name("manifest");
        let files = [("manifests/a-good.yaml", manifest(&name).into_bytes()), (*path, bytes.clone())];
        let reference = scene.world.push(&name, &ImageBuilder::new([Layer::of_files(files)])).await;
        hands.bundle(&name, image(&reference)).await;
        names.push(name);
    }
    for (name, (path, _, text)) in names.iter().zip(table) {
        let message = hands.failing(name, OBJECTS).await;
        assert!(message.contains(text), "{path}: {message}");
        assert!(message.contains(path), "{path}: {message}");
        hands.collected(name).await;
    }
    for name in &names {
        scene.world.push(name, &good(name)).await;
    }
    for name in &names {
        hands.unpacked(name).await;
    }
}

#[tokio::test]
async fn what_is_no_yaml_is_refused() {
    refused_and_healed(&[
        ("manifests/b.yaml", b"kind: [\n".to_vec(), "manifests/b.yaml, document 1"),
        (
            "manifests/c.yaml",
            format!("{}---\na: b: c\n", manifest("c")).into(),
            "manifests/c.yaml, document 2 (line 9)",
        ),
        ("manifests/d.yaml", b"a:\n\tb: 1\n".to_vec(), "(line "),
        ("manifests/e.yaml", b"kind: \xff\n".to_vec(), "not UTF-8 text: save the file as UTF-8"),
        ("manifests/f.yaml", b"kind: \"a\x01\"\n".to_vec(), "control characters are not allowed"),
        ("manifests/g.json", b"{\"kind\": \n".to_vec(), "manifests/g.json"),
        ("manifests/h.yaml", b"a: *nowhere\n".to_vec(), "line 1), column 4: while parsing node, found unknown anchor"),
        (
            "manifests/i.yaml",
            b"metadata:\n  name: {{ .Values.name }}\n".to_vec(),
            "templates are not rendered: render it",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_object_is_refused() {
    let go = "json: cannot unmarshal string into Go value of type";
    refused_and_healed(&[
        // P18's file, in an image.
        ("manifests/.gitignore", b"target/\n".to_vec(), go),
        ("manifests/README.md", b"Read me first.\n".to_vec(), "whatever its name: move it out of the folder"),
        ("manifests/b.yaml", b"- a\n- b\n".to_vec(), "json: cannot unmarshal array into Go value of type"),
        ("manifests/c.yaml", b"apiVersion: v1\nmetadata: {name: a}\n".to_vec(), "Object 'Kind' is missing"),
        ("manifests/d.yaml", b"kind: ConfigMap\nmetadata: {name: a}\n".to_vec(), "Object 'apiVersion' is missing"),
        ("manifests/e.yaml", b"apiVersion: v1\nkind: ConfigMap\n".to_vec(), "metadata.name is missing: set it"),
        (
            "manifests/f.yaml",
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n".to_vec(),
            "generateName would make a new object at every apply",
        ),
        (
            "manifests/g.yaml",
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {on: yes}}\n".to_vec(),
            "quote the value",
        ),
        ("manifests/h.yaml", b"apiVersion: v1\nkind: List\nitems: {}\n".to_vec(), "items is not a list"),
    ])
    .await;
}

#[tokio::test]
async fn one_object_declared_twice_is_refused() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("twice");
    let files = [
        ("manifests/a.yaml", manifest(&name)),
        ("manifests/b.yaml", manifest(&name).replace("key: value", "key: other")),
    ];
    let reference = scene.world.push(&name, &ImageBuilder::of_files(files)).await;
    hands.bundle(&name, image(&reference)).await;
    let message = hands.failing(&name, "is declared twice with different content: ").await;
    for part in ["manifests/a.yaml", "manifests/b.yaml", &name, "remove one of them"] {
        assert!(message.contains(part), "{message}");
    }
    hands.collected(&name).await;
    scene.world.push(&name, &good(&name)).await;
    hands.unpacked(&name).await;
}

/// 8 of 800 published bundles have one: the last value counts, and the log names the place.
#[tokio::test]
async fn a_duplicate_key_is_only_a_warning() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("duplicate");
    let text = manifest(&name) + "data:\n  key: last\n";
    let reference = scene.world.push(&name, &ImageBuilder::of_files([("manifests/a.yaml", text)])).await;
    hands.bundle(&name, image(&reference)).await;
    let bundle = hands.condition(&name, Expected::is_true("Unpacked", "UnpackSuccessful")).await;
    assert!(verbs::condition(&bundle, "Stalled").is_none());
    let log = scene.world.controller.log();
    let line = log.lines().find(|line| line.contains(&name) && line.contains("is set twice"));
    let line = line.unwrap_or_else(|| panic!("no warning of {name} in the log"));
    assert!(line.contains("manifests/a.yaml (line 8): data is set twice: the last value counts"), "{line}");
}
