//! How much answers take that are on their way, together. Whoever is slowest to take theirs makes way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tonic::Status;

/// All answers together, in KiB: 64 MiB.
const ROOM: u32 = 64 * 1024;
/// The least that an answer counts, in KiB, so that at most 32 are made at once.
const LEAST: u32 = 2 * 1024;
/// A document is read, what is in it is decoded, and both become a message.
pub(super) const COPIES: u64 = 4;
/// How often it is asked for, and how long each time.
const TRIES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(1);
/// So long anybody may take an answer, also where others wait for the room.
const QUICK: Duration = Duration::from_secs(5);

/// Ends the connection of a call.
type Close = Arc<dyn Fn() + Send + Sync>;

/// The room that there is, for all calls of a server. Cheap to clone.
#[derive(Clone)]
pub struct Room(Arc<Shared>);

struct Shared {
    free: Arc<Semaphore>,
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    last: u64,
    /// Whoever has held theirs longest comes first.
    all: BTreeMap<u64, (Instant, Close)>,
}

/// A call's right to take some of it.
pub struct Turn {
    room: Room,
    close: Close,
}

/// What a call has taken, until it is dropped.
pub(super) struct Taken {
    room: Room,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Shared { free: Arc::new(Semaphore::new(ROOM as usize)), holders: Mutex::default() }))
    }
}

impl Room {
    /// The turn of a call whose connection `close` ends.
    pub fn turn(&self, close: impl Fn() + Send + Sync + 'static) -> Turn {
        Turn { room: self.clone(), close: Arc::new(close) }
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.0.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection of the call that has held its room longest, if that was not quick.
    fn close_slowest(&self) {
        let holders = self.holders();
        let slowest = holders.all.values().next().filter(|(since, _)| since.elapsed() >= QUICK);
        let close = slowest.map(|(_, close)| Arc::clone(close));
        drop(holders);
        if let Some(close) = close {
            close();
        }
    }
}

impl Turn {
    /// Waits until there is room for a document of so many bytes.
    pub(super) async fn take(&self, bytes: u64) -> Result<Taken, Status> {
        let wanted = u32::try_from(bytes.saturating_mul(COPIES) / 1024).unwrap_or(ROOM).clamp(LEAST, ROOM);
        let mut taken = std::pin::pin!(Arc::clone(&self.room.0.free).acquire_many_owned(wanted));
        for _ in 0..TRIES {
            match timeout(PATIENCE, taken.as_mut()).await {
                Ok(Ok(permit)) => return Ok(self.hold(permit)),
                Ok(Err(_)) => return Err(Status::unavailable("the server ends")),
                Err(_) => self.room.close_slowest(),
            }
        }
        Err(Status::resource_exhausted("too many calls are answered now: try again"))
    }

    fn hold(&self, permit: OwnedSemaphorePermit) -> Taken {
        let mut holders = self.room.holders();
        holders.last += 1;
        let number = holders.last;
        holders.all.insert(number, (Instant::now(), Arc::clone(&self.close)));
        Taken { room: self.room.clone(), number, _permit: permit }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.holders().all.remove(&self.number);
    }
}
