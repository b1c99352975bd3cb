//! What a bundle asks for, as its catalog states it, that this provisioner cannot give. Pure.

use crate::Bundle;
use crate::model::Facts;

#[cfg(test)]
mod tests;

/// Why a bundle cannot be installed by a package name alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It does not support AllNamespaces. The words are upstream's.
    #[error("convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled")]
    InstallMode,
    /// It depends on packages or compound conditions, which nobody resolves.
    #[error(
        "bundle {bundle:?} has a dependency declared via property {property:?} which is currently not supported: {what}"
    )]
    Dependency {
        /// The bundle.
        bundle: String,
        /// Type of the property.
        property: &'static str,
        /// The package and its range, or the constraint; and the way out.
        what: String,
    },
}

/// How much of a constraint, or of a list of packages, is shown, in characters.
const MAX_SHOWN: usize = 300;
/// The way out. There is no BundleDeployment yet that could be annotated, so the word is given on the PlatformOperator, in the
/// annotation that a BundleDeployment knows as well.
const SAY_SO: &str = "install it by a PlatformOperator or ClusterExtension of its own, or say with the annotation \
    core.rukpak.io/ignore-dependencies=\"true\" on the PlatformOperator that it is there";

/// The first reason against installing `bundle`, in upstream's order.
///
/// Nothing is concluded from what the catalog does not say: a bundle without stated install modes passes, and is checked
/// once its content is there. APIs that it requires are no reason: a BundleDeployment waits for them. Dependencies come last,
/// so a caller whose user has taken care of them may pass over that refusal and will have missed no other.
pub fn check(bundle: &Bundle) -> Result<(), Refusal> {
    let Facts { install_modes, requires_packages, constraints, .. } = &bundle.facts;
    if install_modes.as_ref().is_some_and(|modes| !modes.iter().any(|mode| mode == "AllNamespaces")) {
        return Err(Refusal::InstallMode);
    }
    let refusal = |property, what| Err(Refusal::Dependency { bundle: bundle.name.clone(), property, what });
    if !requires_packages.is_empty() {
        let packages = requires_packages.iter().map(|required| format!("{} {}", required.name, required.range));
        let mut packages: Vec<String> = packages.map(|text| text.trim().to_owned()).collect();
        packages.sort();
        packages.dedup();
        return refusal("olm.package.required", format!("{}; {SAY_SO}", shortened(&packages.join(", "))));
    }
    if let Some(constraint) = constraints.first() {
        return refusal("olm.constraint", format!("{}; {SAY_SO}", shortened(constraint)));
    }
    Ok(())
}

/// At most 300 characters of the text.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
