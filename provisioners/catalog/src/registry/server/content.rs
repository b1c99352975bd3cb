//! A catalog of which every document can be read again: what is chosen from in memory, the documents in a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rukpak_content::Limits;

use super::place::{Place, find};
use crate::Catalog;
use crate::document::Document;
use crate::model::Builder;
use crate::read;
use crate::served::Blob;

/// A folder for the documents of catalogs, with a bound for all of them together. Clones share it.
#[derive(Clone, Debug)]
pub struct Stage {
    folder: PathBuf,
    /// Bytes.
    free: Arc<Mutex<u64>>,
}

impl Stage {
    /// `folder`, for at most so many bytes.
    pub fn new(folder: PathBuf, bytes: u64) -> Self {
        Self { folder, free: Arc::new(Mutex::new(bytes)) }
    }

    fn free(&self) -> MutexGuard<'_, u64> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a catalog has taken of a stage, until this is dropped.
#[derive(Debug)]
struct Share {
    stage: Stage,
    bytes: u64,
}

impl Share {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let mut free = self.stage.free();
        let left = free.checked_sub(bytes);
        *free =
            left.ok_or_else(|| io::Error::new(io::ErrorKind::StorageFull, "other served catalogs take the room"))?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.stage.free() += self.bytes;
    }
}

/// A catalog, and what it says of its packages and bundles.
#[derive(Debug)]
pub struct Content {
    catalog: Arc<Catalog>,
    /// One after the other, as JSON. The file has no name: it goes when this is dropped.
    documents: File,
    _share: Share,
    packages: HashMap<String, Piece>,
    /// By package and name.
    bundles: HashMap<String, HashMap<String, Piece>>,
}

/// Where a document is.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: u64,
    length: u64,
}

impl Content {
    /// Reads the catalog in the files below `root`, and keeps its documents in a file within `stage`. Blocks.
    ///
    /// # Errors
    /// What is wrong with the catalog, or with the disk: [`StorageFull`](io::ErrorKind::StorageFull) also where the stage is.
    pub fn read(root: &Path, limits: &Limits, stage: &Stage) -> Result<Self, read::Error> {
        let in_stage = |source| read::Error::Io { path: stage.folder.display().to_string(), source };
        let mut share = Share { stage: stage.clone(), bytes: 0 };
        let mut documents = BufWriter::new(tempfile::tempfile_in(&stage.folder).map_err(in_stage)?);
        let mut builder = Builder::default();
        let (mut packages, mut bundles) = (HashMap::new(), HashMap::<_, HashMap<_, _>>::new());
        let (mut end, mut failed) = (0, None);
        read::folder_in_order(root, limits, &mut |blob: Blob| {
            let Blob { document, json, .. } = blob;
            let piece = Piece { start: end, length: json.len() as u64 };
            // Of several that say the same the first; where they do not, the catalog has none of them.
            let is_kept = !builder.is_full() && failed.is_none();
            let slot = match &document {
                _ if !is_kept => None,
                Document::Package { name, .. } => Some(packages.entry(name.clone())),
                Document::Bundle(bundle) => {
                    Some(bundles.entry(bundle.package.clone()).or_default().entry(bundle.bundle.name.clone()))
                }
                _ => None,
            };
            if let Some(slot) = slot {
                slot.or_insert(piece);
                failed = share.take(piece.length).and_then(|()| documents.write_all(&json)).err();
                end += piece.length;
            }
            builder.add(document);
        })?;
        if let Some(error) = failed {
            return Err(in_stage(error));
        }
        let documents = documents.into_inner().map_err(|error| in_stage(error.into_error()))?;
        let catalog = Arc::new(read::finish(builder, || root.display().to_string())?);
        Ok(Self { catalog, documents, _share: share, packages, bundles })
    }

    /// What is chosen from.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// How many bytes the documents have that a bundle is told from: its own, and that of its package.
    pub(super) fn length(&self, place: &Place) -> u64 {
        let Some(spot) = find(&self.catalog, place) else { return 0 };
        let own = self.bundles.get(&spot.package.name).and_then(|bundles| bundles.get(&spot.bundle.name));
        own.into_iter().chain(self.packages.get(&spot.package.name)).map(|piece| piece.length).sum()
    }

    /// The document of a package, as JSON.
    pub(super) fn package(&self, name: &str) -> io::Result<Vec<u8>> {
        self.piece(self.packages.get(name))
    }

    /// The document of a bundle, as JSON.
    pub(super) fn bundle(&self, package: &str, name: &str) -> io::Result<Vec<u8>> {
        self.piece(self.bundles.get(package).and_then(|bundles| bundles.get(name)))
    }

    fn piece(&self, piece: Option<&Piece>) -> io::Result<Vec<u8>> {
        let Piece { start, length } = *piece.ok_or(io::ErrorKind::NotFound)?;
        let mut json = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.documents.read_exact_at(&mut json, start)?;
        Ok(json)
    }
}
