//! What is left of pruning.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::InventoryKind;
use rukpak_plain::ObjectKey;

/// Whether the objects that are in no release any more are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pruning {
    /// They are.
    #[default]
    Done,
    /// They go when the release is healthy: what they do, such as holding an address, is done until then.
    Awaiting {
        /// When they go even if it is not: they may be what keeps it from becoming healthy.
        until: Timestamp,
    },
    /// They are, but for some that are left as they are because they say so. They go when they say so no more.
    Held {
        /// Which.
        objects: BTreeSet<ObjectKey>,
    },
    /// Some are not; it is tried again.
    Pending {
        /// Why not.
        message: String,
        /// Whether something went wrong: otherwise what was deleted is just not gone yet.
        is_failed: bool,
        /// Kinds that could not be listed.
        unlisted: Vec<InventoryKind>,
        /// How often they were not all gone, in a row.
        attempts: u32,
        /// How often a question of what would be lost had no answer, in a row.
        unanswered: u32,
        /// When it is tried again.
        until: Timestamp,
    },
}

impl Pruning {
    /// When objects are to be deleted next, if some are to be.
    pub fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Done | Self::Held { .. } => None,
            Self::Awaiting { until } | Self::Pending { until, .. } => Some(*until),
        }
    }
}

/// What left the bundle is deleted at last after so long, however ill the new release is: as long as Kubernetes gives a Deployment.
pub const HEALTHY_WITHIN: Duration = Duration::from_mins(10);
