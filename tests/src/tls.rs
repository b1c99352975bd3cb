//! axum over TLS on a loopback port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Leaf;

/// A server of ours that ends when dropped.
pub struct Served {
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Hands finished handshakes to axum, so that a client that never finishes one holds up nobody.
struct TlsListener {
    address: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    accepting: AbortHandle,
}

impl Served {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves `router` on a free port with `leaf`, on a runtime of its own: a server shared by tests outlives the
/// runtime of the test that started it.
pub fn serve(router: Router, leaf: &Leaf) -> Result<Served> {
    run_on(router, 0, acceptor(leaf)?)
}

/// As [`serve`], over TLS 1.2 alone.
pub fn serve_tls12(router: Router, leaf: &Leaf) -> Result<Served> {
    run_on(router, 0, acceptor_of(&[&rustls::version::TLS12], leaf, b"http/1.1")?)
}

/// As [`serve`], on `port`, with whatever certificate `resolver` names at the time of each handshake.
pub fn serve_with(router: Router, port: u16, resolver: Arc<dyn ResolvesServerCert>) -> Result<Served> {
    crate::tools::use_ring();
    let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    run_on(router, port, TlsAcceptor::from(Arc::new(config)))
}

/// The server's side of handshakes with `leaf`.
pub fn acceptor(leaf: &Leaf) -> Result<TlsAcceptor> {
    acceptor_for(leaf, b"http/1.1")
}

/// As [`acceptor`], for a protocol by its ALPN name.
pub fn acceptor_for(leaf: &Leaf, protocol: &[u8]) -> Result<TlsAcceptor> {
    acceptor_of(rustls::DEFAULT_VERSIONS, leaf, protocol)
}

fn acceptor_of(versions: &[&'static SupportedProtocolVersion], leaf: &Leaf, protocol: &[u8]) -> Result<TlsAcceptor> {
    crate::tools::use_ring();
    let certs = CertificateDer::pem_slice_iter(leaf.cert_pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes())?;
    let config = ServerConfig::builder_with_protocol_versions(versions);
    let mut config = config.with_no_client_auth().with_single_cert(certs, key)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn run_on(router: Router, port: u16, acceptor: TlsAcceptor) -> Result<Served> {
    let socket = std::net::TcpListener::bind(("127.0.0.1", port)).context("bind a loopback port")?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(async move {
        if let Err(error) = run(socket, acceptor, router).await {
            tracing::error!(%address, %error, "test server ended");
        }
    });
    Ok(Served { address, runtime: Some(runtime) })
}

async fn run(socket: std::net::TcpListener, acceptor: TlsAcceptor, router: Router) -> Result<()> {
    let socket = TcpListener::from_std(socket)?;
    let address = socket.local_addr()?;
    let (sender, connections) = mpsc::channel(16);
    let accepting = tokio::spawn(accept_all(socket, acceptor, sender)).abort_handle();
    axum::serve(TlsListener { address, connections, accepting }, router).await.context("serve")
}

async fn accept_all(
    socket: TcpListener,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    while let Ok((stream, peer)) = socket.accept().await {
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            if let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(30), acceptor.accept(stream)).await {
                // The receiver is gone only when the server is.
                let _ = sender.send((stream, peer)).await;
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
