//! One flag for each limit on uploads.

use std::time::Duration;

use clap::Args;
use rukpak_unpack::content_service::UploadLimits;

use super::count;

/// [`UploadLimits`] as flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits on uploads")]
pub(super) struct UploadArgs {
    /// Uploads at once
    #[arg(long = "limit-uploads", value_name = "COUNT", default_value_t = UploadLimits::default().at_once, value_parser = count)]
    at_once: usize,
    /// Seconds for one upload
    #[arg(long = "limit-upload-seconds", value_name = "SECONDS", default_value_t = UploadLimits::default().time.as_secs())]
    seconds: u64,
    /// Least bytes a second of an upload, on average after the first 30 seconds; 0 for none
    #[arg(long = "limit-upload-bytes-per-second", value_name = "BYTES", default_value_t = UploadLimits::default().bytes_per_second)]
    bytes_per_second: u64,
    /// Bytes of all uploads together
    #[arg(long = "limit-upload-store-bytes", value_name = "BYTES", default_value_t = UploadLimits::default().store_bytes)]
    store_bytes: u64,
}

impl From<UploadArgs> for UploadLimits {
    fn from(args: UploadArgs) -> Self {
        Self {
            at_once: args.at_once,
            time: Duration::from_secs(args.seconds),
            bytes_per_second: args.bytes_per_second,
            store_bytes: args.store_bytes,
        }
    }
}
