//! How an installation begins, and how a new process takes up the one that it finds.

use jiff::Timestamp;

use super::{Differences, Installation, Memory};
use crate::applied::Applied;
use crate::observed::Observed;
use crate::prune::Pruning;
use crate::resolve::Why;
use crate::{Plan, Release, opt_out};

impl Memory {
    /// From now on objects of the plan's release may be written.
    pub fn learn_begun(&mut self, observed: &mut Observed, plan: &Plan) {
        // What came has been used: what is missing still is not asked for again in this reconcile.
        observed.is_unblocked = false;
        let release = &plan.release;
        if self.applied() != Some(release) && observed.installed().as_ref() != Some(release) {
            self.repairs.clear();
        }
        self.certificates_due = plan.certificates_due.and_then(|due| Timestamp::try_from(due).ok());
        self.authorities.clone_from(&plan.authorities);
        self.installation = Installation::Partial { release: release.clone() };
    }

    /// After a restart the cluster has what the status says was applied. With which policy, account and rules is not recorded: those of
    /// the spec are taken for it.
    pub fn learn_resumed(&mut self, observed: &Observed, applied: Applied, now: Timestamp) {
        let (inventory, spec) = (observed.inventory(), &observed.deployment.spec);
        let differences = Box::new(Differences {
            policy: spec.deletion_policy.unwrap_or_default(),
            account: spec.service_account.clone().map(Box::new),
            paused: opt_out::read(&inventory),
            ignored: spec.ignore_differences.clone(),
            ..Differences::default()
        });
        self.learn_missing(applied.release().clone(), applied.missing(), now);
        self.certificates_due = inventory.certificates_renewal;
        self.installation = Installation::Applied { applied, pruning: Pruning::Done, differences };
    }

    /// Returns the other release that decides about what is sent for `release`: the one that it replaces, or on the way back the one that
    /// was begun in its place, of which objects may be there. `None` also where nothing tells of it.
    pub fn release_before(&self, observed: &Observed, release: &Release, why: Why) -> Option<Release> {
        let is_other = |other: &Release| other != release;
        match why {
            Why::Upgrade | Why::Rollback => observed.installed().filter(is_other),
            Why::WayBack => {
                // Once the way back itself was begun, the status names that.
                let begun = observed.pending().map(|(begun, _)| begun).filter(is_other);
                begun.or_else(|| self.failed_upgrade.as_ref().map(|failure| failure.release.clone()).filter(is_other))
            }
            Why::First | Why::Resync | Why::Renewal | Why::Repair => None,
        }
    }

    /// Whether the authorities of the release's certificates are where clients look for them: all was applied, and nothing has drifted
    /// since.
    pub fn has_published(&self, observed: &Observed, release: &Release) -> bool {
        self.applied() == Some(release) && observed.drifted.is_empty()
    }
}
