//! One document (a *blob*) of a file-based catalog: its schema and what is kept of it.
//!
//! Names of fields are read in any case, as Go reads JSON; the keys `schema`, `package` and `name` of the root as Unicode
//! folds them. Unknown fields are ignored. A wrong type in a field that is read refuses the document; what is odd about the
//! properties of a bundle is only noted ([`BundleDocument::faults`]): it makes that bundle poorer, not the catalog useless.

use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer};
use serde_json::Value;

use crate::model::Icon;
use crate::{Bundle, Channel};

mod csv;
mod fields;
mod fold;
mod properties;
mod root;
mod sieve;
#[cfg(test)]
mod tests;
mod typed;

pub(crate) use csv::add_metadata;
pub(crate) use fields::{check_name, excerpt};
pub(crate) use properties::MAX_CONSTRAINT;
use root::{Root, RootSeed};

/// Items of one list that is kept: entries, properties, images, skips. One more is refused.
pub const MAX_ITEMS: usize = 20_000;

/// Bytes of a name, a version or the name of an image. A longer one is refused: it would end up in an object's status, which
/// could never be written then.
///
/// Names of bundles become names of objects (253 bytes), registries take names of images of some 520 with tag and digest, and the
/// longest in published catalogs have 111 and 160.
pub const MAX_NAME: usize = 1024;

/// Bytes of an icon. A larger one is not kept: all are in memory.
pub const MAX_ICON_BYTES: usize = 128 * 1024;

/// A document, by its schema.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// `olm.package`. Its description and properties are not kept.
    Package {
        /// Its name; empty if it has none.
        name: String,
        /// `defaultChannel`.
        default_channel: Option<String>,
        /// `icon`; `None` if there is none, or none that can be read.
        icon: Option<Arc<Icon>>,
    },
    /// `olm.channel`.
    Channel {
        /// The package; empty if it names none.
        package: String,
        /// The channel. Its name is empty if it has none.
        channel: Channel,
    },
    /// `olm.bundle`.
    Bundle(Box<BundleDocument>),
    /// `olm.deprecations`.
    Deprecations {
        /// The package; empty if it names none.
        package: String,
        /// What is deprecated.
        entries: Vec<Deprecation>,
    },
    /// Anything else. Names that begin with `olm.` are reserved.
    Other {
        /// Its schema.
        schema: String,
        /// Its package, if it names one.
        package: Option<String>,
        /// Its name, if it has one.
        name: Option<String>,
    },
}

/// An `olm.bundle`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundleDocument {
    /// The package; empty if it names none.
    pub package: String,
    /// What becomes part of the catalog. Its name is empty if it has none.
    pub bundle: Bundle,
    /// Its properties `olm.package`: a valid bundle has one.
    pub identities: Vec<Identity>,
    /// What is wrong with its properties.
    pub faults: Vec<String>,
}

/// A property `olm.package`: what a bundle is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The package.
    pub package: String,
    /// The version, as written.
    pub version: String,
    /// The release of the packaging, as written; empty if there is none.
    pub release: String,
}

/// An entry of `olm.deprecations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deprecation {
    /// `olm.package`, `olm.channel` or `olm.bundle` in a valid one.
    pub schema: String,
    /// Name of the channel or bundle; empty for the package.
    pub name: String,
    /// Why, and what to do. May have many lines.
    pub message: String,
}

/// Why a document cannot be used. The words before the cause are those of `opm`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is a list, text or a number.
    #[error("expected an object with a schema, found {0}: a catalog is a stream of objects, one after the other")]
    NotAnObject(&'static str),
    /// Keys of the root that differ in their case alone.
    #[error("duplicate keys for key {folded:?}: [{}]: keep one of them", .keys.join(" "))]
    DuplicateKeys {
        /// What both are.
        folded: String,
        /// As written. Sorted.
        keys: Vec<String>,
    },
    /// `schema`, `package` or `name` is not text.
    #[error("expected value for key {key:?} to be a string, got {found}")]
    NotText {
        /// As written.
        key: String,
        /// What stands there.
        found: String,
    },
    /// `schema`, `package` or `name` is too long.
    #[error("expected value for key {key:?} to have at most {MAX_NAME} bytes, got {length}: {start}")]
    TooLong {
        /// As written.
        key: String,
        /// How many bytes it has.
        length: usize,
        /// How it begins.
        start: String,
    },
    /// There is no schema, or an empty one.
    #[error("object '{0}' is missing root schema field: every object of a catalog has one, such as olm.bundle")]
    NoSchema(String),
    /// A field has the wrong type.
    #[error("parse {what}: {problem}")]
    Field {
        /// `package`, `channel`, `bundle` or `deprecation`.
        what: &'static str,
        /// The field and what stands there.
        problem: String,
    },
}

impl Document {
    /// Reads one JSON object. The outer error is JSON's, the inner one the document's.
    pub fn from_json(json: &[u8]) -> Result<Result<Self, Error>, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let root = RootSeed.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(Self::from_root(root, || String::from_utf8_lossy(json).into_owned()))
    }

    /// Reads a value, as YAML gives it.
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        let root = value.deserialize_any(RootSeed).map_err(|_| Error::NotAnObject(fields::kind_of(value)))?;
        Self::from_root(root, || value.to_string())
    }

    /// Whether it is input to `opm alpha render-template`, which people keep beside catalogs, rather than part of one.
    pub fn is_template(&self) -> bool {
        let Self::Other { schema, .. } = self else { return false };
        schema == "olm.semver" || schema == "olm.composite" || schema.starts_with("olm.template.")
    }

    /// The package that the document is about, if it names one.
    pub fn package(&self) -> Option<&str> {
        let name = match self {
            Self::Package { name, .. } => name,
            Self::Channel { package, .. } | Self::Deprecations { package, .. } => package,
            Self::Bundle(document) => &document.package,
            Self::Other { package, .. } => package.as_ref()?,
        };
        Some(name.as_str()).filter(|name| !name.is_empty())
    }

    fn from_root(root: Root, text: impl FnOnce() -> String) -> Result<Self, Error> {
        let root = match root.check() {
            Err(Error::NoSchema(_)) => return Err(Error::NoSchema(fields::excerpt(&text()))),
            root => root?,
        };
        match root.schema.as_str() {
            "olm.package" => typed::package(root),
            "olm.channel" => typed::channel(root),
            "olm.bundle" => typed::bundle(root),
            "olm.deprecations" => typed::deprecations(root),
            _ => Ok(Self::Other { schema: root.schema, package: root.package, name: root.name }),
        }
    }
}
