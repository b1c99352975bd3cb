//! [`Store`]: opening, sealing, looking up.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use rukpak_content::{Algorithm, Digest, Hasher, RelativePath, Tree};
use tempfile::NamedTempFile;

use crate::canonical::Sink;
use crate::error::{read, write};
use crate::instance::{Instance, Keep, Layout, sweep};
use crate::lock::Lock;
use crate::members::Members;
use crate::publish::{create_parent, publish};
use crate::{Bucket, Error, Sharing, canonical};

const BUFFER_BYTES: usize = 128 * 1024;

/// An open store. All its operations block: call them where blocking is allowed.
///
/// Cheap to clone. Any number of processes may have the same root open.
#[derive(Clone)]
pub struct Store {
    layout: Layout,
    instance: Arc<Instance>,
    shared: Option<Arc<Sharing>>,
}

/// Content that was sealed. While this value lives, [`Store::collect`] leaves the content alone: keep it until
/// [`Store::set_ref`] has named the content.
#[must_use = "the content may be collected as soon as this is dropped"]
pub struct Sealed {
    /// SHA-256 of the canonical tar, *before* compression.
    pub digest: Digest,
    /// Sum of the lengths of all files, in bytes.
    pub size_bytes: u64,
    pub(crate) _keep: Keep,
}

impl Store {
    /// Opens the store in `root`, creating what is missing, and removes from `tmp/` what dead processes left.
    ///
    /// # Errors
    /// [`Error::CreateFolder`] or [`Error::Lock`] where `root` is not a place the store can live in.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let layout = Layout::create(root)?;
        let _lock = Lock::exclusive(&layout.lock())?;
        sweep(&layout)?;
        let instance = Arc::new(Instance::create(&layout)?);
        Ok(Self { layout, instance, shared: None })
    }

    /// The same store, shared: contents and refs lie in a bucket, and the folder has copies of contents.
    #[must_use]
    pub fn sharing(self, sharing: Sharing) -> Self {
        Self { shared: Some(Arc::new(sharing)), ..self }
    }

    /// A folder on the store's file system for sources to stage in: private to this open store, removed with it,
    /// and removed by the next process should this one be killed.
    pub fn stage_dir(&self) -> &Path {
        self.instance.folder()
    }

    /// Stores `tree` under the digest of its canonical tar. Content that is here already is rewritten in one step,
    /// which also fixes it should it be damaged.
    ///
    /// Two walks, side by side: one for the digest, one for the file. Starts a few threads of its own, which go with it.
    ///
    /// # Errors
    /// [`Error::Seal`] where the tree fails, [`Error::Write`] where the disk does. Nothing half-written is visible.
    pub fn seal(&self, tree: &(dyn Tree + Sync)) -> Result<Sealed, Error> {
        let (hashed, written) = thread::scope(|scope| {
            let hashing = thread::Builder::new().name("hash".to_owned()).spawn_scoped(scope, || hash(tree));
            let written = self.write(tree);
            // One after the other where there is no thread to be had.
            let hashed = hashing.map_or_else(|_| hash(tree), |hashing| hashing.join().unwrap_or_else(|_| Err(lost())));
            (hashed, written)
        });
        let failed = |source| Error::Seal { source };
        let ((digest, size_bytes), (file, again_bytes)) = (hashed.map_err(failed)?, written?);
        if again_bytes != size_bytes {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the tree changed while it was sealed")));
        }
        let keep = self.adopt(file, &digest)?;
        Ok(Sealed { digest, size_bytes, _keep: keep })
    }

    /// Makes a sealed file the content of this name, here and in the bucket.
    pub(crate) fn adopt(&self, file: NamedTempFile, digest: &Digest) -> Result<Keep, Error> {
        let sealed = file.reopen().map_err(read(file.path()))?;
        let keep = self.put(file, digest)?;
        if let Some(shared) = &self.shared {
            shared.upload(digest, sealed)?;
            shared.evict(self)?;
        }
        Ok(keep)
    }

    /// Makes a sealed file the content of this name.
    fn put(&self, file: NamedTempFile, digest: &Digest) -> Result<Keep, Error> {
        let target = self.layout.content_file(digest)?;
        let _lock = Lock::shared(&self.layout.lock())?;
        let keep = self.instance.keep(digest)?;
        create_parent(&target)?;
        publish(file, &target)?;
        Ok(keep)
    }

    /// `tree` as a canonical tar.gz in `tmp/`, synced, and the sum of its files' lengths.
    fn write(&self, tree: &dyn Tree) -> Result<(NamedTempFile, u64), Error> {
        let stage = self.stage_dir();
        let file = NamedTempFile::new_in(stage).map_err(write(stage))?;
        let mut members =
            Members::new(tree, BufWriter::with_capacity(BUFFER_BYTES, file), rukpak_content::pack::threads());
        let size_bytes = match canonical::write(tree, &mut members) {
            Ok(size_bytes) => size_bytes,
            Err(source) if members.failed() => return Err(write(stage)(source)),
            Err(source) => return Err(Error::Seal { source }),
        };
        let out = members.finish().map_err(write(stage))?;
        let file = out.into_inner().map_err(|error| write(stage)(error.into_error()))?;
        // Publishing syncs what is not synced. Here the hash goes on meanwhile.
        file.as_file().sync_all().map_err(write(file.path()))?;
        Ok((file, size_bytes))
    }

    /// Whether there is content of this name. Says nothing about its bytes: [`Store::load`] verifies.
    pub fn contains(&self, digest: &Digest) -> Result<bool, Error> {
        let path = self.layout.content_file(digest)?;
        match &self.shared {
            Some(shared) if !fs::exists(&path).map_err(read(&path))? => shared.contains(digest),
            Some(_) => Ok(true),
            None => fs::exists(&path).map_err(read(&path)),
        }
    }

    /// The content as a tar.gz file. A copy that was just fetched is verified, one that lay here is not. It can be read to its end
    /// even if it is collected meanwhile.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Read`]; those of the bucket.
    pub fn open_content(&self, digest: &Digest) -> Result<File, Error> {
        match (self.open_copy(digest)?, &self.shared) {
            (Some(file), None) => Ok(file),
            (Some(file), Some(_)) => {
                // Which copies go first depends on it, nothing else.
                let _ = file.set_modified(SystemTime::now());
                Ok(file)
            }
            (None, Some(shared)) => shared.fetch(self, digest),
            (None, None) => Err(Error::Missing { digest: digest.clone(), path: self.layout.content_file(digest)? }),
        }
    }

    /// The content's file on this disk.
    pub(crate) fn open_copy(&self, digest: &Digest) -> Result<Option<File>, Error> {
        let path = self.layout.content_file(digest)?;
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(read(&path)(error)),
        }
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The bucket that it lies in, if any.
    pub fn bucket(&self) -> Option<Arc<dyn Bucket>> {
        self.shared.as_ref().map(|shared| Arc::clone(&shared.bucket))
    }

    /// Whether other processes read and write the same contents.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// How old content has to be to be removed from the bucket; `None` where there is none, and content goes at once.
    pub fn grace(&self) -> Option<Duration> {
        self.shared.as_ref().map(|shared| shared.grace)
    }

    pub(crate) fn shared(&self) -> Option<&Sharing> {
        self.shared.as_deref()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// The digest of the canonical tar of `tree`, and the sum of its files' lengths.
fn hash(tree: &dyn Tree) -> io::Result<(Digest, u64)> {
    let mut hashing = Hashing { hasher: Hasher::new(Algorithm::Sha256), buffer: vec![0; BUFFER_BYTES] };
    let size_bytes = canonical::write(tree, &mut hashing)?;
    Ok((hashing.hasher.finish(), size_bytes))
}

fn lost() -> io::Error {
    io::Error::other("the thread that hashes came to a bad end")
}

/// Hashes what is written to it.
struct Hashing {
    hasher: Hasher,
    buffer: Vec<u8>,
}

impl Sink for Hashing {
    fn body(&mut self, _path: &RelativePath, _size_bytes: u64, body: &mut dyn Read) -> io::Result<u64> {
        let mut total = 0;
        loop {
            match body.read(&mut self.buffer) {
                Ok(0) => return Ok(total),
                Ok(count) => {
                    self.hasher.update(&self.buffer[..count]);
                    total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
