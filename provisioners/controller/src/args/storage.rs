//! Where contents lie.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rukpak_runtime::args::duration;
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
    /// Bytes of contents of the bucket that are kept in the folder of the content store as well
    #[arg(long = "store-cache-bytes", value_name = "BYTES", default_value_t = 2 << 30)]
    pub cache_bytes: u64,
    /// How old content that nothing names has to be before it is removed from the bucket
    #[arg(long = "store-grace-period", value_name = "DURATION", default_value = "24h", value_parser = duration)]
    pub grace: Duration,
}
