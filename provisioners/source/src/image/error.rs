//! What can go wrong with an image, and what a caller can do about it.

use http::StatusCode;
use rukpak_content::{Digest, DigestError, LimitExceeded, RelativePath};

pub use crate::class::Class;
use crate::class::is_passing;
use crate::client::SetupError;
use crate::egress::Refused;
use crate::{archive, mirrors, stage};

/// Why an image could not be pulled. Neither the text nor the debug form holds credentials, tokens or query strings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reference cannot be read.
    #[error("{reference:?} is not an image reference: write registry/repository:tag or registry/repository@sha256:...")]
    Reference {
        /// The reference, at most 80 characters.
        reference: String,
        /// Why.
        source: oci_client::ParseError,
    },
    /// A digest cannot be read.
    #[error("{place}: a digest cannot be used")]
    Digest {
        /// Where it stands.
        place: String,
        /// Why.
        source: DigestError,
    },
    /// There is no HTTP client.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No answer.
    #[error("{what}: no answer from {host}{hint}")]
    Request {
        /// What was asked for.
        what: String,
        /// Who was asked.
        host: String,
        /// What the source does not say itself, or empty.
        hint: String,
        /// Why, without its URL.
        source: reqwest::Error,
    },
    /// The answer broke off.
    #[error("{what}: the answer broke off after {received_bytes} bytes")]
    Body {
        /// What was asked for.
        what: String,
        /// Bytes that came before.
        received_bytes: u64,
        /// Why, without its URL.
        source: reqwest::Error,
    },
    /// The answer comes too slowly.
    #[error("{what}: {received_bytes} bytes came, which is too slow: {asked} are asked for")]
    Pace {
        /// What was asked for.
        what: String,
        /// Bytes that came.
        received_bytes: u64,
        /// The least pace.
        asked: String,
    },
    /// The answer is too long.
    #[error("{what}: the answer has more than {maximum_bytes} bytes")]
    TooLarge {
        /// What was asked for.
        what: String,
        /// What is accepted.
        maximum_bytes: u64,
    },
    /// The registry refused.
    #[error("{what}: the registry answered {status}{detail}")]
    Status {
        /// What was asked for.
        what: String,
        /// The status.
        status: StatusCode,
        /// The registry's own words, or empty.
        detail: String,
    },
    /// The registry does not know us, or not well enough.
    #[error("{what}: access denied ({status}{detail}); {hint}")]
    Unauthorized {
        /// What was asked for.
        what: String,
        /// The status.
        status: StatusCode,
        /// The registry's own words, or empty.
        detail: String,
        /// What to do.
        hint: &'static str,
    },
    /// The registry asks for a kind of authentication that is not spoken.
    #[error("{what}: the registry asks for authentication in a way that is not supported: {asked}")]
    Challenge {
        /// What was asked for.
        what: String,
        /// What is asked, or what is wrong with it.
        asked: String,
    },
    /// The token service's answer cannot be used.
    #[error("{what}: the token service at {host} answered without a usable token")]
    Token {
        /// What was asked for.
        what: String,
        /// The token service.
        host: String,
    },
    /// An address that is not connected to: the registry's, that of its token service, or where one of them redirects to.
    #[error("{what}: refused")]
    Address {
        /// What was asked for.
        what: String,
        /// Whose address.
        source: Refused,
    },
    /// A redirect that is not followed.
    #[error("{what}: {why}")]
    Redirect {
        /// What was asked for.
        what: String,
        /// Why it is not followed.
        why: String,
    },
    /// None of several places gave it.
    #[error("{what}: {before}{place} failed")]
    Places {
        /// What was asked for.
        what: String,
        /// The places asked before, each with its error, or empty.
        before: String,
        /// The place asked last.
        place: String,
        /// Why the last one failed.
        source: Box<Error>,
    },
    /// The configuration of mirrors lets it be pulled from nowhere.
    #[error(transparent)]
    Mirrors(#[from] mirrors::Error),
    /// Other bytes than the digest names.
    #[error("{what}: expected {expected}, got {actual}: the registry or something on the way changed the content")]
    Mismatch {
        /// What was fetched.
        what: String,
        /// What was asked for.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// Another length than the manifest names.
    #[error("{what}: expected {expected_bytes} bytes, got {}{actual_bytes}", if actual_bytes > expected_bytes { "at least " } else { "" })]
    Size {
        /// What was fetched.
        what: String,
        /// The length in the manifest.
        expected_bytes: u64,
        /// The length of what came.
        actual_bytes: u64,
    },
    /// A manifest is not what its type says.
    #[error("{what}: the manifest cannot be read")]
    Manifest {
        /// Which manifest.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The configuration is not what its type says.
    #[error("{what}: it cannot be read")]
    Config {
        /// Which configuration.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The folder that is wanted is not in the image.
    #[error("{reference}: there is no folder /{folder} in the image")]
    NoFolder {
        /// The image.
        reference: String,
        /// The folder.
        folder: RelativePath,
    },
    /// The folder that is wanted is a link or holds one.
    #[error("{reference}: /{path} in the image is neither a file nor a folder; put the file itself there")]
    NotAFile {
        /// The image.
        reference: String,
        /// The link.
        path: RelativePath,
    },
    /// Something else than an image.
    #[error("{what} is not an image: {found}")]
    NotAnImage {
        /// Which manifest.
        what: String,
        /// What it is.
        found: String,
    },
    /// An index without an image for this machine.
    #[error("{what}: no image for {wanted}; the index has {available}")]
    Platform {
        /// Which index.
        what: String,
        /// This machine's platform.
        wanted: String,
        /// The platforms there are.
        available: String,
    },
    /// Past a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// Past [`Limits::pull_time`](rukpak_content::Limits::pull_time).
    #[error(transparent)]
    Time(LimitExceeded),
    /// A layer is damaged or holds what a bundle cannot hold.
    #[error("layer {digest} of {reference}")]
    Layer {
        /// The image.
        reference: String,
        /// The layer.
        digest: Digest,
        /// Why.
        source: archive::Error,
    },
    /// No room to put the layers.
    #[error("cannot stage the image")]
    Stage(#[source] stage::Error),
    /// A worker thread was lost.
    #[error("layer {digest}: the worker thread ended early")]
    Worker {
        /// The layer.
        digest: Digest,
        /// Why.
        source: tokio::task::JoinError,
    },
}

impl Error {
    /// What a caller can do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Places { source, .. } => source.class(),
            Self::Status { status, .. } if *status == StatusCode::NOT_FOUND => Class::NotFound,
            Self::Status { status, .. } if is_passing(*status) => Class::Unavailable,
            Self::Unauthorized { .. } | Self::Challenge { .. } => Class::Unauthorized,
            Self::Request { .. }
            | Self::Body { .. }
            | Self::Pace { .. }
            | Self::Token { .. }
            | Self::Time(_)
            | Self::Worker { .. }
            | Self::Stage(_) => Class::Unavailable,
            Self::Layer { source, .. } if source.is_passing() => Class::Unavailable,
            _ => Class::Terminal,
        }
    }
}
