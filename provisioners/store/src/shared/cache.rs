//! The copies of shared contents on disk: fetched when they are read, verified before they are kept, the oldest let go.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::SystemTime;

use rukpak_content::Digest;
use tempfile::NamedTempFile;

use super::Sharing;
use crate::error::{read, remove, write};
use crate::instance::list;
use crate::load::verify;
use crate::lock::Lock;
use crate::publish::{create_parent, publish};
use crate::{Error, Store};

/// Downloads of the same content before it is taken for damaged where it lies: bytes are damaged on their way, too.
const ATTEMPTS: usize = 2;
const BUFFER_BYTES: usize = 128 * 1024;

struct Copy {
    path: PathBuf,
    size_bytes: u64,
    used: SystemTime,
}

impl Sharing {
    /// Copies content into the cache, verified to its last byte.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Corrupt`] or [`Error::Broken`] where the bucket holds something else.
    pub(crate) fn fetch(&self, store: &Store, digest: &Digest) -> Result<File, Error> {
        let mut attempt = 1;
        loop {
            match self.fetch_once(store, digest) {
                Err(Error::Corrupt { .. } | Error::Broken { .. }) if attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    fn fetch_once(&self, store: &Store, digest: &Digest) -> Result<File, Error> {
        let (key, stage) = (Self::content_key(digest)?, store.stage_dir());
        let place = self.place(&key);
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, NamedTempFile::new_in(stage).map_err(write(stage))?);
        if !self.bucket.download(&key, &mut out)? {
            return Err(Error::Missing { digest: digest.clone(), path: place });
        }
        out.flush().map_err(write(stage))?;
        let file = out.into_inner().map_err(|error| write(stage)(error.into_error()))?;
        let again = || file.reopen().map_err(read(file.path()));
        verify(again()?, &place, digest)?;
        let fetched = again()?;
        let target = store.layout().content_file(digest)?;
        {
            let _lock = Lock::shared(&store.layout().lock())?;
            create_parent(&target)?;
            publish(file, &target)?;
        }
        self.evict(store)?;
        Ok(fetched)
    }

    /// Removes copies, the least recently used first, until the rest fits. Files that are being read can be read to their ends.
    pub(crate) fn evict(&self, store: &Store) -> Result<(), Error> {
        let mut copies = copies(store)?;
        let mut total: u64 = copies.iter().map(|copy| copy.size_bytes).sum();
        if total <= self.cache_bytes {
            return Ok(());
        }
        let _lock = Lock::exclusive(&store.layout().lock())?;
        copies.sort_by_key(|copy| copy.used);
        for copy in copies {
            if total <= self.cache_bytes {
                break;
            }
            match fs::remove_file(&copy.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(remove(&copy.path)(error)),
                _ => total -= copy.size_bytes,
            }
        }
        Ok(())
    }
}

fn copies(store: &Store) -> Result<Vec<Copy>, Error> {
    let mut copies = Vec::new();
    for shard in list(&store.layout().content())?.into_iter().filter(|shard| shard.is_dir()) {
        for path in list(&shard)? {
            match fs::metadata(&path).and_then(|metadata| Ok((metadata.len(), metadata.modified()?))) {
                Ok((size_bytes, used)) => copies.push(Copy { path, size_bytes, used }),
                // Another process has let it go.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(read(&path)(error)),
            }
        }
    }
    Ok(copies)
}
