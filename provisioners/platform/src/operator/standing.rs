//! Whose a BundleDeployment is, and how far, as it says itself. From memory.

use kube::Resource;
use rukpak_crds::condition::{Conditions, HAS_VALID_BUNDLE, INSTALLED, READY, reason};
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus};
use rukpak_plan::owner::controller;

use super::Pass;

/// Whether `deployment` was made for the PlatformOperator with this UID.
pub(super) fn is_owner(deployment: &BundleDeployment, uid: &str) -> bool {
    controller(&deployment.metadata).is_some_and(|owner| owner.uid == uid)
}

/// Whether the last step is complete: nothing is built on a version that does not run.
pub(super) fn is_in_order(pass: &Pass, deployment: &BundleDeployment) -> bool {
    // Another provisioner may report no `Ready`.
    is_installed(pass, deployment) && ready(deployment).is_none_or(|ready| ready.status == ConditionStatus::True)
}

/// Whether the BundleDeployment says that it has installed what it asks for now, healthy or not.
pub(super) fn is_installed(pass: &Pass, deployment: &BundleDeployment) -> bool {
    // RukPak v0.16 does not say which spec its status is about: right after our write it is about the one before.
    let says = deployment.status.as_ref().is_some_and(|status| status.observed_generation.is_some());
    if !says && pass.context.written.is_last(deployment) {
        return false;
    }
    let Some(status) = deployment.status.as_ref().filter(|_| is_current(deployment)) else { return false };
    let is_unpacked = status
        .conditions
        .find(HAS_VALID_BUNDLE)
        .is_some_and(|unpacked| unpacked.status == ConditionStatus::True && unpacked.reason != reason::UNPACK_PENDING);
    let is_applied = |ready: &Condition| {
        ready.status == ConditionStatus::True
            || [reason::UNHEALTHY, reason::PRUNE_FAILED].contains(&ready.reason.as_str())
    };
    is_unpacked && status.conditions.is(INSTALLED, ConditionStatus::True) && ready(deployment).is_none_or(is_applied)
}

fn ready(deployment: &BundleDeployment) -> Option<&Condition> {
    deployment.status.as_ref()?.conditions.find(READY)
}

/// Whether what the BundleDeployment asks for was refused, so that what was installed before runs on.
pub(super) fn is_refused(deployment: &BundleDeployment) -> bool {
    let Some(status) = deployment.status.as_ref().filter(|_| is_current(deployment)) else { return false };
    status.conditions.is(HAS_VALID_BUNDLE, ConditionStatus::False)
        || status.conditions.is(INSTALLED, ConditionStatus::False)
}

/// Whether the status speaks of the spec as it is now. RukPak v0.16 does not say.
pub(super) fn is_current(deployment: &BundleDeployment) -> bool {
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_none_or(|observed| Some(observed) >= deployment.meta().generation)
}
