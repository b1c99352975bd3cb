//! Objects of any kind, read and written one at a time: for verbs that change what belongs to no BundleDeployment.

use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, Preconditions, TypeMeta};
use kube::core::{ObjectList, PartialObjectMeta};
use kube::runtime::wait::{await_condition, conditions};
use rukpak_plan::{Identity, Kind};
use serde_json::Value;

use super::{Cluster, Error, creating, merging};

/// What becomes of the objects that have a deleted object as their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They go as well, if they have no other owner.
    Go,
    /// They stay, and lose this owner.
    Stay,
}

/// So many objects are asked for in one request.
const PAGE: u32 = 500;

impl Cluster {
    /// All objects of a kind, in one namespace or in all, which have these labels.
    pub async fn all_of(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<DynamicObject>, Error> {
        let api = self.api(&kind.resource, namespace);
        let mut all = all_pages(labels, async |page: &ListParams| api.list(page).await)
            .await
            .map_err(|error| self.fault(error))?;
        for object in &mut all {
            object.types = Some(types_of(&kind.resource));
        }
        Ok(all)
    }

    /// The same, without what is in the objects. There are none of a kind that goes meanwhile.
    pub async fn metadata_of(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, Error> {
        let api = self.api(&kind.resource, namespace);
        match all_pages(labels, async |page: &ListParams| api.list_metadata(page).await).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            listed => listed.map_err(|error| self.fault(error)),
        }
    }

    /// Creates an object; returns the one that is there if there is one already.
    pub async fn create_any(&self, identity: &Identity, object: &Value) -> Result<DynamicObject, Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        let object = serde_json::from_value(object.clone()).map_err(|error| self.fault(kube::Error::SerdeError(error)));
        match api.create(&creating(), &object?).await {
            Err(kube::Error::Api(status)) if status.code == 409 => api.get(&identity.name).await,
            created => created,
        }
        .map_err(|error| self.fault(error))
    }

    /// Merges a patch into an object.
    pub async fn merge_any(&self, identity: &Identity, patch: &Value) -> Result<DynamicObject, Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        let merged = api.patch(&identity.name, &merging(), &Patch::Merge(patch)).await;
        merged.map_err(|error| self.fault(error))
    }

    /// Merges a status into an object.
    pub async fn merge_status(&self, identity: &Identity, status: &Value) -> Result<(), Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        let patch = serde_json::json!({ "status": status });
        let merged = api.patch_status(&identity.name, &merging(), &Patch::Merge(&patch)).await;
        merged.map(drop).map_err(|error| self.fault(error))
    }

    /// Deletes an object, if it is still the one of this UID. Whether it was there.
    pub async fn delete_any(&self, identity: &Identity, uid: &str, dependents: Dependents) -> Result<bool, Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        let parameters = match dependents {
            Dependents::Go => DeleteParams::background(),
            Dependents::Stay => DeleteParams::orphan(),
        };
        let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        match api.delete(&identity.name, &DeleteParams { preconditions, ..parameters }).await {
            // A conflict: another object has the name by now.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(false),
            deleted => deleted.map(|_| true).map_err(|error| self.fault(error)),
        }
    }

    /// Waits until the object of this UID is gone.
    pub async fn until_gone(&self, identity: &Identity, uid: &str) -> Result<(), Error> {
        let api = self.api(&identity.kind.resource, identity.namespace.as_deref());
        match await_condition(api, &identity.name, conditions::is_deleted(uid)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Unavailable { cluster: self.name.clone(), source: Box::new(error) }),
        }
    }
}

/// Returns the type of the objects of a list, which the list does not say of each.
pub(super) fn types_of(resource: &ApiResource) -> TypeMeta {
    TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() }
}

/// Reads a list page by page.
async fn all_pages<T: Clone>(
    labels: &str,
    read: impl AsyncFn(&ListParams) -> Result<ObjectList<T>, kube::Error>,
) -> Result<Vec<T>, kube::Error> {
    let mut page = ListParams::default().labels(labels).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let list = read(&page).await?;
        all.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}
