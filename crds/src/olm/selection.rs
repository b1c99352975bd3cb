//! Which ClusterCatalogs an extension's package is looked up in. Pure.

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt as _};

use super::cluster_extension::CatalogFilter;
use super::{CATALOG_NAME_LABEL, ClusterCatalog};

/// `spec.source.catalog.selector`, understood.
#[derive(Clone, Debug)]
pub struct CatalogSelector(Selector);

/// It holds an operator that there is not, or values that do not go with one. The words are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("desired catalog selector is invalid: {0}")]
pub struct BadSelector(String);

impl CatalogFilter {
    /// The selector; without one, all catalogs are chosen.
    ///
    /// # Errors
    /// The schema leaves operators open, so they are looked at here.
    pub fn selector(&self) -> Result<CatalogSelector, BadSelector> {
        let selector = self.selector.clone().unwrap_or_default();
        Selector::try_from(selector).map(CatalogSelector).map_err(|error| BadSelector(error.to_string()))
    }
}

impl CatalogSelector {
    /// Whether it chooses the catalog. One that is being deleted is chosen no more.
    pub fn chooses(&self, catalog: &ClusterCatalog) -> bool {
        let mut labels = catalog.labels().clone();
        // The label may be on its way.
        labels.insert(CATALOG_NAME_LABEL.to_owned(), catalog.name_any());
        catalog.metadata.deletion_timestamp.is_none() && self.0.matches(&labels)
    }
}
