//! Where contents lie.

use std::path::PathBuf;

use clap::Args;
use rukpak_store::s3::Location;

/// A bucket, as flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Storage")]
pub struct StorageArgs {
    /// Bucket for contents and uploads that all replicas share: s3://BUCKET/PREFIX, with a
    /// prefix for each cluster [default: the folders alone]
    #[arg(long = "store", value_name = "URL")]
    pub bucket: Option<Location>,
    /// CA certificates (PEM) for the bucket's server, beside the system's; may be repeated
    #[arg(id = "store_ca_file", long = "store-ca-file", value_name = "FILE")]
    pub ca_files: Vec<PathBuf>,
}
