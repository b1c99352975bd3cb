//! The next step of the rotation. Pure: what is seen in, one step out.

use std::time::{Duration, SystemTime};

use rukpak_certificates::{Identity, Stored, Unusable};

use super::SETTLE;

/// Longest wait without looking again: clocks jump, machines sleep.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Times that are the user's choice.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// How long the configuration must hold a new authority before its certificate is served.
    pub settle: Duration,
}

/// What one replica sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The Secret.
    pub stored: Result<&'a Stored, &'a Unusable>,
    /// The webhook configuration.
    pub published: Published,
    /// What new connections get.
    pub serving: Option<&'a Identity>,
    /// The time.
    pub now: SystemTime,
}

/// The webhook configuration, compared with the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// There is none, or none of our webhooks in it: nobody calls.
    Nowhere,
    /// Its `caBundle` is another.
    Stale,
    /// Its `caBundle` is the Secret's.
    Current {
        /// For how long this replica has seen it.
        since: Duration,
    },
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make an authority and a certificate and write the Secret.
    Issue(IssueReason),
    /// Write the Secret without its older authorities.
    Prune,
    /// Write `caBundle`.
    Publish,
    /// Hand the Secret's certificate to new connections.
    Serve,
    /// Nothing, until something changes or this much time has passed.
    Wait(Duration),
}

/// Why a certificate is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssueReason {
    /// There is none, or none that can be used.
    Unusable,
    /// Two thirds of its time are over.
    Due,
}

impl Policy {
    /// For certificates of this lifetime.
    pub fn for_lifetime(lifetime: Duration) -> Self {
        Self { settle: SETTLE.min(lifetime / 20) }
    }
}

/// The next step.
pub fn next_step(view: View<'_>, policy: Policy) -> Step {
    let Ok(stored) = view.stored else { return Step::Issue(IssueReason::Unusable) };
    let later = |moment: SystemTime| moment.duration_since(view.now).unwrap_or_default();
    if view.now >= stored.renewal() {
        return Step::Issue(IssueReason::Due);
    }
    let prunable = stored.authorities().len() > 1;
    if prunable && view.now >= stored.pruning() {
        return Step::Prune;
    }
    let until_next = later(if prunable { stored.pruning() } else { stored.renewal() }).min(LONGEST_WAIT);
    let served = view.serving.is_some_and(|identity| identity.is(stored.identity()));
    // A replica that serves nothing yet has nothing to keep: whatever the configuration says, this is the certificate.
    if view.serving.is_none() {
        return Step::Serve;
    }
    match view.published {
        Published::Stale => Step::Publish,
        Published::Current { since } if !served && since < policy.settle => {
            Step::Wait(policy.settle.saturating_sub(since).min(until_next))
        }
        Published::Current { .. } | Published::Nowhere if !served => Step::Serve,
        Published::Current { .. } | Published::Nowhere => Step::Wait(until_next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukpak_certificates::{Data, issue};

    use crate::certificates::service_names;

    const LIFETIME: Duration = Duration::from_secs(1000);
    const CURRENT: Published = Published::Current { since: Duration::ZERO };

    fn made(now: SystemTime, beside: Option<&Stored>) -> Stored {
        let names = service_names("svc", "ns");
        let beside = beside.map(Stored::authorities).unwrap_or_default();
        Stored::read(&Data::new(issue(&names, LIFETIME, now).unwrap(), beside, now).entries(), &names, now).unwrap()
    }

    fn step(stored: &Stored, published: Published, serving: Option<&Stored>, now: SystemTime) -> Step {
        let view = View { stored: Ok(stored), published, serving: serving.map(Stored::identity), now };
        next_step(view, Policy::for_lifetime(LIFETIME))
    }

    #[test]
    fn a_new_installation() {
        let now = SystemTime::now();
        let view = View { stored: Err(&Unusable::Absent), published: Published::Nowhere, serving: None, now };
        assert_eq!(next_step(view, Policy::for_lifetime(LIFETIME)), Step::Issue(IssueReason::Unusable));
        let stored = made(now, None);
        assert_eq!(step(&stored, Published::Stale, None, now), Step::Serve);
        assert_eq!(step(&stored, Published::Stale, Some(&stored), now), Step::Publish);
        assert!(matches!(step(&stored, CURRENT, Some(&stored), now), Step::Wait(_)));
        assert!(matches!(step(&stored, Published::Nowhere, Some(&stored), now), Step::Wait(_)));
    }

    #[test]
    fn the_new_certificate_waits_for_its_authority() {
        let start = SystemTime::now();
        let old = made(start, None);
        let due = old.renewal();
        assert!(matches!(step(&old, CURRENT, Some(&old), due - Duration::from_secs(1)), Step::Wait(_)));
        assert_eq!(step(&old, CURRENT, Some(&old), due), Step::Issue(IssueReason::Due));

        let new = made(due, Some(&old));
        assert_eq!(step(&new, Published::Stale, Some(&old), due), Step::Publish);
        assert_eq!(step(&new, CURRENT, Some(&old), due), Step::Wait(SETTLE));
        let settled = Published::Current { since: SETTLE };
        assert_eq!(step(&new, settled, Some(&old), due), Step::Serve);
        let Step::Wait(pause) = step(&new, settled, Some(&new), due) else { panic!("should rest") };
        assert!(pause > SETTLE && pause <= LIFETIME / 3);
        assert_eq!(step(&new, settled, Some(&new), due + pause), Step::Prune);
    }

    #[test]
    fn an_emptied_bundle_is_written_again() {
        let now = SystemTime::now();
        let stored = made(now, None);
        assert_eq!(step(&stored, Published::Stale, Some(&stored), now), Step::Publish);
    }

    #[test]
    fn a_broken_secret_is_replaced_while_the_old_certificate_is_served() {
        let now = SystemTime::now();
        let old = made(now, None);
        let view = View {
            stored: Err(&Unusable::Entry("tls.key")),
            published: Published::Stale,
            serving: Some(old.identity()),
            now,
        };
        assert_eq!(next_step(view, Policy::for_lifetime(LIFETIME)), Step::Issue(IssueReason::Unusable));
    }
}
