//! What came of a reconcile, in its span.

use rukpak_crds::ConditionStatus;
use rukpak_crds::condition::{Conditions, READY};
use rukpak_crds::olm::{PROGRESSING, reason};
use rukpak_runtime::traces;

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
