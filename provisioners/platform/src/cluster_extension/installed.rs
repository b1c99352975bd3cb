//! Which bundle a BundleDeployment has installed, as the annotations of its active Bundle tell. One request for each new Bundle.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use kube::{Api, ResourceExt};
use rukpak_crds::{Bundle, BundleDeployment};
use rukpak_runtime::api::Error;

use super::Context;

/// Annotation of the Bundle, and of the BundleDeployment: name of the package. operator-controller's, as those below.
pub(super) const PACKAGE_NAME: &str = "olm.operatorframework.io/package-name";
/// Annotation: name of the bundle.
pub(super) const BUNDLE_NAME: &str = "olm.operatorframework.io/bundle-name";
/// Annotation: version of the bundle.
pub(super) const BUNDLE_VERSION: &str = "olm.operatorframework.io/bundle-version";
/// Annotation: image of the bundle, as the catalog names it.
pub(super) const BUNDLE_REFERENCE: &str = "olm.operatorframework.io/bundle-reference";

/// What a bundle is to the catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name of the package.
    pub package: String,
    /// Name of the bundle.
    pub name: String,
    /// Its version, as the catalog writes it.
    pub version: String,
    /// Its image, as the catalog names it.
    pub reference: String,
}

impl Identity {
    /// As annotations.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let pairs = [
            (PACKAGE_NAME, &self.package),
            (BUNDLE_NAME, &self.name),
            (BUNDLE_VERSION, &self.version),
            (BUNDLE_REFERENCE, &self.reference),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
    }

    /// From annotations; `None` if one is missing.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let text = |key: &str| annotations.get(key).cloned();
        Some(Self {
            package: text(PACKAGE_NAME)?,
            name: text(BUNDLE_NAME)?,
            version: text(BUNDLE_VERSION)?,
            reference: text(BUNDLE_REFERENCE)?,
        })
    }

    /// `message` with the bundle that it is about, in operator-controller's words.
    pub fn wrapped(&self, message: &str) -> String {
        format!("error for resolved bundle {:?} with version {:?}: {message}", self.name, self.version)
    }
}

/// What is installed; `None` if nothing is.
///
/// # Errors
/// The API server does not say.
pub(super) async fn look(deployment: Option<&BundleDeployment>, context: &Context) -> Result<Option<Identity>, Error> {
    let status = deployment.and_then(|deployment| deployment.status.as_ref());
    let Some(active) = status.and_then(|status| status.active_bundle.as_deref()) else { return Ok(None) };
    let known = || context.identities.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = known().get(active).cloned() {
        return Ok(Some(identity));
    }
    let bundles: Api<Bundle> = Api::all(context.client.clone());
    let Some(bundle) = bundles.get_metadata_opt(active).await.map_err(Error::from)? else { return Ok(None) };
    let identity = Identity::read(bundle.annotations());
    if let Some(identity) = &identity {
        known().insert(active.to_owned(), identity.clone());
    }
    Ok(identity)
}
