//! Removal of what nothing names any more.

use std::collections::HashSet;
use std::fs;
use std::hash::BuildHasher;
use std::path::Path;

use rukpak_content::Digest;

use crate::error::{read, remove};
use crate::instance::{list, sweep};
use crate::lock::Lock;
use crate::refs::read_refs;
use crate::{Error, RefKind, Store};

/// What [`Store::collect`] removed and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many contents.
    pub removed: u64,
    /// How many bytes they took on disk.
    pub freed_bytes: u64,
    /// How many contents there are now.
    pub kept: u64,
    /// How many bytes they take on disk.
    pub kept_bytes: u64,
    /// How many of them nothing names, and are only too new to be removed: see [`Sharing::grace`](crate::Sharing::grace).
    pub too_new: u64,
}

impl Store {
    /// Removes content that neither a ref nor a living [`Sealed`](crate::Sealed) names, in any process, nor is among `known`, and
    /// the leavings of dead processes in `tmp/`. Waits for and holds the exclusive lock. What is shared is left until it is old.
    ///
    /// # Errors
    /// A ref that cannot be read ends the collection before anything is removed: what it names is unknown.
    pub fn collect<S: BuildHasher>(&self, known: &HashSet<Digest, S>) -> Result<Collected, Error> {
        let layout = self.layout();
        if let Some(shared) = self.shared() {
            {
                let _lock = Lock::exclusive(&layout.lock())?;
                sweep(layout)?;
            }
            shared.evict(self)?;
            return shared.collect(self, known);
        }
        let _lock = Lock::exclusive(&layout.lock())?;
        let mut roots: HashSet<String> = known.iter().map(|digest| digest.hex().to_owned()).collect();
        for kind in RefKind::ALL {
            roots.extend(read_refs(layout, kind)?.into_values().map(|value| value.content.hex().to_owned()));
        }
        roots.extend(sweep(layout)?);
        let mut collected = Collected::default();
        for shard in list(&layout.content())? {
            if shard.is_dir() {
                collect_shard(&shard, &roots, &mut collected)?;
            }
        }
        Ok(collected)
    }
}

fn collect_shard(shard: &Path, roots: &HashSet<String>, collected: &mut Collected) -> Result<(), Error> {
    for path in list(shard)? {
        // What is not named like content was put there by somebody else, and stays.
        let Some(hex) = content_name(&path) else { continue };
        let size_bytes = fs::symlink_metadata(&path).map_err(read(&path))?.len();
        if roots.contains(&hex) {
            collected.kept += 1;
            collected.kept_bytes += size_bytes;
            continue;
        }
        fs::remove_file(&path).map_err(remove(&path))?;
        collected.removed += 1;
        collected.freed_bytes += size_bytes;
    }
    Ok(())
}

fn content_name(path: &Path) -> Option<String> {
    let shard = path.parent()?.file_name()?.to_str()?;
    let hex = format!("{shard}{}", path.file_name()?.to_str()?);
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (shard.len() == 2 && hex.len() == 64 && is_hex).then_some(hex)
}
