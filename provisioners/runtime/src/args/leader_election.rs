//! Flags of leader election, as `kube-controller-manager` has them.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::duration;

/// Times of leader election, with the meaning they have in Kubernetes' own components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// A leader that was not heard of for so long is replaced.
    pub lease_duration: Duration,
    /// A leader that could not renew for so long stops writing.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
}

/// [`LeaderElection`] as flags. Each program names its Lease in the help of `leader_elect`: see [`leader_elect_help`].
#[derive(Args, Clone, Debug)]
pub struct LeaderElectionArgs {
    /// Write only while holding a Lease
    #[arg(id = "leader_elect", long = "leader-elect", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    is_on: bool,
    /// A leader that was not heard of for so long is replaced
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "15s", value_parser = duration)]
    lease_duration: Duration,
    /// A leader that could not renew for so long stops writing
    #[arg(long = "leader-elect-renew-deadline", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    renew_deadline: Duration,
    /// Time between two attempts to become or stay leader
    #[arg(long = "leader-elect-retry-period", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    retry_period: Duration,
}

/// What `leader_elect` is about, where `lease` is the name of the Lease.
pub fn leader_elect_help(lease: &str) -> String {
    format!("Write only while holding the Lease {lease} in the system namespace")
}

impl LeaderElectionArgs {
    /// The times; `None` if this process is the only one that writes.
    pub fn times(&self) -> Option<LeaderElection> {
        let times = LeaderElection {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        };
        self.is_on.then_some(times)
    }
}
