//! The bundles in `tests/fixtures`, and those that git cannot hold.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::catalog::Documents;
use crate::registry::{ImageBuilder, Layer, Registry, TarEntry};
use crate::tools;

/// The folder of a fixture: `plain/valid`, `operator/v1`.
pub fn folder(name: &str) -> Result<PathBuf> {
    let path = tools::crate_folder().join("fixtures").join(name);
    if !path.is_dir() {
        bail!("there is no fixture {name} ({})", path.display());
    }
    Ok(path)
}

/// An image of a fixture.
pub fn image(name: &str) -> Result<ImageBuilder> {
    ImageBuilder::of_folder(&folder(name)?)
}

/// The files of a fixture as they are. Pairs of path and text.
pub fn read(name: &str) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    collect(&folder(name)?, "", &mut files)?;
    Ok(files)
}

/// The files of a fixture with names of its own: `example.rukpak.io` becomes `<suffix>.example.rukpak.io`, and
/// `rukpak-example` becomes `rukpak-example-<suffix>`. Pairs of path and text, ready for an image, a repository, a ConfigMap.
pub fn renamed(name: &str, suffix: &str) -> Result<Vec<(String, String)>> {
    let mut files = read(name)?;
    for (_, text) in &mut files {
        *text = text.replace("example.rukpak.io", &format!("{suffix}.example.rukpak.io"));
        *text = text.replace("rukpak-example", &format!("rukpak-example-{suffix}"));
    }
    Ok(files)
}

/// An image of a fixture with names of its own, see [`renamed`].
pub fn renamed_image(name: &str, suffix: &str) -> Result<ImageBuilder> {
    Ok(ImageBuilder::of_files(renamed(name, suffix)?))
}

/// Publishes the package `pump-operator` of the documentation, as bundles of `registry/pump` in these versions; returns the catalog in
/// which each replaces the one before, and the images.
pub async fn publish_pump(registry: &Registry, versions: &[&str]) -> Result<(Documents, Vec<String>)> {
    let mut images = Vec::new();
    for version in versions {
        let mut files = read("registry/pump")?;
        for (_, text) in &mut files {
            *text = text.replace("1.0.0", version);
        }
        let image = ImageBuilder::of_files(files);
        images.push(registry.push("bundles/pump-operator", &format!("v{version}"), &image).await?.reference);
    }
    let pairs: Vec<(&str, &str)> = versions.iter().copied().zip(images.iter().map(String::as_str)).collect();
    Ok((Documents::package("pump-operator", &pairs), images))
}

/// An image without `manifests/`.
pub fn empty_image() -> ImageBuilder {
    ImageBuilder::new([Layer::new([TarEntry::file("README", "no manifests here\n")])])
}

/// An image with an empty `manifests/`.
pub fn no_manifests_image() -> ImageBuilder {
    ImageBuilder::new([Layer::new([TarEntry::directory("manifests/")])])
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) -> Result<()> {
    for child in tools::listing(folder)? {
        let path = format!("{prefix}{}", child.file_name().to_string_lossy());
        if child.file_type()?.is_dir() {
            collect(&child.path(), &format!("{path}/"), files)?;
        } else {
            let text =
                std::fs::read_to_string(child.path()).with_context(|| format!("read {}", child.path().display()))?;
            files.push((path, text));
        }
    }
    Ok(())
}

/// A bundle of `count` ConfigMaps in `namespace`, one a file, each with `bytes` of text.
pub fn config_maps(namespace: &str, prefix: &str, count: usize, bytes: usize) -> Vec<(String, String)> {
    let value = "x".repeat(bytes);
    let file = |index: usize| {
        let name = format!("{prefix}-{index:05}");
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\ndata:\n  value: {value}\n"
        );
        (format!("manifests/{name}.yaml"), text)
    };
    (0..count).map(file).collect()
}
