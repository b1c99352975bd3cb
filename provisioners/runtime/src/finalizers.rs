//! Finalizers that upstream's programs left on their objects. Here deletion needs none.

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use rukpak_crds::names::FIELD_MANAGER;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::api::Error;

/// Removes the finalizers in `names` from an object, in one write; others stay. Writes nothing if it has none of them.
///
/// # Errors
/// A conflict if the object was changed meanwhile: the change will wake us.
pub async fn strip<K>(client: &Client, object: &K, names: &[&str]) -> Result<(), Error>
where
    K: Resource<Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let kept: Vec<&String> = object.finalizers().iter().filter(|name| !names.contains(&name.as_str())).collect();
    if kept.len() == object.finalizers().len() {
        return Ok(());
    }
    let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": kept}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api: Api<K> = Api::all(client.clone());
    match api.patch_metadata(&object.name_any(), &params, &Patch::Merge(patch)).await.map_err(Error::from) {
        // The last finalizer of an object being deleted: it is gone.
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
