//! Finalizers that operator-controller and catalogd left on their objects. Here deletion needs none.

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_crds::olm::UPSTREAM_FINALIZERS;
use rukpak_runtime::api::Error;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Removes them from an object that is being deleted, or taken over; others stay.
///
/// # Errors
/// A conflict if the object was changed meanwhile: the change will wake us.
pub(crate) async fn strip<K>(client: &Client, object: &K) -> Result<(), Error>
where
    K: Resource<Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let kept: Vec<&String> =
        object.finalizers().iter().filter(|name| !UPSTREAM_FINALIZERS.contains(&name.as_str())).collect();
    if kept.len() == object.finalizers().len() {
        return Ok(());
    }
    let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": kept}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api: Api<K> = Api::all(client.clone());
    match api.patch_metadata(&object.name_any(), &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // It went meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
