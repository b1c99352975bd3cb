//! What can go wrong with the place that a catalog comes from.

use std::io;
use std::path::PathBuf;

use rukpak_content::{LimitExceeded, PathError};
pub use rukpak_source::Class;
use rukpak_source::{http, image};

use crate::read;

/// Names the folder of a file-based catalog in its image.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// Names the database in an image of the days before.
pub const SQLITE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

/// Why a catalog cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its files cannot be read.
    #[error("the catalog cannot be read")]
    Read(#[from] read::Error),
    /// The registry does not say what the reference of the image names.
    #[error("the catalog image cannot be pulled")]
    Resolve(#[source] image::Error),
    /// The image cannot be pulled.
    #[error("the catalog image cannot be pulled")]
    Image(#[source] image::Error),
    /// A policy does not let the image in.
    #[error("{why}")]
    NotAdmitted {
        /// Why not.
        why: String,
    },
    /// The image is one of the days before file-based catalogs. The words are those of `opm render`.
    #[error(
        "render {reference:?}: sqlite-based index images are no longer supported, migrate to a file-based catalog: not allowed \
         (label {SQLITE_LABEL})"
    )]
    Sqlite {
        /// The image.
        reference: String,
    },
    /// The image is no catalog.
    #[error("render {reference:?}: image type could not be determined: {hint}")]
    NotACatalog {
        /// The image.
        reference: String,
        /// What to do.
        hint: &'static str,
    },
    /// The label that names the folder names none.
    #[error("{reference}: the label {CONFIGS_LABEL} does not name a folder of the image")]
    Label {
        /// The image.
        reference: String,
        /// Why.
        source: PathError,
    },
    /// The folder of the catalog cannot be looked at.
    #[error("cannot look at {}", path.display())]
    Folder {
        /// The file or folder at fault.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Past a limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// catalogd's catalog cannot be fetched.
    #[error("the catalog cannot be fetched")]
    Http(#[source] http::Error),
    /// The files of an image cannot be put on the disk.
    #[error("cannot put the files of the catalog into {}", folder.display())]
    Spool {
        /// Where they should go.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A worker thread was lost.
    #[error("the worker thread ended early")]
    Worker(#[source] tokio::task::JoinError),
}

impl Error {
    /// What a caller can do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Resolve(error) | Self::Image(error) => error.class(),
            Self::Http(error) => error.class(),
            Self::Folder { source, .. } if source.kind() == io::ErrorKind::NotFound => Class::NotFound,
            Self::Spool { .. } | Self::Worker(_) => Class::Unavailable,
            _ => Class::Terminal,
        }
    }
}
