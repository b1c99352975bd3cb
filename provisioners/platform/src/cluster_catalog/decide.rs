//! Whether there is something to unpack. Pure.

use std::time::Duration;

use rukpak_crds::olm::{CatalogImage, ClusterCatalogSpec};
use tokio::time::Instant;

use super::store::Stored;

/// What this process last unpacked for a catalog, or found to be stored already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Of the spec that asked for it.
    pub generation: Option<i64>,
    /// When the registry was asked.
    pub at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// What is stored is what the spec asks for.
    Keep,
    /// The registry has to be asked.
    Unpack,
}

/// A digest that is stored never needs the registry. A tag is looked at once for each spec and each process, and when its interval
/// is over.
pub(super) fn decide(
    image: &CatalogImage,
    generation: Option<i64>,
    unpacked: Option<&Unpacked>,
    stored: Option<&Stored>,
    now: Instant,
) -> Next {
    let Some(stored) = stored else { return Next::Unpack };
    if image.is_pinned() {
        return if image.reference.ends_with(&format!("@{}", stored.digest)) { Next::Keep } else { Next::Unpack };
    }
    let is_current = unpacked.is_some_and(|unpacked| {
        let is_due = interval(image).is_some_and(|interval| now.saturating_duration_since(unpacked.at) >= interval);
        unpacked.generation == generation && !is_due
    });
    if is_current { Next::Keep } else { Next::Unpack }
}

impl Unpacked {
    /// In what time the tag is to be looked at again; `None`: not by itself.
    pub fn due(&self, spec: &ClusterCatalogSpec, now: Instant) -> Option<Duration> {
        let image = spec.source.image.as_ref().filter(|image| !image.is_pinned())?;
        Some(interval(image)?.saturating_sub(now.saturating_duration_since(self.at)))
    }
}

fn interval(image: &CatalogImage) -> Option<Duration> {
    let minutes = u64::try_from(image.poll_interval_minutes?).ok()?;
    Some(Duration::from_secs(minutes.saturating_mul(60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_asked_when_there_is_something_to_learn() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let image = |reference: &str, interval| CatalogImage {
            reference: reference.to_owned(),
            poll_interval_minutes: interval,
        };
        let (tag, polled) = (image("r.example/c:v1", None), image("r.example/c:v1", Some(1)));
        let pinned = image(&format!("r.example/c@{digest}"), None);
        let other = image(&format!("r.example/c@sha256:{}", "b".repeat(64)), None);
        let stored = Stored::for_test(&digest);
        let (now, minute) = (Instant::now(), Duration::from_mins(1));
        let known = Unpacked { generation: Some(1), at: now };
        let table = [
            ("nothing is stored", &pinned, Some(1), Some(&known), None, now, Next::Unpack),
            ("a digest that is stored", &pinned, Some(2), None, Some(&stored), now, Next::Keep),
            ("another digest", &other, Some(1), Some(&known), Some(&stored), now, Next::Unpack),
            ("a fresh process", &tag, Some(1), None, Some(&stored), now, Next::Unpack),
            ("nothing new", &tag, Some(1), Some(&known), Some(&stored), now + 100 * minute, Next::Keep),
            ("another spec", &tag, Some(2), Some(&known), Some(&stored), now, Next::Unpack),
            ("not due", &polled, Some(1), Some(&known), Some(&stored), now + minute / 2, Next::Keep),
            ("due", &polled, Some(1), Some(&known), Some(&stored), now + minute, Next::Unpack),
        ];
        for (what, image, generation, unpacked, stored, now, expected) in table {
            assert_eq!(decide(image, generation, unpacked, stored, now), expected, "{what}");
        }
    }
}
