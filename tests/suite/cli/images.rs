//! `rukpakctl package`, `pull`, `export` and `import` over real registries.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::{PASSWORD, USER, World};
use rukpak_tests::{CatalogImage, Documents, ImageBuilder, fixtures, tools};
use serde_json::{Value, json};

use crate::cli::hands::{folder, manifest, text};
use crate::cli::{Answer, Private};

fn json_of(answer: &Answer) -> Value {
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {} {}", answer.out, answer.err))
}

fn assert_yes(answer: &Answer) {
    assert_eq!(answer.code, Some(0), "{} {}", answer.out, answer.err);
}

/// A manifest of a Deployment that runs these images.
fn deployment(name: &str, images: &[&str]) -> String {
    let containers: Vec<Value> =
        images.iter().enumerate().map(|(index, image)| json!({"name": format!("c{index}"), "image": image})).collect();
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
           "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}})
    .to_string()
}

fn fixture(name: &str) -> std::path::PathBuf {
    tools::workspace_folder().join("provisioners/registry/tests/fixtures").join(name)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_folder_is_packaged_pulled_and_rendered_alike() {
    let private = Private::shared().await;
    let name = unique_name("packaged");
    let kite = fixture("kite");
    let image = format!("{}/{name}:v1", private.registry.host());
    let packaged = private.run("good", &["package", text(&kite), &image, "-ojson"]);
    assert_yes(&packaged);
    let answer = json_of(&packaged);
    let pinned = answer["image"].as_str().expect("a text").to_owned();
    assert_eq!(
        (&answer["format"], pinned.starts_with(&image.replace(":v1", "@sha256:"))),
        (&json!("registry+v1"), true)
    );
    assert!(packaged.err.contains("uploading sha256:"), "{}", packaged.err);

    // The same files are the same image, which is not sent again; and the layout has it, too.
    let again = private.run("good", &["package", text(&kite), &image]);
    assert_eq!((again.code, again.out.trim()), (Some(0), pinned.as_str()), "{}", again.err);
    assert!(!again.err.contains("uploading"), "{}", again.err);
    let here = tools::temp_folder("layout").expect("a folder");
    let layout = here.path().join("layout");
    let kept = private.run("none", &["package", text(&kite), &format!("oci:{}:kite:v1", layout.display()), "-ojson"]);
    assert_yes(&kept);
    assert!(fs::read_to_string(layout.join("index.json")).expect("a file").contains(r#""kite:v1""#));
    assert_eq!(json_of(&kept)["digest"], answer["digest"]);
    assert_eq!(names(&layout), ["blobs", "index.json", "oci-layout"]);
    let archive = here.path().join("kite.tar");
    let archived = private.run("none", &["package", text(&kite), &format!("oci-archive:{}", archive.display())]);
    assert_yes(&archived);
    assert!(archived.out.trim().ends_with(answer["digest"].as_str().expect("a text")), "{}", archived.out);

    let config: Value =
        serde_json::from_slice(&config_of(&layout, answer["digest"].as_str().expect("a text"))).expect("JSON");
    let labels = &config["config"]["Labels"];
    assert_eq!(labels["operators.operatorframework.io.bundle.mediatype.v1"], "registry+v1", "{config:#}");
    assert_eq!(labels["operators.operatorframework.io.bundle.manifests.v1"], "manifests/", "{config:#}");
    assert!(labels.get("operators.operatorframework.io.bundle.package.v1").is_some(), "{config:#}");

    let target = here.path().join("pulled");
    let pulled = private.run("good", &["pull", &image, text(&target)]);
    assert_eq!((pulled.code, pulled.out.trim()), (Some(0), pinned.as_str()), "{}", pulled.err);
    assert_eq!(names(&target), ["manifests", "metadata"]);
    for folder in ["manifests", "metadata"] {
        assert_eq!(names(&target.join(folder)), names(&kite.join(folder)));
    }
    let render = |bundle: &str| private.run("good", &["render", bundle]).out;
    assert_eq!(render(&pinned), render(text(&kite)));
    let twice = private.run("good", &["pull", &image, text(&target)]);
    assert_eq!(twice.code, Some(2), "{}", twice.err);
    assert!(twice.err.contains("is not empty"), "{}", twice.err);
}

/// The config of an image of a layout.
fn config_of(layout: &Path, manifest: &str) -> Vec<u8> {
    let blob = |digest: &str| fs::read(layout.join("blobs/sha256").join(&digest["sha256:".len()..])).expect("a blob");
    let manifest: Value = serde_json::from_slice(&blob(manifest)).expect("JSON");
    blob(manifest["config"]["digest"].as_str().expect("a text"))
}

#[tokio::test]
async fn what_is_no_bundle_or_may_not_be_sent_makes_no_image() {
    let private = Private::shared().await;
    let broken = folder(&[("manifests/a.yaml", "kind: Nothing\n")]);
    let image = format!("{}/{}:v1", private.registry.host(), unique_name("refused"));
    let refused = private.run("good", &["package", text(broken.path()), &image]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{}", refused.err);
    assert!(refused.err.contains("refused as a plain+v0 bundle: 1 finding; no image was made"), "{}", refused.err);
    let plain = folder(&[("manifests/a.yaml", manifest("a", "one"))]);
    for logins in ["none", "bad"] {
        let denied = private.run(logins, &["package", text(plain.path()), &image]);
        assert_eq!((denied.code, denied.out.as_str()), (Some(2), ""), "{}", denied.err);
        assert!(denied.err.contains(private.registry.host()), "{}", denied.err);
    }
    let pinned = format!("{image}@sha256:{}", "0".repeat(64));
    let digest = private.run("good", &["package", text(plain.path()), &pinned]);
    assert!(digest.code == Some(2) && digest.err.ends_with("hint: name a tag\n"), "{}", digest.err);
}

/// A credential helper that knows the login of the private registry, on the PATH.
fn helper(private: &Private, folder: &Path) -> (String, String) {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a folder");
    let script = programs.join("docker-credential-vault");
    let host = private.registry.host();
    let lines = [
        "#!/bin/sh".to_owned(),
        "read -r server || :".to_owned(),
        format!(
            "[ \"$1 $server\" = \"get {host}\" ] || {{ echo 'credentials not found in native keychain'; exit 1; }}"
        ),
        format!("echo '{{\"ServerURL\": \"{host}\", \"Username\": \"{USER}\", \"Secret\": \"{PASSWORD}\"}}'"),
    ];
    fs::write(&script, lines.join("\n") + "\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a program");
    let docker = folder.join("docker");
    fs::create_dir_all(&docker).expect("a folder");
    let config = json!({"credHelpers": {host: "vault"}, "credsStore": "nowhere"});
    fs::write(docker.join("config.json"), config.to_string()).expect("logins");
    (text(&docker).to_owned(), format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default()))
}

#[tokio::test]
async fn credential_helpers_are_asked() {
    let private = Private::shared().await;
    let here = tools::temp_folder("helper").expect("a folder");
    let (docker, path) = helper(private, here.path());
    let plain = folder(&[("manifests/a.yaml", manifest("a", "one"))]);
    let image = format!("{}/{}:v1", private.registry.host(), unique_name("helper"));
    let environment = [("DOCKER_CONFIG", docker.as_str()), ("PATH", path.as_str())];
    assert_yes(&private.run_with(&environment, &["package", text(plain.path()), &image]));
    assert_yes(&private.run_with(&environment, &["validate", &image]));
    // One that is not there is told of only where a login is missing.
    let open = World::shared().await;
    let reference =
        open.push(&unique_name("open"), &ImageBuilder::of_files([("manifests/a.yaml", manifest("a", "one"))])).await;
    let ca = here.path().join("open.pem");
    fs::write(&ca, open.registry.ca_pem()).expect("a file");
    assert_yes(&private.run_with(&environment, &["validate", &reference, "--ca-file", text(&ca)]));
    let without = [("DOCKER_CONFIG", docker.as_str())];
    let failed = private.run_with(&without, &["validate", &image]);
    assert_eq!(failed.code, Some(2), "{}", failed.err);
    assert!(failed.err.contains("note: docker-credential-vault cannot be run: "), "{}", failed.err);
}

#[tokio::test]
async fn a_bundle_moves_with_its_images_to_another_registry() {
    let private = Private::shared().await;
    let name = unique_name("moved");
    let operand = |text: &str| ImageBuilder::of_files([("app", text.repeat(100_000))]);
    let one = private.registry.push(&format!("{name}/one"), "v1", &operand("one")).await.expect("an image");
    let two = private.registry.push(&format!("{name}/two"), "v2", &operand("two")).await.expect("an image");
    let deployment = deployment(&name, &[&one.reference, &two.pinned, &one.reference]);
    let bundle = ImageBuilder::of_files([("manifests/a.yaml", deployment)]);
    let bundle = private.registry.push(&format!("{name}/bundle"), "v1", &bundle).await.expect("an image");
    let here = tools::temp_folder("export").expect("a folder");
    let layout = here.path().join("layout");
    let exported = private.run("good", &["export", &bundle.reference, text(&layout), "-ojson"]);
    assert_yes(&exported);
    let images = json_of(&exported)["images"].clone();
    let sources: Vec<&str> =
        images.as_array().expect("a list").iter().filter_map(|image| image["source"].as_str()).collect();
    assert_eq!(sources, [bundle.reference.as_str(), &one.reference, &two.pinned], "{images:#}");
    assert_eq!(images[2]["digest"].as_str(), two.pinned.split_once('@').map(|(_, digest)| digest));
    // It goes on where it was: nothing is fetched twice.
    let again = private.run("good", &["export", &bundle.reference, text(&layout)]);
    assert_yes(&again);
    assert!(!again.err.contains("downloading"), "{}", again.err);

    let other = World::shared().await;
    let ca = here.path().join("other.pem");
    fs::write(&ca, other.registry.ca_pem()).expect("a file");
    let target = format!("{}/mirror", other.registry.host());
    let imported = private.run("none", &["import", text(&layout), &target, "--ca-file", text(&ca)]);
    assert_yes(&imported);
    let moved = format!("{target}/{name}/bundle@");
    assert!(imported.out.contains(&moved), "{}", imported.out);
    let rendered = private.run("none", &["render", &format!("{target}/{name}/bundle:v1"), "--ca-file", text(&ca)]);
    assert_yes(&rendered);
    let digest = two.pinned.split_once('@').expect("a digest").1;
    let pulled = here.path().join("two");
    let second =
        private.run("none", &["pull", &format!("{target}/{name}/two@{digest}"), text(&pulled), "--ca-file", text(&ca)]);
    assert_yes(&second);
    assert_eq!(fs::read_to_string(pulled.join("app")).expect("a file").len(), 300_000);

    // Nor is another image sent under the name of one with a digest.
    let index = layout.join("index.json");
    let before = fs::read_to_string(&index).expect("a file");
    let other_digest = format!("sha256:{}", "0".repeat(64));
    let renamed = before.replace(&two.pinned, &two.pinned.replace(digest, &other_digest));
    assert_ne!(renamed, before);
    fs::write(&index, &renamed).expect("a file");
    let wrong = private.run("none", &["import", text(&layout), &target, "--ca-file", text(&ca)]);
    assert_eq!(wrong.code, Some(1), "{}", wrong.err);
    assert!(wrong.err.contains(&format!("of the layout has the digest {digest}, not {other_digest}")), "{}", wrong.err);
    fs::write(&index, before).expect("a file");

    // What was changed in between is not sent.
    let blob = blobs(&layout).into_iter().max_by_key(|path| fs::metadata(path).expect("a blob").len()).expect("a blob");
    fs::write(&blob, "changed").expect("a file");
    let damaged = private.run("none", &["import", text(&layout), &target, "--ca-file", text(&ca)]);
    assert_eq!(damaged.code, Some(1), "{}", damaged.err);
    assert!(damaged.err.contains("has the digest sha256:"), "{}", damaged.err);
}

/// Bundles of the package `pump-operator` in these versions, which run `operand`; returns their catalog and the images.
async fn publish(private: &Private, name: &str, operand: &str, versions: &[&str]) -> (Documents, Vec<String>) {
    let mut images = Vec::new();
    for version in versions {
        let mut files = fixtures::read("registry/pump").expect("the fixture is readable");
        for (_, text) in &mut files {
            *text = text.replace("example.rukpak.io/pump:1.0.0", operand).replace("1.0.0", version);
        }
        let image = ImageBuilder::of_files(files);
        let pushed = private.registry.push(&format!("{name}/bundle"), &format!("v{version}"), &image).await;
        images.push(pushed.expect("the registry takes it").reference);
    }
    let pairs: Vec<(&str, &str)> = versions.iter().copied().zip(images.iter().map(String::as_str)).collect();
    (Documents::package("pump-operator", &pairs), images)
}

#[tokio::test]
async fn a_package_of_a_catalog_is_exported_with_its_images() {
    let private = Private::shared().await;
    let name = unique_name("package");
    let operand = ImageBuilder::of_files([("app", "pump")]);
    let operand = private.registry.push(&format!("{name}/pump"), "v7", &operand).await.expect("an image").reference;
    let (documents, bundles) = publish(private, &name, &operand, &["1.0.0", "1.1.0"]).await;
    let here = folder(&[("catalog/catalog.json", documents.json_lines())]);
    let catalog = CatalogImage::of(documents).expect("an image");
    let catalog = catalog.push(&private.registry, &format!("{name}/catalog"), "v1").await.expect("an image");
    let in_folder = text(&here.path().join("catalog")).to_owned();
    let in_image = format!("image:{}", catalog.reference);
    for (catalog, flags, version) in
        [(&in_folder, &[][..], 1), (&in_folder, &["--version", "<1.1.0"], 0), (&in_image, &["--channel", "stable"], 1)]
    {
        let layout = here.path().join(unique_name("layout"));
        let arguments = [&["export", "pump-operator", text(&layout), "--catalog", catalog, "-ojson"], flags].concat();
        let exported = private.run("good", &arguments);
        assert_yes(&exported);
        let answer = json_of(&exported);
        let sources: Vec<&str> =
            answer["images"].as_array().expect("a list").iter().filter_map(|image| image["source"].as_str()).collect();
        assert_eq!(sources, [bundles[version].as_str(), &operand], "{answer:#}");
        let chosen = &answer["package"];
        assert_eq!(chosen["version"], ["1.0.0", "1.1.0"][version], "{answer:#}");
        assert_eq!((&chosen["package"], &chosen["channel"]), (&json!("pump-operator"), &json!("stable")), "{answer:#}");
        let other = World::shared().await;
        let ca = here.path().join("other.pem");
        fs::write(&ca, other.registry.ca_pem()).expect("a file");
        let target = format!("{}/mirror", other.registry.host());
        assert_yes(&private.run("none", &["import", text(&layout), &target, "--ca-file", text(&ca)]));
        let moved = bundles[version].replace(private.registry.host(), &target);
        assert_yes(&private.run("none", &["validate", &moved, "--ca-file", text(&ca)]));
    }
    let layout = here.path().join("none");
    let none = private.run("good", &["export", "pomp", text(&layout), "--catalog", &in_folder]);
    assert_eq!((none.code, none.out.as_str()), (Some(1), ""), "{}", none.err);
    assert!(none.err.ends_with(&format!("hint: rukpakctl catalog list {in_folder}\n")), "{}", none.err);
    let none =
        private.run("good", &["export", "pump-operator", text(&layout), "--catalog", &in_folder, "--version", "9.x"]);
    assert!(none.code == Some(1) && none.err.contains("the catalog has 1.0.0, 1.1.0"), "{}", none.err);
    assert!(!layout.exists(), "nothing is written");
    let alone = private.run("good", &["export", "pump-operator", text(&layout), "--channel", "stable"]);
    assert!(alone.code == Some(2) && alone.err.contains("--catalog <WHERE>"), "{}", alone.err);
}

fn blobs(layout: &Path) -> Vec<std::path::PathBuf> {
    let folder = layout.join("blobs/sha256");
    names(&folder).into_iter().map(|name| folder.join(name)).collect()
}

#[tokio::test]
async fn what_is_no_layout_or_misses_an_image_is_told() {
    let private = Private::shared().await;
    let here = folder(&[("file", "x")]);
    let target = private.registry.host().to_owned();
    let none = private.run("good", &["import", text(here.path()), &target]);
    assert_eq!((none.code, none.out.as_str()), (Some(2), ""), "{}", none.err);
    assert!(none.err.ends_with("is no image layout: it has no file oci-layout\n"), "{}", none.err);
    let absent = format!("{target}/{}:v1", unique_name("absent"));
    let bundle = folder(&[("manifests/a.yaml", deployment("absent", &[&absent]))]);
    let layout = here.path().join("layout");
    let missing = private.run("good", &["export", text(bundle.path()), text(&layout)]);
    assert_eq!((missing.code, missing.out.as_str()), (Some(2), ""), "{}", missing.err);
    assert!(missing.err.contains(&format!("manifest of {absent}")), "{}", missing.err);
    let taken = private.run("good", &["export", text(bundle.path()), text(here.path())]);
    assert!(taken.code == Some(2) && taken.err.contains("the folder is not empty"), "{}", taken.err);
}
