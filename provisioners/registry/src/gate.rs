//! Bundles that are not installed whatever the options, in the words of OLM v1 and in those of RukPak v1alpha1.

use crate::Bundle;
use crate::install_mode::{ALL, OWN, SINGLE, supports};
use crate::validate::is_supported_kind;

/// Why a bundle cannot be installed. `Display` is OLM v1's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// None of the modes that can be installed is supported.
    #[error(
        "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
    )]
    InstallModes,
    /// All namespaces cannot be watched and no namespace to watch is configured.
    #[error("unsupported bundle: bundle does not support AllNamespaces install mode")]
    NotAllNamespaces,
    /// An object of a kind that bundles may not have.
    #[error("bundle contains unsupported resource: Name: {name}, Kind: {kind}")]
    Kind {
        /// The object's name.
        name: String,
        /// Its kind.
        kind: String,
    },
}

impl Refusal {
    /// The text of RukPak v1alpha1, for conditions.
    pub fn v1alpha1_text(&self) -> String {
        match self {
            Self::InstallModes | Self::NotAllNamespaces => "AllNamespace install mode must be enabled".to_owned(),
            Self::Kind { .. } => self.to_string(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InstallModes => {
                "set supported: true on an install mode of the ClusterServiceVersion that the operator can do"
            }
            Self::NotAllNamespaces => "set watchNamespace in spec.config of the BundleDeployment",
            Self::Kind { .. } => "take the object out of the bundle; let the operator create it if it is needed",
        }
    }
}

/// OLM v1's gate before rendering. Webhooks and aggregated APIs pass it, for there always is a provider of certificates.
pub fn check(bundle: &Bundle) -> Result<(), Refusal> {
    if ![ALL, SINGLE, OWN].iter().any(|mode| supports(&bundle.csv, mode)) {
        return Err(Refusal::InstallModes);
    }
    Ok(())
}

/// RukPak v1alpha1's checks, in its order. `watches_namespace`: the BundleDeployment configures what is watched.
pub fn check_v1alpha1(bundle: &Bundle, watches_namespace: bool) -> Result<(), Refusal> {
    if !watches_namespace && !supports(&bundle.csv, ALL) {
        return Err(Refusal::NotAllNamespaces);
    }
    match bundle.others.iter().find(|manifest| !is_supported_kind(&manifest.kind)) {
        Some(manifest) => Err(Refusal::Kind { name: manifest.name.clone(), kind: manifest.kind.clone() }),
        None => Ok(()),
    }
}
