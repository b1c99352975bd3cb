//! BundleDeployments that are made for other objects: which object one belongs to, and how it is found, applied and deleted. Owner
//! references and deletion are also for what else is made for an object.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{ClusterResourceScope, Status};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::{BundleDeployment, names};
use rukpak_plan::owner::controller;
use rukpak_runtime::api::Error;
use rukpak_runtime::status::WrittenVersions;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What is found under the name of an object's BundleDeployment.
pub(crate) enum Existing {
    /// The one that was made for the object.
    Ours(Arc<BundleDeployment>),
    /// One that is on its way out. In words.
    Leaving(String),
    /// Somebody else's. In words.
    Foreign(String),
}

/// Returns whether `deployment` was made for `object`, and what to wait for or to do if not. Pure.
pub(crate) fn classify<K: Resource<DynamicType = ()>>(object: &K, deployment: Arc<BundleDeployment>) -> Existing {
    let (kind, name) = (K::kind(&()), deployment.name_any());
    if deployment.meta().deletion_timestamp.is_some() {
        return Existing::Leaving(format!("Waiting until the BundleDeployment {name} is deleted"));
    }
    match controller(&deployment.metadata) {
        Some(owner) if Some(&owner.uid) == object.meta().uid.as_ref() => Existing::Ours(deployment),
        // Of an earlier object of the same name: garbage collection takes it.
        Some(owner) if owner.kind == kind && owner.name == object.name_any() => {
            Existing::Leaving(format!("Waiting until the BundleDeployment {name} of an earlier {kind} is deleted"))
        }
        Some(owner) => Existing::Foreign(format!(
            "BundleDeployment {name} exists and belongs to {} {}; it is left alone. Give this {kind} another name",
            owner.kind, owner.name
        )),
        None => Existing::Foreign(format!(
            "BundleDeployment {name} exists and was not made for this {kind}; it is left alone. Give this {kind} another name; \
             deleting the BundleDeployment would delete what it has installed"
        )),
    }
}

/// Returns the name of the object of kind `K` that a BundleDeployment was made for; `None` if it was made for another kind, or by hand.
pub(crate) fn owner<K: Resource<DynamicType = ()>>(deployment: &BundleDeployment) -> Option<&str> {
    let owner = controller(&deployment.metadata).filter(|owner| owner.kind == K::kind(&()));
    owner.map(|owner| owner.name.as_str())
}

/// Returns the owner reference of an object that `owner` controls, and that is deleted before it in a foreground deletion.
pub(crate) fn controlled_by(owner: &impl Resource<DynamicType = ()>) -> Vec<OwnerReference> {
    let reference = owner.controller_owner_ref(&());
    reference.map(|reference| OwnerReference { block_owner_deletion: Some(true), ..reference }).into_iter().collect()
}

/// Returns the owner reference of an object that is deleted with `owner`, but not controlled by it.
pub(crate) fn going_with(owner: &impl Resource<DynamicType = ()>) -> Vec<OwnerReference> {
    let (controller, block_owner_deletion) = (Some(false), Some(false));
    let reference = owner.owner_ref(&());
    reference.map(|reference| OwnerReference { controller, block_owner_deletion, ..reference }).into_iter().collect()
}

/// Looks for a BundleDeployment in what the watch has shown; if that is none, or older than our last write, in the cluster.
pub(crate) async fn find(
    name: &str,
    (deployments, written): (&Store<BundleDeployment>, &WrittenVersions),
    client: &Client,
) -> Result<Option<Arc<BundleDeployment>>, Error> {
    match deployments.get(&ObjectRef::new(name)) {
        Some(seen) if !written.is_stale(&*seen) => Ok(Some(seen)),
        _ => Ok(Api::all(client.clone()).get_opt(name).await?.map(Arc::new)),
    }
}

/// Checks that `owner` is there, and stays. Its deletion may be told later than that of its BundleDeployment, which goes first in a
/// foreground deletion; another one that is made for it would be installed until garbage collection comes.
///
/// # Errors
/// Not found if it is gone, a conflict if it is on its way out, or its name is that of another object by now.
pub(crate) async fn check_owner<K>(owner: &K, client: &Client) -> Result<(), Error>
where
    K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let name = owner.name_any();
    let found = Api::<K>::all(client.clone()).get_metadata(&name).await?;
    let why = match found.metadata.deletion_timestamp {
        _ if found.metadata.uid != owner.meta().uid => "was deleted, and there is another one of that name",
        Some(_) => "is being deleted",
        None => return Ok(()),
    };
    let why = format!("the {} {name} {why}", K::kind(&()));
    Err(Error::Refused(Box::new(Status::failure(&why, "Conflict").with_code(409))))
}

/// Applies `body` to `live`; creates it if that is `None`.
///
/// # Errors
/// A conflict if `live` is not there any more, or one is there though `live` is `None`.
pub(crate) async fn apply(
    mut body: Value,
    live: Option<&BundleDeployment>,
    field_manager: &str,
    (client, written): (&Client, &WrittenVersions),
) -> Result<BundleDeployment, Error> {
    match live {
        Some(live) => body["metadata"]["uid"] = json!(live.uid()),
        // No object has this version: the patch is refused if there is one after all.
        None => body["metadata"]["resourceVersion"] = json!("1"),
    }
    let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let api: Api<BundleDeployment> = Api::all(client.clone());
    let made = api.patch(&name, &PatchParams::apply(field_manager).force(), &Patch::Apply(body)).await?;
    written.record(&made);
    Ok(made)
}

/// Deletes the object that `preconditions` describe; an object that is gone, or does not meet them any more, is no error.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str, preconditions: Preconditions) -> Result<(), Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match api.delete(name, &params).await.map_err(Error::from) {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Whether the packages that the bundle depends on were found installed when the BundleDeployment was written.
pub(crate) fn has_packages(live: &BundleDeployment) -> bool {
    ignored(live) == Some(names::PACKAGES)
}

/// Returns which dependencies of its bundle the controller is not to check.
pub(crate) fn ignored(live: &BundleDeployment) -> Option<&str> {
    live.annotations().get(names::IGNORE_DEPENDENCIES).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use rukpak_crds::olm::ClusterExtension;

    use super::*;
    use crate::fixtures::{api_server, not_found};

    #[tokio::test]
    async fn an_owner_counts_as_long_as_it_is_the_same_and_stays() {
        let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "p"}});
        let owner = json!({"metadata": {"name": "e", "uid": "u"}, "spec": {"namespace": "ns", "source": source}});
        let owner: ClusterExtension = serde_json::from_value(owner).unwrap();
        let checked = async |metadata: Value| {
            let found = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
            check_owner(&owner, &api_server(200, &found).0).await
        };
        checked(json!({"name": "e", "uid": "u"})).await.unwrap();
        let leaving = json!({"name": "e", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        for other in [json!({"name": "e", "uid": "v"}), leaving] {
            assert!(checked(other).await.unwrap_err().is_conflict());
        }
        assert!(check_owner(&owner, &not_found().0).await.unwrap_err().is_not_found());
    }
}
