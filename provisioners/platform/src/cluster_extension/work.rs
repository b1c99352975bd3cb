//! What is written of a BundleDeployment; or what keeps it from being written. Pure.

use rukpak_crds::BundleDeployment;
use rukpak_crds::olm::ClusterExtension;
use serde_json::Value;

use super::deployment::{Target, check_bundle, check_config, desired, keep_manifests, kept, note};
use super::optional;
use super::progress::Progress;
use super::set::Set;
use crate::installed::Identity;
use crate::owned::ignored;

/// Has the target installed, as the extension configures it.
pub(super) fn install(
    extension: &ClusterExtension,
    Target { bundle, has_packages, set }: Target<'_>,
    live: Option<&BundleDeployment>,
    are_shown: bool,
) -> Result<Value, Progress> {
    check_bundle(bundle).map_err(|message| Progress::Blocked(bundle.wrapped(&message)))?;
    check_config(&extension.spec).map_err(|message| Progress::InvalidConfiguration(bundle.wrapped(&message)))?;
    let optional = optional::fields(extension).map_err(Progress::InvalidConfiguration)?;

    // Whoever said more on the BundleDeployment is not contradicted.
    let says_more = live.is_some_and(|live| ignored(live) == Some("true"));
    let mut body = desired(extension, (bundle, has_packages && !says_more), optional);
    note(&mut body, set);
    keep_manifests(&mut body, are_shown);
    Ok(body)
}

/// Sets what else is asked of it and the note of a set alone: it is not known now which bundle is to be installed, and what is stays.
/// Nothing is written if there is no BundleDeployment, or one that does not say what it installs.
pub(super) fn stay(
    extension: &ClusterExtension,
    (live, set): (Option<&BundleDeployment>, Option<&Set>),
    are_shown: bool,
) -> Result<Option<Value>, Progress> {
    let optional = optional::fields(extension).map_err(Progress::InvalidConfiguration)?;
    let stays = live.and_then(|live| Some((live, Identity::read(live.metadata.annotations.as_ref()?)?)));
    Ok(stays.map(|(live, bundle)| {
        let mut body = kept(desired(extension, (&bundle, false), optional), live);
        note(&mut body, set);
        keep_manifests(&mut body, are_shown);
        body
    }))
}
