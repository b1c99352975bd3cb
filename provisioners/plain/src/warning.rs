//! What a reader of a bundle should know although nothing was refused.

use std::fmt;
use std::sync::Arc;

use crate::{ObjectKey, Origin};

/// Something in a bundle that probably does not mean what its author thinks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A mapping names a key twice; the last value counts.
    DuplicateKey {
        /// The file.
        file: Arc<str>,
        /// The line of the second key, from 1.
        line: usize,
        /// The field, such as `metadata.labels.app`.
        path: String,
    },
    /// A merge key (`<<`) replaces a key that stands before it. kubectl reads it so; other readers keep the key.
    MergeOverride {
        /// The file.
        file: Arc<str>,
        /// The line of the merged value, from 1.
        line: usize,
        /// The field that is replaced.
        path: String,
    },
    /// Content behind `...` without a `---` line of its own: kubectl does not read it, so neither do we.
    IgnoredDocument {
        /// The file.
        file: Arc<str>,
        /// Where it begins, from 1.
        line: usize,
    },
    /// A field of a typed manifest that Kubernetes does not know.
    UnknownField {
        /// The manifest.
        origin: Origin,
        /// The field's path.
        field: String,
    },
    /// A manifest has no `apiVersion`, and its kind says which is meant.
    AssumedVersion {
        /// The manifest.
        origin: Origin,
        /// The one that it is read with.
        api_version: &'static str,
    },
    /// The same object, word for word, stands in the bundle twice; one is used.
    RepeatedObject {
        /// The object.
        key: ObjectKey,
        /// The place that is used.
        first: Origin,
        /// The place that is not.
        second: Origin,
    },
    /// A manifest names owners. It cannot know their UIDs; they are left out.
    OwnerReferences {
        /// The object.
        key: ObjectKey,
        /// Its place.
        origin: Origin,
    },
}

/// How many warnings about one bundle are kept; what comes after says nothing new, and a hostile file could make millions.
pub const MAX_WARNINGS: usize = 20;

/// How many bytes of one warning are shown.
const MAX_BYTES: usize = 1024;

/// The first [`MAX_WARNINGS`] of something that a bundle could make millions of, and how many came after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Few<T> {
    kept: Vec<T>,
    more: u64,
}

impl<T> Few<T> {
    /// Makes and keeps one more, or only counts it.
    pub fn push_with(&mut self, make: impl FnOnce() -> T) {
        if self.kept.len() < MAX_WARNINGS {
            self.kept.push(make());
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Counts some that nobody kept.
    pub fn skip(&mut self, count: u64) {
        self.more = self.more.saturating_add(count);
    }

    /// Those that were kept, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.kept.iter()
    }

    /// A state that [`Few::rewind`] goes back to.
    pub(crate) fn mark(&self) -> (usize, u64) {
        (self.kept.len(), self.more)
    }

    pub(crate) fn rewind(&mut self, (kept, more): (usize, u64)) {
        self.kept.truncate(kept);
        self.more = more;
    }

    /// How many were not kept.
    pub fn more(&self) -> u64 {
        self.more
    }
}

impl<T: fmt::Display> Few<T> {
    /// One line each, at most 1 KiB long, and one that says how many more there are.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more warnings", self.more));
        self.kept.iter().map(|one| shortened(&one.to_string(), MAX_BYTES)).chain(more).collect()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), more: 0 }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// `text`, or its first `max_bytes` bytes and `…`: for messages about texts of any length.
pub fn shortened(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        text.to_owned()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(max_bytes)])
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateKey { file, line, path } => {
                write!(formatter, "{file} (line {line}): {path} is set twice: the last value counts")
            }
            Self::MergeOverride { file, line, path } => {
                write!(
                    formatter,
                    "{file} (line {line}): `<<` replaces {path}: put `<<` before the keys that override it"
                )
            }
            Self::IgnoredDocument { file, line } => {
                write!(formatter, "{file} (line {line}): not read: put `---` on a line of its own before it")
            }
            Self::UnknownField { origin, field } => {
                write!(formatter, "{origin}, {field}: Kubernetes does not know this field: it is left out")
            }
            Self::AssumedVersion { origin, api_version } => {
                write!(formatter, "{origin}: apiVersion is missing: read as {api_version}, as OLM reads this kind")
            }
            Self::RepeatedObject { key, first, second } => {
                write!(formatter, "{second}: {key} is in the bundle already, with the same content ({first})")
            }
            Self::OwnerReferences { key, origin } => {
                write!(formatter, "{origin}: {key}: metadata.ownerReferences is left out: a manifest cannot know UIDs")
            }
        }
    }
}
