//! The registry's gRPC server, with switches for what can go wrong with one.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use rukpak_catalog::registry::message::Bundle;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::{Documents, documents, grpc};
use crate::{Leaf, tools};

/// `api.Registry` without TLS on a loopback port. It ends when dropped.
pub struct CatalogServer {
    port: u16,
    shared: Arc<Shared>,
    runtime: Mutex<Option<Runtime>>,
}

/// Where `ListBundles` breaks off, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Messages that are sent before.
    pub after: usize,
    /// What then happens.
    pub ending: Ending,
}

/// How an answer ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the status `UNAVAILABLE`.
    Unavailable,
    /// The connection is closed.
    Closed,
    /// The stream ends well, but for the status that has to close it.
    NoStatus,
    /// Nothing more comes.
    Silence,
}

/// What `ListBundles` sends.
#[derive(Clone)]
pub(super) enum Content {
    Documents(Arc<Documents>),
    /// So many messages, each made when it is sent.
    Generated(usize, Arc<dyn Fn(usize) -> Bundle + Send + Sync>),
}

/// What tests turn while the server runs.
pub(super) struct Switches {
    pub(super) content: Content,
    pub(super) cut: Option<Cut>,
    pub(super) empty_bundle_paths: bool,
    pub(super) delay: Duration,
    /// The package that `GetPackage` is never answered about.
    pub(super) unanswered: Option<String>,
    pub(super) calls: BTreeMap<String, usize>,
}

pub(super) struct Shared {
    switches: Mutex<Switches>,
    /// Second handles of every connection that was accepted.
    connections: Mutex<Vec<TcpStream>>,
    tls: Option<TlsAcceptor>,
}

impl CatalogServer {
    /// Serves a catalog on a free port.
    pub fn start(catalog: Documents) -> Result<Self> {
        Self::start_with(Content::Documents(Arc::new(documents::checked(catalog)?)))
    }

    /// Serves `count` messages, each of which is made when it is sent. Other calls find nothing.
    pub fn start_generated(count: usize, make: impl Fn(usize) -> Bundle + Send + Sync + 'static) -> Result<Self> {
        Self::start_with(Content::Generated(count, Arc::new(make)))
    }

    /// Serves a catalog on a free port, over TLS.
    pub fn start_with_tls(catalog: Documents, leaf: &Leaf) -> Result<Self> {
        let acceptor = crate::tls::acceptor_for(leaf, b"h2")?;
        Self::start_over(Content::Documents(Arc::new(documents::checked(catalog)?)), Some(acceptor))
    }

    fn start_with(content: Content) -> Result<Self> {
        Self::start_over(content, None)
    }

    fn start_over(content: Content, tls: Option<TlsAcceptor>) -> Result<Self> {
        let switches = Switches {
            content,
            cut: None,
            empty_bundle_paths: false,
            delay: Duration::ZERO,
            unanswered: None,
            calls: BTreeMap::default(),
        };
        let shared = Arc::new(Shared { switches: Mutex::new(switches), connections: Mutex::default(), tls });
        let server = Self { port: tools::free_port()?, shared, runtime: Mutex::default() };
        server.start_again()?;
        Ok(server)
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Serves another catalog from the next call on.
    pub fn replace(&self, catalog: Documents) -> Result<()> {
        self.shared.switches().content = Content::Documents(Arc::new(documents::checked(catalog)?));
        Ok(())
    }

    /// Breaks `ListBundles` off from the next call on, or no longer.
    pub fn cut(&self, cut: impl Into<Option<Cut>>) {
        self.shared.switches().cut = cut.into();
    }

    /// Whether bundles come without their image, as those do whose manifests lie in the catalog.
    pub fn empty_bundle_paths(&self, empty: bool) {
        self.shared.switches().empty_bundle_paths = empty;
    }

    /// Waits so long before each answer.
    pub fn delay(&self, delay: Duration) {
        self.shared.switches().delay = delay;
    }

    /// Never answers `GetPackage` about this one, until another one or none is given.
    pub fn leave_unanswered(&self, package: impl Into<Option<String>>) {
        self.shared.switches().unanswered = package.into();
    }

    /// Calls of a method so far, such as `ListBundles`.
    pub fn count(&self, method: &str) -> usize {
        self.shared.switches().calls.get(method).copied().unwrap_or_default()
    }

    /// Forgets the calls so far.
    pub fn forget(&self) {
        self.shared.switches().calls.clear();
    }

    /// Connections that clients hold open now.
    pub fn connections(&self) -> usize {
        let mut connections = self.shared.connections();
        // A connection that its client has closed has an end that can be read.
        connections.retain(|connection| match connection.peek(&mut [0]) {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        connections.len()
    }

    /// Closes the port and every connection.
    pub fn stop(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.hang_up();
        let Some(runtime) = runtime else { return };
        // Not on this thread: it may be one of another runtime's, which must not block.
        let ended = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(10)));
        if ended.join().is_err() {
            tracing::error!(port = self.port, "the catalog server did not end");
        }
    }

    /// Listens again on the same port. Nothing happens if it does already.
    pub fn start_again(&self) -> Result<()> {
        let mut running = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let socket = std::net::TcpListener::bind(("127.0.0.1", self.port)).context("bind a loopback port")?;
        socket.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let shared = Arc::clone(&self.shared);
        runtime.spawn(async move {
            if let Err(error) = serve(socket, shared).await {
                tracing::error!(%error, "catalog server ended");
            }
        });
        *running = Some(runtime);
        Ok(())
    }
}

impl Drop for CatalogServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    pub(super) fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes every connection.
    pub(super) fn hang_up(&self) {
        for connection in self.connections().drain(..) {
            // One that is closed already is what is wanted.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn connections(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a second handle of a connection.
    fn keep(&self, stream: tokio::net::TcpStream) -> std::io::Result<tokio::net::TcpStream> {
        let stream = stream.into_std()?;
        self.connections().push(stream.try_clone()?);
        tokio::net::TcpStream::from_std(stream)
    }
}

async fn serve(socket: std::net::TcpListener, shared: Arc<Shared>) -> Result<()> {
    let kept = Arc::clone(&shared);
    let incoming = TcpIncoming::from(TcpListener::from_std(socket)?).and_then(move |stream| {
        let kept = kept.keep(stream);
        async { kept }
    });
    let (tls, service) =
        (shared.tls.clone(), tower::service_fn(move |request| grpc::answer(Arc::clone(&shared), request)));
    match tls {
        None => Server::builder().serve_with_incoming(service, incoming).await.context("serve"),
        Some(tls) => {
            // A handshake that fails is no reason to end.
            let secured = incoming.and_then(move |stream| tls.accept(stream)).into_stream();
            let secured = futures::StreamExt::filter(secured, |stream| futures::future::ready(stream.is_ok()));
            Server::builder().serve_with_incoming(service, secured).await.context("serve")
        }
    }
}
