//! Accepts connections and serves them.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::access::Peer;
use super::tls::Tls;

/// Open connections at most; more wait in the kernel's queue.
const CONNECTION_LIMIT: usize = 256;
/// Longest handshake.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the headers of a call, the idle time before it included.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Wait after the kernel could not hand over a connection (no file descriptors, most of all).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves endlessly. Dropping it ends every connection.
pub async fn serve(listener: TcpListener, tls: Arc<Tls>, router: Router) {
    let permits = Arc::new(Semaphore::new(CONNECTION_LIMIT));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let (tls, router) = (Arc::clone(&tls), router.clone());
                connections.spawn(async move {
                    connection(&tls, stream, router).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(tls: &Tls, stream: TcpStream, router: Router) {
    let Some(config) = tls.current() else {
        return tracing::debug!("a connection was refused: there is no certificate yet");
    };
    let stream = match tokio::time::timeout(HELLO_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let peer = Peer::of(stream.get_ref().1.peer_certificates());
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.layer(Extension(peer))));
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection ended early");
    }
}
