//! What calls may take of this process at once. Anybody can call, so what a call costs is taken from a share, and no peer has more
//! than half of one: who else calls does not wait for it.
//!
//! | share | of what | how much |
//! |---|---|---|
//! | bodies | bytes of bodies on their way | 32 MiB |
//! | small reviews | bytes that bodies up to 128 KiB may take once they are read | 32 MiB |
//! | large reviews | the same of larger ones, which wait for nobody but each other | 96 MiB |
//! | checks | comparisons of CRDs and objects, each on a thread of its own | 4 |
//! | reads | calls that read from the API server, lists apart | 16 |
//! | lists | calls that list from the API server; a page has at most [`crate::reads::PAGE_BYTES`] | 4 |

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use rukpak_runtime::lock::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The shares of a process.
#[derive(Debug)]
pub struct Gates {
    /// Bytes of bodies on their way. Not shared by peer: who is slow gives way to who waits.
    pub bodies: Arc<Semaphore>,
    /// Bytes that small bodies may take once they are read.
    pub small: Gate,
    /// Bytes that large bodies may take once they are read.
    pub large: Gate,
    /// Comparisons.
    pub checks: Gate,
    /// Reads of single objects.
    pub reads: Gate,
    /// Lists.
    pub lists: Gate,
}

/// Bytes of bodies on their way.
pub const BODIES_BYTES: usize = 32 << 20;
/// Bytes that small bodies may take once they are read.
pub const SMALL_BYTES: u32 = 32 << 20;
/// Bytes that large bodies may take once they are read.
pub const LARGE_BYTES: u32 = 96 << 20;

impl Default for Gates {
    fn default() -> Self {
        Self {
            bodies: Arc::new(Semaphore::new(BODIES_BYTES)),
            small: Gate::new(SMALL_BYTES),
            large: Gate::new(LARGE_BYTES),
            checks: Gate::new(4),
            reads: Gate::new(16),
            lists: Gate::new(4),
        }
    }
}

/// A share.
#[derive(Debug)]
pub struct Gate {
    all: Arc<Semaphore>,
    of_a_peer: u32,
    peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// A part of a share, until it is dropped.
#[derive(Debug)]
pub struct Pass {
    parts: [Option<OwnedSemaphorePermit>; 2],
}

impl Pass {
    /// Gives back what is more than this.
    pub fn keep(&mut self, part: usize) {
        for permit in self.parts.iter_mut().flatten() {
            let more = permit.num_permits().saturating_sub(part);
            drop(permit.split(more));
        }
    }
}

/// Peers that are remembered before those that take nothing are forgotten.
const REMEMBERED: usize = 1024;

impl Gate {
    fn new(all: u32) -> Self {
        Self { all: Arc::new(Semaphore::new(all as usize)), of_a_peer: all / 2, peers: Mutex::default() }
    }

    /// Waits for a part of it. More than a peer's half is not asked for: it would be waited for in vain.
    pub async fn pass(&self, peer: IpAddr, part: u32) -> Pass {
        let part = part.min(self.of_a_peer);
        // First among its own: who waits here keeps nobody else waiting. Semaphores that are never closed.
        let own = self.of(peer).acquire_many_owned(part).await.ok();
        let all = Arc::clone(&self.all).acquire_many_owned(part).await.ok();
        Pass { parts: [own, all] }
    }

    fn of(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut peers = lock(&self.peers);
        if peers.len() >= REMEMBERED {
            peers.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let new = || Arc::new(Semaphore::new(self.of_a_peer as usize));
        Arc::clone(peers.entry(peer).or_insert_with(new))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_peer_has_half_of_a_share() {
        let gate = Gate::new(4);
        let peer = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let at_once = |last, part| gate.pass(peer(last), part).now_or_never();
        let first = at_once(1, 100).unwrap();
        assert!(at_once(1, 1).is_none(), "more than half is half, and it has that");
        let second = at_once(2, 2).unwrap();
        assert!(at_once(3, 1).is_none(), "all is taken");
        drop(first);
        assert!(at_once(3, 1).is_some());
        drop(second);
        let mut large = at_once(4, 2).unwrap();
        assert!(at_once(4, 1).is_none());
        large.keep(1);
        assert!(at_once(4, 1).is_some(), "what is not needed is given back");
        drop(large);
        for number in 0..2 * u32::try_from(REMEMBERED).unwrap() {
            assert!(gate.pass(IpAddr::V4(number.into()), 1).now_or_never().is_some());
        }
        assert!(gate.peers.lock().unwrap().len() <= REMEMBERED);
    }
}
