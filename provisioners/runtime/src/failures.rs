//! How often an object could not be reconciled, one time after the other.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// Counts failures in a row, so that the back-off before the next attempt can grow.
#[derive(Default)]
pub struct Failures(Mutex<HashMap<String, u32>>);

impl Failures {
    /// One more failure of the object with this UID. Returns how many there were in a row: 1 for the first.
    pub fn another(&self, uid: &str) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// There are no objects but `live`: some may have gone while nobody watched.
    pub fn keep(&self, live: &HashSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| live.contains(uid));
    }

    /// The object succeeded, or is gone.
    pub fn clear(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_object_until_it_succeeds() {
        let failures = Failures::default();
        assert_eq!([(); 3].map(|()| failures.another("a")), [1, 2, 3]);
        assert_eq!(failures.another("b"), 1);
        failures.clear("a");
        assert_eq!((failures.another("a"), failures.another("b")), (1, 2));
        failures.keep(&HashSet::from(["b".to_owned()]));
        assert_eq!((failures.another("a"), failures.another("b")), (1, 3));
    }
}
