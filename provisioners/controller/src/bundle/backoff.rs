//! When a Bundle that failed may be tried again.
//!
//! The event of our own status write wakes the Bundle at once. Without this it would be fetched a second time before the
//! wait that its failure asks for.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// By UID, which is unique across clusters: so this may be one for the process.
static NOT_BEFORE: LazyLock<Mutex<HashMap<String, Instant>>> = LazyLock::new(Mutex::default);

/// Not before `delay` has passed.
pub fn wait(uid: &str, delay: Duration) {
    lock().insert(uid.to_owned(), Instant::now() + delay);
}

/// What is left of the wait.
pub fn left(uid: &str) -> Option<Duration> {
    let not_before = lock().get(uid).copied()?;
    not_before.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

/// It succeeded, or is gone.
pub fn clear(uid: &str) {
    lock().remove(uid);
}

fn lock() -> MutexGuard<'static, HashMap<String, Instant>> {
    NOT_BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_itself_or_by_success() {
        assert_eq!(left("a"), None);
        wait("a", Duration::ZERO);
        assert_eq!(left("a"), None);
        wait("a", Duration::from_hours(1));
        assert!(left("a").is_some_and(|left| left > Duration::from_mins(59)));
        clear("a");
        assert_eq!(left("a"), None);
    }
}
