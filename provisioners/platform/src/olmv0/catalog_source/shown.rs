//! How the catalog of an image is shown to other clients. Pure.

use rukpak_catalog::registry::server::Stage;

/// The port of every Service of a CatalogSource, and of ours.
pub(in crate::olmv0) const PORT: u16 = 50051;

/// What it takes to show a catalog.
pub(in crate::olmv0) struct Shown {
    /// For documents of the global namespace's catalogs.
    pub global: Stage,
    /// For those of all others, so that nobody who writes CatalogSources there takes the room from the former.
    pub others: Stage,
    /// The DNS name of our Service.
    pub host: String,
}

/// The name of the Service of a CatalogSource: OLM's.
pub(in crate::olmv0) fn service(source: &str) -> String {
    source.replace('.', "-")
}
