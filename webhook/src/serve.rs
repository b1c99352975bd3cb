//! The listener: accept, serve, and drain before leaving.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::connections::{Connection, Connections, Phase, Slot};

/// Open connections at most; a new one then takes the place of the one that has kept us waiting longest.
pub const CONNECTION_LIMIT: usize = 1024;
/// Longest handshake, and then longest wait for the first call.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the headers of a further call, the idle time before it included. Longer than the 90 seconds after which the
/// API server closes an idle connection: were we first, a call on its way would be lost.
const HEADER_TIMEOUT: Duration = Duration::from_mins(2);
/// What a connection's headers, and its body on the way, may take in memory.
const BUFFER_BYTES: usize = 64 * 1024;
/// Wait after the kernel could not hand over a connection (no file descriptors, most of all), or all places are taken by calls
/// that are being answered.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const PLACE_PAUSE: Duration = Duration::from_millis(5);

/// Serves until `stop`, then lets calls in flight end, for at most `deadline`.
///
/// Idle connections are closed at once; busy ones after their answer.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    router: Router,
    connections: Arc<Connections>,
    stop: CancellationToken,
    deadline: Duration,
) {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    while let Some((stream, peer)) = next(&listener, &stop).await {
        while tasks.try_join_next().is_some() {}
        let Some(place) = place(&connections, peer, &stop).await else { break };
        tasks.spawn(encrypted(acceptor.clone(), stream, router.clone(), graceful.watcher(), place));
    }
    drop(listener);
    if tokio::time::timeout(deadline, graceful.shutdown()).await.is_err() {
        tracing::warn!(deadline_seconds = deadline.as_secs(), "calls were still in flight at the deadline");
    }
}

/// The next connection; `None` at the end.
async fn next(listener: &TcpListener, stop: &CancellationToken) -> Option<(TcpStream, IpAddr)> {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => return Some((stream, peer.ip().to_canonical())),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A place for it; `None` at the end.
async fn place(connections: &Arc<Connections>, peer: IpAddr, stop: &CancellationToken) -> Option<Slot> {
    loop {
        if let Some(place) = connections.admit(peer) {
            return Some(place);
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(PLACE_PAUSE) => {}
        }
    }
}

async fn encrypted(acceptor: TlsAcceptor, stream: TcpStream, router: Router, watcher: Watcher, place: Slot) {
    let connection = Arc::clone(place.connection());
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(SILENCE_TIMEOUT, acceptor.accept(stream)) => handshake,
        () = connection.displaced() => return displaced(&connection),
    };
    match handshake {
        Ok(Ok(stream)) => calls(stream, router, watcher, &connection).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    drop(place);
}

/// Answers the calls of a connection.
async fn calls<S>(stream: S, router: Router, watcher: Watcher, connection: &Arc<Connection>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let served = watcher.watch(http().serve_connection(TokioIo::new(stream), service(router, connection)));
    let silence = async {
        tokio::time::sleep(SILENCE_TIMEOUT).await;
        if !connection.is_silent() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        served = served => if let Err(error) = served {
            tracing::debug!(%error, "a connection ended early");
        },
        () = connection.displaced() => displaced(connection),
        () = silence => tracing::debug!(peer = %connection.peer, "a connection sent no request in time"),
    }
}

fn displaced(connection: &Connection) {
    tracing::debug!(peer = %connection.peer, "a connection was closed in favour of another one");
}

fn http() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(BUFFER_BYTES);
    builder
}

/// The routes, which are told of their connection, and tell it what they do.
fn service(
    router: Router,
    connection: &Arc<Connection>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future = impl Future<Output = Result<axum::response::Response, std::convert::Infallible>> + Send + use<>,
> + use<> {
    let connection = Arc::clone(connection);
    service_fn(move |call: Request<Incoming>| {
        let (mut router, connection) = (router.clone(), Arc::clone(&connection));
        connection.enter(Phase::Waiting);
        let mut call = call.map(Body::new);
        call.extensions_mut().insert(Arc::clone(&connection));
        async move {
            let answer = router.call(call).await;
            connection.enter(Phase::Idle);
            answer
        }
    })
}
