//! Attempts to unpack that did not end, because the process did: a file for each attempt under way, removed when it ends.
//!
//! Whoever finds the file of a Bundle when it begins knows that the process was killed during an attempt of it. Others may
//! have been under way then too, so the Bundle is tried once more, and no two such Bundles at once. Killed again, it is put
//! aside until its owner asks for another attempt, and everybody else goes on.
//!
//! The files are not synced: what was written outlives a process that is killed. It need not outlive the node, whose disk
//! the store is on.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::depot::remove;

/// Attempts that the process may not have survived before the Bundle is put aside.
const MOST: u32 = 2;

/// The folder of attempts under way.
pub struct Attempts {
    folder: PathBuf,
    suspects: Arc<Mutex<()>>,
}

/// What the attempts of a Bundle so far allow.
pub enum Admitted {
    Try(Candidate),
    /// None: the process was killed during each of so many.
    PutAside(u32),
}

/// A Bundle that may be tried.
pub struct Candidate {
    file: PathBuf,
    killed: u32,
    request: String,
    suspects: Option<Arc<Mutex<()>>>,
    turn: Option<OwnedMutexGuard<()>>,
}

/// An attempt under way. Dropped, it has ended, well or not.
pub struct Attempt {
    file: PathBuf,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Attempts {
    /// In `folder`, which is made.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, suspects: Arc::default() })
    }

    /// Whether the Bundle with this UID may be tried. `request` is what its owner wrote to ask for an attempt: another text
    /// than the last time makes what happened before forgotten.
    pub fn admit(&self, uid: &str, request: &str) -> io::Result<Admitted> {
        let file = self.file(uid)?;
        let killed = match read(&file)? {
            Some((killed, last)) if last == request => killed,
            _ => 0,
        };
        if killed >= MOST {
            return Ok(Admitted::PutAside(killed));
        }
        let suspects = (killed > 0).then(|| Arc::clone(&self.suspects));
        Ok(Admitted::Try(Candidate { file, killed, request: request.to_owned(), suspects, turn: None }))
    }

    /// The Bundle with this UID is gone.
    pub fn forget(&self, uid: &str) -> io::Result<()> {
        remove(&self.file(uid)?)
    }

    /// Removes the files of Bundles that went while nobody looked.
    pub fn sweep(&self, live: &HashSet<String>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_str().is_none_or(|name| !live.contains(name)) {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&self, uid: &str) -> io::Result<PathBuf> {
        let is_name = !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{uid:?} is no UID"));
        if is_name { Ok(self.folder.join(uid)) } else { Err(wrong()) }
    }
}

impl Candidate {
    /// Whether the process was killed during the last attempt.
    pub fn is_suspect(&self) -> bool {
        self.suspects.is_some()
    }

    /// Waits while another suspect is being tried. Who is none does not wait.
    pub async fn wait(&mut self) {
        if let Some(suspects) = self.suspects.take() {
            self.turn = Some(suspects.lock_owned().await);
        }
    }

    /// Begins the attempt.
    ///
    /// # Errors
    /// That cannot be noted; there must be no attempt then.
    pub fn begin(self) -> io::Result<Attempt> {
        fs::write(&self.file, format!("{}\n{}", self.killed + 1, self.request))?;
        Ok(Attempt { file: self.file, _turn: self.turn })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.file) {
            tracing::warn!(file = %self.file.display(), %error, "cannot record the end of an attempt to unpack");
        }
    }
}

/// How many attempts did not end, and what asked for them.
fn read(file: &Path) -> io::Result<Option<(u32, String)>> {
    match fs::read_to_string(file) {
        Ok(text) => {
            let (count, request) = text.split_once('\n').unwrap_or((&text, ""));
            // Killed while it was written: an attempt had begun all the same.
            Ok(Some((count.parse().unwrap_or(1), request.to_owned())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    async fn candidate(attempts: &Attempts, uid: &str, request: &str) -> Option<Candidate> {
        match attempts.admit(uid, request).unwrap() {
            Admitted::Try(mut candidate) => {
                candidate.wait().await;
                Some(candidate)
            }
            Admitted::PutAside(count) => {
                assert_eq!(count, MOST);
                None
            }
        }
    }

    /// As if the process were killed now.
    fn kill(attempt: Attempt) {
        std::mem::forget(attempt);
    }

    fn opened(folder: &TempDir) -> Attempts {
        Attempts::open(folder.path().join("attempts")).unwrap()
    }

    #[tokio::test]
    async fn the_second_kill_puts_a_bundle_aside_and_a_request_brings_it_back() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..MOST {
            kill(candidate(&opened(&folder), "a", "").await.unwrap().begin().unwrap());
        }
        let attempts = opened(&folder);
        assert!(candidate(&attempts, "a", "").await.is_none());
        assert!(candidate(&attempts, "b", "").await.is_some(), "the others go on");
        kill(candidate(&attempts, "a", "now").await.unwrap().begin().unwrap());
        let attempts = opened(&folder);
        drop(candidate(&attempts, "a", "now").await.unwrap().begin().unwrap());
        assert!(read(&attempts.folder.join("a")).unwrap().is_none(), "it ended");
    }

    #[tokio::test]
    async fn attempts_that_end_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let attempts = opened(&folder);
        for _ in 0..2 * MOST {
            drop(candidate(&attempts, "a", "").await.unwrap().begin().unwrap());
        }
        kill(candidate(&attempts, "a", "").await.unwrap().begin().unwrap());
        assert!(candidate(&attempts, "a", "").await.is_some());
    }

    #[tokio::test]
    async fn those_under_way_at_a_kill_are_tried_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let attempts = opened(&folder);
        for uid in ["a", "b"] {
            kill(candidate(&attempts, uid, "").await.unwrap().begin().unwrap());
        }
        let attempts = opened(&folder);
        let first = candidate(&attempts, "a", "").await.unwrap().begin().unwrap();
        let mut second = std::pin::pin!(candidate(&attempts, "b", ""));
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert!(candidate(&attempts, "c", "").await.is_some(), "nobody else waits");
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test]
    async fn files_go_with_their_bundles() {
        let folder = tempfile::tempdir().unwrap();
        let attempts = opened(&folder);
        for uid in ["a", "b", "c"] {
            kill(candidate(&attempts, uid, "").await.unwrap().begin().unwrap());
        }
        attempts.forget("a").unwrap();
        attempts.forget("a").unwrap();
        attempts.sweep(&HashSet::from(["c".to_owned()])).unwrap();
        let left: Vec<_> = fs::read_dir(&attempts.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["c"]);
        for uid in ["", "..", "a/b"] {
            assert!(attempts.admit(uid, "").is_err(), "{uid:?}");
        }
    }
}
