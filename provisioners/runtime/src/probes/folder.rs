//! Whether a folder can be written to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::{Checks, Readiness, Verdict};

/// How long an answer of the disk is good for.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for the disk. The kubelet waits for a second.
const DEADLINE: Duration = Duration::from_millis(900);

/// A [`Readiness`] to which belongs that a folder can be written to. The disk is asked every few seconds at most, and by one thread,
/// however long it takes.
pub struct WithFolder {
    readiness: Arc<Readiness>,
    check: &'static str,
    folder: Folder,
}

impl WithFolder {
    /// `check` is the name under which the folder is shown.
    pub fn new(readiness: Arc<Readiness>, check: &'static str, folder: PathBuf) -> Self {
        Self { readiness, check, folder: Folder::new(folder) }
    }
}

impl Checks for WithFolder {
    async fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = self.readiness.checks();
        verdicts.push((self.check, self.folder.usable().await));
        verdicts
    }
}

struct Folder {
    path: PathBuf,
    last: Mutex<Tried>,
}

#[derive(Default)]
struct Tried {
    found: Option<(Instant, Result<(), String>)>,
    /// An attempt that did not end in time.
    under_way: Option<JoinHandle<Result<(), String>>>,
}

impl Folder {
    fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::default() }
    }

    async fn usable(&self) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if let Some((at, found)) = &last.found
            && at.elapsed() < INTERVAL
        {
            return found.clone();
        }
        let mut attempt = last.under_way.take().unwrap_or_else(|| {
            let path = self.path.clone();
            tokio::task::spawn_blocking(move || write(&path))
        });
        let found = match timeout(DEADLINE, &mut attempt).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => {
                last.under_way = Some(attempt);
                Err(format!("write to {}: no answer within {DEADLINE:?}", self.path.display()))
            }
        };
        last.found = Some((Instant::now(), found.clone()));
        found
    }
}

/// Makes and removes a file there.
fn write(folder: &Path) -> Result<(), String> {
    let file = folder.join("ready");
    let shown = |error: io::Error| format!("write {}: {error}", file.display());
    std::fs::write(&file, b"").map_err(shown)?;
    std::fs::remove_file(&file).map_err(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_disk_is_asked_once_in_a_while_however_often_readiness_is() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("tmp");
        let folder = Folder::new(path.clone());
        assert!(folder.usable().await.is_err());
        std::fs::create_dir(&path).unwrap();
        assert!(folder.usable().await.is_err(), "it was asked just now");
        let long_ago = Instant::now().checked_sub(INTERVAL).unwrap();
        folder.last.lock().await.found.as_mut().unwrap().0 = long_ago;
        assert_eq!(folder.usable().await, Ok(()));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(folder.usable().await, Ok(()), "it was asked just now");
    }

    #[tokio::test]
    async fn a_disk_that_hangs_costs_one_thread_and_is_not_waited_for() {
        let folder = Folder::new(PathBuf::from("/nowhere"));
        let (release, held) = std::sync::mpsc::channel::<()>();
        folder.last.lock().await.under_way = Some(tokio::task::spawn_blocking(move || {
            // Ends with an error when the sender is dropped.
            let _ = held.recv();
            Ok(())
        }));
        let hangs = "write to /nowhere: no answer within 900ms".to_owned();
        assert_eq!(folder.usable().await, Err(hangs.clone()));
        assert_eq!(folder.usable().await, Err(hangs), "without a wait");
        assert!(folder.last.lock().await.under_way.is_some(), "the same attempt goes on");
        drop(release);
        folder.last.lock().await.found = None;
        assert_eq!(folder.usable().await, Ok(()));
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_is_a_check_like_any_other() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("tmp");
        assert!(write(&path).unwrap_err().contains("ready"));
        std::fs::create_dir(&path).unwrap();
        let checks = WithFolder::new(Arc::default(), "store", path);
        assert_eq!(checks.verdicts().await.last(), Some(&("store", Ok(()))));
    }
}
