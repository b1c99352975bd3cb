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

/// How many warnings are kept; what comes after says nothing new, and a hostile file could make millions.
pub const MAX_WARNINGS: usize = 1000;

/// Adds a warning if there is room.
pub(crate) fn warn(warnings: &mut Vec<Warning>, make: impl FnOnce() -> Warning) {
    if warnings.len() < MAX_WARNINGS {
        warnings.push(make());
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
            Self::RepeatedObject { key, first, second } => {
                write!(formatter, "{second}: {key} is in the bundle already, with the same content ({first})")
            }
            Self::OwnerReferences { key, origin } => {
                write!(formatter, "{origin}: {key}: metadata.ownerReferences is left out: a manifest cannot know UIDs")
            }
        }
    }
}
