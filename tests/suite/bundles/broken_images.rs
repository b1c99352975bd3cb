//! Images that are wrong: each says what and where, nothing is stored, and a good image under the same tag heals it.

use std::io::Write as _;

use rukpak_tests::registry::{TarEntry, digest};
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::image;
use rukpak_tests::{ImageBuilder, Layer, Registry};
use serde_json::{Value, json};

use crate::bundles::hands::{Hands, Scene, good, manifest};

/// A Bundle whose image is wrong.
struct Case {
    /// Its name, that of its image's repository, and of the object in it.
    name: String,
    /// What its condition must say.
    text: String,
}

impl Case {
    fn new(text: &str) -> Self {
        Self { name: unique_name("broken"), text: text.to_owned() }
    }

    fn reference(&self, registry: &Registry) -> String {
        format!("{}/{}:v1", registry.host(), self.name)
    }
}

/// Waits for all refusals, then heals all.
async fn refused_and_healed(cases: &[Case]) {
    let scene = Scene::shared().await;
    let (hands, registry) = (scene.hands().await, &scene.world.registry);
    for case in cases {
        hands.bundle(&case.name, image(&case.reference(registry))).await;
    }
    for case in cases {
        hands.failing(&case.name, &case.text).await;
        assert!(!hands.holds(&case.name), "{}: what was refused is in the store", case.text);
    }
    for case in cases {
        registry.push(&case.name, "v1", &good(&case.name)).await.expect("the registry takes it");
    }
    for case in cases {
        hands.unpacked(&case.name).await;
    }
}

/// Cases of one layer each, of which the first entry is a good manifest.
async fn layers_refused_and_healed(table: Vec<(TarEntry, &str)>) {
    let scene = Scene::shared().await;
    let mut cases = Vec::new();
    for (entry, text) in table {
        let case = Case::new(text);
        let layer = Layer::new([TarEntry::file("manifests/good.yaml", manifest(&case.name)), entry]);
        scene.world.registry.push(&case.name, "v1", &ImageBuilder::new([layer])).await.expect("the registry takes it");
        cases.push(case);
    }
    refused_and_healed(&cases).await;
}

#[tokio::test]
async fn escapes_are_refused() {
    let table = vec![
        (TarEntry::file("manifests/../../etc/x", "x"), "entry \"manifests/../../etc/x\" of the archive cannot be part"),
        (TarEntry::file("../x", "x"), "entry \"../x\" of the archive cannot be part of a bundle"),
        (TarEntry::directory("manifests/.."), "entry \"manifests/..\" of the archive cannot be part of a bundle"),
        (TarEntry::whiteout("manifests/.."), "a whiteout that names no file"),
        (TarEntry::file(b"manifests/\xff.yaml".to_vec(), "x"), "the name is not UTF-8; rename the file"),
    ];
    layers_refused_and_healed(table).await;
}

#[tokio::test]
async fn links_out_of_the_bundle_are_refused() {
    let table = vec![
        (
            TarEntry::symlink("manifests/a.yaml", "../../etc/passwd"),
            "entry \"manifests/a.yaml\": the link to \"../../etc/passwd\" leaves the bundle",
        ),
        (
            TarEntry::hard_link("manifests/a.yaml", "../etc/passwd"),
            "entry \"manifests/a.yaml\": the link to \"../etc/passwd\" leaves the bundle",
        ),
        (
            TarEntry::hard_link("manifests/a.yaml", "etc/passwd"),
            "\"etc/passwd\", which it is a hard link to, is not a file of the bundle",
        ),
        (TarEntry::device("manifests/a.yaml"), "a bundle holds only files and folders"),
        (TarEntry::fifo("manifests/a.yaml"), "a bundle holds only files and folders"),
    ];
    layers_refused_and_healed(table).await;
}

/// A file below a link would be written to where the link leads.
#[tokio::test]
async fn files_below_a_link_are_refused() {
    let scene = Scene::shared().await;
    let case = Case::new("\"manifests/x/a.yaml\" lies below \"manifests/x\", which is a link");
    let layers = [
        Layer::new([TarEntry::file("b/y", manifest(&case.name)), TarEntry::symlink("manifests/x", "../b")]),
        Layer::new([TarEntry::file("manifests/x/a.yaml", manifest(&case.name))]),
    ];
    scene.world.registry.push(&case.name, "v1", &ImageBuilder::new(layers)).await.unwrap();
    refused_and_healed(&[case]).await;
}

#[tokio::test]
async fn damaged_layers_are_refused() {
    let scene = Scene::shared().await;
    let registry = &scene.world.registry;
    let mut cases = Vec::new();

    // The registry's copy is cut short; then, of the right length, has other bytes.
    let cut = Case::new("");
    let pushed = registry.push(&cut.name, "v1", &good(&cut.name)).await.unwrap();
    let whole = registry.read_blob(&pushed.layers[0]).unwrap();
    registry.truncate_blob(&pushed.layers[0], whole.len() / 2).unwrap();
    let text = format!("expected {} bytes, got {}", whole.len(), whole.len() / 2);
    cases.push((Case { text, ..cut }, pushed.layers[0].clone(), whole));

    let flipped = Case::new("");
    let pushed = registry.push(&flipped.name, "v1", &good(&flipped.name)).await.unwrap();
    let whole = registry.read_blob(&pushed.layers[0]).unwrap();
    let mut other = whole.clone();
    other[whole.len() / 2] ^= 1;
    registry.overwrite_blob(&pushed.layers[0], &other).unwrap();
    let text = format!("expected {}, got {}", pushed.layers[0], digest(&other));
    cases.push((Case { text, ..flipped }, pushed.layers[0].clone(), whole));

    let hands = scene.hands().await;
    for (case, ..) in &cases {
        hands.bundle(&case.name, image(&case.reference(registry))).await;
    }
    for (case, layer, whole) in &cases {
        let message = hands.failing(&case.name, &case.text).await;
        assert!(message.contains(layer), "{message}");
        assert!(!hands.holds(&case.name));
        registry.overwrite_blob(layer, whole).unwrap();
    }
    for (case, ..) in &cases {
        hands.unpacked(&case.name).await;
    }
}

#[tokio::test]
async fn layers_that_are_no_archives_are_refused() {
    let scene = Scene::shared().await;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let entries = [TarEntry::file("manifests/a.yaml", manifest("a").repeat(100))];
    gzip.write_all(&rukpak_tests::registry::tarball(&entries).unwrap()).unwrap();
    let mut short = gzip.finish().unwrap();
    short.truncate(short.len() - 20);
    let mut cases = Vec::new();
    for (bytes, text) in [
        (b"this is no archive at all\n".repeat(100), "cannot read the tar archive"),
        (b"short".to_vec(), "cannot read the tar archive"),
        (short, "cannot read the body of \"manifests/a.yaml\": incomplete deflate stream"),
    ] {
        let case = Case::new(text);
        scene.world.registry.push(&case.name, "v1", &ImageBuilder::new([Layer::raw(bytes)])).await.unwrap();
        cases.push(case);
    }
    refused_and_healed(&cases).await;
}

#[tokio::test]
async fn manifests_that_lie_are_refused() {
    let scene = Scene::shared().await;
    let registry = &scene.world.registry;
    let large = Case::new("");
    let layer = Layer::of_files([("manifests/a.yaml", manifest(&large.name))]).claim_size(7);
    registry.push(&large.name, "v1", &ImageBuilder::new([layer])).await.unwrap();
    let large = Case { text: "expected 7 bytes, got at least ".to_owned(), ..large };
    let negative = Case::new("a size of -1 bytes");
    let layer = Layer::of_files([("manifests/a.yaml", manifest(&negative.name))]).claim_size(-1);
    registry.push(&negative.name, "v1", &ImageBuilder::new([layer])).await.unwrap();
    refused_and_healed(&[large, negative]).await;
}

/// What registries hold beside images.
#[tokio::test]
async fn what_is_not_an_image_is_refused() {
    const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    let scene = Scene::shared().await;
    let registry = &scene.world.registry;
    let case = Case::new("application/vnd.in-toto+json, no tar archive");
    let blob = registry.put_blob(&case.name, case.name.as_bytes()).await.unwrap();
    let entry = |kind: &str| json!({"mediaType": kind, "digest": blob, "size": case.name.len()});
    let (config, layer) = (entry("application/vnd.oci.empty.v1+json"), entry("application/vnd.in-toto+json"));
    let text = json!({"schemaVersion": 2, "mediaType": OCI, "config": config, "layers": [layer]});
    put(registry, &case, OCI, &text).await;
    let empty = Case::new("no image for linux/");
    put(registry, &empty, INDEX, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []})).await;
    refused_and_healed(&[case, empty]).await;
}

async fn put(registry: &Registry, case: &Case, media_type: &str, text: &Value) {
    registry
        .put_raw_manifest(&case.name, "v1", media_type, text.to_string().as_bytes())
        .await
        .expect("the registry takes it");
}

#[tokio::test]
async fn an_index_without_this_platform_is_refused() {
    use rukpak_tests::registry::Platform;
    let scene = Scene::shared().await;
    let case = Case::new("the index has linux/s390x, windows/amd64");
    let layers = || vec![Layer::of_files([("manifests/a.yaml", manifest(&case.name))])];
    let platforms = [(Platform::new("linux", "s390x"), layers()), (Platform::new("windows", "amd64"), layers())];
    scene.world.registry.push(&case.name, "v1", &ImageBuilder::index(platforms)).await.unwrap();
    refused_and_healed(&[case]).await;
}

#[tokio::test]
async fn references_that_name_nothing_are_told_apart() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let host = scene.world.registry.host();
    let name = unique_name("wrong-digest");
    // A digest that nothing has: it may be pushed yet.
    let reference = format!("{host}/{name}@sha256:{}", "0".repeat(64));
    hands.bundle(&name, image(&reference)).await;
    assert_eq!(hands.pending(&name, "").await, format!("Back-off pulling image \"{reference}\""));
    // References that will never name anything.
    for (reference, text) in [
        (format!("{host}/{name}@sha256:abc"), "sha256:abc"),
        (format!("{host}/{name}@md5:{}", "0".repeat(32)), "md5"),
        (format!("{host}/UPPER:v1"), "is not an image reference: write registry/repository:tag or"),
        ("not a reference".to_owned(), "\"not a reference\" is not an image reference"),
    ] {
        malformed(&hands, &reference, text).await;
    }
}

async fn malformed(hands: &Hands, reference: &str, text: &str) {
    let name = unique_name("malformed");
    hands.bundle(&name, image(reference)).await;
    let message = hands.failing(&name, text).await;
    assert!(message.starts_with("source bundle content: "), "{message}");
}
