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

use std::io;

use rukpak_content::{Digest, DigestError};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::chain;
use crate::registries;

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

/// Why an image cannot be read or written. Print the whole chain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no reference.
    #[error("{reference:?} names no image")]
    Reference { reference: String, source: oci_client::ParseError },
    /// No registry can be asked.
    #[error(transparent)]
    Registries(#[from] registries::Error),
    /// The client cannot be made.
    #[error("set up the client for registries")]
    Client(#[source] Box<oci_client::errors::OciDistributionError>),
    /// The registry refuses, or does not answer.
    #[error("{what}")]
    Registry {
        /// What was asked for, and where.
        what: String,
        source: Box<oci_client::errors::OciDistributionError>,
    },
    /// A digest is none.
    #[error("digest {text:?}")]
    Digest { text: String, source: DigestError },
    /// What came is not what the digest names.
    #[error("{what} has the digest {found}, not {wanted}")]
    Mismatch { what: String, found: Digest, wanted: Digest },
    /// What came is longer or shorter than its descriptor says.
    #[error("blob {0} has not the {1} bytes that its manifest says")]
    Size(Digest, u64),
    /// A manifest is none.
    #[error("manifest {0}: {1}")]
    Manifest(Digest, &'static str),
    /// The folder is no image layout.
    #[error("{0} is no image layout: {1}")]
    Layout(String, &'static str),
    /// A file cannot be read or written.
    #[error("{what} {path}")]
    File {
        /// `read` or `write`.
        what: &'static str,
        path: String,
        source: io::Error,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = chain(&error);
        match error {
            Error::Reference { .. } | Error::Mismatch { .. } | Error::Size(..) | Error::Manifest(..) => {
                Self { exit: Exit::No, text, hint: None }
            }
            _ => Self::unknown(text),
        }
    }
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
    pub fn read(bytes: Vec<u8>, media_type: &str) -> Result<Self, Error> {
        let digest = Digest::sha256(&bytes);
        let fault = |why| Error::Manifest(digest.clone(), why);
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
        assert!(broken.to_string().ends_with(": a descriptor has no digest or no size"), "{broken}");
        assert!(Manifest::read(b"<html>".to_vec(), MANIFEST).is_err());
    }
}
