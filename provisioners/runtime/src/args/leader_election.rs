//! Flags of leader election, as `kube-controller-manager` has them.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::duration;

/// A Lease of less is lost to any pause.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

/// Times of leader election, with the meaning that they have in Kubernetes' own components, and in the proportions of their
/// defaults: 15 s, 10 s and 2 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// A leader that was not heard of for so long is replaced.
    pub lease_duration: Duration,
}

/// [`LeaderElection`] as flags.
#[derive(Args, Clone, Debug)]
pub struct LeaderElectionArgs {
    /// Write only while holding a Lease in the system namespace: of several replicas one works, and the others stand by
    #[arg(id = "leader_elect", long = "leader-elect", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    is_on: bool,
    /// A leader that was not heard of for so long is replaced; one that could not renew its Lease for two thirds of it stops writing
    #[arg(long = "leader-elect-lease-duration", value_name = "DURATION", default_value = "15s", value_parser = lease_duration)]
    lease_duration: Duration,
}

impl LeaderElection {
    /// Returns for how long a leader may fail to renew before it stops writing. What is left of the Lease is its time to stop.
    pub fn renew_deadline(self) -> Duration {
        self.lease_duration / 3 * 2
    }

    /// Returns the time between two attempts to become or stay leader.
    pub fn retry_period(self) -> Duration {
        self.renew_deadline() / 5
    }
}

impl LeaderElectionArgs {
    /// The times; `None` if this process is the only one that writes.
    pub fn times(&self) -> Option<LeaderElection> {
        self.is_on.then_some(LeaderElection { lease_duration: self.lease_duration })
    }
}

fn lease_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        lease if lease >= SHORTEST_LEASE => Ok(lease),
        _ => Err("a Lease lasts 1s at least".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_the_defaults_of_kubernetes_from_the_lease() {
        let times = LeaderElection { lease_duration: lease_duration("15s").unwrap() };
        assert_eq!((times.renew_deadline(), times.retry_period()), (Duration::from_secs(10), Duration::from_secs(2)));
    }

    #[test]
    fn leaves_every_leader_time_to_stop_before_another_may_lead() {
        for text in ["0", "1ns", "999ms"] {
            assert!(lease_duration(text).unwrap_err().contains("at least"), "{text}");
        }
        for text in ["1s", "1s1ns", "1999ms", "2s", "8s", "15s", "1h", "36500d"] {
            let times = LeaderElection { lease_duration: lease_duration(text).unwrap() };
            let to_stop = times.lease_duration.saturating_sub(times.renew_deadline());
            assert!(to_stop >= times.lease_duration / 3 && times.retry_period() < to_stop, "{text}");
            assert!(!times.retry_period().is_zero() && times.retry_period() < times.renew_deadline(), "{text}");
        }
    }
}
