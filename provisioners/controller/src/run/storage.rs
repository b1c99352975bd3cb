//! Opens the store, and the bucket that it lies in if there is one.

use std::sync::Arc;
use std::time::Duration;

use rukpak_runtime::error::Chain;
use rukpak_runtime::process;
use rukpak_store::s3::ObjectBucket;
use rukpak_store::{Sharing, Store};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::Error;
use crate::args::Options;

/// Bytes of contents of a bucket that are kept in the folder of the content store as well.
const CACHE_BYTES: u64 = 2 << 30;
/// How old content that nothing names has to be before it is removed from a bucket.
const GRACE: Duration = Duration::from_hours(24);

/// The store. A bucket whose server does not answer is no reason not to start: what is installed is repaired from copies on disk.
pub(super) async fn open(options: &Options) -> Result<Store, Error> {
    let sharing = sharing(options)?;
    let root = options.provisioner_storage_dir.clone();
    let failed = |source| Error::Store { path: options.provisioner_storage_dir.clone(), source };
    let opened = spawn_blocking(move || Store::open(&root)).await;
    let store = opened.map_err(|_| process::Error::Ended("opening the store"))?.map_err(failed)?;
    let Some(sharing) = sharing else { return Ok(store) };
    let (probed, name) = (sharing.clone(), sharing.bucket.name().to_owned());
    match spawn_blocking(move || probed.probe()).await.map_err(|_| process::Error::Ended("asking the bucket"))? {
        Ok(()) => tracing::info!(bucket = name, "contents and uploads are kept in a bucket"),
        Err(error) if error.is_refusal() => return Err(Error::Probe(error)),
        Err(error) => {
            tracing::warn!(bucket = name, error = %Chain(&error), "the bucket does not answer; going on without it for now");
        }
    }
    Ok(store.sharing(sharing))
}

fn sharing(options: &Options) -> Result<Option<Sharing>, Error> {
    let Some(location) = &options.store else { return Ok(None) };
    // Names of Bundles are those of a shard: what another one has must not look forgotten.
    let location = options.watch_label_selector.id().map_or_else(|| location.clone(), |shard| location.join(&shard));
    let ca_pem = options.registries.certificates()?;
    let environment: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let bucket = ObjectBucket::new(&location, &environment, &ca_pem, Handle::current()).map_err(Error::Bucket)?;
    Ok(Some(Sharing { bucket: Arc::new(bucket), cache_bytes: CACHE_BYTES, grace: GRACE }))
}
