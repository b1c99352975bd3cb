//! Catalog images.

use anyhow::Result;

use super::{Documents, documents};
use crate::Registry;
use crate::registry::{ImageBuilder, Layer, Pushed, TarEntry};

/// Names the folder with the catalog.
pub const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// Names a database of the days before file-based catalogs.
pub const SQLITE_LABEL: &str = "operators.operatorframework.io.index.database.v1";

/// A catalog image to be pushed.
#[derive(Debug, Clone)]
pub struct CatalogImage {
    layers: Vec<Layer>,
    labels: Vec<(String, String)>,
}

impl CatalogImage {
    /// As `opm generate dockerfile` has it made: `catalog.json` in `/configs/<package>`, a cache beside it, and the label.
    pub fn of(catalog: Documents) -> Result<Self> {
        let text = documents::checked(catalog)?.json_lines();
        let files = [
            TarEntry::directory("configs/"),
            TarEntry::directory("configs/all/"),
            TarEntry::file("configs/all/catalog.json", text),
            TarEntry::directory("tmp/"),
            TarEntry::directory("tmp/cache/"),
            TarEntry::file("tmp/cache/digest", "0"),
        ];
        Ok(Self::of_layers([Layer::new(files)]).label(CONFIGS_LABEL, "/configs"))
    }

    /// These layers, without any label.
    pub fn of_layers(layers: impl IntoIterator<Item = Layer>) -> Self {
        Self { layers: layers.into_iter().collect(), labels: Vec::new() }
    }

    /// With another layer on top.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// With this label, in place of one of the same name.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.retain(|(label, _)| label != name);
        self.labels.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Pushes it to `repository` with `tag`.
    pub async fn push(self, registry: &Registry, repository: &str, tag: &str) -> Result<Pushed> {
        registry.push(repository, tag, &ImageBuilder::new(self.layers).labels(self.labels)).await
    }
}
