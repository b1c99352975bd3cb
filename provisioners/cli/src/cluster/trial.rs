//! Objects as they are, and as the controller's next write would make them: dry runs, which the API server validates, admits
//! and does not store.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ObjectList, PartialObjectMeta};
use rukpak_crds::names::FIELD_MANAGER as CONTROLLER;
use rukpak_plan::Identity;
use serde_json::Value;

use super::{Cluster, Error};

impl Cluster {
    pub(super) fn api(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    /// The object as it is; `None` if it is not there.
    pub async fn live(&self, identity: &Identity) -> Result<Option<DynamicObject>, Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        api.get_opt(&identity.name).await.map_err(|error| self.fault(error))
    }

    /// The object as a server-side apply by the controller would leave it. Nothing is written.
    pub async fn dry_run(&self, identity: &Identity, body: &Value) -> Result<DynamicObject, Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        let parameters = PatchParams::apply(CONTROLLER).force().dry_run();
        api.patch(&identity.name, &parameters, &Patch::Apply(body)).await.map_err(|error| self.fault(error))
    }

    /// One page of the objects of a kind.
    pub async fn page(&self, resource: &ApiResource, page: &ListParams) -> Result<ObjectList<DynamicObject>, Error> {
        self.api(resource, None).list(page).await.map_err(|error| self.fault(error))
    }

    /// One page of the metadata of the objects of a kind, in one namespace or all.
    pub async fn metadata_page(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, Error> {
        self.api(resource, namespace).list_metadata(page).await.map_err(|error| self.fault(error))
    }
}
