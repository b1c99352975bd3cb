//! The clock for times in statuses, and for deadlines that are in them.

use std::sync::OnceLock;

use jiff::Timestamp;

static CLOCK: OnceLock<fn() -> Timestamp> = OnceLock::new();

/// What time it is: that of the machine, unless [`set`] has said otherwise.
pub fn now() -> Timestamp {
    CLOCK.get().map_or_else(Timestamp::now, |now| now())
}

/// Makes `now` the clock of this process, for a simulation, whose time jumps. Only the first call counts.
pub fn set(now: fn() -> Timestamp) {
    // Whoever came first has the same clock: a process has one simulation.
    let _ = CLOCK.set(now);
}
