//! HTTP servers with bounds: on connections, on those of one peer that has shown no right yet, on the time that each takes, and
//! on the time that calls in flight get at the end.
//!
//! A connection is *admitted* once a call on it was allowed ([`Connection::admit`]). One that is not admitted is closed when its
//! place is needed for a new one, the oldest first: whoever opens connections and shows no right keeps nobody out.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Wait after the kernel could not hand over a connection (no file descriptors, most of all).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Line and headers of one call, at most.
const HEADER_BYTES: usize = 64 * 1024;

/// What a server allows.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections. With as many admitted ones, more wait in the kernel's queue.
    pub connections: usize,
    /// Connections of one address that are not admitted.
    pub strangers_per_address: usize,
    /// Until the handshake is done.
    pub handshake: Duration,
    /// Until the headers of a call are there, the idle time before it included.
    pub headers: Duration,
    /// Until the connection ends, whatever goes on.
    pub connection: Duration,
}

/// What comes before HTTP on a new connection.
pub trait Handshake: Clone + Send + Sync + 'static {
    /// What HTTP is spoken over.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What is known of the other end; an [`Extension`] of its calls.
    type Peer: Clone + Send + Sync + 'static;

    /// Does it.
    fn shake(&self, stream: TcpStream) -> impl Future<Output = io::Result<(Self::Stream, Self::Peer)>> + Send;
}

/// No handshake: plain HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Handshake for Plain {
    type Stream = TcpStream;
    type Peer = ();

    async fn shake(&self, stream: TcpStream) -> io::Result<(TcpStream, ())> {
        Ok((stream, ()))
    }
}

/// The connection of a call; an [`Extension`] of it.
#[derive(Clone)]
pub struct Connection {
    table: Arc<Table>,
    number: u64,
}

impl Connection {
    /// A call was allowed: the connection is not closed for the sake of another one any more.
    pub fn admit(&self) {
        if let Some(entry) = self.table.entries().get_mut(&self.number) {
            entry.is_admitted = true;
        }
    }
}

/// Answers until `stop` is cancelled, then lets calls in flight end, for at most `drain`. Dropping it ends every connection.
pub async fn serve<H: Handshake>(
    listener: TcpListener,
    handshake: H,
    router: Router,
    bounds: Bounds,
    (stop, drain): (CancellationToken, Duration),
) {
    let table = Arc::new(Table { bounds, entries: Mutex::default(), freed: Notify::new() });
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        let next = async {
            table.room().await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = next => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                number += 1;
                let place = table.enter(number, address.ip().to_canonical());
                let (handshake, router, watcher) = (handshake.clone(), router.clone(), graceful.watcher());
                connections.spawn(connection(place, stream, handshake, router, (watcher, stop.clone())));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(deadline_seconds = drain.as_secs(), "calls were still in flight at the deadline");
    }
}

async fn connection<H: Handshake>(
    place: Place,
    stream: TcpStream,
    handshake: H,
    router: Router,
    (watcher, stop): (Watcher, CancellationToken),
) {
    let bounds = place.connection.table.bounds;
    let evicted = place.evicted.clone();
    let served = async {
        let shaken = tokio::select! {
            () = stop.cancelled() => return,
            shaken = timeout(bounds.handshake, handshake.shake(stream)) => shaken,
        };
        let (stream, peer) = match shaken {
            Ok(Ok(shaken)) => shaken,
            Ok(Err(error)) => return tracing::debug!(%error, "a handshake failed"),
            Err(_) => return tracing::debug!("a handshake took too long"),
        };
        let router = router.layer(Extension(peer)).layer(Extension(place.connection.clone()));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.headers)
            .max_buf_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        match timeout(bounds.connection, watcher.watch(connection)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
            Err(_) => tracing::debug!(longest = ?bounds.connection, "a connection was closed at its deadline"),
        }
    };
    tokio::select! {
        () = served => {}
        () = evicted.cancelled() => tracing::debug!("an unauthorized connection was closed in favour of a new one"),
    }
}

/// The open connections, the oldest first.
struct Table {
    bounds: Bounds,
    entries: Mutex<BTreeMap<u64, Entry>>,
    /// Told when one ends.
    freed: Notify,
}

struct Entry {
    address: IpAddr,
    is_admitted: bool,
    evicted: CancellationToken,
}

/// An open connection's place in the table, which it leaves when this is dropped.
struct Place {
    connection: Connection,
    evicted: CancellationToken,
}

impl Table {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a place, or one that can be taken from somebody.
    async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            let has_room = {
                let entries = self.entries();
                entries.len() < self.bounds.connections || entries.values().any(|entry| !entry.is_admitted)
            };
            if has_room {
                return;
            }
            freed.await;
        }
    }

    /// Takes a place, if need be from the oldest stranger: of the same address where that has its share, else of all.
    fn enter(self: &Arc<Self>, number: u64, address: IpAddr) -> Place {
        let mut entries = self.entries();
        let strangers = |of: Option<IpAddr>| {
            move |(_, entry): &(&u64, &Entry)| !entry.is_admitted && of.is_none_or(|of| entry.address == of)
        };
        let share = entries.iter().filter(strangers(Some(address))).count();
        let leaves = if share >= self.bounds.strangers_per_address {
            entries.iter().find(strangers(Some(address)))
        } else if entries.len() >= self.bounds.connections {
            entries.iter().find(strangers(None))
        } else {
            None
        };
        if let Some(leaving) = leaves.map(|(number, _)| *number).and_then(|number| entries.remove(&number)) {
            leaving.evicted.cancel();
        }
        let evicted = CancellationToken::new();
        entries.insert(number, Entry { address, is_admitted: false, evicted: evicted.clone() });
        Place { connection: Connection { table: Arc::clone(self), number }, evicted }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connection.table.entries().remove(&self.connection.number);
        self.connection.table.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
