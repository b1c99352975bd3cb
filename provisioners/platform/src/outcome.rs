//! What came of a reconcile: in its span, and when it could not report.

use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use rukpak_crds::ConditionStatus;
use rukpak_crds::condition::{Conditions, READY};
use rukpak_crds::olm::{PROGRESSING, reason};
use rukpak_plan::retry::{self, Class};
use rukpak_runtime::error::Chain;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::{api, traces, warn_first};

/// Of a PlatformOperator: what `Ready` says.
pub(crate) fn of_ready(conditions: &impl Conditions, is_new: bool) {
    let ready = conditions.find(READY).filter(|_| is_new);
    match ready.map(|ready| ready.status) {
        None => traces::outcome("unchanged", None),
        Some(ConditionStatus::True) => traces::outcome("succeeded", None),
        Some(ConditionStatus::False) => traces::outcome("failed", ready.map(|ready| ready.message.as_str())),
        Some(ConditionStatus::Unknown) => traces::outcome("waiting", None),
    }
}

/// Of a ClusterCatalog and a ClusterExtension: what `Progressing` says, as `rukpak_cluster_catalogs` counts it.
pub(crate) fn of_progress(conditions: &impl Conditions, is_new: bool) {
    match conditions.find(PROGRESSING).filter(|_| is_new) {
        None => traces::outcome("unchanged", None),
        Some(said) if said.reason == reason::SUCCEEDED => traces::outcome("succeeded", None),
        Some(said) if said.reason == reason::RETRYING || said.status == ConditionStatus::False => {
            traces::outcome("failed", Some(&said.message));
        }
        Some(_) => traces::outcome("waiting", None),
    }
}

/// Why a reconcile of a ClusterCatalog or a ClusterExtension ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The status could not be written.
    #[error("cannot write the status")]
    Status(#[source] api::Error),
    /// Labels or finalizers could not be written.
    #[error("cannot write the metadata")]
    Metadata(#[source] api::Error),
}

/// How what a write was to do is tried again.
pub(crate) fn class(error: &api::Error) -> Class {
    if error.is_transient() || error.is_conflict() { Class::Transient } else { Class::Terminal }
}

/// After a reconcile that could not report.
pub(crate) fn error_policy<K: Resource<DynamicType = ()>>(object: &K, error: &Error, failures: &Failures) -> Action {
    let (Error::Status(source) | Error::Metadata(source)) = error;
    let is_conflict = source.is_conflict() || source.is_not_found();
    let class = if is_conflict { Class::Conflict } else { Class::Transient };
    let uid = object.uid().unwrap_or_default();
    let delay = retry::delay(class, failures.another(&uid));
    if !is_conflict {
        let (kind, name) = (K::kind(&()), object.name_any());
        warn_first!(failures.is_first(&uid), %kind, name, error = %Chain(error), ?delay, "reconcile failed; will retry");
    }
    Action::requeue(delay)
}
