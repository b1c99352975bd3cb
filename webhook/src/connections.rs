//! Who is connected, and whom a new connection displaces.
//!
//! Anything in the cluster can connect, so places run out when somebody wants them to. Then the connection that has kept us waiting
//! longest gives way, so that a new one is always let in: the API server says what it wants within milliseconds, whoever only
//! holds places does not. A limit a peer would not do as well: an API server opens as many connections as it has calls, and behind a
//! node's NAT everybody has one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// All that are open, up to a limit.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    begin: Instant,
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
}

/// One of them.
#[derive(Debug)]
pub struct Connection {
    /// Who is at the other end.
    pub peer: IpAddr,
    begin: Instant,
    phase: AtomicU8,
    /// Since when it is in this phase, in milliseconds since `begin`.
    since: AtomicU64,
    displaced: CancellationToken,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    connections: Arc<Connections>,
    id: u64,
    connection: Arc<Connection>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It has not said yet what it wants.
    Silent,
    /// Its call is on its way, or waits for its turn.
    Waiting,
    /// Its call is answered.
    Answering,
    /// It has been answered.
    Idle,
}

impl Connections {
    /// At most so many.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, begin: Instant::now(), next: AtomicU64::new(0), open: Mutex::default() })
    }

    /// A place for a new connection: a free one, else that of another. `None` where all others are being answered.
    ///
    /// Silent ones have half of the places.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        self.admit_at(peer, milliseconds(self.begin.elapsed()))
    }

    fn admit_at(self: &Arc<Self>, peer: IpAddr, now: u64) -> Option<Slot> {
        let mut open = self.open();
        let silent = open.values().filter(|connection| connection.phase() == Phase::Silent as u8).count();
        if open.len() >= self.limit || silent >= self.limit / 2 {
            let victim = Self::longest_waiting(&open)?;
            if let Some(connection) = open.remove(&victim) {
                connection.displaced.cancel();
            }
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            peer,
            begin: self.begin,
            phase: AtomicU8::new(Phase::Silent as u8),
            since: AtomicU64::new(now),
            displaced: CancellationToken::new(),
        });
        open.insert(id, Arc::clone(&connection));
        Some(Slot { connections: Arc::clone(self), id, connection })
    }

    /// Displaces the connection that has waited longest with a call, if it has for so long: what it holds is wanted.
    pub fn displace_waiting(&self, for_at_least: Duration) {
        self.displace_waiting_at(for_at_least, milliseconds(self.begin.elapsed()));
    }

    fn displace_waiting_at(&self, for_at_least: Duration, now: u64) {
        let open = self.open();
        let waiting = open.values().filter(|connection| connection.phase() == Phase::Waiting as u8);
        if let Some(oldest) = waiting.min_by_key(|connection| connection.since())
            && now.saturating_sub(oldest.since()) >= milliseconds(for_at_least)
        {
            oldest.displaced.cancel();
        }
    }

    fn longest_waiting(open: &HashMap<u64, Arc<Connection>>) -> Option<u64> {
        let others = open.iter().filter(|(_, connection)| connection.phase() != Phase::Answering as u8);
        let oldest = others.min_by_key(|(_, other)| (other.phase() == Phase::Idle as u8, other.since()));
        oldest.map(|(id, _)| *id)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Notes what it does now.
    pub fn enter(&self, phase: Phase) {
        self.enter_at(phase, milliseconds(self.begin.elapsed()));
    }

    fn enter_at(&self, phase: Phase, now: u64) {
        self.since.store(now, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Whether it has not said anything yet.
    pub fn is_silent(&self) -> bool {
        self.phase() == Phase::Silent as u8
    }

    /// Waits until another takes its place.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }

    fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }
}

impl Slot {
    /// The connection that has it.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.open().remove(&self.id);
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn is_displaced(place: &Slot) -> bool {
        place.connection.displaced.is_cancelled()
    }

    /// At this many milliseconds.
    fn admit(connections: &Arc<Connections>, now: u64, phase: Phase) -> Option<Slot> {
        let place = connections.admit_at(PEER, now)?;
        place.connection.enter_at(phase, now);
        Some(place)
    }

    #[test]
    fn whoever_waits_longest_gives_way_and_idle_ones_last() {
        let connections = Connections::new(4);
        let idle = admit(&connections, 1, Phase::Idle).unwrap();
        let answered = admit(&connections, 2, Phase::Answering).unwrap();
        let dripping = admit(&connections, 3, Phase::Waiting).unwrap();
        let silent = admit(&connections, 4, Phase::Silent).unwrap();
        let places = [&idle, &answered, &dripping, &silent];
        let displaced = || places.map(is_displaced);
        assert_eq!(displaced(), [false; 4]);
        let first = admit(&connections, 5, Phase::Answering).unwrap();
        assert_eq!(displaced(), [false, false, true, false]);
        let second = admit(&connections, 6, Phase::Answering).unwrap();
        assert_eq!(displaced(), [false, false, true, true]);
        let third = admit(&connections, 7, Phase::Answering).unwrap();
        assert_eq!(displaced(), [true, false, true, true]);
        assert!(admit(&connections, 8, Phase::Silent).is_none(), "whoever is being answered stays");
        drop((first, second, third));
        assert!(admit(&connections, 9, Phase::Silent).is_some());
    }

    #[test]
    fn silent_ones_have_half_of_the_places() {
        let connections = Connections::new(4);
        let first = admit(&connections, 1, Phase::Silent).unwrap();
        let second = admit(&connections, 2, Phase::Silent).unwrap();
        let third = admit(&connections, 3, Phase::Silent).unwrap();
        assert_eq!([&first, &second, &third].map(is_displaced), [true, false, false]);
    }

    #[test]
    fn a_slow_call_gives_way_to_whoever_wants_what_it_holds() {
        let connections = Connections::new(4);
        let second = Duration::from_secs(1);
        let slow = admit(&connections, 0, Phase::Waiting).unwrap();
        connections.displace_waiting_at(second, 999);
        assert!(!is_displaced(&slow));
        let quick = admit(&connections, 1_000, Phase::Waiting).unwrap();
        connections.displace_waiting_at(second, 1_000);
        assert_eq!([&slow, &quick].map(is_displaced), [true, false]);
    }
}
