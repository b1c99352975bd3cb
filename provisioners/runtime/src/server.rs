//! HTTP servers with bounds: on connections, on those of one peer that has shown no right yet, on the time that each takes, and
//! on the time that calls in flight get at the end.
//!
//! Anything in the cluster can connect, so places run out when somebody wants them to. Then a connection gives way to a new one:
//! that which has kept us waiting longest, and idle ones last. One whose call was allowed stays ([`Connection::enter`]). So
//! whoever holds places and shows no right keeps nobody out.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::lock::lock;

/// Wait after the kernel could not hand over a connection (no file descriptors, most of all).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Line and headers of one call, at most; a body on its way takes as much.
const BUFFER_BYTES: usize = 64 * 1024;
/// Headers of one call over HTTP/2, at most.
const HTTP2_HEADER_BYTES: u32 = 16 * 1024;
/// What comes over an HTTP/2 connection and is not read yet, at most. Less is not in the protocol.
const HTTP2_WINDOW_BYTES: u32 = 64 * 1024;
/// Until a silent HTTP/2 connection is asked whether somebody is still there.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// What a server allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Open connections. With as many admitted ones, more wait in the kernel's queue.
    pub connections: usize,
    /// Connections of one address that are [strangers](Phase::Stranger).
    pub strangers_per_address: usize,
    /// Until the handshake is done.
    pub handshake: Duration,
    /// Until the headers of the next call are there, the idle time before it included. The first call is no exception: clients
    /// open connections ahead and count on them as on any idle one, and a call on its way to a closed one is lost. Over HTTP/2, whose
    /// calls do not wait for each other, an idle connection is pinged instead.
    pub headers: Duration,
    /// Until the connection ends, whatever goes on.
    pub connection: Duration,
}

/// What a connection does, as far as its place depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not said what it wants, or may not have it. So is every connection at first.
    Stranger,
    /// Its call is on its way, or waits for its turn.
    Waiting,
    /// Its call is allowed: it is not closed for the sake of another one.
    Admitted,
    /// It was answered, and says no more for now. It gives way last.
    Idle,
}

/// What comes before HTTP on a new connection.
pub trait Handshake: Clone + Send + Sync + 'static {
    /// What HTTP is spoken over.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What is known of the other end; an [extension](axum::Extension) of its calls.
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

/// The connection of a call; an [extension](axum::Extension) of it.
#[derive(Clone)]
pub struct Connection {
    table: Arc<Table>,
    number: u64,
    address: IpAddr,
}

impl Default for Connection {
    /// Returns one that no listener accepted, such as that of a call in a test.
    fn default() -> Self {
        Self { table: Arc::default(), number: 0, address: IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
    }
}

impl Connection {
    /// Notes what it does from now on.
    pub fn enter(&self, phase: Phase) {
        if let Some(entry) = lock(&self.table.entries).get_mut(&self.number) {
            (entry.phase, entry.since) = (phase, Instant::now());
        }
        if phase != Phase::Admitted {
            self.table.freed.notify_one();
        }
    }

    /// Returns the address of the other end.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Closes it: what its calls hold is wanted.
    pub fn close(&self) {
        if let Some(entry) = lock(&self.table.entries).get(&self.number) {
            entry.evicted.cancel();
        }
    }

    /// Closes the connection of this server whose call has been on its way longest, if it has for so long: what it holds is wanted.
    pub fn close_slowest(&self, at_least: Duration) {
        let entries = lock(&self.table.entries);
        let waiting = entries.values().filter(|entry| entry.phase == Phase::Waiting);
        if let Some(slowest) = waiting.min_by_key(|entry| entry.since)
            && slowest.since.elapsed() >= at_least
        {
            slowest.evicted.cancel();
        }
    }
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte, with at most so many calls at once.
    Http2 { calls: u32 },
}

/// Answers until `stop` is cancelled, then lets calls in flight end, for at most `drain`. Dropping it ends every connection.
pub async fn serve<H: Handshake>(
    listener: TcpListener,
    handshake: H,
    router: Router,
    bounds: Bounds,
    end: (CancellationToken, Duration),
) {
    accept(listener, handshake, router, (Protocol::Http1, bounds), end).await;
}

/// Answers as [`serve`] does, over HTTP/2 without TLS, as clients of gRPC speak it: at most `calls` at once on a connection.
pub async fn serve_http2(
    listener: TcpListener,
    router: Router,
    (bounds, calls): (Bounds, u32),
    end: (CancellationToken, Duration),
) {
    accept(listener, Plain, router, (Protocol::Http2 { calls }, bounds), end).await;
}

async fn accept<H: Handshake>(
    listener: TcpListener,
    handshake: H,
    router: Router,
    (protocol, bounds): (Protocol, Bounds),
    (stop, drain): (CancellationToken, Duration),
) {
    let table = Arc::new(Table { bounds, ..Table::default() });
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
                let end = (watcher, stop.clone());
                connections.spawn(connection(place, (stream, handshake), router, protocol, end));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
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
    (stream, handshake): (TcpStream, H),
    router: Router,
    protocol: Protocol,
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
        let answer = service_fn(|mut call: Request<Incoming>| {
            call.extensions_mut().insert(peer.clone());
            call.extensions_mut().insert(place.connection.clone());
            router.clone().call(call)
        });
        let stream = TokioIo::new(stream);
        let ended = match protocol {
            Protocol::Http1 => {
                let calls = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(bounds.headers)
                    .max_buf_size(BUFFER_BYTES)
                    .serve_connection(stream, answer);
                timeout(bounds.connection, watcher.watch(calls)).await
            }
            Protocol::Http2 { calls } => {
                let calls = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .keep_alive_interval(HTTP2_PING)
                    .max_concurrent_streams(calls)
                    .max_header_list_size(HTTP2_HEADER_BYTES)
                    .max_send_buf_size(BUFFER_BYTES)
                    .initial_stream_window_size(HTTP2_WINDOW_BYTES)
                    .initial_connection_window_size(HTTP2_WINDOW_BYTES)
                    .serve_connection(stream, answer);
                timeout(bounds.connection, watcher.watch(calls)).await
            }
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
            Err(_) => tracing::debug!(longest = ?bounds.connection, "a connection was closed at its deadline"),
        }
    };
    tokio::select! {
        () = served => {}
        () = evicted.cancelled() => {
            tracing::debug!(address = %place.connection.address, "a connection was closed in favour of another one");
        }
    }
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Table {
    bounds: Bounds,
    entries: Mutex<BTreeMap<u64, Entry>>,
    /// Told when one ends.
    freed: Notify,
}

struct Entry {
    address: IpAddr,
    phase: Phase,
    /// Since when it is in this phase.
    since: Instant,
    evicted: CancellationToken,
}

/// An open connection's place in the table, which it leaves when this is dropped.
struct Place {
    connection: Connection,
    evicted: CancellationToken,
}

impl Table {
    /// Waits until there is a place, or one that can be taken from somebody.
    async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            let has_room = {
                let entries = lock(&self.entries);
                entries.len() < self.bounds.connections || entries.values().any(|entry| entry.phase != Phase::Admitted)
            };
            if has_room {
                return;
            }
            freed.await;
        }
    }

    /// Takes a place, if need be from another: from the oldest stranger of an address that has its share, else from whoever has
    /// kept us waiting longest. Idle ones come last: a client that sends its next call meanwhile loses it.
    fn enter(self: &Arc<Self>, number: u64, address: IpAddr) -> Place {
        let mut entries = lock(&self.entries);
        let is_stranger = |entry: &Entry| entry.phase == Phase::Stranger && entry.address == address;
        let share = entries.values().filter(|entry| is_stranger(entry)).count();
        let leaves = if share >= self.bounds.strangers_per_address {
            entries.iter().find(|(_, entry)| is_stranger(entry))
        } else if entries.len() >= self.bounds.connections {
            let others = entries.iter().filter(|(_, entry)| entry.phase != Phase::Admitted);
            others.min_by_key(|(_, entry)| (entry.phase == Phase::Idle, entry.since))
        } else {
            None
        };
        if let Some(leaving) = leaves.map(|(number, _)| *number).and_then(|number| entries.remove(&number)) {
            leaving.evicted.cancel();
        }
        let evicted = CancellationToken::new();
        let entry = Entry { address, phase: Phase::Stranger, since: Instant::now(), evicted: evicted.clone() };
        entries.insert(number, entry);
        Place { connection: Connection { table: Arc::clone(self), number, address }, evicted }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.connection.table.entries).remove(&self.connection.number);
        self.connection.table.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
