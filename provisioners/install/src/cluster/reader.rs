//! Every read of objects that bundles have, with the controller's own rights, whoever they are written for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams, ObjectList};
use kube::core::{ApiResource, PartialObjectMeta};
use rukpak_plan::Identity;

use super::{Door, Error, Written};

/// Metadata of a page of objects.
pub type Metadata = ObjectList<PartialObjectMeta<DynamicObject>>;

/// Sends reads, a bounded number of requests at once together with the writes.
pub struct Reader {
    door: Door,
}

impl Reader {
    pub(super) fn new(door: Door) -> Self {
        Self { door }
    }

    /// The object's metadata; `None` if it is not there.
    pub async fn metadata(&self, identity: &Identity) -> Result<Option<ObjectMeta>, Error> {
        let _permit = self.door.permit().await;
        let found: Option<PartialObjectMeta<DynamicObject>> =
            self.door.api(identity).get_metadata_opt(&identity.name).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// The whole object; `None` if it is not there.
    pub async fn get(&self, identity: &Identity) -> Result<Option<Written>, Error> {
        let _permit = self.door.permit().await;
        let found = self.door.api(identity).get_opt(&identity.name).await?;
        Ok(found.map(|object| Written { metadata: object.metadata, body: object.data }))
    }

    /// One page of all objects of a kind.
    pub async fn list(&self, resource: &ApiResource, page: &ListParams) -> Result<ObjectList<DynamicObject>, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, None).list(page).await.map_err(Error::from)
    }

    /// One page of the objects of a kind in one namespace.
    pub async fn list_in(
        &self,
        resource: &ApiResource,
        namespace: &str,
        page: &ListParams,
    ) -> Result<ObjectList<DynamicObject>, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, Some(namespace)).list(page).await.map_err(Error::from)
    }

    /// One page of the metadata of all objects of a kind.
    pub async fn list_metadata(&self, resource: &ApiResource, page: &ListParams) -> Result<Metadata, Error> {
        self.list_metadata_in(resource, None, page).await
    }

    /// One page of the metadata of the objects of a kind, in one namespace or all.
    pub async fn list_metadata_in(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        page: &ListParams,
    ) -> Result<Metadata, Error> {
        let _permit = self.door.permit().await;
        self.door.scoped(resource, namespace).list_metadata(page).await.map_err(Error::from)
    }
}
