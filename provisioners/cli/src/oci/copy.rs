//! An image with all that its manifest leads to: of an index that are the images of all platforms.

use oci_client::Reference;

use super::layout::Layout;
use super::remote::{Remote, pinned, short};
use super::{Descriptor, Manifest, no_manifest};
use crate::failure::Failure;
use crate::progress::Progress;

/// Indexes may hold indexes, but not without end.
const DEPTH: usize = 4;

/// Copies an image from a registry into a layout. Returns what its reference names; blobs that are there are not fetched again.
pub async fn pull(remote: &Remote, image: &Reference, layout: &Layout) -> Result<Descriptor, Failure> {
    let manifest = remote.manifest(image).await?;
    let top = manifest.descriptor.clone();
    let mut open = vec![(manifest, 0)];
    let mut manifests = Vec::new();
    while let Some((manifest, depth)) = open.pop() {
        for child in &manifest.children {
            if !child.is_manifest() {
                fetch(remote, image, child, layout).await?;
            } else if depth < DEPTH {
                open.push((remote.manifest(&pinned(image, &child.digest)).await?, depth + 1));
            } else {
                return Err(no_manifest(&manifest.descriptor.digest, "indexes are nested too deeply"));
            }
        }
        manifests.push(manifest);
    }
    // A manifest that is there has all that it leads to.
    manifests.iter().rev().try_for_each(|manifest| layout.put_manifest(manifest))?;
    Ok(top)
}

async fn fetch(remote: &Remote, image: &Reference, blob: &Descriptor, layout: &Layout) -> Result<(), Failure> {
    if layout.has(blob) {
        return Ok(());
    }
    let mut progress = Progress::start(format!("downloading {}", short(&blob.digest)), blob.size_bytes);
    let parts = remote.blob(image, blob).await?;
    layout.put_blob(blob, parts, |bytes| progress.add(bytes)).await
}

/// Copies an image from a layout to a registry, under the tag or the digest of `image`.
pub async fn push(remote: &Remote, layout: &Layout, top: &Descriptor, image: &Reference) -> Result<(), Failure> {
    let mut open = vec![(layout.manifest(top)?, 0)];
    let mut manifests: Vec<Manifest> = Vec::new();
    while let Some((manifest, depth)) = open.pop() {
        for child in &manifest.children {
            if !child.is_manifest() {
                remote.put_blob(image, child, layout.blob(&child.digest)?).await?;
            } else if depth < DEPTH {
                open.push((layout.manifest(child)?, depth + 1));
            } else {
                return Err(no_manifest(&manifest.descriptor.digest, "indexes are nested too deeply"));
            }
        }
        manifests.push(manifest);
    }
    // Registries want what an index leads to before it.
    for manifest in manifests.iter().skip(1).rev() {
        remote.put_manifest(&pinned(image, &manifest.descriptor.digest), manifest).await?;
    }
    match manifests.first() {
        Some(first) => remote.put_manifest(image, first).await,
        None => Ok(()),
    }
}
