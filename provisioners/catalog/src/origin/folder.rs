//! Catalogs in folders.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rukpak_content::{Algorithm, Hasher, Limit, Limits};

use super::{Error, Loader, Revision, blocking};
use crate::{Catalog, read};

impl Loader {
    /// The revision is made of names, sizes and times, so what is known already is not read again.
    pub(super) async fn folder(
        &self,
        path: &Path,
        known: Option<&Revision>,
    ) -> Result<Option<(Catalog, Revision)>, Error> {
        let (path, known, limits) = (path.to_owned(), known.cloned(), self.limits.clone());
        blocking(move || {
            // Before the files are read: one that changes meanwhile gives another revision next time.
            let revision = revision(&path, &limits)?;
            if known.as_ref() == Some(&revision) {
                return Ok(None);
            }
            Ok(Some((read::catalog(&path, &limits)?, revision)))
        })
        .await
    }
}

/// A digest over path, length, times and inode of everything below `root`. Of a link both it and what it leads to count.
pub(super) fn revision(root: &Path, limits: &Limits) -> Result<Revision, Error> {
    // A link that is the folder itself may be turned to another one.
    let fault = |path: &Path, source| Error::Folder { path: path.to_owned(), source };
    let root = fs::canonicalize(root).map_err(|source| fault(root, source))?;
    let mut found: Vec<PathBuf> = vec![root.clone()];
    let mut folders = vec![(root.clone(), 1)];
    while let Some((folder, depth)) = folders.pop() {
        let shown = || folder.display().to_string();
        Limit::Depth.check(depth, limits.depth, shown)?;
        for entry in fs::read_dir(&folder).map_err(|source| fault(&folder, source))? {
            let entry = entry.map_err(|source| fault(&folder, source))?;
            Limit::Entries.check(found.len() as u64, limits.entries, shown)?;
            if entry.file_type().map_err(|source| fault(&entry.path(), source))?.is_dir() {
                folders.push((entry.path(), depth + 1));
            }
            found.push(entry.path());
        }
    }
    found.sort();
    let mut hasher = Hasher::new(Algorithm::Sha256);
    for path in &found {
        let name = path.as_os_str().as_bytes();
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        let own = fs::symlink_metadata(path).map_err(|source| fault(path, source))?;
        // A link that leads nowhere is told by whoever reads the folder.
        let target = if own.is_symlink() { fs::metadata(path).ok() } else { None };
        for metadata in std::iter::once(&own).chain(&target) {
            let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
            for number in times {
                hasher.update(&number.to_le_bytes());
            }
            for number in [metadata.len(), metadata.ino(), metadata.dev()] {
                hasher.update(&number.to_le_bytes());
            }
        }
    }
    Ok(Revision(hasher.finish().to_string()))
}
