//! Renewal of a certificate in a Secret. Who serves it may read the Secret sooner or later, such as a program that mounts it.
//!
//! ```text
//! 1 stage     a new authority and certificate go to entries of their own; both authorities are to be trusted
//! 2 promote   once both have been trusted for a while: the new certificate takes the place of the old one
//! ```
//!
//! The old authority stays trusted for as long as it is valid, for a program may go on serving what it read at its start.
//! Everything is in the Secret: whoever goes on with the renewal needs to remember nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;

use super::authority::{self, Issued, issue};
use super::identity::certificates;
use super::stored::{AUTHORITIES, CERTIFICATE, Data, KEY, Stored};

/// Key of the staged certificate's authority.
pub(crate) const NEXT_AUTHORITY: &str = "next-ca.crt";
/// Key of the staged certificate.
pub(crate) const NEXT_CERTIFICATE: &str = "next-tls.crt";
/// Key of its private key.
pub(crate) const NEXT_KEY: &str = "next-tls.key";
/// Everything of ours in the Secret.
pub(crate) const ENTRIES: [&str; 6] = [AUTHORITIES, CERTIFICATE, KEY, NEXT_AUTHORITY, NEXT_CERTIFICATE, NEXT_KEY];
/// How long a new authority is trusted before its certificate is served, see [`settle`].
const SETTLE: Duration = Duration::from_secs(30);

/// What is to be in the Secret, and who is to be trusted.
pub struct Held {
    /// The entries of the Secret.
    pub entries: BTreeMap<String, ByteString>,
    /// The authorities to trust, as PEM: what belongs into `caBundle`.
    pub authorities: Vec<u8>,
    /// When to look again.
    pub due: SystemTime,
}

/// What the certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The DNS names that clients use.
    pub names: &'a [String],
    /// How long a certificate lives; it is renewed after two thirds of that.
    pub lifetime: Duration,
    /// Authorities of what may still be served; they stay trusted where the Secret says no more which they are.
    pub beside: &'a [CertificateDer<'static>],
}

/// How long a new authority is trusted before its certificate is served: API servers watch their configuration, each with its own
/// lag. A twentieth of short lifetimes.
pub(crate) fn settle(lifetime: Duration) -> Duration {
    SETTLE.min(lifetime / 20)
}

/// The next state of the Secret, from what it holds now. `is_published` says that the authorities of a state with a staged
/// certificate are where clients look for them.
pub fn advance(
    live: Option<&BTreeMap<String, ByteString>>,
    wanted: Wanted<'_>,
    now: SystemTime,
    is_published: bool,
) -> Result<Held, authority::Error> {
    let empty = BTreeMap::new();
    let live = live.unwrap_or(&empty);
    let Ok(current) = Stored::read(live, wanted.names, now) else {
        let issued = issue(wanted.names, wanted.lifetime, now)?;
        // A program may still serve what was good before the Secret was spoilt.
        let known = live.get(AUTHORITIES).and_then(|text| certificates(&text.0).ok()).unwrap_or_default();
        let beside = [wanted.beside, &known].concat();
        return Ok(fresh(Data::new(issued, &beside, now), wanted, now));
    };
    if now < current.renewal() {
        return Ok(Held {
            authorities: current.bundle().to_vec(),
            due: current.renewal(),
            entries: own(live, &[AUTHORITIES, CERTIFICATE, KEY]),
        });
    }
    let settle = settle(wanted.lifetime);
    let Some(next) = staged(live, wanted, now) else { return stage(&current, live, wanted, now) };
    let settled = next.identity().validity().made() + settle;
    if is_published && now >= settled {
        return Ok(fresh(next.beside(current.authorities(), now), wanted, now));
    }
    let entries = own(live, &ENTRIES);
    Ok(Held { authorities: both(current.bundle(), next.bundle()), due: settled.max(now + settle / 2), entries })
}

fn fresh(data: Data, wanted: Wanted<'_>, now: SystemTime) -> Held {
    let entries = data.entries();
    let due = Stored::read(&entries, wanted.names, now).map_or(now + wanted.lifetime / 3, |stored| stored.renewal());
    Held { authorities: entries[AUTHORITIES].0.clone(), due, entries }
}

fn stage(
    current: &Stored,
    live: &BTreeMap<String, ByteString>,
    wanted: Wanted<'_>,
    now: SystemTime,
) -> Result<Held, authority::Error> {
    let Issued { authority, certificate, key } = issue(wanted.names, wanted.lifetime, now)?;
    let mut entries = own(live, &[AUTHORITIES, CERTIFICATE, KEY]);
    let authorities = both(current.bundle(), authority.as_bytes());
    for (name, text) in [(NEXT_AUTHORITY, authority), (NEXT_CERTIFICATE, certificate), (NEXT_KEY, key)] {
        entries.insert(name.to_owned(), ByteString(text.into_bytes()));
    }
    Ok(Held { entries, authorities, due: now + settle(wanted.lifetime) })
}

/// The staged certificate, if it is whole.
fn staged(live: &BTreeMap<String, ByteString>, wanted: Wanted<'_>, now: SystemTime) -> Option<Stored> {
    let renamed = [(NEXT_AUTHORITY, AUTHORITIES), (NEXT_CERTIFICATE, CERTIFICATE), (NEXT_KEY, KEY)]
        .into_iter()
        .map(|(from, to)| Some((to.to_owned(), live.get(from)?.clone())));
    Stored::read(&renamed.collect::<Option<_>>()?, wanted.names, now).ok()
}

/// Returns the entries of the Secret with these keys.
pub(crate) fn own(live: &BTreeMap<String, ByteString>, keys: &[&str]) -> BTreeMap<String, ByteString> {
    live.iter()
        .filter(|(key, _)| keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn both(one: &[u8], other: &[u8]) -> Vec<u8> {
    [one, other].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1000);

    fn names() -> Vec<String> {
        vec!["svc.ns".to_owned(), "svc.ns.svc".to_owned()]
    }

    fn step(live: Option<&Held>, now: SystemTime, is_published: bool) -> Held {
        let names = names();
        let wanted = Wanted { names: &names, lifetime: LIFETIME, beside: &[] };
        advance(live.map(|held| &held.entries), wanted, now, is_published).unwrap()
    }

    fn serves(held: &Held, trusted: &Held, now: SystemTime) -> bool {
        let stored = Stored::read(&held.entries, &names(), now).unwrap();
        names().iter().all(|name| stored.identity().is_trusted(&certificates(&trusted.authorities).unwrap(), name, now))
    }

    #[test]
    fn nothing_changes_until_it_is_due() {
        let start = SystemTime::now();
        let first = step(None, start, true);
        assert!(serves(&first, &first, start));
        let same = step(Some(&first), start + LIFETIME / 2, true);
        assert_eq!((same.entries, same.authorities, same.due), (first.entries, first.authorities, first.due));
    }

    #[test]
    fn what_is_served_is_trusted_at_every_step() {
        let start = SystemTime::now();
        let first = step(None, start, true);
        let due = first.due;
        let staged = step(Some(&first), due, true);
        assert_eq!(staged.entries[CERTIFICATE], first.entries[CERTIFICATE], "still the old one");
        assert!(serves(&staged, &first, due), "before the new authorities are trusted");
        assert!(serves(&staged, &staged, due));

        let early = step(Some(&staged), due, true);
        assert_eq!(early.entries, staged.entries, "not settled");
        let later = staged.due + Duration::from_secs(1);
        let unpublished = step(Some(&staged), later, false);
        assert_eq!(unpublished.entries, staged.entries, "nobody trusts it yet");
        assert!(unpublished.due > later, "no busy loop");

        let promoted = step(Some(&staged), later, true);
        assert_ne!(promoted.entries[CERTIFICATE], first.entries[CERTIFICATE]);
        assert!(!promoted.entries.contains_key(NEXT_KEY));
        assert!(serves(&promoted, &staged, later), "by those who trust the staged state");
        assert!(serves(&first, &promoted, later), "a program that has not read the new one");
        assert!(promoted.due > later);
    }

    #[test]
    fn what_is_broken_or_foreign_is_made_anew() {
        let now = SystemTime::now();
        let (one, two) = (step(None, now, true), step(None, now, true));
        let mut mixed = step(None, now, true);
        mixed.entries.insert(KEY.to_owned(), one.entries[KEY].clone());
        let mended = step(Some(&mixed), now, true);
        assert!(serves(&mended, &mended, now));
        assert!(!serves(&mended, &two, now));
        let mut spoilt = step(None, now, true);
        spoilt.entries.insert(KEY.to_owned(), one.entries[KEY].clone());
        let before = step(None, now, true);
        spoilt.entries.insert(AUTHORITIES.to_owned(), before.entries[AUTHORITIES].clone());
        assert!(serves(&before, &step(Some(&spoilt), now, true), now), "a program that has not read the new one");
        let expired = step(Some(&one), now + LIFETIME * 2, true);
        assert!(serves(&expired, &expired, now + LIFETIME * 2));
        let mut half = step(Some(&one), one.due, true);
        half.entries.remove(NEXT_KEY);
        let again = step(Some(&half), one.due, true);
        assert!(again.entries.contains_key(NEXT_KEY), "staged anew");
    }

    #[test]
    fn authorities_of_what_is_served_stay_trusted_where_the_secret_is_lost() {
        let now = SystemTime::now();
        let (served, known) = (step(None, now, true), step(None, now, true));
        let of = |held: &Held| certificates(&held.authorities).unwrap();
        let (names, beside) = (names(), of(&served));
        let spoilt = BTreeMap::from([(AUTHORITIES.to_owned(), known.entries[AUTHORITIES].clone())]);
        let wanted = Wanted { names: &names, lifetime: LIFETIME, beside: &beside };
        for (live, older) in [(None, vec![of(&served)]), (Some(&spoilt), vec![of(&served), of(&known)])] {
            let held = advance(live, wanted, now, false).unwrap();
            assert_eq!(of(&held)[1..], older.concat());
        }
    }
}
