//! Removal of what nothing names any more from a bucket that others write to meanwhile.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::time::SystemTime;

use rukpak_content::Digest;

use super::{CONTENT, Sharing};
use crate::{Collected, Entry, Error, RefKind, Store};

impl Sharing {
    /// Lists contents first and reads refs after, removes what is old and neither named by a ref nor among `known`, and reads refs
    /// again. Content that a ref names and the bucket lacks is put back, where there is a copy of it on this disk.
    ///
    /// # Errors
    /// A ref that cannot be read ends the collection before anything is removed: what it names is unknown.
    pub(crate) fn collect<S: BuildHasher>(
        &self,
        store: &Store,
        known: &HashSet<Digest, S>,
    ) -> Result<Collected, Error> {
        let contents = self.contents()?;
        let mut named = self.named()?;
        named.extend(known.iter().cloned());
        for digest in named.iter().filter(|digest| !contents.contains_key(*digest)) {
            self.put_back(store, digest)?;
        }
        let (mut collected, mut removed) = (Collected::default(), HashSet::new());
        for (digest, entry) in &contents {
            if named.contains(digest) || !self.remove(entry, &mut collected)? {
                collected.kept += 1;
                collected.kept_bytes += entry.size_bytes;
            } else {
                removed.insert(digest);
            }
        }
        if !removed.is_empty() {
            // Somebody may have named it in the moment between the look and the removal.
            for digest in self.named()?.iter().filter(|digest| removed.contains(digest)) {
                self.put_back(store, digest)?;
            }
        }
        Ok(collected)
    }

    /// Whether it removed it: not if it is too new, or was written again since the list.
    fn remove(&self, entry: &Entry, collected: &mut Collected) -> Result<bool, Error> {
        let is_old = SystemTime::now().duration_since(entry.modified).is_ok_and(|age| age >= self.grace);
        if !is_old {
            collected.too_new += 1;
            return Ok(false);
        }
        match self.bucket.head(&entry.key)? {
            Some(again) if again.modified == entry.modified => {
                self.bucket.delete(&entry.key)?;
                collected.removed += 1;
                collected.freed_bytes += entry.size_bytes;
                Ok(true)
            }
            // The list was behind.
            None => Ok(true),
            Some(_) => Ok(false),
        }
    }

    fn put_back(&self, store: &Store, digest: &Digest) -> Result<(), Error> {
        if self.contains(digest)? {
            return Ok(());
        }
        match self.restore(store, digest) {
            // Whoever needs it says so, and has it fetched.
            Err(error) if error.mended_by_refill() => Ok(()),
            other => other,
        }
    }

    /// What the bucket has, by name.
    pub(crate) fn contents(&self) -> Result<HashMap<Digest, Entry>, Error> {
        let listed = self.bucket.list(CONTENT, "")?;
        // What is not named like content was put there by somebody else, and stays.
        let named = listed.into_iter().filter_map(|entry| {
            let hex: String = entry.key.strip_prefix(CONTENT)?.split('/').collect();
            Some((format!("sha256:{hex}").parse().ok()?, entry))
        });
        Ok(named.collect())
    }

    /// What refs of either kind name.
    fn named(&self) -> Result<HashSet<Digest>, Error> {
        let mut named = HashSet::new();
        for kind in RefKind::ALL {
            named.extend(self.refs(kind)?.into_values().map(|value| value.content));
        }
        Ok(named)
    }
}
