//! Why a tree could not be staged.

use std::io;

use rukpak_content::{LimitExceeded, RelativePath};

/// Why something could not be staged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Past a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The spool file cannot be made.
    #[error("cannot create a spool file in {folder}")]
    Create {
        /// The folder for spool files.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// The spool file cannot be written.
    #[error("cannot spool {path:?}")]
    Write {
        /// The file being staged.
        path: RelativePath,
        /// Why.
        source: io::Error,
    },
    /// The body cannot be read.
    #[error("cannot read the body of {path:?}")]
    Read {
        /// The file being staged.
        path: RelativePath,
        /// Why.
        source: io::Error,
    },
    /// The body is not as long as was said.
    #[error("{path:?} has {actual} bytes where {expected} were announced")]
    Size {
        /// The file being staged.
        path: RelativePath,
        /// Bytes announced.
        expected: u64,
        /// Bytes read.
        actual: u64,
    },
    /// The path lies below a link or a device.
    #[error("{path:?} lies below {barrier:?}, which is a link or a device")]
    Below {
        /// The path being staged.
        path: RelativePath,
        /// The link or device.
        barrier: RelativePath,
    },
}
