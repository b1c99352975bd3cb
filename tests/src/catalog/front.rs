//! What cluster DNS and a Service are to clients of a catalog server: another name for it, which comes with each call.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::http::{Request, Uri};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Error, Server};
use tower::ServiceExt;

/// A loopback address at which a catalog server is reached as if another name had been dialled. It ends when dropped.
pub struct CatalogFront {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl CatalogFront {
    /// Leads to the server at `address`; calls come there with `authority`.
    pub async fn start(address: &str, authority: &str) -> Result<Self> {
        let origin: Uri = format!("http://{authority}").parse().context("an authority")?;
        let channel = Endpoint::from_shared(format!("http://{address}"))?.origin(origin).connect_lazy();
        let service = tower::service_fn(move |request: Request<Body>| {
            let channel = channel.clone();
            async move {
                let answered = channel.oneshot(request).await;
                let broken = |error: Error| Status::unavailable(error.to_string()).into_http();
                Ok::<_, Infallible>(answered.unwrap_or_else(broken))
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.context("bind a loopback port")?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            let served = Server::builder().serve_with_incoming(service, TcpIncoming::from(listener)).await;
            if let Err(error) = served {
                tracing::error!(%error, "the front of a catalog server ended");
            }
        });
        Ok(Self { address, task })
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for CatalogFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}
