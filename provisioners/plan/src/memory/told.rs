//! What a status says some seconds later, because to say it at once would cost more than it is worth.

use std::time::Duration;

use jiff::Timestamp;
use rukpak_crds::BundleDeploymentStatus;

use super::{Memory, later};
use crate::observed::Observed;

/// How long the status may lack the proof of a repair, if it lacks nothing else: no repair waits for that write, and many share one. If
/// the process ends before, the next one applies everything that is declared again, which changes nothing.
const PROOF_AFTER: Duration = Duration::from_secs(10);
/// How long a deletion is left alone before it is looked at, and between two looks. Most of what Kubernetes deletes is gone by then; each
/// object that goes starts a reconcile, and each look takes some reads and a write of the status.
const DELETION_LOOK: Duration = Duration::from_secs(5);

/// What was told last, or is to be told.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// When the status has the proof of what was repaired at the latest, if it does not have it yet.
    pub proof_due: Option<Timestamp>,
    /// The last look for what the deletion waits for; at first, since when the deletion is known.
    deletion_looked_at: Option<Timestamp>,
}

impl Told {
    /// The clock was put back.
    pub fn put_back(&mut self, back: impl Fn(&mut Timestamp)) {
        self.proof_due.iter_mut().chain(&mut self.deletion_looked_at).for_each(back);
    }

    /// Objects were repaired. The first of several repairs says when that is told.
    pub fn learn_repair(&mut self, now: Timestamp) {
        self.proof_due.get_or_insert(later(now, PROOF_AFTER));
    }
}

impl Memory {
    /// Whether `status`, which differs from the one in the cluster, is not written yet: it says nothing new but the proof of a repair.
    pub fn puts_off(&self, observed: &Observed, status: &BundleDeploymentStatus, now: Timestamp) -> bool {
        let is_early = self.told.proof_due.is_some_and(|due| now < due);
        is_early
            && observed.drifted.is_empty()
            && observed.status != *status
            && without_proof(&observed.status) == without_proof(status)
    }

    /// When a status that was put off is written.
    pub(crate) fn status_due(&self) -> Option<Timestamp> {
        self.told.proof_due
    }

    /// Until when a deletion that is left to Kubernetes is left alone. `None`: it takes its time, and what it waits for is found out now.
    pub fn leaves_deletion_until(&mut self, observed: &Observed, now: Timestamp) -> Option<Timestamp> {
        let asked = observed.deployment.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
        // The clock of the API server may be ahead of ours.
        let last = *self.told.deletion_looked_at.get_or_insert(asked.min(now));
        let due = later(last, DELETION_LOOK);
        if due > now {
            return Some(due);
        }
        self.told.deletion_looked_at = Some(now);
        None
    }
}

fn without_proof(status: &BundleDeploymentStatus) -> BundleDeploymentStatus {
    let mut status = status.clone();
    if let Some(inventory) = &mut status.inventory {
        inventory.applied_digest = None;
    }
    status
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rukpak_crds::{BundleDeployment, BundleDeploymentSpec, Inventory};
    use rukpak_plain::ObjectKey;

    use super::*;
    use crate::observed::Desired;

    fn status(digest: &str) -> BundleDeploymentStatus {
        let inventory = Inventory { applied_digest: Some(digest.to_owned()), ..Inventory::default() };
        BundleDeploymentStatus { inventory: Some(inventory), ..BundleDeploymentStatus::default() }
    }

    fn observed() -> Observed {
        let deployment = BundleDeployment::new("pump", BundleDeploymentSpec::default());
        let desired = Desired::Waiting { bundle: "pump-1".into(), why: None, is_stalled: false };
        Observed::of(deployment, status("before"), desired)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_repair_is_told_some_seconds_later_or_with_other_news() {
        let (mut memory, mut observed) = (Memory::default(), observed());
        assert!(!memory.puts_off(&observed, &status("after"), at(0)), "nothing was repaired");

        memory.told.learn_repair(at(0));
        memory.told.learn_repair(at(9));
        assert_eq!(memory.status_due(), Some(at(10)));
        assert!(memory.puts_off(&observed, &status("after"), at(9)));
        assert!(!memory.puts_off(&observed, &status("after"), at(10)), "not longer for the second repair");
        assert!(!memory.puts_off(&observed, &status("before"), at(9)), "there is nothing to write");
        let more = BundleDeploymentStatus { observed_generation: Some(2), ..status("after") };
        assert!(!memory.puts_off(&observed, &more, at(9)));

        observed.drifted = BTreeSet::from([ObjectKey {
            group: String::new(),
            kind: "ConfigMap".into(),
            namespace: None,
            name: "a".into(),
        }]);
        assert!(!memory.puts_off(&observed, &status("after"), at(9)), "something else is not repaired");
        memory.learn_reported();
        assert_eq!(memory.status_due(), None);
    }

    #[test]
    fn a_deletion_is_looked_at_when_it_takes_its_time_and_then_now_and_then() {
        let (mut memory, mut observed) = (Memory::default(), observed());
        let deployment = Arc::make_mut(&mut observed.deployment);
        deployment.metadata.deletion_timestamp = Some(Time(at(0)));
        let looks = [(1, Some(5)), (4, Some(5)), (5, None), (6, Some(10)), (10, None), (30, None)];
        for (now, until) in looks {
            assert_eq!(memory.leaves_deletion_until(&observed, at(now)), until.map(at), "{now}");
        }

        let mut behind = Memory::default();
        assert_eq!(behind.leaves_deletion_until(&observed, at(-60)), Some(at(-55)), "the other clock is ahead");
        assert_eq!(behind.leaves_deletion_until(&observed, at(-55)), None);
    }
}
