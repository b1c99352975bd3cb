//! The image of a bundle: one layer with its files, and labels that say what it is. The same files make the same image.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use rukpak_content::{Algorithm, Digest, Tree as _};
use rukpak_source::Stage;
use serde_json::{Value, json};

use super::{Descriptor, MANIFEST, Manifest};
use crate::failure::Failure;
use crate::hashing::Hashing;
use crate::source::pack::append;

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// An image that was made here.
#[derive(Debug)]
pub struct Image {
    pub manifest: Manifest,
    pub config: (Descriptor, Vec<u8>),
    /// Its layer, at the first byte.
    pub layer: (Descriptor, File),
}

/// Makes the image of the files of a bundle.
pub fn build(stage: &Stage, labels: &BTreeMap<String, String>) -> Result<Image, Failure> {
    let (file, layer, unpacked) = layer(stage).map_err(|error| Failure::during("write a layer", &error))?;
    // No time and no host: two builds of the same files are the same image. A bundle runs nowhere; the platform is only named
    // because readers want one.
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [unpacked.to_string()]},
    });
    let (config, config_bytes) = blob(CONFIG, &config);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config.value(), "layers": [layer.value()],
    });
    let manifest = Manifest::read(manifest.to_string().into_bytes(), MANIFEST)?;
    Ok(Image { manifest, config: (config, config_bytes), layer: (layer, file) })
}

fn blob(media_type: &str, value: &Value) -> (Descriptor, Vec<u8>) {
    let bytes = value.to_string().into_bytes();
    let descriptor = Descriptor {
        media_type: media_type.to_owned(),
        digest: Digest::sha256(&bytes),
        size_bytes: bytes.len() as u64,
    };
    (descriptor, bytes)
}

/// The layer, and the digest of what it unpacks to.
fn layer(stage: &Stage) -> io::Result<(File, Descriptor, Digest)> {
    let compressed = Hashing::new(tempfile::tempfile()?, Algorithm::Sha256);
    let unpacked = Hashing::new(GzEncoder::new(compressed, Compression::default()), Algorithm::Sha256);
    let mut builder = tar::Builder::new(unpacked);
    stage.walk(&mut |path, node| append(&mut builder, path, node))?;
    let (encoder, unpacked, _) = builder.into_inner()?.finish();
    let (mut file, digest, size_bytes) = encoder.finish()?.finish();
    file.rewind()?;
    Ok((file, Descriptor { media_type: LAYER.to_owned(), digest, size_bytes }, unpacked))
}
