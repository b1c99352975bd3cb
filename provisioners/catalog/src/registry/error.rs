//! What can go wrong with a catalog server.

use std::time::Duration;

use tonic::{Code, Status};

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The server or the way to it is out of order. Try again.
    Unavailable,
    /// What the server sends, or the address, is at fault: someone has to mend it.
    Terminal,
}

/// Why a catalog server gives no catalog. The beginnings of the texts are those of upstream's platform operators.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error(
        "failed to register client from the {name} grpc connection: {address:?} is not an address: write host:port"
    )]
    Address {
        /// The catalog.
        name: String,
        /// As given, at most 80 characters.
        address: String,
    },
    /// The certificates that its own has to be signed with cannot be used.
    #[error("failed to register client from the {name} grpc connection: the CA certificates cannot be used")]
    Authorities {
        /// The catalog.
        name: String,
        /// Why.
        source: tonic::transport::Error,
    },
    /// It is not to be reached.
    #[error("failed to register client from the {name} grpc connection: cannot connect to {address}")]
    Connect {
        /// The catalog.
        name: String,
        /// `host:port`.
        address: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server refused a call, or the answer broke off.
    #[error("failed to {what} the {name} catalog{after}")]
    Call {
        /// The catalog.
        name: String,
        /// What was asked for: `list bundles from`.
        what: String,
        /// How much had come, or empty.
        after: String,
        /// Why.
        source: Refusal,
    },
    /// The server says nothing, or goes on for ever.
    #[error("failed to {what} the {name} catalog{after}: {problem} {} s", limit.as_secs_f32())]
    Time {
        /// The catalog.
        name: String,
        /// What was asked for.
        what: String,
        /// How much had come, or empty.
        after: String,
        /// `nothing came for` or `not done after`.
        problem: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// What it sends is too much.
    #[error("failed to {what} the {name} catalog: it sends more than {maximum} {unit}")]
    TooLarge {
        /// The catalog.
        name: String,
        /// What was asked for.
        what: String,
        /// What is accepted.
        maximum: u64,
        /// Of what.
        unit: &'static str,
    },
    /// A message lacks what every message has.
    #[error("failed to {what} the {name} catalog: message {number} names no {missing}")]
    Incomplete {
        /// The catalog.
        name: String,
        /// What was asked for.
        what: String,
        /// Which message, from 1.
        number: u64,
        /// `package`, `channel` or `bundle`.
        missing: &'static str,
    },
    /// A name in a message is longer than [`crate::document::MAX_NAME`].
    #[error("failed to {what} the {name} catalog: message {number}: {problem}")]
    TooLong {
        /// The catalog.
        name: String,
        /// What was asked for.
        what: String,
        /// Which message, from 1.
        number: u64,
        /// Of which bundle, which field, and how it begins.
        problem: String,
    },
    /// The ClusterServiceVersion of a bundle cannot be read.
    #[error("failed to {what} the {name} catalog: its ClusterServiceVersion cannot be read")]
    Csv {
        /// The catalog.
        name: String,
        /// What was asked for.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// How a call ended, in the server's words or, where the connection broke, in ours.
#[derive(Debug, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Refusal {
    /// The status. Servers of catalogs say `Unknown` for almost everything, also for what is not there.
    pub code: Code,
    /// At most 300 printable characters.
    pub message: String,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let mut message = status.message().to_owned();
        let mut cause = std::error::Error::source(&status);
        // tonic says "transport error" and leaves what it was to the causes.
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        let message = message.chars().map(|character| if character.is_control() { ' ' } else { character });
        Self { code: status.code(), message: message.take(300).collect() }
    }
}

impl Error {
    /// What a caller can do about it.
    pub fn class(&self) -> Class {
        match self {
            // A message past our bound, and a server that is no catalog.
            Self::Call { source, .. } if matches!(source.code, Code::OutOfRange | Code::Unimplemented) => {
                Class::Terminal
            }
            Self::Connect { .. } | Self::Time { .. } | Self::Call { .. } => Class::Unavailable,
            Self::Address { .. }
            | Self::Authorities { .. }
            | Self::TooLarge { .. }
            | Self::Incomplete { .. }
            | Self::TooLong { .. }
            | Self::Csv { .. } => Class::Terminal,
        }
    }
}
