//! What a new process learns. It remembers nothing, and looks whether the cluster is as the status says that it was left.

use std::time::Duration;

use jiff::Timestamp;

use super::{Differences, Installation, Memory, Pause, Traits, later};
use crate::applied::Applied;
use crate::observed::Observed;
use crate::prune::Pruning;
use crate::{Release, opt_out};

/// How long a restart waits for the first lists of its watches before it applies everything again.
const PATIENCE: Duration = Duration::from_secs(30);

impl Memory {
    /// The process begins to look at what the status says was applied.
    pub fn begin_resuming(&mut self, now: Timestamp) {
        self.resuming_since.get_or_insert(now);
    }

    /// The first lists of watches are not in yet. Returns whether they are still waited for.
    pub fn await_lists(&mut self, now: Timestamp) -> bool {
        let since = *self.resuming_since.get_or_insert(now);
        let until = later(since, PATIENCE);
        self.pause = if until > now { Pause::Lists(until) } else { Pause::None };
        until > now
    }

    /// After a restart the cluster has what the status says was applied, with the policy, account and rules of the spec: the digest is over
    /// these too.
    pub fn learn_resumed(&mut self, observed: &Observed, applied: Applied, now: Timestamp) {
        let (inventory, spec) = (observed.inventory(), &observed.deployment.spec);
        let differences = Box::new(Differences {
            policy: spec.deletion_policy.unwrap_or_default(),
            account: spec.service_account.clone().map(Box::new),
            paused: opt_out::read(&inventory),
            ignored: spec.ignore_differences.clone(),
            proxy: inventory.proxy.as_ref().and_then(|digest| digest.parse().ok()),
            ..Differences::default()
        });
        self.pause = Pause::None;
        self.learn_missing(applied.release().clone(), applied.missing(), now);
        // Authorities are in no status.
        self.traits = Traits {
            certificates_due: inventory.certificates_renewal,
            authorities: None,
            properties: inventory.properties.clone(),
            namespace: inventory.namespace.clone(),
        };
        self.installation = Installation::Applied { applied, pruning: Pruning::Done, differences };
    }

    /// The cluster has something else, or nobody can say: all objects of the release are to be applied again.
    pub fn learn_differs(&mut self, release: &Release) {
        self.pause = Pause::None;
        self.installation = Installation::Partial { release: release.clone() };
    }
}
