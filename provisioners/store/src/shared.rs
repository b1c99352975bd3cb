//! The part of a store that lies in a bucket, for all that share it. The README says why each order of requests is what it is.

mod cache;
mod collect;
mod probe;
mod refs;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rukpak_content::{Algorithm, Digest};

use crate::load::verify;
use crate::{Bucket, Error, RefKind, Store};

/// The folder names carry the version of the format, as on disk.
const CONTENT: &str = "v1/content/sha256";
const REFS: &str = "v1/refs";

/// How a store is shared.
#[derive(Clone)]
pub struct Sharing {
    /// Where.
    pub bucket: Arc<dyn Bucket>,
    /// How many bytes of contents are kept on disk as well.
    pub cache_bytes: u64,
    /// How old content has to be to be collected. The clocks of all who share the bucket, and its own, must not differ by more than a
    /// quarter of that.
    pub grace: Duration,
}

impl Sharing {
    pub(crate) fn content_key(digest: &Digest) -> Result<String, Error> {
        match digest.algorithm() {
            Algorithm::Sha256 => {
                let (shard, rest) = digest.hex().split_at(2);
                Ok(format!("{CONTENT}/{shard}/{rest}"))
            }
            Algorithm::Sha512 => Err(Error::Algorithm { digest: digest.clone() }),
        }
    }

    fn refs_folder(kind: RefKind) -> String {
        format!("{REFS}/{}", kind.folder())
    }

    /// What an error calls an object.
    pub(crate) fn place(&self, key: &str) -> std::path::PathBuf {
        format!("{}/{key}", self.bucket.name()).into()
    }

    /// Whether the bucket has the content, unread.
    pub(crate) fn contains(&self, digest: &Digest) -> Result<bool, Error> {
        Ok(self.bucket.head(&Self::content_key(digest)?)?.is_some())
    }

    /// Puts a sealed file into the bucket, or puts it there again: from now on it is new.
    pub(crate) fn upload(&self, digest: &Digest, mut sealed: File) -> Result<(), Error> {
        Ok(self.bucket.upload(&Self::content_key(digest)?, &mut sealed)?)
    }

    /// Makes sure that the bucket has the content, and has had it for less than half of the grace: else a collection that has begun
    /// may take it before it sees the ref that is written next.
    fn refresh(&self, store: &Store, digest: &Digest) -> Result<(), Error> {
        let found = self.bucket.head(&Self::content_key(digest)?)?;
        let is_old = |modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age > self.grace / 2);
        match found {
            Some(entry) if !is_old(entry.modified) => Ok(()),
            Some(_) => self.upload(digest, store.open_content(digest)?),
            None => self.restore(store, digest),
        }
    }

    /// Puts the copy of the cache into the bucket, which has none.
    fn restore(&self, store: &Store, digest: &Digest) -> Result<(), Error> {
        let missing = || -> Result<Error, Error> {
            Ok(Error::Missing { digest: digest.clone(), path: self.place(&Self::content_key(digest)?) })
        };
        let path = store.layout().content_file(digest)?;
        match store.open_copy(digest)? {
            None => Err(missing()?),
            Some(copy) => {
                verify(copy, &path, digest)?;
                let copy = store.open_copy(digest)?;
                self.upload(digest, copy.ok_or(missing()?)?)
            }
        }
    }
}

#[cfg(test)]
mod tests;
