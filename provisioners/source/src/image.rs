//! Container images: the client side of the OCI distribution protocol, read only.
//!
//! Two steps with a digest between them, so that a caller can remember what a reference stood for before it fetches:
//! [`Puller::resolve`] and [`Puller::fetch`].

mod authorization;
mod config;
mod credentials;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod layer;
mod manifest;
mod session;
mod signatures;
mod transport;

use std::path::PathBuf;
use std::time::Duration;

use oci_client::Reference;
use rukpak_content::{Digest, Limit, LimitExceeded, Limits, RelativePath};

pub use credentials::{Credentials, PullSecretError};
pub use error::{Class, Error};

use crate::{Egress, Stage, Staged, stage};
use authorization::Authorization;
use manifest::{ConfigDescriptor, Layer};
use session::Session;
use transport::Transport;

/// How images are pulled.
#[derive(Clone, Debug)]
pub struct PullerOptions {
    /// Bounds of every pull. [`Limits::pull_time`] holds for each of the two steps.
    pub limits: Limits,
    /// Where spool files are made. They have no names.
    pub stage_dir: PathBuf,
    /// PEM certificates of authorities trusted beside those of the system. May be empty.
    pub extra_ca_pem: Vec<u8>,
    /// Registries, as `host` or `host:port`, that are spoken to without TLS. Credentials go to them in the clear.
    pub plain_http: Vec<String>,
    /// Which addresses registries, their token services and what they redirect to may have.
    pub egress: Egress,
    /// How long a registry may send nothing.
    pub idle_timeout: Duration,
}

impl PullerOptions {
    /// Spool files in `stage_dir`, no extra authorities, no plain HTTP, the default [`Egress`], 10 s to connect, 30 s of silence.
    pub fn new(stage_dir: PathBuf, limits: Limits) -> Self {
        Self {
            limits,
            stage_dir,
            extra_ca_pem: Vec::new(),
            plain_http: Vec::new(),
            egress: Egress::default(),
            idle_timeout: Duration::from_secs(30),
        }
    }
}

/// Pulls images. One per set of options; keeps its connections, so it is meant to be shared.
#[derive(Debug)]
pub struct Puller {
    limits: Limits,
    stage_dir: PathBuf,
    transport: Transport,
}

/// What a reference stood for when it was resolved.
///
/// Holds the manifest, so [`Puller::fetch`] asks the registry only for layers.
#[derive(Clone, Debug)]
pub struct ResolvedImage {
    reference: Reference,
    digest: Digest,
    manifest_digest: Digest,
    layers: Vec<Layer>,
    config: ConfigDescriptor,
    authorization: Option<Authorization>,
}

impl ResolvedImage {
    /// `registry/repository@digest`: resolves to the same bytes for good.
    pub fn reference(&self) -> String {
        self.reference.whole()
    }

    /// The digest of what the reference names: the index, where there is one.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The digest of the manifest chosen for this platform; without an index, the same as [`ResolvedImage::digest`].
    pub fn manifest_digest(&self) -> &Digest {
        &self.manifest_digest
    }

    /// Sum of the compressed sizes of all layers.
    pub fn download_bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.size_bytes).fold(0, u64::saturating_add)
    }
}

impl Puller {
    /// Reads the certificates and sets up the client. No network.
    pub fn new(options: PullerOptions) -> Result<Self, Error> {
        let transport = Transport::new(&options)?;
        Ok(Self { limits: options.limits, stage_dir: options.stage_dir, transport })
    }

    /// Asks the registry what `reference` names, and chooses the manifest for this platform.
    ///
    /// `reference` is read as Docker reads it: no registry means `docker.io`, neither tag nor digest means `latest`, and where
    /// both are given the digest decides.
    pub async fn resolve(&self, reference: &str, credentials: &Credentials) -> Result<ResolvedImage, Error> {
        let parsed = parse(reference)?;
        self.in_time(reference, self.resolve_parsed(&parsed, credentials)).await
    }

    /// Like [`Puller::resolve`] for the bytes that `digest` names in the repository of `reference`, whatever its tag names now.
    pub async fn resolve_pinned(
        &self,
        reference: &str,
        digest: &Digest,
        credentials: &Credentials,
    ) -> Result<ResolvedImage, Error> {
        let parsed = parse(reference)?.clone_with_digest(digest.to_string());
        self.in_time(reference, self.resolve_parsed(&parsed, credentials)).await
    }

    /// Fetches the layers and applies them in order. Every byte is checked against the manifest's digests and sizes.
    pub async fn fetch(&self, image: &ResolvedImage, credentials: &Credentials) -> Result<Stage, Error> {
        let stage = || Stage::new_in(&self.stage_dir, &self.limits);
        self.fetch_into(stage, image, None, credentials).await
    }

    /// Like [`Puller::fetch`] for the files of one folder: only they are spooled and count against the limits on trees. The paths
    /// are relative to the folder.
    ///
    /// Any folder of the image will do. A link or a device in it that no later layer hides is refused, since what lies behind it
    /// would be missed without a word.
    pub async fn fetch_folder(
        &self,
        image: &ResolvedImage,
        folder: &RelativePath,
        credentials: &Credentials,
    ) -> Result<Stage, Error> {
        let stage = || Stage::unpacked_in(&self.stage_dir, &self.limits);
        let stage = self.fetch_into(stage, image, Some(folder), credentials).await?;
        let above = std::iter::successors(folder.parent(), RelativePath::parent);
        let blocked = above.filter(|path| stage.get(path) == Some(Staged::Barrier)).last();
        let blocked = blocked.as_ref().or_else(|| stage.barrier_in(folder));
        if let Some(path) = blocked {
            return Err(Error::NotAFile { reference: image.reference(), path: path.clone() });
        }
        let missing = || Error::NoFolder { reference: image.reference(), folder: folder.clone() };
        stage.subtree(folder).ok_or_else(missing)
    }

    async fn fetch_into(
        &self,
        stage: impl FnOnce() -> Result<Stage, stage::Error>,
        image: &ResolvedImage,
        only: Option<&RelativePath>,
        credentials: &Credentials,
    ) -> Result<Stage, Error> {
        let place = image.reference();
        let most = self.limits.download_bytes;
        Limit::DownloadBytes.check(image.download_bytes(), most, || place.clone())?;
        let stage = stage().map_err(Error::Stage)?;
        self.in_time(&place, self.fetch_layers(stage, image, only, credentials)).await
    }

    async fn resolve_parsed(&self, reference: &Reference, credentials: &Credentials) -> Result<ResolvedImage, Error> {
        let mut session = Session::new(&self.transport, reference, credentials, None);
        let found = manifest::resolve(&mut session, reference, self.transport.layers).await?;
        Ok(ResolvedImage {
            reference: reference.clone_with_digest(found.digest.to_string()),
            digest: found.digest,
            manifest_digest: found.manifest_digest,
            layers: found.layers,
            config: found.config,
            authorization: session.into_authorization(),
        })
    }

    async fn fetch_layers(
        &self,
        mut stage: Stage,
        image: &ResolvedImage,
        only: Option<&RelativePath>,
        credentials: &Credentials,
    ) -> Result<Stage, Error> {
        let reference = &image.reference;
        let mut session = Session::new(&self.transport, reference, credentials, image.authorization.clone());
        let mut unpacked_bytes = 0;
        for layer in &image.layers {
            let body = session.layer(&layer.digest).await?;
            let (next, produced_bytes) = layer::apply(body, reference, layer, stage, unpacked_bytes, only).await?;
            stage = next;
            unpacked_bytes += produced_bytes;
        }
        Ok(stage)
    }

    async fn in_time<T>(&self, place: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let maximum = self.limits.pull_time;
        tokio::time::timeout(maximum, work).await.unwrap_or_else(|_| {
            let limit = Limit::PullTime;
            Err(Error::Time(LimitExceeded { limit, maximum: maximum.as_secs(), place: place.to_owned() }))
        })
    }
}

/// Where an image is, as `registry/repository`, and whether the reference names it by digest. `None` if it is no reference.
pub fn location(reference: &str) -> Option<(String, bool)> {
    let parsed = parse(reference).ok()?;
    Some((format!("{}/{}", parsed.registry(), parsed.repository()), parsed.digest().is_some()))
}

fn parse(reference: &str) -> Result<Reference, Error> {
    let fault = |source| Error::Reference { reference: crate::stage::shortened(reference), source };
    let parsed = reference.parse::<Reference>().map_err(fault)?;
    // The parser takes a first component for a host, with capitals, and then finds that it is none.
    if parsed.repository().contains(|character: char| character.is_ascii_uppercase()) {
        return Err(fault(oci_client::ParseError::NameContainsUppercase));
    }
    if let Some(digest) = parsed.digest() {
        let place = reference.to_owned();
        digest.parse::<Digest>().map_err(|source| Error::Digest { place, source })?;
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests;
