//! The TLS listener: accept, serve, and drain before leaving.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Open connections at most; more wait in the kernel's queue.
pub const CONNECTION_LIMIT: usize = 1024;
/// Longest handshake.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the headers of a call, the idle time before it included. Longer than the 90 seconds after which the
/// API server closes an idle connection: were we first, a call on its way would be lost.
const HEADER_TIMEOUT: Duration = Duration::from_mins(2);
/// Wait after the kernel could not hand over a connection (no file descriptors, most of all).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets calls in flight end, for at most `deadline`.
///
/// Idle connections are closed at once; busy ones after their answer.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    router: Router,
    stop: CancellationToken,
    deadline: Duration,
) {
    let acceptor = TlsAcceptor::from(tls);
    let permits = Arc::new(Semaphore::new(CONNECTION_LIMIT));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(acceptor.clone(), stream, router.clone(), graceful.watcher());
                connections.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(deadline, graceful.shutdown()).await.is_err() {
        tracing::warn!(deadline_seconds = deadline.as_secs(), "calls were still in flight at the deadline");
    }
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, router: Router, watcher: Watcher) {
    let stream = match tokio::time::timeout(HELLO_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
