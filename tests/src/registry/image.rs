//! Images as data, before they are pushed.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::write::GzEncoder;

use super::tarball::{TarEntry, tarball};
use crate::tools;

/// An image to be pushed: one manifest, or an index with one manifest for each platform.
#[derive(Debug, Clone)]
pub struct ImageBuilder {
    pub(super) layers: Vec<Layer>,
    pub(super) flavour: Flavour,
    pub(super) platforms: Vec<(Platform, Vec<Layer>)>,
    pub(super) labels: Vec<(String, String)>,
}

/// A layer.
#[derive(Debug, Clone)]
pub struct Layer {
    pub(super) content: Content,
    pub(super) compression: Compression,
    pub(super) media_type: Option<String>,
    pub(super) claimed_digest: Option<String>,
    pub(super) claimed_size: Option<i64>,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Entries(Vec<TarEntry>),
    Raw(Vec<u8>),
}

/// How a layer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// gzip, what everybody uses.
    #[default]
    Gzip,
    /// zstd.
    Zstd,
    /// A plain tar archive.
    None,
}

/// Whose media types the manifests carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavour {
    /// `application/vnd.oci.image.*`.
    #[default]
    Oci,
    /// `application/vnd.docker.distribution.*`, schema 2.
    Docker,
}

/// Operating system and architecture, in Go's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// For example `linux`.
    pub os: String,
    /// For example `amd64`.
    pub architecture: String,
}

impl Platform {
    /// A platform by its two names.
    pub fn new(os: &str, architecture: &str) -> Self {
        Self { os: os.to_owned(), architecture: architecture.to_owned() }
    }

    /// The platform of this machine.
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self::new("linux", architecture)
    }
}

impl ImageBuilder {
    /// An image of these layers, the lowest first; OCI media types.
    pub fn new(layers: impl IntoIterator<Item = Layer>) -> Self {
        Self { layers: layers.into_iter().collect(), flavour: Flavour::Oci, platforms: Vec::new(), labels: Vec::new() }
    }

    /// An image of one gzip layer with these files.
    pub fn of_files<P: Into<Vec<u8>>, C: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, C)>) -> Self {
        Self::new([Layer::of_files(files)])
    }

    /// An image of one gzip layer with the files of a folder, as a fixture is.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        Ok(Self::new([Layer::of_folder(folder)?]))
    }

    /// An index, with one manifest for each platform.
    pub fn index(platforms: impl IntoIterator<Item = (Platform, Vec<Layer>)>) -> Self {
        Self {
            layers: Vec::new(),
            flavour: Flavour::Oci,
            platforms: platforms.into_iter().collect(),
            labels: Vec::new(),
        }
    }

    /// With these labels in the configuration, of every platform.
    #[must_use]
    pub fn labels(self, labels: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { labels: labels.into_iter().collect(), ..self }
    }

    /// With other media types.
    #[must_use]
    pub fn flavour(self, flavour: Flavour) -> Self {
        Self { flavour, ..self }
    }
}

impl Layer {
    /// A gzip layer of these entries.
    pub fn new(entries: impl IntoIterator<Item = TarEntry>) -> Self {
        Self::of(Content::Entries(entries.into_iter().collect()))
    }

    /// A gzip layer of regular files.
    pub fn of_files<P: Into<Vec<u8>>, C: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, C)>) -> Self {
        Self::new(files.into_iter().map(|(path, content)| TarEntry::file(path, content)))
    }

    /// A gzip layer of a folder's files and directories, in the order of their names.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let mut entries = Vec::new();
        collect(folder, "", &mut entries)?;
        Ok(Self::new(entries))
    }

    /// A layer of any bytes, used as they are: an archive with an error in it, or none at all.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(Content::Raw(bytes.into()))
    }

    /// Packed in another way.
    #[must_use]
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// With any media type in the manifest.
    #[must_use]
    pub fn media_type(self, media_type: &str) -> Self {
        Self { media_type: Some(media_type.to_owned()), ..self }
    }

    /// With this size in the manifest, whatever its size is.
    #[must_use]
    pub fn claim_size(self, bytes: i64) -> Self {
        Self { claimed_size: Some(bytes), ..self }
    }

    /// With this digest in the manifest, whatever its digest is. The registry refuses the manifest unless it holds such a
    /// blob; for a blob that does not match its digest use [`Registry::overwrite_blob`](super::Registry::overwrite_blob).
    #[must_use]
    pub fn claim_digest(self, digest: &str) -> Self {
        Self { claimed_digest: Some(digest.to_owned()), ..self }
    }

    /// The blob, and the digest of the unpacked archive (`diff_id`).
    pub(super) fn pack(&self) -> Result<(Vec<u8>, String)> {
        let plain = match &self.content {
            Content::Raw(bytes) => return Ok((bytes.clone(), super::digest(bytes))),
            Content::Entries(entries) => tarball(entries)?,
        };
        let diff_id = super::digest(&plain);
        let packed = match self.compression {
            Compression::None => plain,
            Compression::Zstd => zstd::encode_all(plain.as_slice(), 3).context("compress with zstd")?,
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&plain).and_then(|()| encoder.finish()).context("compress with gzip")?
            }
        };
        Ok((packed, diff_id))
    }

    fn of(content: Content) -> Self {
        Self { content, compression: Compression::Gzip, media_type: None, claimed_digest: None, claimed_size: None }
    }
}

fn collect(folder: &Path, prefix: &str, entries: &mut Vec<TarEntry>) -> Result<()> {
    for child in tools::listing(folder)? {
        let path = format!("{prefix}{}", child.file_name().to_string_lossy());
        if child.file_type()?.is_dir() {
            entries.push(TarEntry::directory(format!("{path}/")));
            collect(&child.path(), &format!("{path}/"), entries)?;
        } else {
            entries.push(TarEntry::file(path, std::fs::read(child.path())?));
        }
    }
    Ok(())
}
