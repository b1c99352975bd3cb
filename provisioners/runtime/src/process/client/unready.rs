//! Refusals by an API server that has just been started.
//!
//! A starting API server answers requests before it has read the cluster's roles, and refuses with 403, as it would where a right is
//! missing, what the roles permit. Whether it was ready is what tells the two apart: taken for an answer, such a refusal would roll
//! an upgrade back because an API server was restarted. Where a load balancer looks at `/readyz` no client sees them.

use std::task::{Context, Poll};

use axum::http::{Request, Response, StatusCode};
use futures::future::BoxFuture;
use kube::Client;
use tower::{BoxError, Service};

/// What the client says of a refusal that does not count.
#[derive(Debug, thiserror::Error)]
#[error("the API server refused the request (403) and was not ready (/readyz)")]
struct Unready;

/// A layer of the client: the service within, whose refusals count only where the API server is ready.
#[derive(Clone)]
pub(super) struct Confirmed<S> {
    pub inner: S,
    /// A client of the same API server, without this layer.
    pub probe: Client,
}

impl<S, B, R> Service<Request<B>> for Confirmed<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: Send,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (answer, probe) = (self.inner.call(request), self.probe.clone());
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into)?;
            if answer.status() == StatusCode::FORBIDDEN && !is_ready(&probe).await {
                return Err(Unready.into());
            }
            Ok(answer)
        })
    }
}

/// Whether the API server says that it is ready. Every account may ask, by the role `system:public-info-viewer`, once roles are read.
async fn is_ready(probe: &Client) -> bool {
    let mut request = Request::new(Vec::new());
    *request.uri_mut() = axum::http::Uri::from_static("/readyz");
    probe.request_text(request).await.is_ok()
}
