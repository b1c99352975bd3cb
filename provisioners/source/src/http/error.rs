//! What can go wrong with an archive on a web server, and what a caller can do about it.

use std::io;

use http::StatusCode;
use rukpak_content::{Digest, Limit, LimitExceeded};
use rustls::CertificateError;
use tokio::task::JoinError;

use super::Request;
pub use crate::class::Class;
use crate::class::is_passing;
use crate::client::{GetError, SetupError, is_without_tls, tls_error};
use crate::decompress::Unsupported;
use crate::egress::{LookupError, Refused};
use crate::{archive, stage, tarball};

/// Why an archive could not be fetched. Where upstream has a text for it, it is upstream's. Neither the text nor the debug
/// form holds credentials or query strings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be read.
    #[error("{url:?} is not an http or https URL with a host")]
    Url {
        /// The text, at most 80 characters, without a login.
        url: String,
    },
    /// It is another place than its text says, and a pattern or a rule would be compared with the text.
    #[error("{url:?} does not say itself where the archive is: {why}")]
    NotPlain {
        /// The text, at most 80 characters, without a login.
        url: String,
        /// What is odd about it.
        why: rukpak_content::AddressError,
    },
    /// There is no HTTP client.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No answer.
    #[error("GET {url}: http request for bundle content failed{hint}")]
    Request {
        /// What was asked for.
        url: String,
        /// What the source does not say itself, or empty.
        hint: String,
        /// Why, without its URL.
        source: reqwest::Error,
    },
    /// Another status than 200.
    #[error("GET {url}: unexpected status \"{status}\"{}", elsewhere(host.as_deref()))]
    Status {
        /// What was asked for.
        url: String,
        /// The status.
        status: StatusCode,
        /// Who answered, if not the server that was asked.
        host: Option<String>,
    },
    /// The server does not know us, or not well enough.
    #[error("GET {url}: unexpected status \"{status}\": {hint}")]
    Unauthorized {
        /// What was asked for.
        url: String,
        /// The status.
        status: StatusCode,
        /// What to do.
        hint: String,
    },
    /// An address that is not connected to: the server's, or that of who it redirects to.
    #[error("GET {url}: http request for bundle content failed")]
    Address {
        /// What was asked for.
        url: String,
        /// Whose address.
        source: Refused,
    },
    /// A redirect that is not followed.
    #[error("GET {url}: http request for bundle content failed: {why}")]
    Redirect {
        /// What was asked for.
        url: String,
        /// Why it is not followed.
        why: String,
    },
    /// The answer broke off.
    #[error("GET {url}: the answer broke off after {received_bytes} bytes")]
    Body {
        /// What was asked for.
        url: String,
        /// Bytes that came before.
        received_bytes: u64,
        /// Why, without its URL.
        source: reqwest::Error,
    },
    /// The answer comes too slowly.
    #[error("GET {url}: {received_bytes} bytes came, which is too slow: {asked} are asked for")]
    Pace {
        /// What was asked for.
        url: String,
        /// Bytes that came.
        received_bytes: u64,
        /// The least pace.
        asked: String,
    },
    /// A kind of content that was not asked for.
    #[error("GET {url}: the answer is {found}, not {wanted}: check the address")]
    ContentType {
        /// What was asked for.
        url: String,
        /// The kind, at most 80 characters.
        found: String,
        /// What is accepted.
        wanted: String,
    },
    /// An answer that does not say where it ends.
    #[error("GET {url}: the answer does not say how long it is, so one that is cut short could not be told")]
    NoLength {
        /// What was asked for.
        url: String,
    },
    /// Other bytes than those that are pinned.
    #[error(
        "GET {url}: expected {expected}, got {actual}: the content has changed since it was pinned; \
         put the old content back, or make a new Bundle"
    )]
    Mismatch {
        /// What was asked for.
        url: String,
        /// The pin.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// Past a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Past [`Limits::pull_time`](rukpak_content::Limits::pull_time).
    #[error("GET {url}: not done after {maximum_seconds} seconds ({})", Limit::PullTime.flag())]
    Time {
        /// What was asked for.
        url: String,
        /// The limit.
        maximum_seconds: u64,
    },
    /// No archive at all. Upstream's text for it begins the same.
    #[error("gzip: invalid header: what GET {url} gave is neither a tar archive nor a compressed one")]
    NotAnArchive {
        /// What was asked for.
        url: String,
    },
    /// A compression that is known and not read.
    #[error("gzip: invalid header")]
    Compression(#[source] Unsupported),
    /// The archive is damaged or holds what a bundle cannot hold.
    #[error("error creating FS")]
    Archive(#[source] archive::Error),
    /// The body cannot be put on the disk, or read back.
    #[error("GET {url}: cannot spool the answer")]
    Spool {
        /// What was asked for.
        url: String,
        /// Why.
        source: io::Error,
    },
    /// No room to put the tree.
    #[error("cannot stage the archive")]
    Stage(#[source] stage::Error),
    /// A worker thread was lost.
    #[error("GET {url}: the worker thread ended early")]
    Worker {
        /// What was asked for.
        url: String,
        /// Why.
        source: JoinError,
    },
}

/// Whether it is an address that is not connected to.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let is_lookup = error.downcast_ref().is_some_and(|error| matches!(error, LookupError::Refused(_)));
        if is_lookup || error.is::<Refused>() {
            return true;
        }
        cause = error.source();
    }
    false
}

impl Error {
    /// What a caller can do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Status { status, .. } if matches!(*status, StatusCode::NOT_FOUND | StatusCode::GONE) => {
                Class::NotFound
            }
            Self::Status { status, .. } if is_passing(*status) => Class::Unavailable,
            Self::Unauthorized { .. } => Class::Unauthorized,
            Self::Request { source, .. } if is_refused(source) => Class::Terminal,
            Self::Request { .. }
            | Self::Body { .. }
            | Self::Pace { .. }
            | Self::Time { .. }
            | Self::Spool { .. }
            | Self::Worker { .. }
            | Self::Stage(_) => Class::Unavailable,
            Self::Archive(source) if source.is_passing() => Class::Unavailable,
            _ => Class::Terminal,
        }
    }

    pub(super) fn get(error: GetError, request: &Request) -> Self {
        let url = request.shown().to_owned();
        match error {
            GetError::Request { host, source } => {
                let hint = if is_of_unknown_authority(&source) {
                    // Go's words, which people search for.
                    ": certificate signed by unknown authority (give the certificate of its CA)".to_owned()
                } else if is_without_tls(&source) {
                    format!(": {host} does not speak TLS (an http:// URL is asked without)")
                } else {
                    String::new()
                };
                Self::Request { url, hint, source }
            }
            GetError::Refused(source) => Self::Address { url, source },
            GetError::Redirect(why) => Self::Redirect { url, why },
        }
    }

    pub(super) fn unpack(error: tarball::Error, url: String) -> Self {
        match error {
            tarball::Error::Read(source) => Self::Spool { url, source },
            tarball::Error::NotAnArchive | tarball::Error::Empty => Self::NotAnArchive { url },
            tarball::Error::Compression(source) => Self::Compression(source),
            tarball::Error::Stage(source) => Self::Stage(source),
            tarball::Error::Archive(source) => Self::Archive(source),
        }
    }
}

fn elsewhere(host: Option<&str>) -> String {
    host.map_or_else(String::new, |host| format!(" from {host}, which it redirects to"))
}

fn is_of_unknown_authority(error: &reqwest::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)))
}
