//! The API of OLM v1: `olm.operatorframework.io/v1`, kinds ClusterCatalog, ClusterExtension and ClusterObjectSet.
//!
//! Source of the shapes, rules and messages: operator-controller 1.11 (the standard set of definitions) and, of its experimental set,
//! ClusterObjectSet, `spec.config` and `spec.progressDeadlineMinutes`, which would otherwise be pruned without a word,
//! `status.activeRevisions` and `status.install.bundle.release`.
//!
//! ```text
//! cluster_catalog    an image with a catalog of packages
//! cluster_extension  a package, installed from the catalogs
//! cluster_object_set objects, phase by phase
//! selection          which catalogs an extension is looked up in
//! rules              what the fields must be: CEL in the definitions, and the same in Rust for objects that were stored before a rule was
//! ```

use sha2::{Digest as _, Sha256};

use crate::names::BUNDLE_DEPLOYMENT_NAME_MAX;

pub mod cluster_catalog;
pub mod cluster_extension;
pub mod cluster_object_set;
pub mod rules;
pub mod selection;

pub use cluster_catalog::{AvailabilityMode, CatalogImage, CatalogSource, ClusterCatalog, ClusterCatalogSpec};
pub use cluster_extension::{ClusterExtension, ClusterExtensionSpec};
pub use cluster_object_set::{ClusterObjectSet, ClusterObjectSetSpec, ClusterObjectSetStatus};

/// Label of every ClusterCatalog: its name, for selectors.
pub const CATALOG_NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";
/// Label of every object of an extension: the kind of its owner.
pub const OWNER_KIND_LABEL: &str = "olm.operatorframework.io/owner-kind";
/// Label of every object of an extension: the name of its owner.
pub const OWNER_NAME_LABEL: &str = "olm.operatorframework.io/owner-name";
/// Annotation of what installs a bundle: name of the package. operator-controller's, as those below.
pub const PACKAGE_NAME: &str = "olm.operatorframework.io/package-name";
/// Annotation: name of the bundle.
pub const BUNDLE_NAME: &str = "olm.operatorframework.io/bundle-name";
/// Annotation: version of the bundle.
pub const BUNDLE_VERSION: &str = "olm.operatorframework.io/bundle-version";
/// Annotation: image of the bundle, as the catalog names it.
pub const BUNDLE_REFERENCE: &str = "olm.operatorframework.io/bundle-reference";
/// Finalizers that catalogd and operator-controller put on their objects. We add none and remove these.
pub const UPSTREAM_FINALIZERS: [&str; 4] = [
    "olm.operatorframework.io/delete-server-cache",
    "olm.operatorframework.io/cleanup-unpack-cache",
    "olm.operatorframework.io/cleanup-contentmanager-cache",
    "olm.operatorframework.io/teardown",
];

/// Condition of both kinds: whether what the spec asks for is being reached.
pub const PROGRESSING: &str = "Progressing";

/// Digits of a digest in the name of a BundleDeployment whose extension has a longer one.
const DIGITS: usize = 8;

/// Returns the name of the BundleDeployment of an extension: its own, or as much of it as fits and a digest.
pub fn deployment_name(extension: &str) -> String {
    if extension.len() <= BUNDLE_DEPLOYMENT_NAME_MAX {
        return extension.to_owned();
    }
    let digest = Sha256::digest(extension.as_bytes());
    let number = digest.iter().take(DIGITS / 2).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    let digits = format!("{number:08x}");

    // Names of objects are ASCII.
    let start: String = extension.chars().take(BUNDLE_DEPLOYMENT_NAME_MAX - DIGITS - 1).collect();
    format!("{}-{digits}", start.trim_end_matches(['-', '.']))
}

/// Returns the name of the BundleDeployment of a phase of an object set. Phases are named without dots, so that no two sets have the same.
pub fn phase_deployment_name(set: &str, phase: &str) -> String {
    deployment_name(&format!("{set}.{phase}"))
}

/// Reasons of conditions of both kinds.
pub mod reason {
    /// What the spec asks for is reached.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Failed, and tried again by itself.
    pub const RETRYING: &str = "Retrying";
    /// Failed; nothing moves before a change.
    pub const BLOCKED: &str = "Blocked";
}
