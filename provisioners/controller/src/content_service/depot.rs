//! Where uploaded archives lie until the end of their Bundles: one file a Bundle, named after its UID, so that a Bundle never
//! finds what another one of its name was given. Disk only; what blocks is for threads that may.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rukpak_content::{Algorithm, Digest, Hasher};
use tempfile::{Builder, NamedTempFile};
use tokio::sync::{Mutex, MutexGuard};

/// Beginning of the names of files that are being received.
const RECEIVING: &str = ".receiving-";
const EXTENSION: &str = "tgz";
/// Bundles that are worked on at once; more share a turn by chance, which costs nothing but time.
const TURNS: usize = 32;
const BUFFER_BYTES: usize = 128 * 1024;

/// The uploaded archives.
pub struct Depot {
    folder: PathBuf,
    turns: [Mutex<()>; TURNS],
}

impl Depot {
    /// Opens the folder, creating it where it is missing, and removes what a process left that was killed while it received.
    ///
    /// # Errors
    /// Of the disk.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(RECEIVING) {
                remove(&entry.path())?;
            }
        }
        Ok(Self { folder: folder.to_owned(), turns: std::array::from_fn(|_| Mutex::new(())) })
    }

    /// Waits until nobody else works on the upload of the Bundle with this UID: what an archive is must not change between the
    /// look at it and the word about it.
    pub async fn turn(&self, uid: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % TURNS as u64).unwrap_or_default();
        self.turns[index].lock().await
    }

    /// The archive of a Bundle, if it is there. It can be read to its end even if it is replaced meanwhile.
    ///
    /// # Errors
    /// Of the disk.
    pub fn find(&self, uid: &str) -> io::Result<Option<File>> {
        match File::open(self.file(uid)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A file to receive in, which is removed unless it is [kept](Self::keep).
    ///
    /// # Errors
    /// Of the disk.
    pub fn receive(&self) -> io::Result<NamedTempFile> {
        Builder::new().prefix(RECEIVING).tempfile_in(&self.folder)
    }

    /// Makes `received` the archive of the Bundle, in one step.
    ///
    /// # Errors
    /// Of the disk.
    pub fn keep(&self, uid: &str, received: NamedTempFile) -> io::Result<()> {
        received.as_file().sync_all()?;
        received.persist(self.file(uid)).map_err(|error| error.error)?;
        File::open(&self.folder)?.sync_all()
    }

    /// The Bundle is gone.
    ///
    /// # Errors
    /// Of the disk.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        remove(&self.file(uid))
    }

    /// Removes the archives of Bundles that are not among `live`, the UIDs of all Bundles that are uploaded, if they are at
    /// least `age` old: a Bundle may be so new that it is not among them yet. Returns how many.
    ///
    /// # Errors
    /// Of the disk.
    pub fn sweep<S: BuildHasher>(&self, live: &HashSet<String, S>, age: Duration) -> io::Result<u64> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Some(uid) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_archive(&path)) else {
                continue;
            };
            let modified = match fs::metadata(&path) {
                Ok(metadata) => metadata.modified()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let is_old = SystemTime::now().duration_since(modified).is_ok_and(|passed| passed >= age);
            if is_old && !live.contains(uid) {
                remove(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn file(&self, uid: &str) -> PathBuf {
        self.folder.join(format!("{uid}.{EXTENSION}"))
    }
}

/// The digest of a file from where it stands to its end, which it is then at.
///
/// # Errors
/// Of the disk.
pub fn digest(file: &mut File) -> io::Result<Digest> {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match io::Read::read(file, &mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn put(depot: &Depot, uid: &str, text: &str) {
        let mut file = depot.receive().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        depot.keep(uid, file).unwrap();
    }

    fn text(depot: &Depot, uid: &str) -> Option<String> {
        let mut text = String::new();
        depot.find(uid).unwrap()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn an_archive_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(&folder.path().join("new/uploads")).unwrap();
        assert_eq!(text(&depot, "a"), None);
        let mut half = depot.receive().unwrap();
        half.write_all(b"half").unwrap();
        assert_eq!(text(&depot, "a"), None);
        drop(half);
        put(&depot, "a", "one");
        let mut open = depot.find("a").unwrap().unwrap();
        put(&depot, "a", "two");
        assert_eq!(digest(&mut open).unwrap(), Digest::sha256(b"one"), "an open one stays what it was");
        assert_eq!(text(&depot, "a").as_deref(), Some("two"));
        depot.remove("a").unwrap();
        depot.remove("a").unwrap();
        assert_eq!(fs::read_dir(folder.path().join("new/uploads")).unwrap().count(), 0);
    }

    #[test]
    fn what_belongs_to_no_bundle_goes_once_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(folder.path()).unwrap();
        for uid in ["live", "gone"] {
            put(&depot, uid, uid);
        }
        fs::write(folder.path().join("notes.txt"), "not ours").unwrap();
        let live = HashSet::from(["live".to_owned()]);
        assert_eq!(depot.sweep(&live, Duration::from_mins(1)).unwrap(), 0, "too new");
        assert_eq!(depot.sweep(&live, Duration::ZERO).unwrap(), 1);
        assert_eq!((text(&depot, "live").as_deref(), text(&depot, "gone")), (Some("live"), None));
        assert!(folder.path().join("notes.txt").exists());
    }

    #[test]
    fn what_was_being_received_at_a_crash_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = Depot::open(folder.path()).unwrap().receive().unwrap().keep().unwrap().1;
        assert!(left.exists());
        let depot = Depot::open(folder.path()).unwrap();
        assert!(!left.exists());
        drop(depot);
    }
}
