//! How often something failed, one time after the other: the first is logged, those that follow seldom say more.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Mutex;

use crate::lock::lock;

/// Logs a failure of what is tried again: as a warning if it is the first in a row, for whoever looks closer if not.
#[macro_export]
macro_rules! warn_first {
    ($is_first:expr, $($line:tt)+) => {
        if $is_first { tracing::warn!($($line)+) } else { tracing::debug!($($line)+) }
    };
}

/// Counts failures in a row, so that the back-off before the next attempt can grow.
#[derive(Default)]
pub struct Failures(Mutex<HashMap<String, Row>>);

/// The failures of an object since it last succeeded.
#[derive(Default)]
struct Row {
    count: u32,
    is_logged: bool,
}

impl Failures {
    /// One more failure of the object with this UID. Returns how many there were in a row: 1 for the first.
    pub fn another(&self, uid: &str) -> u32 {
        let mut rows = lock(&self.0);
        let row = rows.entry(uid.to_owned()).or_default();
        row.count = row.count.saturating_add(1);
        row.count
    }

    /// Whether the failure that was just counted is the first in a row that is to be [logged](warn_first). Conflicts are not.
    pub fn is_first(&self, uid: &str) -> bool {
        lock(&self.0).get_mut(uid).is_none_or(|row| !mem::replace(&mut row.is_logged, true))
    }

    /// There are no objects but `live`: some may have gone while nobody watched.
    pub fn keep(&self, live: &HashSet<String>) {
        lock(&self.0).retain(|uid, _| live.contains(uid));
    }

    /// The object succeeded, or is gone.
    pub fn clear(&self, uid: &str) {
        lock(&self.0).remove(uid);
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

    #[test]
    fn the_first_failure_in_a_row_is_logged() {
        let failures = Failures::default();
        failures.another("a");
        let is_logged = [(); 2].map(|()| {
            failures.another("a");
            failures.is_first("a")
        });
        assert_eq!(is_logged, [true, false], "one that was not logged, as a conflict, does not count");
        failures.clear("a");
        failures.another("a");
        assert!(failures.is_first("a"), "it succeeded in between");
    }
}
