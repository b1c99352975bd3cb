//! Rendered bundles: few at a time, whoever asks, and the last ones kept.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use rukpak_runtime::lock::lock;
use tempfile::{NamedTempFile, TempPath};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// Bundles rendered at once: each is in memory meanwhile.
const AT_ONCE: usize = 2;
/// Rendered bundles that are kept at most, and their bytes on the disk.
const KEPT: usize = 32;
const KEPT_BYTES: u64 = 64 << 20;

/// Renders, and keeps what was rendered.
pub struct Renders {
    permits: Arc<Semaphore>,
    kept: Arc<Mutex<VecDeque<Rendered>>>,
}

struct Rendered {
    tag: String,
    size_bytes: u64,
    path: TempPath,
}

impl Default for Renders {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(AT_ONCE)), kept: Arc::default() }
    }
}

impl Renders {
    /// The file with this tag, from its beginning; made by `render`, unless it is kept still.
    ///
    /// Whoever stops waiting stops nothing that has begun: the permit is given back at its end, so that no number of callers
    /// who come and go makes more run at once.
    ///
    /// # Errors
    /// The outer one if the thread was lost, the inner ones from `render` and the disk.
    pub async fn get<E>(
        &self,
        tag: &str,
        render: impl FnOnce() -> Result<Option<NamedTempFile>, E> + Send + 'static,
    ) -> Result<Result<Option<File>, E>, JoinError>
    where
        E: From<io::Error> + Send + 'static,
    {
        if let Some(file) = self.find(tag).await? {
            return Ok(Ok(Some(file)));
        }
        // Never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        // Somebody may have rendered it meanwhile.
        if let Some(file) = self.find(tag).await? {
            return Ok(Ok(Some(file)));
        }
        let (kept, tag) = (Arc::clone(&self.kept), tag.to_owned());
        spawn_blocking(move || {
            let _permit = permit;
            let Some(file) = render()? else { return Ok(None) };
            Ok(Some(keep(&kept, tag, file)?))
        })
        .await
    }

    async fn find(&self, tag: &str) -> Result<Option<File>, JoinError> {
        let (kept, tag) = (Arc::clone(&self.kept), tag.to_owned());
        spawn_blocking(move || {
            let kept = lock(&kept);
            let found = kept.iter().find(|rendered| rendered.tag == tag)?;
            // One that was taken away is made again.
            File::open(&found.path).ok()
        })
        .await
    }
}

/// Keeps a file, in place of the oldest ones if need be. Returns it, opened again: at its beginning, and to be read only.
fn keep(kept: &Mutex<VecDeque<Rendered>>, tag: String, file: NamedTempFile) -> io::Result<File> {
    let opened = file.reopen()?;
    let rendered = Rendered { tag, size_bytes: opened.metadata()?.len(), path: file.into_temp_path() };
    let mut kept = lock(kept);
    kept.retain(|other| other.tag != rendered.tag);
    kept.push_back(rendered);
    while kept.len() > KEPT || kept.iter().map(|rendered| rendered.size_bytes).sum::<u64>() > KEPT_BYTES {
        // What somebody reads from it stays readable.
        kept.pop_front();
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn file(folder: &std::path::Path, text: &[u8]) -> Result<Option<NamedTempFile>, io::Error> {
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text)?;
        Ok(Some(file))
    }

    async fn text(
        renders: &Renders,
        tag: &str,
        render: impl FnOnce() -> Result<Option<NamedTempFile>, io::Error> + Send + 'static,
    ) -> String {
        let mut text = String::new();
        renders.get(tag, render).await.unwrap().unwrap().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[tokio::test]
    async fn callers_who_come_and_go_make_no_more_renders_run_than_there_are_permits() {
        let renders = Renders::default();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for caller in 0..20 {
            let (running, most, held) = (running.clone(), most.clone(), held.clone());
            let render = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Until the sender is dropped.
                let _ = held.lock().unwrap().recv();
                running.fetch_sub(1, Ordering::SeqCst);
                Err(io::Error::other("of no use"))
            };
            // Each disconnects when its render has begun, for which the first have time on a busy machine, or cannot begin.
            let tag = caller.to_string();
            let patience = if caller < AT_ONCE { Duration::from_secs(1) } else { Duration::from_millis(20) };
            let _ = tokio::time::timeout(patience, renders.get(&tag, render)).await;
        }
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
        drop(release);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(text(&renders, "x", move || file(&path, b"x")).await, "x", "the permits came back");
    }

    #[tokio::test]
    async fn what_was_rendered_is_kept_and_goes_for_newer_ones() {
        let (renders, folder) = (Renders::default(), tempfile::tempdir().unwrap());
        let never = || panic!("it is kept");
        for tag in 0..=KEPT {
            let path = folder.path().to_owned();
            let made = text(&renders, &tag.to_string(), move || file(&path, tag.to_string().as_bytes())).await;
            assert_eq!(made, tag.to_string());
        }
        assert_eq!(text(&renders, "1", never).await, "1");
        assert_eq!(text(&renders, "1", never).await, "1", "from its beginning");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), KEPT);
        let path = folder.path().to_owned();
        assert_eq!(text(&renders, "0", move || file(&path, b"anew")).await, "anew");
    }

    #[tokio::test]
    async fn nothing_is_kept_of_what_is_not_there() {
        let renders = Renders::default();
        for _ in 0..2 {
            assert!(renders.get("x", || Ok::<_, io::Error>(None)).await.unwrap().unwrap().is_none());
            let failed = renders.get("x", || Err(io::Error::other("no"))).await.unwrap();
            assert_eq!(failed.unwrap_err().to_string(), "no");
        }
    }
}
