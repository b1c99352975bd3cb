//! Refs as objects. Each write names the version it replaces, so that of two writers one fails and looks again.

use std::collections::{BTreeMap, BTreeSet};

use super::Sharing;
use crate::refs::check_name;
use crate::{Condition, Error, Ref, RefKind, Store};

/// Writes that lose against somebody else's before it is an error. The next reconcile tries again.
const ATTEMPTS: usize = 3;

impl Sharing {
    /// The content is there before the ref and, should a collection have had the last word in between, after it.
    pub(crate) fn set_ref(&self, store: &Store, kind: RefKind, name: &str, value: &Ref) -> Result<(), Error> {
        let key = ref_key(kind, name)?;
        let text = serde_json::to_vec(value).map_err(|source| Error::RefForm { path: self.place(&key), source })?;
        for _ in 0..ATTEMPTS {
            let condition = match self.bucket.get(&key)? {
                // As in the answer to a write whose answer was lost.
                Some((found, _)) if found == text => return self.keep(store, value),
                Some((_, version)) => Condition::Unchanged(version),
                None => Condition::Absent,
            };
            self.refresh(store, &value.content)?;
            if self.bucket.put(&key, text.clone(), condition)? {
                return self.keep(store, value);
            }
        }
        Err(Error::Contested { path: self.place(&key) })
    }

    fn keep(&self, store: &Store, value: &Ref) -> Result<(), Error> {
        if self.contains(&value.content)? { Ok(()) } else { self.restore(store, &value.content) }
    }

    pub(crate) fn get_ref(&self, kind: RefKind, name: &str) -> Result<Option<Ref>, Error> {
        let key = ref_key(kind, name)?;
        let Some((text, _)) = self.bucket.get(&key)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|source| Error::RefForm { path: self.place(&key), source })
    }

    pub(crate) fn remove_ref(&self, kind: RefKind, name: &str) -> Result<bool, Error> {
        let key = ref_key(kind, name)?;
        let was_there = self.bucket.head(&key)?.is_some();
        if was_there {
            self.bucket.delete(&key)?;
        }
        Ok(was_there)
    }

    pub(crate) fn refs(&self, kind: RefKind) -> Result<BTreeMap<String, Ref>, Error> {
        let mut refs = BTreeMap::new();
        for name in self.ref_names(kind, "")? {
            // One that is gone by now was removed since the list, or the list was behind.
            if let Some(value) = self.get_ref(kind, &name)? {
                refs.insert(name, value);
            }
        }
        Ok(refs)
    }

    pub(crate) fn ref_names(&self, kind: RefKind, beginning: &str) -> Result<BTreeSet<String>, Error> {
        let folder = Self::refs_folder(kind);
        let listed = self.bucket.list(&folder, beginning)?;
        Ok(listed.into_iter().filter_map(|entry| entry.key.rsplit('/').next().map(str::to_owned)).collect())
    }
}

fn ref_key(kind: RefKind, name: &str) -> Result<String, Error> {
    check_name(name)?;
    Ok(format!("{}/{name}", Sharing::refs_folder(kind)))
}
