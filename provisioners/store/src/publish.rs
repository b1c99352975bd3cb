//! Bytes become visible whole or not at all: write to a temporary file, sync, rename, sync the folder.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

use crate::Error;
use crate::error::{create, remove, write};

/// Moves `file` to `target`. What stood there is replaced in one step.
pub(crate) fn publish(file: NamedTempFile, target: &Path) -> Result<(), Error> {
    file.as_file().sync_all().map_err(write(file.path()))?;
    file.persist(target).map_err(|error| Error::Write { path: target.to_owned(), source: error.error })?;
    sync_parent(target)
}

/// Creates the folder of `target` so that it survives a power cut.
pub(crate) fn create_parent(target: &Path) -> Result<(), Error> {
    let Some(parent) = target.parent() else { return Ok(()) };
    match fs::create_dir(parent) {
        Ok(()) => sync_parent(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(create(parent)(error)),
    }
}

/// Removes a file; `false` if there was none.
pub(crate) fn unlink(target: &Path) -> Result<bool, Error> {
    match fs::remove_file(target) {
        Ok(()) => sync_parent(target).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(remove(target)(error)),
    }
}

fn sync_parent(path: &Path) -> Result<(), Error> {
    let Some(parent) = path.parent() else { return Ok(()) };
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(write(parent))
}
