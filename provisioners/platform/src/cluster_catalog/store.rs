//! The content of ClusterCatalogs on disk.
//!
//! ```text
//! <root>/stage-*               what is being unpacked; removed at the start
//! <root>/<catalog>/<digest>/   one folder of each catalog: see rukpak_catalog::served
//! ```
//!
//! Content comes to its place by a rename, and the one before it goes afterwards: whoever reads that reads it to its end.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use jiff::Timestamp;
use rukpak_catalog::Catalog;
use rukpak_catalog::origin;
use rukpak_catalog::read;
use rukpak_catalog::served::Served;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

const STAGE: &str = "stage-";

/// Why content cannot be stored or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the worker thread ended early")]
    Worker(#[source] tokio::task::JoinError),
}

pub(crate) struct CatalogStore {
    root: PathBuf,
    catalogs: RwLock<HashMap<String, Arc<Stored>>>,
}

/// The content of a catalog.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Digest of the image that it comes from.
    pub digest: String,
    /// When it was written.
    pub modified: SystemTime,
    /// Its files; `None` only in tests.
    served: Option<Served>,
    /// What is kept of it in memory, once somebody has looked at it.
    catalog: tokio::sync::Mutex<Option<Arc<Catalog>>>,
}

impl CatalogStore {
    /// Finds what an earlier process stored in `root`, and removes what it left half done. Blocks.
    pub fn open(root: PathBuf) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        fs::create_dir_all(&root).map_err(failed(&root))?;
        let mut catalogs = HashMap::new();
        for entry in fs::read_dir(&root).map_err(failed(&root))? {
            let entry = entry.map_err(failed(&root))?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if !path.is_dir() {
                continue;
            }
            let found = if name.starts_with(STAGE) { None } else { newest(&path).map_err(failed(&path))? };
            match found {
                Some(stored) => {
                    tracing::info!(catalog = name, digest = stored.digest, "ClusterCatalog found in the store");
                    catalogs.insert(name, Arc::new(stored));
                }
                None => fs::remove_dir_all(&path).map_err(failed(&path))?,
            }
        }
        Ok(Self { root, catalogs: RwLock::new(catalogs) })
    }

    /// The content of a catalog.
    pub fn get(&self, name: &str) -> Option<Arc<Stored>> {
        self.catalogs.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The catalogs that have content.
    pub fn names(&self) -> Vec<String> {
        self.catalogs.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// An empty folder to unpack into.
    pub fn stage(&self) -> Result<TempDir, Error> {
        let stage = tempfile::Builder::new().prefix(STAGE).tempdir_in(&self.root);
        stage.map_err(|source| Error::Write { path: self.root.clone(), source })
    }

    /// Makes what was unpacked into `stage` the content of the catalog `name`.
    pub async fn put(&self, name: &str, digest: &str, stage: TempDir, catalog: Catalog) -> Result<Arc<Stored>, Error> {
        let folder = self.root.join(name);
        let place = folder.join(digest.replace(':', "-"));
        let digest = digest.to_owned();
        let moved = move || {
            let failed = |source| Error::Write { path: place.clone(), source };
            fs::create_dir_all(&folder).map_err(failed)?;
            if place.exists() {
                fs::remove_dir_all(&place).map_err(failed)?;
            }
            let stage = stage.keep();
            fs::rename(&stage, &place).map_err(failed)?;
            let stored = Stored::open(&place, digest, Some(Arc::new(catalog))).map_err(failed)?;
            // The newest is found after a restart, should this not be reached.
            for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
                if entry.path() != place {
                    fs::remove_dir_all(entry.path()).map_err(failed)?;
                }
            }
            Ok(stored)
        };
        let stored = Arc::new(spawn_blocking(moved).await.map_err(Error::Worker)??);
        let mut catalogs = self.catalogs.write().unwrap_or_else(PoisonError::into_inner);
        catalogs.insert(name.to_owned(), stored.clone());
        Ok(stored)
    }

    /// Removes the content of a catalog, if there is any.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        let known = self.catalogs.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if known.is_none() {
            return Ok(());
        }
        let path = self.root.join(name);
        let remove = move || fs::remove_dir_all(&path).map_err(|source| Error::Write { path, source });
        spawn_blocking(remove).await.map_err(Error::Worker)?
    }
}

/// The newest whole content in the folder of a catalog; what is beside it is removed.
fn newest(folder: &Path) -> io::Result<Option<Stored>> {
    let mut newest: Option<Stored> = None;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let digest = path.file_name().map(|name| name.to_string_lossy().replacen('-', ":", 1)).unwrap_or_default();
        match Stored::open(&path, digest, None) {
            Ok(found) if newest.as_ref().is_none_or(|newest| newest.modified < found.modified) => {
                if let Some(older) = newest.replace(found).and_then(|older| older.served) {
                    fs::remove_dir_all(older.folder())?;
                }
            }
            Ok(_) => fs::remove_dir_all(&path)?,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "stored content is not whole; it is unpacked again");
                fs::remove_dir_all(&path)?;
            }
        }
    }
    Ok(newest)
}

impl Stored {
    fn open(folder: &Path, digest: String, catalog: Option<Arc<Catalog>>) -> io::Result<Self> {
        let served = Served::open(folder)?;
        let modified = served.all()?.metadata()?.modified()?;
        Ok(Self { digest, modified, served: Some(served), catalog: tokio::sync::Mutex::new(catalog) })
    }

    pub fn served(&self) -> io::Result<&Served> {
        self.served.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// When it was unpacked, in whole seconds.
    pub fn unpacked_at(&self) -> Timestamp {
        let time = Timestamp::try_from(self.modified).unwrap_or_default();
        Timestamp::from_second(time.as_second()).unwrap_or_default()
    }

    /// What can be chosen from it. After a restart it is read when it is first asked for.
    pub async fn catalog(self: &Arc<Self>) -> Result<Arc<Catalog>, read::Error> {
        let mut kept = self.catalog.lock().await;
        if let Some(catalog) = &*kept {
            return Ok(Arc::clone(catalog));
        }
        let this = Arc::clone(self);
        let read = move || {
            let io = |source| read::Error::Io { path: "all.jsonl".to_owned(), source };
            this.served().map_err(io)?.catalog(&origin::limits())
        };
        let ended = |error| read::Error::Io { path: "all.jsonl".to_owned(), source: io::Error::other(error) };
        let catalog = Arc::new(spawn_blocking(read).await.map_err(ended)??);
        *kept = Some(Arc::clone(&catalog));
        Ok(catalog)
    }

    #[cfg(test)]
    pub fn for_test(digest: &str) -> Self {
        let modified = SystemTime::UNIX_EPOCH;
        Self { digest: digest.to_owned(), modified, served: None, catalog: tokio::sync::Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(store: &CatalogStore, package: &str) -> (TempDir, Catalog) {
        let source = tempfile::tempdir().unwrap();
        let text = format!("{{\"schema\": \"olm.package\", \"name\": \"{package}\"}}");
        fs::write(source.path().join("catalog.json"), text).unwrap();
        let stage = store.stage().unwrap();
        let catalog = Served::write(source.path(), &origin::limits(), stage.path()).unwrap();
        (stage, catalog)
    }

    #[tokio::test]
    async fn content_survives_restarts_and_what_is_half_done_does_not() {
        let root = tempfile::tempdir().unwrap();
        let open = || CatalogStore::open(root.path().to_owned()).unwrap();
        let store = open();
        let (stage, catalog) = unpacked(&store, "first");
        store.put("c", "sha256:1", stage, catalog).await.unwrap();
        let (stage, catalog) = unpacked(&store, "second");
        let put = store.put("c", "sha256:2", stage, catalog).await.unwrap();
        let (stage, catalog) = unpacked(&store, "third");
        store.put("other", "sha256:3", stage, catalog).await.unwrap();
        // As a process leaves it that is killed.
        let _ = store.stage().unwrap().keep();
        fs::create_dir(root.path().join("c").join("sha256-9")).unwrap();

        let store = open();
        let found = store.get("c").unwrap();
        assert_eq!((found.digest.as_str(), found.modified), ("sha256:2", put.modified));
        assert!(found.catalog().await.unwrap().packages.contains_key("second"));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
        assert_eq!(fs::read_dir(root.path().join("c")).unwrap().count(), 1);
        store.remove("c").await.unwrap();
        assert!(store.get("c").is_none() && open().get("c").is_none());
        assert!(open().get("other").is_some());
    }
}
