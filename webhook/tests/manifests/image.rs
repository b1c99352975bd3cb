//! The image of the Pods: no name that somebody else could publish, and one place to put another in.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::build::{documents, folder};

/// `.invalid` is reserved: no registry can ever be there.
const PLACEHOLDER: &str = "registry.invalid/rukpak:set-me";

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => files.extend(yaml_files(&path)),
            Some(extension) if extension == "yaml" => files.push(path),
            _ => {}
        }
    }
    files.sort();
    files
}

/// The images of all containers in a file, whatever holds them.
fn images(value: &Value) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("containers" | "initContainers" | "ephemeralContainers", Value::Array(containers)) => {
                        found.extend(containers.iter().filter_map(|container| container["image"].as_str()));
                    }
                    _ => found.extend(images(field)),
                }
            }
        }
        Value::Array(items) => found.extend(items.iter().flat_map(images)),
        _ => {}
    }
    found
}

fn images_of(file: &Path) -> Vec<String> {
    documents(file).iter().flat_map(images).map(str::to_owned).collect()
}

fn with_image(image: &str, to: &Path) -> Output {
    Command::new(folder().join("with-image.sh")).arg(image).arg(to).output().unwrap()
}

#[test]
fn no_manifest_names_an_image_that_somebody_could_publish() {
    let mut pods = 0;
    for file in yaml_files(&folder()) {
        for image in images_of(&file) {
            assert_eq!(image, PLACEHOLDER, "{}", file.display());
            pods += 1;
        }
        // Nor does a transformer put one in.
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("\nimages:") && !text.contains("newName"), "{}", file.display());
    }
    assert_eq!(pods, 6 + 2 + 3 + 3 + 3 + 3, "those of the bases and of OpenShift, and what is rendered of them");
}

#[test]
fn one_command_sets_the_image_everywhere_and_changes_nothing_else() {
    let to = tempfile::tempdir().unwrap();
    let image = format!("registry.example.com:5000/team/rukpak:1@sha256:{}", "0a".repeat(32));
    let output = with_image(&image, to.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut pods = 0;
    for file in yaml_files(to.path()) {
        let original = folder().join(file.strip_prefix(to.path()).unwrap());
        let set = std::fs::read_to_string(&file).unwrap();
        assert_eq!(set, std::fs::read_to_string(&original).unwrap().replace(PLACEHOLDER, &image));
        let images = images_of(&file);
        assert!(images.iter().all(|found| *found == image), "{}", file.display());
        pods += images.len();
    }
    assert_eq!(pods, 2 + 3 + 3 + 3 + 3);
}

#[test]
fn an_image_without_its_registry_or_version_is_refused_with_the_way_out() {
    let to = tempfile::tempdir().unwrap();
    for (image, why) in [
        ("", "no image with its registry"),
        ("rukpak:1", "no image with its registry"),
        ("team/rukpak:1", "no image with its registry"),
        ("registry.example.com/rukpak", "neither a tag nor a digest"),
        ("registry.example.com:5000/rukpak", "neither a tag nor a digest"),
        ("registry.example.com/rukpak:1|e id", "no image with its registry"),
    ] {
        let output = with_image(image, to.path());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(why), "{image}: {text}");
    }
    assert_eq!(yaml_files(to.path()), Vec::<PathBuf>::new());
    // A tag is accepted, with a note.
    let output = with_image("localhost:5000/rukpak:1", to.path());
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("a tag can be moved"));
}
