//! The clock that statuses, and deadlines that they hold, are told by.

use std::sync::OnceLock;

use jiff::Timestamp;

static CLOCK: OnceLock<fn() -> Timestamp> = OnceLock::new();

/// What time it is: that of the machine, unless [`set`] has said otherwise.
pub fn now() -> Timestamp {
    CLOCK.get().map_or_else(Timestamp::now, |now| now())
}

/// Has this process told the time by `now` from here on, as a simulation does, whose time jumps. The first call counts.
pub fn set(now: fn() -> Timestamp) {
    // Whoever came first has the same clock: a process has one simulation.
    let _ = CLOCK.set(now);
}
