//! How the catalog of an image is shown to other clients. Pure.

use std::path::PathBuf;

/// The port of every Service of a CatalogSource, and of ours.
pub(in crate::olmv0) const PORT: u16 = 50051;

/// What it takes to show a catalog.
pub(in crate::olmv0) struct Shown {
    /// The folder for its documents.
    pub stage: PathBuf,
    /// The DNS name of our Service.
    pub host: String,
}

/// The name of the Service of a CatalogSource: OLM's.
pub(in crate::olmv0) fn service(source: &str) -> String {
    source.replace('.', "-")
}
