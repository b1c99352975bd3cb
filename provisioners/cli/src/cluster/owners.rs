//! Who has a BundleDeployment: the objects that can, and the write that hands it over.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Api, ResourceExt as _};
use rukpak_crds::{BundleDeployment, PlatformOperator};
use serde_json::json;

use super::{Cluster, Error, FIELD_MANAGER};

impl Cluster {
    pub async fn platform_operator(&self, name: &str) -> Result<PlatformOperator, Error> {
        Api::all(self.client.clone()).get(name).await.map_err(|error| self.fault(error))
    }

    /// Creates an object of a cluster; one of its name that is there already is taken for it.
    pub async fn create_unless_there(
        &self,
        resource: &ApiResource,
        object: &DynamicObject,
    ) -> Result<DynamicObject, Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match api.create(&parameters, object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => api.get(&object.name_any()).await,
            created => created,
        }
        .map_err(|error| self.fault(error))
    }

    /// Deletes an object of a cluster, if it is still the one of this UID.
    pub async fn delete_owner(&self, resource: &ApiResource, owner: &OwnerReference) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let preconditions = Some(Preconditions { uid: Some(owner.uid.clone()), resource_version: None });
        match api.delete(&owner.name, &DeleteParams { preconditions, ..DeleteParams::background() }).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop).map_err(|error| self.fault(error)),
        }
    }

    /// Makes `owner` the controller of a BundleDeployment in place of the one there is, in one write, provided nothing else has changed it
    /// since it was read.
    pub async fn hand_over(&self, deployment: &BundleDeployment, owner: Option<OwnerReference>) -> Result<(), Error> {
        let others = deployment.owner_references().iter().filter(|other| other.controller != Some(true)).cloned();
        let owners: Vec<OwnerReference> = others.chain(owner).collect();
        let patch = json!({"metadata": {
            "uid": deployment.uid(), "resourceVersion": deployment.resource_version(), "ownerReferences": owners,
        }});
        self.merge(&deployment.name_any(), &patch).await.map(drop)
    }
}
