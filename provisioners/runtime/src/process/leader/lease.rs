//! What the Lease says and what is to become of it. No I/O, no clock.
//!
//! The rules are those of Kubernetes' own components (`client-go`, leader election): a candidate measures by its own
//! clock how long a record has stood unchanged, so clocks need not agree; only their speed must.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Whose the Lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder<'a> {
    /// Nobody's: there is none, or it was released.
    Nobody,
    /// Ours.
    Us,
    /// That of another process.
    Other(&'a str),
}

pub(super) fn holder<'a>(lease: Option<&'a Lease>, us: &str) -> Holder<'a> {
    match name(lease) {
        "" => Holder::Nobody,
        name if name == us => Holder::Us,
        name => Holder::Other(name),
    }
}

/// How long `us` must still wait before it may take the Lease, which was seen to stand unchanged for `unchanged`.
///
/// A process that finds its own name was restarted in its Pod: it goes on at once.
pub(super) fn free_in(lease: Option<&Lease>, us: &str, unchanged: Duration, usual: Duration) -> Duration {
    if !matches!(holder(lease, us), Holder::Other(_)) {
        return Duration::ZERO;
    }
    let promised = spec(lease).and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| seconds.try_into().ok());
    promised.map_or(usual, Duration::from_secs).saturating_sub(unchanged)
}

/// Whether the holder has said nothing between the two.
pub(super) fn is_unchanged(before: Option<&Lease>, after: Option<&Lease>) -> bool {
    let word = |lease| (name(lease).to_owned(), spec(lease).and_then(|spec| spec.renew_time.clone()));
    word(before) == word(after)
}

/// The record with which `us` takes the Lease, or renews it. The duration is rounded up to whole seconds.
pub(super) fn held(before: Option<&Lease>, us: &str, duration: Duration, now: Timestamp) -> LeaseSpec {
    let old = spec(before).cloned().unwrap_or_default();
    let renewed = holder(before, us) == Holder::Us;
    let transitions = old.lease_transitions.unwrap_or(0);
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    LeaseSpec {
        holder_identity: Some(us.to_owned()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        acquire_time: old.acquire_time.filter(|_| renewed).or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        // The first holder of a new Lease has taken it from nobody.
        lease_transitions: Some(if renewed || before.is_none() { transitions } else { transitions.saturating_add(1) }),
        ..LeaseSpec::default()
    }
}

/// The record that lets others go ahead.
pub(super) fn released(before: &Lease, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..spec(Some(before)).cloned().unwrap_or_default()
    }
}

fn spec(lease: Option<&Lease>) -> Option<&LeaseSpec> {
    lease.and_then(|lease| lease.spec.as_ref())
}

fn name(lease: Option<&Lease>) -> &str {
    spec(lease).and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Duration = Duration::from_secs(15);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lease(spec: LeaseSpec) -> Lease {
        Lease { spec: Some(spec), ..Lease::default() }
    }

    #[test]
    fn a_lease_is_free_when_its_holder_was_silent_for_as_long_as_it_promised() {
        let taken = lease(held(None, "a", Duration::from_secs(4), at(0)));
        let free = |lease: Option<&LeaseSpec>, us, unchanged| {
            free_in(lease.cloned().map(self::lease).as_ref(), us, Duration::from_secs(unchanged), USUAL).as_secs()
        };
        let spec = taken.spec.as_ref();
        assert_eq!(free(spec, "b", 0), 4, "the holder's promise, not our own flag");
        assert_eq!(free(spec, "b", 3), 1);
        assert_eq!(free(spec, "b", 9), 0);
        assert_eq!(free(spec, "a", 0), 0, "a restarted container goes on");
        assert_eq!(free(None, "b", 0), 0);
        assert_eq!(free(Some(&LeaseSpec::default()), "b", 0), 0);
        assert_eq!(free(Some(&released(&taken, at(1))), "b", 0), 0);
        let silent = LeaseSpec { holder_identity: Some("a".to_owned()), ..LeaseSpec::default() };
        assert_eq!(free(Some(&silent), "b", 0), 15);
    }

    #[test]
    fn renewing_keeps_when_and_how_often_it_was_taken() {
        let taken = lease(held(None, "a", USUAL, at(0)));
        let renewed = held(Some(&taken), "a", USUAL, at(2));
        assert_eq!(renewed.acquire_time, Some(MicroTime(at(0))));
        assert_eq!(renewed.renew_time, Some(MicroTime(at(2))));
        assert_eq!(renewed.lease_transitions, Some(0));
        let released = lease(released(&lease(renewed), at(3)));
        assert_eq!(holder(Some(&released), "a"), Holder::Nobody);
        let other = held(Some(&released), "b", Duration::from_millis(1500), at(4));
        assert_eq!((other.acquire_time, other.lease_transitions), (Some(MicroTime(at(4))), Some(1)));
        assert_eq!(other.lease_duration_seconds, Some(2), "never shorter than what was asked for");
    }

    #[test]
    fn only_the_holders_word_counts_as_a_sign_of_life() {
        let first = lease(held(None, "a", USUAL, at(0)));
        let mut labelled = first.clone();
        labelled.metadata.resource_version = Some("7".to_owned());
        assert!(is_unchanged(Some(&first), Some(&labelled)));
        assert!(!is_unchanged(Some(&first), Some(&lease(held(Some(&first), "a", USUAL, at(1))))));
        assert!(!is_unchanged(Some(&first), None));
        assert!(is_unchanged(None, None));
        assert_eq!(holder(Some(&first), "b"), Holder::Other("a"));
        assert_eq!(holder(Some(&first), "a"), Holder::Us);
    }
}
