//! From files to documents: JSON and YAML streams, folders, `.indexignore`.
//!
//! A file is read piece by piece and never held as a whole: what is in memory is one document for each thread. Bounds, beside
//! those of [`Limits`]: [`MAX_BYTES`] and [`MAX_DOCUMENTS`] for a catalog. [`Limits::manifest_bytes`] is the largest
//! document, [`Limits::entries`], [`Limits::depth`] and [`Limits::path_bytes`] hold for the folder, and
//! [`Limits::tree_bytes`] does not: catalogs are larger than bundles.

use std::path::Path;
use std::sync::Arc;

use rukpak_content::{LimitExceeded, Limits};
use rukpak_plain::yaml;
use serde_json::Value;

use crate::Catalog;
use crate::document::{self, Document};
use crate::model::{Builder, MAX_KEPT_BYTES};

mod files;
mod folder;
mod ignored;
mod json;
mod stream;
#[cfg(test)]
mod tests;
mod window;
mod yamls;

/// Bytes of one catalog: some eight times the largest that is published.
pub const MAX_BYTES: u64 = 1 << 30;

/// Documents of one catalog: some twenty times those of the largest that is published.
pub const MAX_DOCUMENTS: u64 = 200_000;

/// What is made of each document while it is read.
pub trait Form: Sized {
    /// Of one JSON object. The outer error is JSON's, the inner one the document's.
    fn from_json(json: &[u8]) -> Result<Result<Self, document::Error>, serde_json::Error>;

    /// Of a value, as YAML gives it.
    fn from_value(value: &Value) -> Result<Self, document::Error>;
}

impl Form for Document {
    fn from_json(json: &[u8]) -> Result<Result<Self, document::Error>, serde_json::Error> {
        Self::from_json(json)
    }

    fn from_value(value: &Value) -> Result<Self, document::Error> {
        Self::from_value(value)
    }
}

/// Why a catalog cannot be read. Names the file and the place in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The folder or a file in it cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// Relative to the catalog; the catalog's own path for its root.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The catalog is no folder.
    #[error("{0:?} is not a directory")]
    NotAFolder(String),
    /// A link leads out of the folder.
    #[error("{0} is a link that leads out of the catalog: put the file itself there, or list the link in .indexignore")]
    Link(String),
    /// A device, pipe or socket.
    #[error("{0} is neither a file nor a folder: remove it, or list it in .indexignore")]
    Special(String),
    /// A name that is not UTF-8.
    #[error("{0}: the name is not UTF-8: rename it, or list it in .indexignore")]
    Name(String),
    /// A line of an `.indexignore` is no pattern.
    #[error("{path} (line {line}): {problem}: lines are those of a .gitignore file")]
    Pattern {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A JSON stream is broken.
    #[error("{place}, column {column}: {problem}")]
    Json {
        /// Where.
        place: yaml::Position,
        /// The column in bytes, from 1.
        column: usize,
        /// The parser's words.
        problem: String,
    },
    /// A YAML stream is broken.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// A document is not what its schema asks for.
    #[error("{place}")]
    Document {
        /// Where.
        place: yaml::Position,
        /// What is wrong.
        source: document::Error,
    },
    /// A file that does not look like a part of a catalog by its name could not be read as one.
    #[error("{file} is read as a part of the catalog, whatever its name: if it is none, list it in .indexignore")]
    Stray {
        /// The file.
        file: Arc<str>,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// Larger than a limit allows.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// More than a catalog may have.
    #[error("{path}: more than {maximum} {what}, and no catalog is that large: check where it comes from")]
    TooMuch {
        /// Where it became too much.
        path: String,
        /// [`MAX_BYTES`], [`MAX_DOCUMENTS`] or [`MAX_KEPT_BYTES`].
        maximum: u64,
        /// Of what.
        what: &'static str,
    },
    /// There are templates and no catalog.
    #[error("{path} holds a template ({schema}) and no catalog: render it first, as opm alpha render-template does")]
    Template {
        /// The folder or stream.
        path: String,
        /// Schema of the template.
        schema: String,
    },
}

/// Reads every file of the folder that `.indexignore` does not leave out, whatever its name, several at a time, and hands
/// the documents to `visit` in no order. Blocks.
///
/// Of several errors the one in the first file by name is returned. A link is followed to a file in the folder, and each
/// file is read once; one that leads out of the folder is refused.
pub fn folder(root: &Path, limits: &Limits, visit: &mut dyn FnMut(Document)) -> Result<(), Error> {
    folder::read(root, limits, visit)
}

/// Reads every file of the folder as [`folder`] does, but one after the other, in the order of their names: the documents come
/// in an order that depends on nothing else. Blocks.
pub fn folder_in_order<F: Form>(root: &Path, limits: &Limits, visit: &mut dyn FnMut(F)) -> Result<(), Error> {
    folder::read_in_order(root, limits, visit)
}

/// Reads one stream, as catalogd's HTTP API and files give it. Blocks. `name` stands in messages.
///
/// A stream that begins with `{` is JSON, and YAML from the first value on that is not JSON.
pub fn stream(
    name: &str,
    body: &mut dyn std::io::Read,
    limits: &Limits,
    visit: &mut dyn FnMut(Document),
) -> Result<(), Error> {
    stream::read(&Arc::from(name), body, limits, &stream::Totals::default(), visit)
}

/// The catalog in a folder. Blocks.
///
/// A folder without any package gives an empty catalog, unless there are templates in it.
pub fn catalog(root: &Path, limits: &Limits) -> Result<Catalog, Error> {
    let mut builder = Builder::default();
    folder(root, limits, &mut |document| builder.add(document))?;
    finish(builder, || root.display().to_string())
}

/// The catalog in a stream. Blocks. `name` stands in messages.
pub fn catalog_of_stream(name: &str, body: &mut dyn std::io::Read, limits: &Limits) -> Result<Catalog, Error> {
    let mut builder = Builder::default();
    stream(name, body, limits, &mut |document| builder.add(document))?;
    finish(builder, || name.to_owned())
}

pub(crate) fn finish(builder: Builder, path: impl FnOnce() -> String) -> Result<Catalog, Error> {
    if builder.is_full() {
        return Err(Error::TooMuch { path: path(), maximum: MAX_KEPT_BYTES, what: "bytes of memory" });
    }
    match builder.finish() {
        (catalog, Some(schema)) if catalog.packages.is_empty() => Err(Error::Template { path: path(), schema }),
        (catalog, _) => Ok(catalog),
    }
}
