//! OLM v1's kinds. A cluster without them refuses with 404.

use std::fmt::Debug;

use kube::core::ClusterResourceScope;
use kube::{Api, Resource};
use rukpak_crds::olm::{ClusterCatalog, ClusterExtension};
use serde::de::DeserializeOwned;

use super::{Cluster, Error, changes};

impl Cluster {
    pub async fn catalog(&self, name: &str) -> Result<ClusterCatalog, Error> {
        self.all().get(name).await.map_err(|error| self.fault(error))
    }

    pub async fn catalogs(&self) -> Result<Vec<ClusterCatalog>, Error> {
        self.listed(None).await
    }

    pub async fn extension(&self, name: &str) -> Result<ClusterExtension, Error> {
        self.all().get(name).await.map_err(|error| self.fault(error))
    }

    /// The ClusterExtensions that have these labels, by name.
    pub async fn extensions(&self, labels: Option<&str>) -> Result<Vec<ClusterExtension>, Error> {
        self.listed(labels).await
    }

    fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    async fn listed<K>(&self, labels: Option<&str>) -> Result<Vec<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let listed = self.all().list(&changes::selected(labels)).await.map_err(|error| self.fault(error))?;
        let mut objects: Vec<K> = listed.items;
        objects.sort_by_key(kube::ResourceExt::name_any);
        Ok(objects)
    }
}
