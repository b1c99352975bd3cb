//! The least pace of a download: a server that lets bytes drip holds up what others wait for.

use std::time::Duration;

use tokio::time::Instant;

/// So long a server may take to begin, and to be slow now and then.
const PATIENCE: Duration = Duration::from_secs(30);
/// What has to come each second on average after that, as of uploads.
const LEAST_BYTES_PER_SECOND: u64 = 16 * 1024;

/// How long a server was waited for, and what came of it. What else holds a download up, our disk, does not count.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    waited: Duration,
    bytes: u64,
}

/// What came is less than the least pace asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

impl Pace {
    /// Waits for the next bytes; `length` tells how many there are of them.
    pub(crate) async fn wait<T>(
        &mut self,
        next: impl Future<Output = T>,
        length: impl FnOnce(&T) -> usize,
    ) -> Result<T, TooSlow> {
        let begun = Instant::now();
        let next = next.await;
        self.add(begun.elapsed(), length(&next)).map(|()| next)
    }

    fn add(&mut self, waited: Duration, bytes: usize) -> Result<(), TooSlow> {
        self.waited += waited;
        self.bytes += bytes as u64;
        let least = self.waited.saturating_sub(PATIENCE).as_secs().saturating_mul(LEAST_BYTES_PER_SECOND);
        if self.bytes < least { Err(TooSlow) } else { Ok(()) }
    }
}

/// Says what is asked of servers, for messages.
pub(crate) fn asked() -> String {
    format!("{} KiB a second after {} seconds", LEAST_BYTES_PER_SECOND / 1024, PATIENCE.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_begin_slowly_and_must_not_drip() {
        let mut slow = Pace::default();
        for _ in 0..3 {
            assert_eq!(slow.add(Duration::from_secs(10), 1), Ok(()));
        }
        assert_eq!(slow.add(Duration::from_secs(10), 1), Err(TooSlow), "40 seconds for 4 bytes");
        let mut steady = Pace::default();
        for _ in 0..600 {
            assert_eq!(steady.add(Duration::from_secs(1), 16 * 1024), Ok(()));
        }
    }
}
