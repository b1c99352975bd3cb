//! Every write to an object of a bundle. Nothing else in the program sends one.
//!
//! A writer is for one BundleDeployment, and has the rights of its ServiceAccount, or the controller's where it names none.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use rukpak_crds::names::{FIELD_MANAGER, SHARING_MANAGER, UNITED_VERSIONS};
use rukpak_plan::owner::in_common;
use rukpak_plan::{Identity, Owner};
use serde_json::{Value, json};

use super::{Account, Door, Error, Written};

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone.
    Gone,
    /// It goes: now, or when its finalizers are off.
    Accepted,
    /// It was not there.
    Absent,
}

/// What becomes of the objects that hang on one that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
}

/// Sends writes, a bounded number at once, whoever they are for.
pub struct Writer {
    door: Door,
    account: Option<Account>,
}

impl Writer {
    pub(super) fn new(door: Door, account: Option<Account>) -> Self {
        Self { door, account }
    }

    /// Whose rights the writes are made with, if not with the controller's own.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Server-side apply of `body`, forced for the fields that it names.
    pub async fn apply(&self, identity: &Identity, body: &Value, dry_run: bool) -> Result<Written, Error> {
        let _permit = self.door.permit().await;
        let params = PatchParams { dry_run, ..PatchParams::apply(FIELD_MANAGER).force() };
        let object = self.door.api(identity).patch(&identity.name, &params, &Patch::Apply(body)).await?;
        Ok(Written { metadata: object.metadata, body: object.data })
    }

    /// Deletes exactly the object that was looked at: other UID or other version, and it stays. Gone already is fine.
    pub async fn delete(
        &self,
        identity: &Identity,
        metadata: &ObjectMeta,
        propagation: Propagation,
    ) -> Result<Deleted, Error> {
        let _permit = self.door.permit().await;
        let params = match propagation {
            Propagation::Background => DeleteParams::background(),
            Propagation::Foreground => DeleteParams::foreground(),
        };
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
            }),
            ..params
        };
        match self.door.api(identity).delete(&identity.name, &params).await.map_err(Error::from) {
            Ok(answer) if answer.is_right() => Ok(Deleted::Gone),
            // Some kinds answer with the object in either case.
            Ok(_) => Ok(Deleted::Accepted),
            Err(error) if error.is_not_found() => Ok(Deleted::Absent),
            Err(error) => Err(error),
        }
    }

    /// Takes our marks off an object, so that neither we nor garbage collection will ever delete it. A later version of the
    /// same deployment that has the object may take it back.
    pub async fn release(&self, identity: &Identity, metadata: &ObjectMeta, owner: &Owner) -> Result<(), Error> {
        use rukpak_crds::names;
        let others: Vec<_> =
            metadata.owner_references.iter().flatten().filter(|reference| reference.uid != owner.uid).collect();
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "labels": {names::OWNER_KIND: null, names::OWNER_NAME: null},
            "annotations": {names::OWNER_UID: null, names::PRIMARY_RESOURCE: null, names::PRIMARY_RESOURCE_TYPE: null,
                names::ADOPT_BY: owner.name},
            "ownerReferences": others,
        }});
        self.merge(identity, FIELD_MANAGER, patch).await?;
        Ok(())
    }

    /// Takes our owner reference off an object that other BundleDeployments share: it is as if this one were gone. The labels stay, by
    /// which the others find it.
    pub async fn hand_over(&self, identity: &Identity, metadata: &ObjectMeta, owner: &Owner) -> Result<(), Error> {
        let others: Vec<_> =
            metadata.owner_references.iter().flatten().filter(|reference| reference.uid != owner.uid).collect();
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": {rukpak_crds::names::OWNER_UID: null},
            "ownerReferences": others,
        }});
        self.merge(identity, FIELD_MANAGER, patch).await?;
        Ok(())
    }

    /// Adds an owner that is no controller, provided the object is still the one that was looked at: garbage collection then
    /// leaves it until all owners are gone.
    pub async fn share(&self, identity: &Identity, metadata: &ObjectMeta, owner: &Owner) -> Result<(), Error> {
        let patch = json!({"metadata": shared(metadata, owner)});
        self.merge(identity, SHARING_MANAGER, patch).await?;
        Ok(())
    }

    /// Does the same to a CRD, and gives it these versions.
    pub async fn extend(
        &self,
        identity: &Identity,
        metadata: &ObjectMeta,
        owner: &Owner,
        versions: &Value,
        dry_run: bool,
    ) -> Result<(), Error> {
        let _permit = self.door.permit().await;
        let mut patch = json!({"metadata": shared(metadata, owner), "spec": {"versions": versions}});
        // Whoever leads it keeps them, also when this one is gone before it has looked.
        patch["metadata"]["annotations"][UNITED_VERSIONS] = json!("true");
        let manager = Some(SHARING_MANAGER.to_owned());
        let params = PatchParams { field_manager: manager, dry_run, ..PatchParams::default() };
        self.door.api(identity).patch(&identity.name, &params, &Patch::Merge(patch)).await?;
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
        let others = metadata.owner_references.iter().flatten().filter(|other| other.controller != Some(true)).cloned();
        let owners: Vec<OwnerReference> = others.chain([owner.reference()]).collect();
        let mut patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": owners}});
        if let Some(entries) = managed_fields {
            patch["metadata"]["managedFields"] = json!(entries);
        }
        self.merge(identity, FIELD_MANAGER, patch).await
    }

    /// Has an object stored anew as it is, in the version that is stored now, provided it is still the one that was looked at. Returns
    /// what it is then: of the same version where it was stored so already.
    pub async fn rewrite(&self, resource: &ApiResource, metadata: &ObjectMeta) -> Result<ObjectMeta, Error> {
        let _permit = self.door.permit().await;
        let (api, name, patch) = self.rewriting(resource, metadata);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        Ok(api.patch_metadata(name, &params, &patch).await?.metadata)
    }

    /// Asks what [`rewrite`](Self::rewrite) would store.
    pub(crate) async fn try_rewrite(
        &self,
        resource: &ApiResource,
        metadata: &ObjectMeta,
    ) -> Result<DynamicObject, Error> {
        let _permit = self.door.permit().await;
        let (api, name, patch) = self.rewriting(resource, metadata);
        let manager = Some(FIELD_MANAGER.to_owned());
        let params = PatchParams { field_manager: manager, dry_run: true, ..PatchParams::default() };
        Ok(api.patch(name, &params, &patch).await?)
    }

    /// Nothing but the version that was looked at is sent: no field is changed, and none becomes ours.
    fn rewriting<'a>(
        &self,
        resource: &ApiResource,
        metadata: &'a ObjectMeta,
    ) -> (Api<DynamicObject>, &'a str, Patch<Value>) {
        let api = self.door.scoped(resource, metadata.namespace.as_deref());
        let patch = json!({"metadata": {"resourceVersion": metadata.resource_version}});
        (api, metadata.name.as_deref().unwrap_or_default(), Patch::Merge(patch))
    }

    /// Says of a CRD that objects are stored in no version but these, provided it is still the one that was looked at.
    pub(crate) async fn set_stored_versions(
        &self,
        identity: &Identity,
        metadata: &ObjectMeta,
        versions: &[&str],
    ) -> Result<(), Error> {
        let _permit = self.door.permit().await;
        let patch = json!({"metadata": {"resourceVersion": metadata.resource_version},
            "status": {"storedVersions": versions}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.door.api(identity).patch_status(&identity.name, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Rewrites who owns which fields, provided the object is still the one that was looked at. Returns what it is then.
    pub(crate) async fn move_fields(
        &self,
        identity: &Identity,
        metadata: &ObjectMeta,
        managed_fields: &[ManagedFieldsEntry],
    ) -> Result<ObjectMeta, Error> {
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "managedFields": managed_fields,
        }});
        self.merge(identity, FIELD_MANAGER, patch).await
    }

    /// Merges `patch` into the metadata of an object as `manager`. Returns what it is then.
    async fn merge(&self, identity: &Identity, manager: &str, patch: Value) -> Result<ObjectMeta, Error> {
        let _permit = self.door.permit().await;
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let object = self.door.api(identity).patch_metadata(&identity.name, &params, &Patch::Merge(patch)).await?;
        Ok(object.metadata)
    }
}

/// The metadata of an object with one more owner, which is no controller, provided it is still the one that was looked at. What is used in
/// common outlives all of them, and says only that it is used.
fn shared(metadata: &ObjectMeta, owner: &Owner) -> Value {
    if in_common(metadata).is_some() {
        return json!({"resourceVersion": metadata.resource_version, "annotations": {UNITED_VERSIONS: "true"}});
    }
    let mut owners = metadata.owner_references.clone().unwrap_or_default();
    if !owners.iter().any(|other| other.uid == owner.uid) {
        owners.push(OwnerReference { controller: None, block_owner_deletion: None, ..owner.reference() });
    }
    json!({"resourceVersion": metadata.resource_version, "ownerReferences": owners})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::GroupVersionKind;
    use rukpak_plan::Kind;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::cluster::tests::client;

    /// What somebody disowned or took since it was looked at is in another version, and stays as it is.
    #[tokio::test]
    async fn every_write_but_an_apply_names_the_object_and_the_version_that_was_looked_at() {
        let (client, asked) = client(|asked| match asked.what.split(' ').next() {
            Some("DELETE") => json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
            _ => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}),
        });
        let writer = Writer::new(Door { client, permits: Arc::new(Semaphore::new(1)) }, None);
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap")));
        let kind = Kind { resource, namespaced: true };
        let identity = Identity { kind, namespace: Some("ns".to_owned()), name: "a".to_owned() };
        let metadata: ObjectMeta =
            serde_json::from_value(json!({"name": "a", "uid": "u", "resourceVersion": "7"})).unwrap();
        let owner = Owner { name: "app".to_owned(), uid: "1".to_owned() };

        for propagation in [Propagation::Background, Propagation::Foreground] {
            assert_eq!(writer.delete(&identity, &metadata, propagation).await.unwrap(), Deleted::Gone);
        }
        writer.release(&identity, &metadata, &owner).await.unwrap();
        writer.hand_over(&identity, &metadata, &owner).await.unwrap();
        writer.share(&identity, &metadata, &owner).await.unwrap();
        writer.extend(&identity, &metadata, &owner, &json!([]), false).await.unwrap();
        writer.take_over(&identity, &metadata, None, &owner).await.unwrap();
        writer.move_fields(&identity, &metadata, &[]).await.unwrap();
        let looked_at = ObjectMeta { namespace: Some("ns".to_owned()), ..metadata.clone() };
        writer.rewrite(&identity.kind.resource, &looked_at).await.unwrap();
        writer.try_rewrite(&identity.kind.resource, &looked_at).await.unwrap();
        writer.set_stored_versions(&identity, &metadata, &["v2"]).await.unwrap();

        let asked = asked.lock().unwrap();
        let (deletions, patches) = asked.split_at(2);
        for (deletion, policy) in deletions.iter().zip(["Background", "Foreground"]) {
            assert_eq!(deletion.what, "DELETE /api/v1/namespaces/ns/configmaps/a");
            assert_eq!(deletion.body["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
            assert_eq!(deletion.body["propagationPolicy"], policy);
        }
        assert_eq!(patches.len(), 9);
        for patch in patches {
            let what = patch.what.strip_suffix("/status").unwrap_or(&patch.what);
            assert_eq!(what, "PATCH /api/v1/namespaces/ns/configmaps/a");
            assert_eq!(patch.body["metadata"]["resourceVersion"], "7", "{patch:?}");
        }
    }
}
