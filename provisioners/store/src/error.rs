//! What can go wrong with the store. Every text holds the path, so that an operator can look at the file.

use std::io;
use std::path::{Path, PathBuf};

use rukpak_content::{Digest, LimitExceeded, PathError};

use crate::BucketError;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder could not be created.
    #[error("create folder {}: the store needs a folder it may write to", .path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The lock file could not be opened or locked.
    #[error("lock {}: the store needs a file system with flock", .path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file or folder of the store could not be read.
    #[error("read {}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file could not be written, synced or renamed into place. Nothing half-written is visible.
    #[error("write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file could not be removed.
    #[error("remove {}", .path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The tree given to [`Store::seal`](crate::Store::seal) could not be walked, or breaks the order that
    /// [`Tree`](rukpak_content::Tree) promises.
    #[error("seal a tree")]
    Seal {
        /// What the tree said.
        source: io::Error,
    },
    /// No such content. It was never sealed here, was collected, or the disk was replaced.
    #[error("content {digest} is not in the store: {} does not exist", .path.display())]
    Missing {
        /// The content asked for.
        digest: Digest,
        /// Where it would be.
        path: PathBuf,
    },
    /// The content's bytes are not the ones that were sealed.
    #[error("{} is corrupt: expected {expected}, found {found}", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The digest it is stored under.
        expected: Digest,
        /// The digest of what it holds.
        found: Digest,
    },
    /// The file is no longer a whole tar.gz.
    #[error("{} is corrupt: expected {expected}, and it cannot be unpacked", .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The digest it is stored under.
        expected: Digest,
        /// What stopped the unpacking.
        source: io::Error,
    },
    /// The content is larger than the reader allows.
    #[error("load content {digest}")]
    Limit {
        /// The content.
        digest: Digest,
        /// The limit, with the file at fault.
        source: LimitExceeded,
    },
    /// The digest is not a SHA-256.
    #[error("{digest} cannot name content of the store: only sha256 is used")]
    Algorithm {
        /// The digest.
        digest: Digest,
    },
    /// A ref's name would not be one file name.
    #[error("{name:?} cannot name a ref: use the name of a Kubernetes object")]
    RefName {
        /// The name.
        name: String,
        /// What is wrong with it, where it is not merely more than one component.
        source: Option<PathError>,
    },
    /// A ref's file is not what the store writes. Remove it, or restore it.
    #[error("{} is not a ref: remove the file, the bundle is then fetched again", .path.display())]
    RefForm {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The bucket did not do what it was asked.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// Somebody else wrote a ref again and again.
    #[error("write {}: somebody else writes it at the same time", .path.display())]
    Contested {
        /// The ref.
        path: PathBuf,
    },
    /// The bucket's server writes where it must not.
    #[error(
        "{bucket} cannot be used: the server does not heed {header} on PUT, which keeps what one replica writes from another: use a \
         server, or a release of it, that supports conditional writes"
    )]
    Unconditional {
        /// The bucket.
        bucket: String,
        /// What it does not heed.
        header: &'static str,
    },
}

impl Error {
    /// Whether fetching and sealing the same content again fixes this: it is missing, or its bytes were damaged.
    pub fn mended_by_refill(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Corrupt { .. } | Self::Broken { .. })
    }
}

impl Error {
    /// Whether a bucket refused it, or its server cannot do it: trying again does not help.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Unconditional { .. } | Self::Bucket(BucketError { is_refusal: true, .. }))
    }
}

/// Turns an [`io::Error`] on `path` into the variant of an operation.
pub(crate) fn create(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::CreateFolder { path: path.to_owned(), source }
}

pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Read { path: path.to_owned(), source }
}

pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Write { path: path.to_owned(), source }
}

pub(crate) fn remove(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Remove { path: path.to_owned(), source }
}
