//! [`Store`]: opening, sealing, looking up.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use rukpak_content::{Algorithm, Digest, Hasher, Tree};
use tempfile::NamedTempFile;

use crate::error::{read, write};
use crate::instance::{Instance, Keep, Layout, sweep};
use crate::lock::Lock;
use crate::publish::{create_parent, publish};
use crate::{Error, canonical};

const BUFFER_BYTES: usize = 64 * 1024;

/// An open store. All its operations block: call them where blocking is allowed.
///
/// Cheap to clone. Any number of processes may have the same root open.
#[derive(Clone)]
pub struct Store {
    layout: Layout,
    instance: Arc<Instance>,
}

/// Content that was sealed. While this value lives, [`Store::collect`] leaves the content alone: keep it until
/// [`Store::set_ref`] has named the content.
#[must_use = "the content may be collected as soon as this is dropped"]
pub struct Sealed {
    /// SHA-256 of the canonical tar, *before* compression.
    pub digest: Digest,
    /// Sum of the lengths of all files, in bytes.
    pub size_bytes: u64,
    _keep: Keep,
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
        Ok(Self { layout, instance })
    }

    /// A folder on the store's file system for sources to stage in: private to this open store, removed with it,
    /// and removed by the next process should this one be killed.
    pub fn stage_dir(&self) -> &Path {
        self.instance.folder()
    }

    /// Stores `tree` under the digest of its canonical tar. Content that is here already is rewritten in one step,
    /// which also mends it should it be damaged.
    ///
    /// # Errors
    /// [`Error::Seal`] where the tree fails, [`Error::Write`] where the disk does. Nothing half-written is visible.
    pub fn seal(&self, tree: &dyn Tree) -> Result<Sealed, Error> {
        let stage = self.stage_dir();
        let file = NamedTempFile::new_in(stage).map_err(write(stage))?;
        let mut sink = Sink::new(file);
        let size_bytes = match canonical::write(tree, &mut sink) {
            Ok(size_bytes) => size_bytes,
            Err(source) if sink.failed => return Err(write(stage)(source)),
            Err(source) => return Err(Error::Seal { source }),
        };
        let (digest, file) = sink.finish().map_err(write(stage))?;
        let target = self.layout.content_file(&digest)?;
        let _lock = Lock::shared(&self.layout.lock())?;
        let keep = self.instance.keep(&digest)?;
        create_parent(&target)?;
        publish(file, &target)?;
        Ok(Sealed { digest, size_bytes, _keep: keep })
    }

    /// Whether there is content of this name. Says nothing about its bytes: [`Store::load`] verifies.
    pub fn contains(&self, digest: &Digest) -> Result<bool, Error> {
        let path = self.layout.content_file(digest)?;
        fs::exists(&path).map_err(read(&path))
    }

    /// The content as a tar.gz file, unverified. It can be read to its end even if it is collected meanwhile.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Read`].
    pub fn open_content(&self, digest: &Digest) -> Result<File, Error> {
        let path = self.layout.content_file(digest)?;
        match File::open(&path) {
            Ok(file) => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Missing { digest: digest.clone(), path })
            }
            Err(error) => Err(read(&path)(error)),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// Hashes and compresses what is written to it, and remembers whether it was the disk that failed.
struct Sink {
    hasher: Hasher,
    encoder: GzEncoder<BufWriter<NamedTempFile>>,
    failed: bool,
}

impl Sink {
    fn new(file: NamedTempFile) -> Self {
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let encoder = GzBuilder::new().write(out, Compression::fast());
        Self { hasher: Hasher::new(Algorithm::Sha256), encoder, failed: false }
    }

    fn finish(self) -> io::Result<(Digest, NamedTempFile)> {
        let file = self.encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((self.hasher.finish(), file))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.encoder.write(bytes).inspect_err(|_| self.failed = true)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }
}
