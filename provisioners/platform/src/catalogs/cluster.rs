//! ClusterCatalogs, as PlatformOperators ask them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::Store;
use rukpak_catalog::Catalog;
use rukpak_crds::Condition;
use rukpak_crds::condition::{ConditionStatus, Conditions as _, VERIFIED};
use rukpak_crds::olm::ClusterCatalog;
use rukpak_crds::olm::cluster_catalog::{AvailabilityMode, SERVING};
use tokio_util::sync::CancellationToken;

use super::{Error, Wanted};
use crate::cluster_catalog::content::{content, progress};
use crate::cluster_catalog::store::CatalogStore;
use crate::policies::Verified;

/// What stands before the name in a status. No namespace of a CatalogSource has a capital letter.
const PREFIX: &str = "ClusterCatalog/";

/// The ClusterCatalogs of the cluster.
pub(crate) struct ClusterCatalogs {
    objects: Store<ClusterCatalog>,
    content: Arc<CatalogStore>,
    /// Cancelled when it is known which there are, or that they cannot be looked at.
    pub known: CancellationToken,
}

/// What a status calls a ClusterCatalog.
pub(super) fn called(catalog: &ClusterCatalog) -> String {
    in_status(&catalog.name_any())
}

/// What a status calls the ClusterCatalog of this name.
pub(crate) fn in_status(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The name of the ClusterCatalog that a status calls so; what it is called, if it is none.
pub(crate) fn named(called: &str) -> &str {
    called.strip_prefix(PREFIX).unwrap_or(called)
}

impl ClusterCatalogs {
    /// `known` is cancelled when it is known which there are, or that they cannot be looked at.
    pub fn new(objects: Store<ClusterCatalog>, content: Arc<CatalogStore>, known: CancellationToken) -> Self {
        Self { objects, content, known }
    }

    /// What a status calls each of them.
    pub(super) fn names(&self) -> Vec<String> {
        self.asked(Wanted::Any).iter().map(|catalog| called(catalog)).collect()
    }

    /// Those that are `wanted` and not switched off, by name.
    pub(super) fn asked(&self, wanted: Wanted<'_>) -> Vec<Arc<ClusterCatalog>> {
        let is_wanted = |catalog: &Arc<ClusterCatalog>| {
            let is_meant = match wanted {
                Wanted::Any => true,
                Wanted::Named(name) => catalog.name_any() == name || called(catalog) == name,
                Wanted::Origin(name) => called(catalog) == name,
            };
            is_meant
                && catalog.metadata.deletion_timestamp.is_none()
                && catalog.spec.availability_mode == AvailabilityMode::Available
        };
        let mut asked = self.objects.state();
        asked.retain(is_wanted);
        asked.sort_by_key(|catalog| catalog.name_any());
        asked
    }

    /// Another number whenever one of those that are `wanted` may say something else than before.
    pub(super) fn state(&self, wanted: Wanted<'_>) -> u64 {
        let numbers = self.asked(wanted).into_iter().map(|catalog| {
            let status = catalog.status.as_ref();
            let is_served = status.is_some_and(|status| status.conditions.is(SERVING, ConditionStatus::True));
            let resolved = status.and_then(|status| status.resolved_source.as_ref());
            let mut hasher = DefaultHasher::new();
            (catalog.uid(), catalog.spec.priority, is_served).hash(&mut hasher);
            resolved.map(|source| &source.image.reference).hash(&mut hasher);
            hasher.finish()
        });
        numbers.fold(0, u64::wrapping_add)
    }

    /// What is said of the image of the one that a status calls `name`.
    pub(super) fn verified(&self, name: &str) -> Verified {
        let catalog = self.asked(Wanted::Origin(name)).into_iter().next();
        let status = catalog.as_ref().and_then(|catalog| catalog.status.as_ref());
        match status.and_then(|status| status.conditions.find(VERIFIED)).cloned() {
            Some(Condition { status, reason, message, .. }) => Verified::Said { status, reason, message },
            None => Verified::Uncovered,
        }
    }

    /// What one of them holds.
    pub(super) async fn content(&self, catalog: &ClusterCatalog) -> Result<Arc<Catalog>, Error> {
        content(catalog, &self.content)
            .await
            .map_err(|error| Error::Unserved { name: catalog.name_any(), why: format!("{error}{}", progress(catalog)) })
    }
}
