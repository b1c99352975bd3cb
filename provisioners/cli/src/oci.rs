//! Images as the OCI stores them: manifests and blobs, in a registry or in an image layout.
//!
//! ```text
//! destination  where an image goes to: a registry, oci:FOLDER or oci-archive:FILE
//! remote       a registry: reads and writes manifests and blobs, which are streamed
//! layout       an image layout on disk                 bundle   an image of a bundle, always the same bytes
//! copy         an image with everything below it, from the one to the other
//! ```
//!
//! Every blob is checked against its digest, wherever it comes from.

pub mod bundle;
pub mod copy;
pub mod destination;
pub mod layout;
pub mod remote;

use rukpak_content::{Digest, DigestError};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Media type of an OCI manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an OCI index.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media types that a manifest may have: those of the OCI, then Docker's.
pub const MANIFESTS: [&str; 4] = [
    MANIFEST,
    INDEX,
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// Refuses a manifest, and says why it is none.
fn no_manifest(digest: &Digest, why: &str) -> Failure {
    Failure::no(format!("manifest {digest}: {why}"))
}

/// Reads a digest that a registry or a reference names.
pub fn digest(text: &str) -> Result<Digest, Failure> {
    text.parse().map_err(|error: DigestError| Failure::during(format!("digest {text:?}"), &error))
}

/// Refuses what is not as its digest says.
pub fn check(what: &str, found: &Digest, wanted: &Digest) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    Err(Failure::no(format!("{what} has the digest {found}, not {wanted}")))
}

/// What a manifest says of another blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size_bytes: u64,
}

impl Descriptor {
    pub fn value(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest.to_string(), "size": self.size_bytes})
    }

    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str();
        Some(Self {
            media_type: text("mediaType").unwrap_or_default().to_owned(),
            digest: text("digest")?.parse().ok()?,
            size_bytes: value.get("size")?.as_u64()?,
        })
    }

    /// Whether it is a manifest or an index, which leads to further blobs.
    pub fn is_manifest(&self) -> bool {
        MANIFESTS.contains(&self.media_type.as_str())
    }
}

/// A manifest or an index: its bytes, and what it leads to.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub descriptor: Descriptor,
    /// Its bytes, of which `descriptor` has the digest.
    pub bytes: Vec<u8>,
    /// Config and layers, or the manifests of an index.
    pub children: Vec<Descriptor>,
}

impl Manifest {
    /// Reads a manifest. `media_type` counts where the manifest does not say what it is.
    pub fn read(bytes: Vec<u8>, media_type: &str) -> Result<Self, Failure> {
        let digest = Digest::sha256(&bytes);
        let fault = |why| no_manifest(&digest, why);
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| fault("it is no JSON"))?;
        let otherwise = if value.get("manifests").is_some() { INDEX } else { media_type };
        let media_type = value.get("mediaType").and_then(Value::as_str).unwrap_or(otherwise).to_owned();
        let list = |key: &str| value.get(key).and_then(Value::as_array).into_iter().flatten();
        let children = value.get("config").into_iter().chain(list("layers")).chain(list("manifests"));
        let children: Option<Vec<Descriptor>> = children.map(Descriptor::read).collect();
        let children = children.ok_or_else(|| fault("a descriptor has no digest or no size"))?;
        let size_bytes = bytes.len() as u64;
        Ok(Self { descriptor: Descriptor { media_type, digest, size_bytes }, bytes, children })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_leads_to_config_layers_and_manifests() {
        let one = json!({"mediaType": "x", "digest": Digest::sha256(b"a").to_string(), "size": 1});
        let read = |value: &Value| Manifest::read(value.to_string().into_bytes(), MANIFEST);
        let manifest = read(&json!({"config": one, "layers": [one, one]})).unwrap();
        assert_eq!((manifest.children.len(), manifest.descriptor.is_manifest()), (3, true));
        assert_eq!(manifest.descriptor.size_bytes, manifest.bytes.len() as u64);
        let index = read(&json!({"mediaType": INDEX, "manifests": [one]})).unwrap();
        assert_eq!((index.children.len(), index.descriptor.media_type.as_str()), (1, INDEX));
        let broken = read(&json!({"layers": [{"digest": "sha256:00"}]})).unwrap_err();
        assert!(broken.text.ends_with(": a descriptor has no digest or no size"), "{broken:?}");
        assert!(Manifest::read(b"<html>".to_vec(), MANIFEST).is_err());
    }
}
