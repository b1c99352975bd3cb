//! When something that failed for a Bundle may be tried again.
//!
//! The event of our own status write wakes the Bundle at once. Without this it would be fetched a second time before the
//! wait that its failure asks for, or a registry asked for its signature.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use rukpak_content::Digest;
use rukpak_runtime::lock::lock;

/// Of attempts to unpack.
pub static ATTEMPTS: Waits<()> = Waits::new();
/// Of searches for a signature of what is unpacked, with the digest of what was asked: another question does not wait.
pub static SEARCHES: Waits<Digest> = Waits::new();

/// Waits of Bundles by UID, which is unique across clusters: so these may be of the process.
pub struct Waits<T>(LazyLock<Mutex<HashMap<String, Wait<T>>>>);

struct Wait<T> {
    not_before: Instant,
    of: T,
}

impl<T: PartialEq> Waits<T> {
    const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// What failed `of` this is not tried before `delay` has passed.
    pub fn wait(&self, uid: &str, of: T, delay: Duration) {
        lock(&self.0).insert(uid.to_owned(), Wait { not_before: Instant::now() + delay, of });
    }

    /// What is left of the wait.
    pub fn left(&self, uid: &str) -> Option<Duration> {
        lock(&self.0).get(uid).and_then(Wait::left)
    }

    /// The same, if it is a wait of this.
    pub fn left_of(&self, uid: &str, of: &T) -> Option<Duration> {
        lock(&self.0).get(uid).filter(|wait| wait.of == *of).and_then(Wait::left)
    }

    /// It succeeded, or the Bundle is gone.
    pub fn clear(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

impl<T> Wait<T> {
    fn left(&self) -> Option<Duration> {
        self.not_before.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_itself_or_by_success() {
        let waits = Waits::new();
        assert_eq!(waits.left("a"), None);
        waits.wait("a", 1, Duration::ZERO);
        assert_eq!(waits.left("a"), None);
        waits.wait("a", 1, Duration::from_hours(1));
        let is_long = |left: Duration| left > Duration::from_mins(59);
        assert!(waits.left("a").is_some_and(is_long) && waits.left_of("a", &1).is_some_and(is_long));
        assert_eq!(waits.left_of("a", &2), None);
        waits.clear("a");
        assert_eq!(waits.left("a"), None);
    }
}
