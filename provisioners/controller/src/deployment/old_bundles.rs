//! After a pivot: the Bundles that are not desired any more go.

use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use rukpak_crds::Bundle;

use super::desired::{self, Desired};
use super::{Error, Pass};
use crate::cluster;

/// Deletes every Bundle of this deployment but the desired one.
pub(crate) async fn delete(pass: &Pass, desired: &Desired) -> Result<(), Error> {
    let api: Api<Bundle> = Api::all(pass.context.client.clone());
    let old = desired::owned(pass)
        .into_iter()
        .filter(|bundle| Some(bundle.name_any().as_str()) != desired.bundle())
        .filter(|bundle| bundle.meta().deletion_timestamp.is_none());
    for bundle in old {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: bundle.uid(), resource_version: None }),
            ..DeleteParams::background()
        };
        match api.delete(&bundle.name_any(), &params).await.map_err(cluster::Error::from) {
            Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(Error::OldBundles(error)),
            _ => tracing::info!(deployment = %pass.owner.name, bundle = %bundle.name_any(), "old Bundle deleted"),
        }
    }
    Ok(())
}
