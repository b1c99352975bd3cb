//! The part of `tmp/` that belongs to one open [`Store`](crate::Store), and the paths of the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rukpak_content::{Algorithm, Digest};
use tempfile::TempDir;

use crate::error::{create, read, remove};
use crate::lock::{Lock, Probe};
use crate::{Error, RefKind};

const INSTANCE_LOCK: &str = "lock";
const KEEP: &str = "keep";

/// Where things lie below `<root>/v1`.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    base: PathBuf,
}

impl Layout {
    /// The folder names carry the version of the disk format.
    pub(crate) fn create(root: &Path) -> Result<Self, Error> {
        let layout = Self { base: root.join("v1") };
        let folders = [layout.tmp(), layout.content(), layout.refs(RefKind::Bundle), layout.refs(RefKind::Deployment)];
        for folder in folders {
            fs::create_dir_all(&folder).map_err(create(&folder))?;
        }
        Ok(layout)
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.base.join("lock")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.base.join("tmp")
    }

    pub(crate) fn content(&self) -> PathBuf {
        self.base.join("content").join("sha256")
    }

    pub(crate) fn refs(&self, kind: RefKind) -> PathBuf {
        self.base.join("refs").join(kind.folder())
    }

    pub(crate) fn content_file(&self, digest: &Digest) -> Result<PathBuf, Error> {
        match digest.algorithm() {
            Algorithm::Sha256 => {
                let (shard, rest) = digest.hex().split_at(2);
                Ok(self.content().join(shard).join(rest))
            }
            Algorithm::Sha512 => Err(Error::Algorithm { digest: digest.clone() }),
        }
    }
}

/// A folder of `tmp/` whose lock is held as long as this value, and the process, live.
pub(crate) struct Instance {
    folder: TempDir,
    #[expect(dead_code, reason = "held for as long as the folder must not be swept")]
    lock: Lock,
    next_keep: AtomicU64,
}

impl Instance {
    /// The caller holds the store's lock, so that nobody sweeps the folder before its own lock is taken.
    pub(crate) fn create(layout: &Layout) -> Result<Self, Error> {
        let tmp = layout.tmp();
        let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&tmp).map_err(create(&tmp))?;
        let keep = folder.path().join(KEEP);
        fs::create_dir(&keep).map_err(create(&keep))?;
        let lock = Lock::exclusive(&folder.path().join(INSTANCE_LOCK))?;
        Ok(Self { folder, lock, next_keep: AtomicU64::new(0) })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Marks `digest` as in use until the value returned is dropped. The caller holds the store's lock.
    pub(crate) fn keep(self: &Arc<Self>, digest: &Digest) -> Result<Keep, Error> {
        let number = self.next_keep.fetch_add(1, Ordering::Relaxed);
        let marker = self.folder().join(KEEP).join(format!("{}-{number}", digest.hex()));
        fs::write(&marker, []).map_err(|source| Error::Write { path: marker.clone(), source })?;
        Ok(Keep { marker, _instance: Arc::clone(self) })
    }
}

/// A root of collection that lives only as long as this value and its process.
pub(crate) struct Keep {
    marker: PathBuf,
    _instance: Arc<Instance>,
}

impl Drop for Keep {
    fn drop(&mut self) {
        // A marker left behind costs disk until this process ends, nothing else.
        let _ = fs::remove_file(&self.marker);
    }
}

/// Removes from `tmp/` whatever no live process holds, and returns the hexadecimal digests that live ones keep.
/// The caller holds the store's lock exclusively.
pub(crate) fn sweep(layout: &Layout) -> Result<Vec<String>, Error> {
    let tmp = layout.tmp();
    let mut kept = Vec::new();
    for path in list(&tmp)? {
        match Lock::try_existing(&path.join(INSTANCE_LOCK))? {
            Probe::Held => kept.extend(markers(&path.join(KEEP))?),
            Probe::Absent | Probe::Free => remove_all(&path)?,
        }
    }
    Ok(kept)
}

fn markers(keep: &Path) -> Result<Vec<String>, Error> {
    let names =
        list(keep)?.into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.split_once('-')?.0.to_owned()));
    Ok(names.collect())
}

/// The paths of a folder's entries.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(read(folder))?;
    entries.map(|entry| Ok(entry.map_err(read(folder))?.path())).collect()
}

fn remove_all(path: &Path) -> Result<(), Error> {
    let is_folder = fs::symlink_metadata(path).map_err(read(path))?.is_dir();
    let result = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    result.map_err(remove(path))
}
