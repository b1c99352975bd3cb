//! Where what is fetched lies until it is read.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "process-";
/// Held by whom the folder belongs to; that of the parent by whoever makes one or clears up.
const LOCK: &str = "lock";

/// A folder of this process alone. It is removed at the end; if the process is killed, the next one removes it.
pub(super) struct Spool {
    folder: TempDir,
    _lock: File,
}

impl Spool {
    /// Makes one within `parent`, and removes those there whose process has ended.
    pub fn open(parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        let turn = File::create(parent.join(LOCK))?;
        turn.lock()?;
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_left(&entry.path()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Self { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn is_left(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).map_or(true, |lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_killed_processes_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| parent.path().join(name);
        for name in ["process-killed", "process-killed-at-once", "other"] {
            fs::create_dir_all(folder(name).join("catalog-1")).unwrap();
        }
        fs::write(folder("process-killed").join(LOCK), "").unwrap();
        let first = Spool::open(parent.path()).unwrap();
        assert!(!folder("process-killed").exists() && !folder("process-killed-at-once").exists());
        assert!(folder("other").exists());
        let second = Spool::open(parent.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
