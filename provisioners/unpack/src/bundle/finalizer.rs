//! Upstream's finalizer: we need none, and one that is left would keep the Bundle for good. One write, where it is there.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use rukpak_crds::Bundle;
use rukpak_crds::names::{FIELD_MANAGER, UPSTREAM_FINALIZER};
use rukpak_runtime::api;
use serde_json::json;

use crate::context::Context;

/// Whether upstream's finalizer is on the Bundle.
pub fn is_there(bundle: &Bundle) -> bool {
    bundle.finalizers().iter().any(|finalizer| finalizer == UPSTREAM_FINALIZER)
}

/// Takes it off, and leaves those of others.
///
/// # Errors
/// A conflict if the Bundle was changed meanwhile.
pub async fn remove(bundle: &Bundle, context: &Context) -> Result<(), api::Error> {
    let others: Vec<_> = bundle.finalizers().iter().filter(|finalizer| *finalizer != UPSTREAM_FINALIZER).collect();
    let patch = json!({"metadata": {"resourceVersion": bundle.resource_version(), "finalizers": others}});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api: Api<Bundle> = Api::all(context.client.clone());
    match api.patch_metadata(&bundle.name_any(), &params, &Patch::Merge(patch)).await.map_err(api::Error::from) {
        // The last finalizer of a Bundle being deleted: it is gone.
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
