//! Archives that a web server holds: one GET, bounded, pinned by the SHA-256 of the body.
//!
//! Two steps with a digest between them, so that a caller can remember what an address stood for before it unpacks:
//! [`Fetcher::download`], or [`Fetcher::download_pinned`] for the bytes of an earlier download, and [`Fetcher::unpack`].

mod download;
mod error;
mod request;
mod stream;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rukpak_content::{Algorithm, Digest, Limits};
use tokio::task::spawn_blocking;

pub use download::Download;
pub use error::{Class, Error};
pub use request::Request;
pub use stream::{Incoming, Opened};

use crate::client::{Clients, Settings};
use crate::egress::Guard;
use crate::{Egress, Stage, tarball};

/// How archives are fetched. Proxies are those of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`), read by
/// [`Fetcher::new`].
#[derive(Clone, Debug)]
pub struct FetcherOptions {
    /// Bounds of every download and of what comes out of it. [`Limits::pull_time`] holds for each of the two steps.
    pub limits: Limits,
    /// Where spool files are made. They have no names.
    pub stage_dir: PathBuf,
    /// PEM certificates of authorities trusted beside those of the system. May be empty.
    pub extra_ca_pem: Vec<u8>,
    /// Which addresses servers and what they redirect to may have.
    pub egress: Egress,
    /// How long a server may send nothing.
    pub idle_timeout: Duration,
}

impl FetcherOptions {
    /// Spool files in `stage_dir`, no extra authorities, the default [`Egress`], 10 s to connect, 30 s of silence.
    pub fn new(stage_dir: PathBuf, limits: Limits) -> Self {
        Self {
            limits,
            stage_dir,
            extra_ca_pem: Vec::new(),
            egress: Egress::default(),
            idle_timeout: Duration::from_secs(30),
        }
    }
}

/// A user name and a password for basic authentication. Either may be empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    username: String,
    password: String,
}

impl Login {
    /// Both as they stand in the Secret.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self { username: username.into(), password: password.into() }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Login(redacted)")
    }
}

/// Fetches archives. One per set of options; keeps its connections, so it is meant to be shared.
#[derive(Debug)]
pub struct Fetcher {
    options: FetcherOptions,
    clients: Clients,
}

impl Fetcher {
    /// Reads the certificates and the proxies and sets up the clients. No network.
    pub fn new(options: FetcherOptions) -> Result<Self, Error> {
        let guard = Guard::new(options.egress.clone());
        let clients = Clients::new(Settings {
            extra_ca_pem: &options.extra_ca_pem,
            idle_timeout: options.idle_timeout,
            guard: &guard,
        })?;
        Ok(Self { options, clients })
    }

    /// Downloads what `request` names today.
    pub async fn download(&self, request: &Request) -> Result<Download, Error> {
        self.receive_in_time(request, Algorithm::Sha256).await
    }

    /// Downloads the bytes that `pin` names, or fails with [`Error::Mismatch`]: the address may hold others by now.
    pub async fn download_pinned(&self, request: &Request, pin: &Digest) -> Result<Download, Error> {
        let download = self.receive_in_time(request, pin.algorithm()).await?;
        if download.digest() == pin {
            return Ok(download);
        }
        let actual = download.digest().clone();
        Err(Error::Mismatch { url: request.shown().to_owned(), expected: pin.clone(), actual })
    }

    /// Unpacks a download: tar, compressed with gzip (as upstream wants it) or Zstandard or not at all. Its first bytes decide.
    pub async fn unpack(&self, download: Download) -> Result<Stage, Error> {
        let (stage_dir, limits) = (self.options.stage_dir.clone(), self.options.limits.clone());
        let url = download.url().to_owned();
        let place = url.clone();
        let work = spawn_blocking(move || tarball::read(download.into_file(), &stage_dir, &limits, place));
        let unpacked = self.in_time(&url, async { Ok(work.await) }).await?;
        unpacked
            .map_err(|source| Error::Worker { url: url.clone(), source })?
            .map_err(|error| Error::unpack(error, url))
    }

    async fn receive_in_time(&self, request: &Request, algorithm: Algorithm) -> Result<Download, Error> {
        let received = download::receive(&self.clients, request, &self.options, algorithm);
        self.in_time(request.shown(), received).await
    }

    async fn in_time<T>(&self, url: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let maximum = self.options.limits.pull_time;
        let late = |_| Err(Error::Time { url: url.to_owned(), maximum_seconds: maximum.as_secs() });
        tokio::time::timeout(maximum, work).await.unwrap_or_else(late)
    }
}

#[cfg(test)]
mod tests;
