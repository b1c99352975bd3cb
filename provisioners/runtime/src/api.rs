//! Requests to the API server: why one failed.

use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusCause;

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

/// What the client says of a request that has waited so long in vain.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
pub(crate) struct Unanswered(pub Duration);

/// Whether the API server left a request without an answer until our client gave it up.
pub fn is_unanswered(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(error) if error.is::<Unanswered>())
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

    /// Whether the object of this name is not there, by the word of an API server that knows its kind. One that does not serve the kind
    /// now, or what stands before it, names no object.
    pub fn is_gone(&self, name: &str) -> bool {
        matches!(self, Self::Refused(status)
            if status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name))
    }

    /// Whether the object exists already, or is not the one that was meant.
    pub fn is_conflict(&self) -> bool {
        self.code() == 409
    }

    /// Whether a list, or a page of it, is older than what the API server still knows.
    pub fn is_expired(&self) -> bool {
        self.code() == 410
    }

    /// The token by which such a list goes on from where it was, with what is in the cluster by now.
    pub fn continuation(&self) -> Option<String> {
        let Self::Refused(status) = self else { return None };
        status.metadata.as_ref()?.continue_.clone().filter(|token| self.is_expired() && !token.is_empty())
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

    /// Whether the API server itself was not to be reached or had no time.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.code(), 0 | 429 | 503)
    }

    /// Whether the same request may succeed later without anybody changing anything.
    ///
    /// 401 is about our token, never about the object: the client reads the next one from its file within a minute.
    pub fn is_transient(&self) -> bool {
        let is_passing = matches!(self.code(), 0 | 401 | 408 | 429 | 500 | 502 | 503 | 504) && !self.is_malformed();
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
            kube::Error::Service(error) => match error.downcast::<Unanswered>() {
                Ok(unanswered) => Self::TimedOut(unanswered.0),
                Err(error) => Self::Unavailable(Box::new(kube::Error::Service(error))),
            },
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> Error {
        Error::Refused(Box::new(Status { code, ..Status::default() }))
    }

    #[test]
    fn token_that_counts_no_more_is_transient_and_missing_right_is_not() {
        assert!(refused(401).is_transient());
        assert!(!refused(403).is_transient() && !refused(422).is_transient());
    }

    #[test]
    fn object_is_not_gone_where_the_path_is_not_served() {
        let status = serde_json::json!({"code": 404, "details": {"name": "a"}});
        let named = Error::Refused(Box::new(serde_json::from_value(status).expect("a Status")));
        assert!(named.is_gone("a") && !named.is_gone("b"));
        assert!(!refused(404).is_gone("a"));
    }
}
