//! Where uploaded archives lie until the end of their Bundles: one file a Bundle, named after its UID, so that a Bundle never
//! finds what another one of its name was given. All of them together are bounded, those that are being received included. On disk,
//! or in a bucket for all replicas, where the folder has only what is on its way; what blocks is for threads that may.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher as _};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rukpak_content::{Algorithm, Digest, Hasher};
use rukpak_runtime::lock::lock;
use rukpak_store::{Bucket, UPLOADS};
use tempfile::{Builder, NamedTempFile};
use tokio::sync::{Mutex, MutexGuard};

/// Beginning of the names of files that are being received.
const RECEIVING: &str = ".receiving-";
const EXTENSION: &str = "tgz";
/// Bundles that are worked on at once; more share a turn by chance, which costs nothing but time.
const TURNS: usize = 32;
const BUFFER_BYTES: usize = 128 * 1024;

/// Files that clients uploaded, one for each Bundle.
pub struct Depot {
    folder: PathBuf,
    bucket: Option<Arc<dyn Bucket>>,
    /// Bytes of all of them.
    quota: u64,
    usage: Arc<Usage>,
    turns: [Mutex<()>; TURNS],
}

/// Bytes on the disk.
type Usage = std::sync::Mutex<Bytes>;

#[derive(Debug, Default)]
struct Bytes {
    kept: u64,
    /// Of archives that are being received.
    receiving: u64,
}

/// An archive that is being received. It is removed unless it is [kept](Depot::keep).
pub struct Receiving {
    file: NamedTempFile,
    hasher: Hasher,
    counted: Counted,
}

/// An archive that came whole.
pub struct Received {
    pub digest: Digest,
    file: NamedTempFile,
    counted: Counted,
}

/// Bytes that count as being received while this lives.
struct Counted {
    size_bytes: u64,
    usage: Arc<Usage>,
}

/// Why bytes are not taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are too many already.
    #[error(
        "uploads of all Bundles may take {0} bytes (--limit=upload-store-bytes={0}), and there is no room for this one: delete \
         Bundles of type upload that are not needed any more, or raise the limit"
    )]
    Full(u64),
    #[error(transparent)]
    Disk(#[from] io::Error),
}

impl Depot {
    /// Opens the folder, creating it where it is missing, and removes what a process left that was killed while it received.
    /// What it holds, all in all, is at most `quota` bytes.
    pub fn open(folder: &Path, quota: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(RECEIVING) {
                remove(&entry.path())?;
            }
        }
        let depot = Self {
            folder: folder.to_owned(),
            bucket: None,
            quota,
            usage: Arc::default(),
            turns: std::array::from_fn(|_| Mutex::new(())),
        };
        lock(&depot.usage).kept = depot.archives()?.iter().map(|archive| archive.size_bytes).sum();
        Ok(depot)
    }

    /// The same with the archives in a bucket.
    #[must_use]
    pub fn sharing(self, bucket: Arc<dyn Bucket>) -> Self {
        Self { bucket: Some(bucket), ..self }
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
    /// Of the disk or the bucket.
    pub fn find(&self, uid: &str) -> io::Result<Option<File>> {
        if let Some(bucket) = &self.bucket {
            let mut file = tempfile::tempfile_in(&self.folder)?;
            let found = bucket.download(&key(uid), &mut file).map_err(io::Error::other)?;
            file.rewind()?;
            return Ok(found.then_some(file));
        }
        match File::open(self.file(uid)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether there is room for so many bytes more. There may not be when they come.
    pub fn check_room(&self, size_bytes: u64) -> Result<(), Error> {
        lock(&self.usage).check(size_bytes, self.quota)
    }

    /// Begins to receive an archive.
    ///
    /// # Errors
    /// Of the disk or the bucket.
    pub fn receive(&self) -> io::Result<Receiving> {
        if self.bucket.is_some() {
            // Others take uploads, too.
            let kept = self.archives()?.iter().map(|archive| archive.size_bytes).sum();
            lock(&self.usage).kept = kept;
        }
        let file = Builder::new().prefix(RECEIVING).tempfile_in(&self.folder)?;
        let counted = Counted { size_bytes: 0, usage: Arc::clone(&self.usage) };
        Ok(Receiving { file, hasher: Hasher::new(Algorithm::Sha256), counted })
    }

    /// Writes what has come of an archive.
    ///
    /// # Errors
    /// [`Error::Full`], or of the disk.
    pub fn write(&self, receiving: &mut Receiving, bytes: &[u8]) -> Result<(), Error> {
        let more = bytes.len() as u64;
        {
            let mut usage = lock(&self.usage);
            usage.check(more, self.quota)?;
            usage.receiving += more;
        }
        receiving.counted.size_bytes += more;
        receiving.hasher.update(bytes);
        Ok(receiving.file.write_all(bytes)?)
    }

    /// Makes `received` the archive of the Bundle, in one step.
    pub fn keep(&self, uid: &str, received: Received) -> io::Result<()> {
        let Received { mut file, counted, .. } = received;
        if let Some(bucket) = &self.bucket {
            file.rewind()?;
            return bucket.upload(&key(uid), &mut file).map_err(io::Error::other);
        }
        file.as_file().sync_all()?;
        let path = self.file(uid);
        {
            let mut usage = lock(&self.usage);
            let replaced = size(&path)?.unwrap_or_default();
            file.persist(&path).map_err(|error| error.error)?;
            usage.kept = usage.kept.saturating_sub(replaced) + counted.size_bytes;
        }
        drop(counted);
        File::open(&self.folder)?.sync_all()
    }

    /// The Bundle is gone.
    pub fn remove(&self, uid: &str) -> io::Result<()> {
        if let Some(bucket) = &self.bucket {
            return bucket.delete(&key(uid)).map_err(io::Error::other);
        }
        let path = self.file(uid);
        let mut usage = lock(&self.usage);
        let freed = size(&path)?.unwrap_or_default();
        remove(&path)?;
        usage.kept = usage.kept.saturating_sub(freed);
        Ok(())
    }

    /// Removes the archives of Bundles that are not among `live`, the UIDs of all Bundles that are uploaded, if they are at
    /// least `age` old: a Bundle may be so new that it is not among them yet. Returns how many.
    pub fn sweep<S: BuildHasher>(&self, live: &HashSet<String, S>, age: Duration) -> io::Result<u64> {
        let mut removed = 0;
        for archive in self.archives()? {
            let is_old = SystemTime::now().duration_since(archive.modified).is_ok_and(|passed| passed >= age);
            if is_old && !live.contains(&archive.uid) {
                self.remove(&archive.uid)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn archives(&self) -> io::Result<Vec<Archive>> {
        let mut archives = Vec::new();
        if let Some(bucket) = &self.bucket {
            for entry in bucket.list(UPLOADS, "").map_err(io::Error::other)? {
                let uid = entry.key.strip_prefix(UPLOADS).and_then(|name| name.strip_prefix('/')?.strip_suffix(".tgz"));
                let Some(uid) = uid.map(str::to_owned) else { continue };
                archives.push(Archive { uid, modified: entry.modified, size_bytes: entry.size_bytes });
            }
            return Ok(archives);
        }
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let Some(uid) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_archive(&path)) else {
                continue;
            };
            match fs::metadata(&path) {
                Ok(metadata) => archives.push(Archive {
                    uid: uid.to_owned(),
                    modified: metadata.modified()?,
                    size_bytes: metadata.len(),
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(archives)
    }

    fn file(&self, uid: &str) -> PathBuf {
        self.folder.join(format!("{uid}.{EXTENSION}"))
    }
}

fn key(uid: &str) -> String {
    format!("{UPLOADS}/{uid}.{EXTENSION}")
}

/// An archive that is kept.
struct Archive {
    uid: String,
    modified: SystemTime,
    size_bytes: u64,
}

impl Bytes {
    fn check(&self, more: u64, quota: u64) -> Result<(), Error> {
        let wanted = self.kept.saturating_add(self.receiving).saturating_add(more);
        if wanted > quota { Err(Error::Full(quota)) } else { Ok(()) }
    }
}

impl Receiving {
    /// All of it has come.
    pub fn finish(self) -> Received {
        Received { digest: self.hasher.finish(), file: self.file, counted: self.counted }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut usage = lock(&self.usage);
        usage.receiving = usage.receiving.saturating_sub(self.size_bytes);
    }
}

/// The digest of a file from where it stands to its end, which it is then at.
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

fn size(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const AMPLE: u64 = 1 << 20;

    fn put(depot: &Depot, uid: &str, text: &str) {
        let mut receiving = depot.receive().unwrap();
        depot.write(&mut receiving, text.as_bytes()).unwrap();
        depot.keep(uid, receiving.finish()).unwrap();
    }

    fn text(depot: &Depot, uid: &str) -> Option<String> {
        let mut text = String::new();
        depot.find(uid).unwrap()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn an_archive_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(&folder.path().join("new/uploads"), AMPLE).unwrap();
        assert_eq!(text(&depot, "a"), None);
        let mut half = depot.receive().unwrap();
        depot.write(&mut half, b"half").unwrap();
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
        let depot = Depot::open(folder.path(), AMPLE).unwrap();
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
        let left = Depot::open(folder.path(), AMPLE).unwrap().receive().unwrap().file.keep().unwrap().1;
        assert!(left.exists());
        let depot = Depot::open(folder.path(), AMPLE).unwrap();
        assert!(!left.exists());
        drop(depot);
    }

    #[test]
    fn all_archives_together_have_a_quota() {
        let folder = tempfile::tempdir().unwrap();
        let depot = Depot::open(folder.path(), 10).unwrap();
        put(&depot, "a", "1234");
        let mut receiving = depot.receive().unwrap();
        depot.write(&mut receiving, b"12345").unwrap();
        depot.check_room(1).unwrap();
        let text = depot.check_room(2).unwrap_err().to_string();
        assert!(text.contains("--limit=upload-store-bytes=10"), "{text}");
        let mut second = depot.receive().unwrap();
        assert!(matches!(depot.write(&mut second, b"12"), Err(Error::Full(10))));
        depot.write(&mut second, b"1").unwrap();
        drop((receiving, second));
        depot.check_room(6).unwrap();
        put(&depot, "a", "1");
        depot.check_room(9).unwrap();
        assert!(depot.check_room(10).is_err(), "what replaces an archive counts in its place");
        let again = Depot::open(folder.path(), 10).unwrap();
        assert!(again.check_room(10).is_err(), "what is there at the start counts");
        depot.remove("a").unwrap();
        depot.check_room(10).unwrap();
        put(&depot, "gone", "1234567890");
        assert_eq!(depot.sweep(&HashSet::<String>::new(), Duration::ZERO).unwrap(), 1);
        depot.check_room(10).unwrap();
    }
}
