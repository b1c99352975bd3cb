//! What a ClusterCatalog holds, for those who choose from it. Memory; after a restart the disk.

use std::sync::Arc;

use kube::ResourceExt;
use rukpak_catalog::Catalog;
use rukpak_crds::condition::{ConditionStatus, Conditions as _};
use rukpak_crds::olm::cluster_catalog::SERVING;
use rukpak_crds::olm::{ClusterCatalog, PROGRESSING};
use rukpak_runtime::error::Chain;

use super::store::CatalogStore;

/// What a catalog has; why that cannot be known, in operator-controller's words.
pub(crate) async fn content(catalog: &ClusterCatalog, store: &CatalogStore) -> Result<Arc<Catalog>, String> {
    let name = catalog.name_any();
    let status = catalog.status.as_ref();
    if !status.is_some_and(|status| status.conditions.is(SERVING, ConditionStatus::True)) {
        return Err(format!("catalog {name:?} is not being served"));
    }
    let Some(stored) = store.get(&name) else { return Err(format!("cache for catalog {name:?} not found")) };
    stored.catalog().await.map_err(|error| format!("error retrieving cache for catalog {name:?}: {}", Chain(&error)))
}

/// What the catalog says of itself, in brackets; empty if it says nothing.
pub(crate) fn progress(catalog: &ClusterCatalog) -> String {
    let status = catalog.status.as_ref();
    let progressing = status.and_then(|status| status.conditions.find(PROGRESSING));
    progressing.map(|condition| format!(" ({}: {})", condition.reason, condition.message)).unwrap_or_default()
}
