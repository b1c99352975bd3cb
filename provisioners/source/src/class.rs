//! What a caller can do about an error, whatever the source.

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// What a caller can do about an error of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// The server says there is nothing. It may come.
    NotFound,
    /// The server wants other credentials.
    Unauthorized,
    /// The server or the way to it is out of order. Try again later.
    Unavailable,
    /// The content, the reference or the configuration is at fault: trying again gives the same answer until someone fixes it.
    Terminal,
}

/// Whether a server that answers so may answer otherwise later.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}
