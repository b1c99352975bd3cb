//! When to try again.

use std::time::Duration;

/// Why an attempt failed, as far as trying again is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A conflict or a stale view: the next look will see more.
    Conflict,
    /// The other side was not available, or the failure may pass by itself.
    Transient,
    /// Something of somebody else is in the way, and nothing tells when that changes.
    Blocked,
    /// What was asked for is wrong. A change of the object will wake us; look again now and then, in case
    /// the fault was elsewhere (a registry that was repaired, a namespace that was created).
    Terminal,
}

/// How long to wait after the `attempts`th failure in a row (1 is the first).
///
/// Conflict: 50 ms doubling to 5 s. Transient: 500 ms doubling to 2 min. Blocked: 5 s doubling to 1 min, as people are told.
/// Terminal: 5 s doubling to 15 min (upstream's cap is about 16 min).
pub fn delay(class: Class, attempts: u32) -> Duration {
    let (first, cap) = match class {
        Class::Conflict => (Duration::from_millis(50), Duration::from_secs(5)),
        Class::Transient => (Duration::from_millis(500), Duration::from_mins(2)),
        Class::Blocked => (Duration::from_secs(5), Duration::from_mins(1)),
        Class::Terminal => (Duration::from_secs(5), Duration::from_mins(15)),
    };
    let doublings = attempts.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(cap)
}

/// How long an upgrade that failed for good is left alone after the `attempts`th failure in a row: 1 min doubling to 4 h. Whoever
/// changes the BundleDeployment, or brings a CRD that it misses, has it tried again at once.
pub(crate) fn upgrade_delay(attempts: u32) -> Duration {
    Duration::from_mins(1).saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(Duration::from_hours(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_cap() {
        assert_eq!(delay(Class::Transient, 0), Duration::from_millis(500));
        assert_eq!(delay(Class::Transient, 1), Duration::from_millis(500));
        assert_eq!(delay(Class::Transient, 4), Duration::from_secs(4));
        assert_eq!(delay(Class::Blocked, 100), Duration::from_mins(1), "messages say so");
        for class in [Class::Conflict, Class::Transient, Class::Blocked, Class::Terminal] {
            assert!((1..100).all(|n| delay(class, n) <= delay(class, n + 1)));
            assert_eq!(delay(class, u32::MAX), delay(class, 60));
        }
        assert_eq!((1..=3).map(upgrade_delay).collect::<Vec<_>>(), [1, 2, 4].map(Duration::from_mins));
        assert_eq!(upgrade_delay(u32::MAX), Duration::from_hours(4));
    }
}
