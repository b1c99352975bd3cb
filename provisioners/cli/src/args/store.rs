//! Flags of `store`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use rukpak_bucket::{Location, LocationError};

use super::EXIT_CODES;

/// What is to be done with a content store.
#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Copy contents, refs and uploads, and check every byte of contents; run again, it goes on where it was
    Copy(StoreCopyArgs),
}

/// Flags of `store copy`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct StoreCopyArgs {
    /// The folder (--provisioner-storage-dir) or the bucket (--store) of a controller
    pub from: StoreLocation,
    /// Another one
    pub to: StoreLocation,
    /// Folder of uploads (--upload-storage-dir) of FROM, if that is a folder: a bucket has them
    #[arg(long, value_name = "DIR")]
    pub uploads_from: Option<PathBuf>,
    /// Folder of uploads of TO, if that is a folder
    #[arg(long, value_name = "DIR")]
    pub uploads_to: Option<PathBuf>,
    /// CA certificates (PEM) for the servers of buckets, beside the system's; may be repeated
    #[arg(long = "store-ca-file", value_name = "FILE")]
    pub ca_files: Vec<PathBuf>,
}

/// Where a content store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// A folder.
    Folder(PathBuf),
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
    Bucket(Location),
}

impl FromStr for StoreLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        if text.contains("://") { text.parse().map(Self::Bucket) } else { Ok(Self::Folder(text.into())) }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(formatter),
            Self::Bucket(location) => location.fmt(formatter),
        }
    }
}
