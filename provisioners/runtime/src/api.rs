//! Requests to the API server: why one failed, and how long an answer is waited for.

use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusCause;

/// A webhook may take 30 s, and a request may call some; what takes longer is a connection that leads nowhere. The API server
/// itself gives up after a minute.
const ANSWERED_WITHIN: Duration = Duration::from_secs(50);

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server answered with a refusal. Holds its `Status`.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// No usable answer.
    #[error("the API server could not be asked")]
    Unavailable(#[source] Box<kube::Error>),
    /// No answer at all.
    #[error("the API server did not answer within {0:?}")]
    TimedOut(Duration),
}

impl Error {
    /// HTTP status code of a refusal; 0 if there was no answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused(status) => status.code,
            Self::Unavailable(_) | Self::TimedOut(_) => 0,
        }
    }

    /// Whether the object, or its kind, is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == 404
    }

    /// Whether the object exists already, or is not the one that was meant.
    pub fn is_conflict(&self) -> bool {
        self.code() == 409
    }

    /// Whether the object itself was found wrong.
    pub fn is_invalid(&self) -> bool {
        self.code() == 422
    }

    /// Whether the object of that name has another UID than the request named.
    ///
    /// Where the object does not exist this is a conflict; where it exists, the UID counts as a field that must not change.
    pub fn is_other_object(&self) -> bool {
        self.code() == 422 && self.has_cause(|cause| cause.field == "metadata.uid")
    }

    /// Whether a create was refused for the resourceVersion that makes an apply a create. Services before Kubernetes 1.21 have
    /// a storage of their own that does so, and only after it has found no such object.
    pub fn refuses_create_by_version(&self) -> bool {
        matches!(self, Self::Refused(status) if status.message == "resourceVersion should not be set on objects to be created")
    }

    /// Whether the API server itself was not to be reached or had no time.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.code(), 0 | 429 | 503)
    }

    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        let is_passing = matches!(self.code(), 0 | 408 | 429 | 500 | 502 | 503 | 504) && !self.is_malformed();
        is_passing || self.is_termination() || self.is_new_owner()
    }

    /// Whether the body of an apply does not fit the schema, as lists do not that have an item twice. The API server says so with 500.
    fn is_malformed(&self) -> bool {
        matches!(self, Self::Refused(status)
            if status.code == 500 && status.message.starts_with("failed to create typed patch object"))
    }

    /// Whether a quota is used up: what frees some of it, or raises it, is not told to us.
    pub fn is_over_quota(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 403 && status.message.contains("exceeded quota"))
    }

    /// Whether the API server does not know yet that objects of a new kind can be owners: its admission looks for new kinds
    /// every 30 s.
    fn is_new_owner(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 403 && status.message.contains("cannot find RESTMapping"))
    }

    /// Whether the namespace or the CRD that the object needs is on its way out.
    fn is_termination(&self) -> bool {
        self.has_cause(|cause| cause.reason == "NamespaceTerminating")
            || matches!(self, Self::Refused(status)
                if status.code == 405 && status.message.contains("custom resource definition is terminating"))
    }

    fn has_cause(&self, wanted: impl Fn(&StatusCause) -> bool) -> bool {
        let Self::Refused(status) = self else { return false };
        status.details.iter().flat_map(|details| &details.causes).any(wanted)
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

/// The answer to a request, in so far as it comes in time. Every request but a watch goes through here.
///
/// # Errors
/// [`Error::TimedOut`] after 50 s, and whatever the API server refuses.
pub async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(ANSWERED_WITHIN, request).await {
        Ok(answer) => answer.map_err(Error::from),
        Err(_) => Err(Error::TimedOut(ANSWERED_WITHIN)),
    }
}
