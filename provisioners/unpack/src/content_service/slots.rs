//! What uploads may take together, and each by itself: one at a time for a Bundle, a number in all, a pace and a deadline.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rukpak_runtime::lock::lock;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a client may send nothing, and how long it has before its pace counts.
pub const IDLE: Duration = Duration::from_secs(30);
/// Threads that write uploads to the disk at once.
const WRITERS: usize = 4;

/// Upper bounds on uploads. Each has a name for `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadLimits {
    /// Uploads that are taken at once.
    pub at_once: usize,
    /// From the headers to the last byte.
    pub time: Duration,
    /// Bytes a second, on average after the first 30 seconds.
    pub bytes_per_second: u64,
    /// Bytes of all uploads together, those under way included.
    pub store_bytes: u64,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self { at_once: 32, time: Duration::from_mins(10), bytes_per_second: 16 << 10, store_bytes: 2 << 30 }
    }
}

/// Why an upload does not begin, or does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Of the same Bundle.
    #[error("another upload for this bundle is under way; try again when it has ended")]
    Twice,
    #[error("{0} uploads are under way, and more are not taken at once (--limit=uploads={0}); try again later")]
    Many(usize),
    /// It takes too long.
    #[error("read request body: the upload was not complete after {0} seconds (--limit=upload-seconds={0})")]
    Late(u64),
    /// It comes too slowly.
    #[error("read request body: less than {0} bytes a second came (--limit=upload-bytes-per-second={0})")]
    Slow(u64),
    #[error("read request body: nothing came for {} seconds", IDLE.as_secs())]
    Silent,
}

/// The uploads that are under way.
pub struct Slots {
    limits: UploadLimits,
    /// UIDs of their Bundles.
    taken: Mutex<HashSet<String>>,
    /// Bounds what writes to the disk at once, so that threads are left for everything else.
    pub writers: Arc<Semaphore>,
}

/// The right to upload for one Bundle, as long as it lives.
pub struct Slot<'a> {
    slots: &'a Slots,
    uid: String,
}

impl Slots {
    /// With no upload under way.
    pub fn new(limits: UploadLimits) -> Self {
        Self { limits, taken: Mutex::default(), writers: Arc::new(Semaphore::new(WRITERS)) }
    }

    /// Begins an upload for the Bundle with this UID.
    ///
    /// # Errors
    /// [`Refused::Twice`], [`Refused::Many`].
    pub fn take(&self, uid: &str) -> Result<Slot<'_>, Refused> {
        let mut taken = lock(&self.taken);
        if taken.contains(uid) {
            return Err(Refused::Twice);
        }
        if taken.len() >= self.limits.at_once {
            return Err(Refused::Many(self.limits.at_once));
        }
        taken.insert(uid.to_owned());
        Ok(Slot { slots: self, uid: uid.to_owned() })
    }

    /// How fast the body has to come that begins now.
    pub fn pace(&self) -> Pace {
        Pace { limits: self.limits, began: Instant::now() }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        lock(&self.slots.taken).remove(&self.uid);
    }
}

/// How fast a body has to come.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    limits: UploadLimits,
    began: Instant,
}

impl Pace {
    /// Until when the next bytes have to be there, after `received` of which the last came at `now`; and what is wrong if they
    /// are not. Pure.
    pub fn deadline(&self, received: u64, now: Instant) -> (Instant, Refused) {
        let UploadLimits { time, bytes_per_second, .. } = self.limits;
        let earned = Duration::from_secs(received.checked_div(bytes_per_second).unwrap_or(0).min(time.as_secs()));
        let bounds = [
            (self.began + time, Refused::Late(time.as_secs())),
            (self.began + IDLE + earned, Refused::Slow(bytes_per_second)),
            (now + IDLE, Refused::Silent),
        ];
        let is_paced = bytes_per_second > 0;
        let apply = bounds.into_iter().filter(|(_, refused)| is_paced || !matches!(refused, Refused::Slow(_)));
        apply.min_by_key(|(at, _)| *at).unwrap_or(bounds[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> UploadLimits {
        UploadLimits { at_once: 2, time: Duration::from_mins(10), bytes_per_second: 100, ..UploadLimits::default() }
    }

    #[test]
    fn uploads_are_one_for_a_bundle_and_few_in_all() {
        let slots = Slots::new(limits());
        let first = slots.take("a").unwrap();
        assert_eq!(slots.take("a").err(), Some(Refused::Twice));
        let second = slots.take("b").unwrap();
        let refused = slots.take("c").err().unwrap();
        assert_eq!(refused, Refused::Many(2));
        assert!(refused.to_string().contains("--limit=uploads=2"), "{refused}");
        drop(first);
        drop(slots.take("a").unwrap());
        drop(second);
        assert!(slots.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn one_byte_now_and_then_is_too_slow() {
        let pace = Slots::new(limits()).pace();
        let after = |seconds| pace.began + Duration::from_secs(seconds);
        assert_eq!(pace.deadline(0, pace.began), (after(30), Refused::Slow(100)));
        assert_eq!(pace.deadline(1, after(29)), (after(30), Refused::Slow(100)));
        // A good start is worth its time, but nobody may fall silent.
        assert_eq!(pace.deadline(20_000, after(10)), (after(40), Refused::Silent));
        assert_eq!(pace.deadline(20_000, after(210)), (after(230), Refused::Slow(100)));
        assert_eq!(pace.deadline(u64::MAX, after(599)), (after(600), Refused::Late(600)));
    }

    #[test]
    fn without_a_least_pace_silence_and_deadline_count() {
        let pace = Slots::new(UploadLimits { bytes_per_second: 0, ..limits() }).pace();
        let after = |seconds| pace.began + Duration::from_secs(seconds);
        assert_eq!(pace.deadline(1, after(29)), (after(59), Refused::Silent));
        assert_eq!(pace.deadline(1, after(580)), (after(600), Refused::Late(600)));
    }
}
