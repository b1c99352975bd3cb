//! A registry, over which images are read and written: blobs come and go in parts, and are never held whole.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http::HeaderValue;
use oci_client::client::{Certificate, CertificateEncoding, Client, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};
use rukpak_content::{Digest, Limits};

use super::{Descriptor, MANIFESTS, Manifest, check, no_manifest};
use crate::args::TrustArgs;
use crate::failure::Failure;
use crate::output::to_stderr;
use crate::progress::Progress;
use crate::registries::Registries;

const CONNECT_TIME: Duration = Duration::from_secs(10);
const SILENT_TIME: Duration = Duration::from_mins(1);
/// Parts in which a blob is sent.
const PART_BYTES: usize = 256 * 1024;
/// A manifest of more bytes is refused, as registries refuse it.
const MANIFEST_BYTES: usize = 4 * 1024 * 1024;

/// Registries, with the logins of Docker's configuration.
pub struct Remote {
    client: Client,
    registries: Registries,
}

impl Remote {
    /// Reads certificates and logins. No network.
    pub fn new(trust: &TrustArgs) -> Result<Self, Failure> {
        let registries = Registries::new(trust, Limits::default())?;
        let mut config = ClientConfig {
            protocol: ClientProtocol::HttpsExcept(trust.plain_http_registry.clone()),
            // In one request: what is sent in chunks has to be asked for again after each.
            use_monolithic_push: true,
            connect_timeout: Some(CONNECT_TIME),
            read_timeout: Some(SILENT_TIME),
            user_agent: concat!("rukpakctl/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        if !registries.extra_ca_pem.is_empty() {
            for der in registries.authorities()? {
                config.extra_root_certificates.push(Certificate { encoding: CertificateEncoding::Der, data: der });
            }
        }
        let client =
            Client::try_from(config).map_err(|error| Failure::during("set up the client for registries", &error))?;
        Ok(Self { client, registries })
    }

    /// Logs in where the repository of `image` is.
    pub async fn log_in(&mut self, image: &Reference, is_written: bool) -> Result<(), Failure> {
        self.registries.log_in(image.registry()).await;
        let login = self.registries.credentials().login(image);
        let login = login.map_or(RegistryAuth::Anonymous, |(user, password)| {
            RegistryAuth::Basic(user.to_owned(), password.to_owned())
        });
        let operation = if is_written { RegistryOperation::Push } else { RegistryOperation::Pull };
        let answer = self.client.auth(image, &login, operation).await;
        // A token for writing is good for reading; the client keeps them apart.
        if is_written && answer.is_ok() {
            let _ = self.client.auth(image, &login, RegistryOperation::Pull).await;
        }
        answer.map(drop).map_err(|error| self.failed(format!("log in to {}", image.registry()), &error))
    }

    /// The manifest or index that a reference names.
    pub async fn manifest(&self, image: &Reference) -> Result<Manifest, Failure> {
        let what = || format!("manifest of {}", image.whole());
        let found = self.client.pull_manifest_raw(image, &RegistryAuth::Anonymous, &MANIFESTS).await;
        let (bytes, digest) = found.map_err(|error| self.failed(what(), &error))?;
        let manifest = Manifest::read(bytes.to_vec(), super::MANIFEST)?;
        if manifest.bytes.len() > MANIFEST_BYTES {
            return Err(no_manifest(&manifest.descriptor.digest, "it is too large"));
        }
        let wanted = super::digest(image.digest().unwrap_or(&digest))?;
        check(&what(), &manifest.descriptor.digest, &wanted)?;
        Ok(manifest)
    }

    /// A blob of the repository of `image`, in parts. Whoever keeps it checks its digest.
    pub async fn blob(
        &self,
        image: &Reference,
        blob: &Descriptor,
    ) -> Result<BoxStream<'static, io::Result<bytes::Bytes>>, Failure> {
        let descriptor = OciDescriptor {
            digest: blob.digest.to_string(),
            size: i64::try_from(blob.size_bytes).unwrap_or(i64::MAX),
            ..OciDescriptor::default()
        };
        let found = self.client.pull_blob_stream(image, &descriptor).await;
        let found = found.map_err(|error| self.failed(format!("blob {} of {}", blob.digest, image.whole()), &error))?;
        Ok(found.stream.boxed())
    }

    /// Sends a blob, if the repository does not have it yet. Whether it was sent.
    pub async fn put_blob(&self, image: &Reference, blob: &Descriptor, file: File) -> Result<bool, Failure> {
        let digest = blob.digest.to_string();
        let what = || format!("send blob {digest} to {}/{}", image.registry(), image.repository());
        if self.client.blob_exists(image, &digest).await.map_err(|error| self.failed(what(), &error))? {
            return Ok(false);
        }
        let mut progress = Progress::start(format!("uploading {}", short(&blob.digest)), blob.size_bytes);
        let parts = tokio_util::io::ReaderStream::with_capacity(tokio::fs::File::from_std(file), PART_BYTES);
        let parts = parts.inspect_ok(move |part| progress.add(part.len())).map_err(OciDistributionError::IoError);
        let sent = self.client.push_blob_stream(image, parts, &digest, Some(blob.size_bytes)).await;
        sent.map(|_| true).map_err(|error| self.failed(what(), &error))
    }

    /// Sends a manifest, by the tag or the digest of `image`.
    pub async fn put_manifest(&self, image: &Reference, manifest: &Manifest) -> Result<(), Failure> {
        let what = || format!("send manifest of {}", image.whole());
        let fault = || no_manifest(&manifest.descriptor.digest, "its media type is no text for a header");
        let media_type = HeaderValue::from_str(&manifest.descriptor.media_type).map_err(|_| fault())?;
        let sent = self.client.push_manifest_raw(image, manifest.bytes.clone(), media_type).await;
        sent.map(drop).map_err(|error| self.failed(what(), &error))
    }

    fn failed(&self, what: impl Display, error: &OciDistributionError) -> Failure {
        self.registries.note_helpers();
        Failure::during(what, error)
    }
}

/// So much of a digest as people read.
pub fn short(digest: &Digest) -> String {
    format!("{}:{}", digest.algorithm().name(), digest.hex().get(..12).unwrap_or(digest.hex()))
}

/// The same image by its digest alone.
pub fn pinned(image: &Reference, digest: &Digest) -> Reference {
    Reference::with_digest(image.registry().to_owned(), image.repository().to_owned(), digest.to_string())
}

/// Says what is done with an image.
pub fn say(what: &str, image: &Reference) {
    to_stderr(&format!("{what} {}", image.whole()));
}
