//! Every write to an object of a bundle. Nothing else in the program sends one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectList, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Api, Client};
use rukpak_crds::names::{FIELD_MANAGER, SHARING_MANAGER};
use rukpak_plan::{Identity, Owner};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Error, answered};

/// What the API server answered to an apply: the object as it stands now.
pub struct Written {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The whole object, metadata left out.
    pub body: Value,
}

/// Metadata of a page of objects.
pub type Metadata = ObjectList<PartialObjectMeta<DynamicObject>>;

/// Sends writes, a bounded number at once.
pub struct Writer {
    client: Client,
    permits: Semaphore,
}

impl Writer {
    pub(super) fn new(client: Client, in_flight: usize) -> Self {
        Self { client, permits: Semaphore::new(in_flight) }
    }

    fn api(&self, identity: &Identity) -> Api<DynamicObject> {
        self.scoped(&identity.kind.resource, identity.namespace.as_deref())
    }

    /// The API of one kind, in one namespace or all.
    fn scoped(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    async fn permit(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // The semaphore is never closed; without a permit the request goes out all the same.
        self.permits.acquire().await.ok()
    }

    /// Server-side apply of `body`, forced for the fields that it names.
    pub async fn apply(&self, identity: &Identity, body: &Value, dry_run: bool) -> Result<Written, Error> {
        let _permit = self.permit().await;
        let params = PatchParams { dry_run, ..PatchParams::apply(FIELD_MANAGER).force() };
        let object = answered(self.api(identity).patch(&identity.name, &params, &Patch::Apply(body))).await?;
        Ok(Written { metadata: object.metadata, body: object.data })
    }

    /// Creates the object by a POST. Its fields are then those of an update by us, not of an apply: see [`Self::move_fields`].
    pub async fn create(&self, identity: &Identity, body: &Value, dry_run: bool) -> Result<Written, Error> {
        let new: DynamicObject = serde_json::from_value(body.clone()).map_err(unreadable)?;
        let _permit = self.permit().await;
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let object = answered(self.api(identity).create(&params, &new)).await?;
        Ok(Written { metadata: object.metadata, body: object.data })
    }

    /// The object's metadata; `None` if it is not there.
    pub async fn metadata(&self, identity: &Identity) -> Result<Option<ObjectMeta>, Error> {
        let _permit = self.permit().await;
        let found: Option<PartialObjectMeta<DynamicObject>> =
            answered(self.api(identity).get_metadata_opt(&identity.name)).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// The whole object; `None` if it is not there.
    pub async fn get(&self, identity: &Identity) -> Result<Option<Written>, Error> {
        let _permit = self.permit().await;
        let found = answered(self.api(identity).get_opt(&identity.name)).await?;
        Ok(found.map(|object| Written { metadata: object.metadata, body: object.data }))
    }

    /// One page of all objects of a kind.
    pub async fn list(&self, resource: &ApiResource, page: &ListParams) -> Result<ObjectList<DynamicObject>, Error> {
        let _permit = self.permit().await;
        answered(self.scoped(resource, None).list(page)).await
    }

    /// One page of the objects of a kind in one namespace.
    pub async fn list_in(
        &self,
        resource: &ApiResource,
        namespace: &str,
        page: &ListParams,
    ) -> Result<ObjectList<DynamicObject>, Error> {
        let _permit = self.permit().await;
        answered(self.scoped(resource, Some(namespace)).list(page)).await
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
        let _permit = self.permit().await;
        answered(self.scoped(resource, namespace).list_metadata(page)).await
    }

    /// Deletes exactly the object that was looked at: other UID or other version, and it stays. Gone already is fine; returns
    /// whether it was there.
    pub async fn delete(&self, identity: &Identity, metadata: &ObjectMeta) -> Result<bool, Error> {
        let _permit = self.permit().await;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
            }),
            ..DeleteParams::background()
        };
        match answered(self.api(identity).delete(&identity.name, &params)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes our marks off an object, so that neither we nor garbage collection will ever delete it. A later version of the
    /// same deployment that has the object may take it back.
    pub async fn release(&self, identity: &Identity, metadata: &ObjectMeta, owner: &Owner) -> Result<(), Error> {
        use rukpak_crds::names;
        let _permit = self.permit().await;
        let others: Vec<_> =
            metadata.owner_references.iter().flatten().filter(|reference| reference.uid != owner.uid).collect();
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "labels": {names::OWNER_KIND: null, names::OWNER_NAME: null},
            "annotations": {names::OWNER_UID: null, names::PRIMARY_RESOURCE: null, names::PRIMARY_RESOURCE_TYPE: null,
                names::ADOPT_BY: owner.name},
            "ownerReferences": others,
        }});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        answered(self.api(identity).patch_metadata(&identity.name, &params, &Patch::Merge(patch))).await?;
        Ok(())
    }

    /// Adds an owner that is no controller, provided the object is still the one that was looked at: garbage collection then
    /// leaves it until all owners are gone.
    pub async fn share(&self, identity: &Identity, metadata: &ObjectMeta, owner: &Owner) -> Result<(), Error> {
        let _permit = self.permit().await;
        let mut owners = metadata.owner_references.clone().unwrap_or_default();
        owners.push(OwnerReference { controller: None, block_owner_deletion: None, ..owner.reference() });
        let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": owners}});
        let params = PatchParams { field_manager: Some(SHARING_MANAGER.to_owned()), ..PatchParams::default() };
        answered(self.api(identity).patch_metadata(&identity.name, &params, &Patch::Merge(patch))).await?;
        Ok(())
    }

    /// Makes `owner` the controller in place of the one there is, provided the object is still the one that was looked at, and rewrites who
    /// owns which fields where `managed_fields` says. Returns what it is then.
    pub async fn take_over(
        &self,
        identity: &Identity,
        metadata: &ObjectMeta,
        managed_fields: Option<&[ManagedFieldsEntry]>,
        owner: &Owner,
    ) -> Result<ObjectMeta, Error> {
        let _permit = self.permit().await;
        let others = metadata.owner_references.iter().flatten().filter(|other| other.controller != Some(true)).cloned();
        let owners: Vec<OwnerReference> = others.chain([owner.reference()]).collect();
        let mut patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": owners}});
        if let Some(entries) = managed_fields {
            patch["metadata"]["managedFields"] = json!(entries);
        }
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let object = answered(self.api(identity).patch_metadata(&identity.name, &params, &Patch::Merge(patch))).await?;
        Ok(object.metadata)
    }

    /// Rewrites who owns which fields, provided the object is still the one that was looked at. Returns what it is then.
    pub async fn move_fields(
        &self,
        identity: &Identity,
        metadata: &ObjectMeta,
        managed_fields: &[ManagedFieldsEntry],
    ) -> Result<ObjectMeta, Error> {
        let _permit = self.permit().await;
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "managedFields": managed_fields,
        }});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let object = answered(self.api(identity).patch_metadata(&identity.name, &params, &Patch::Merge(patch))).await?;
        Ok(object.metadata)
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Unavailable(Box::new(kube::Error::SerdeError(error)))
}
