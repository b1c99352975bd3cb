//! Whether the API server answers watches: a process whose watches wait for their first answer sees nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// The head of a watch comes at once, whatever is watched. One that has waited so long for it sees nothing, and `/readyz` says so.
const WATCH_IS_LATE: Duration = Duration::from_secs(10);
/// A watch that was given up is tried again within half a minute, if anybody still wants it.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(1);

/// Whether each watch that was asked for has been answered; if not, which one waits, for the readiness probe.
pub(super) fn check() -> Result<(), String> {
    none_waits(WATCH_IS_LATE)
}

/// Whether no watch has waited for its answer for so long.
pub(crate) fn none_waits(longest: Duration) -> Result<(), String> {
    let mut starts = lock(&STARTS);
    starts.retain(|_, start| start.given_up.is_none_or(|at| at.elapsed() < FORGOTTEN_AFTER));
    let oldest = starts.iter().min_by_key(|(_, start)| start.since);
    match oldest.map(|(path, start)| (path, start.since.elapsed())) {
        Some((path, waited)) if waited >= longest => {
            Err(format!("the API server has not answered the watch {path} for {} seconds", waited.as_secs()))
        }
        _ => Ok(()),
    }
}

/// The watches that wait for their head, by path. A process has one API server.
static STARTS: Mutex<BTreeMap<String, Start>> = Mutex::new(BTreeMap::new());

/// Since when a watch waits for its head.
struct Start {
    since: Instant,
    /// When the last attempt was given up, if none is under way.
    given_up: Option<Instant>,
}

/// An attempt to begin a watch. Its end takes the watch off the list, unless it was given up: the next attempt goes on waiting.
pub(crate) struct Starting(Option<String>);

impl Starting {
    pub(crate) fn new(path: &str) -> Self {
        let now = Instant::now();
        lock(&STARTS).entry(path.to_owned()).or_insert(Start { since: now, given_up: None }).given_up = None;
        Self(Some(path.to_owned()))
    }

    pub(crate) fn give_up(mut self) {
        if let Some(path) = self.0.take() {
            lock(&STARTS).entry(path).and_modify(|start| start.given_up = Some(Instant::now()));
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            lock(&STARTS).remove(&path);
        }
    }
}
