//! Refusals by an API server that has just been started.
//!
//! A starting API server answers requests before it has read the cluster's roles, and refuses with 403, as it would where a right is
//! missing, what the roles permit. Whether it is ready right after tells the two apart: it is ready a second or more after it has
//! read the roles. Taken for an answer, such a refusal would roll an upgrade back because an API server was restarted. Where a load
//! balancer looks at `/readyz` no client sees them; with several API servers and no such balancer another one may be asked.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, Response, StatusCode, Uri};
use futures::future::BoxFuture;
use kube::Client;
use tokio::time::Instant;
use tower::{BoxError, Service};

use crate::lock::lock;

/// So long a refusal of the question itself is taken for that of a starting server. After that we are not allowed to ask.
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// What the client says of a refusal that does not count.
#[derive(Debug, thiserror::Error)]
#[error("the API server refused the request (403) and was not ready (/readyz)")]
struct Unready;

/// A layer of the client: the service within, whose refusals count only where the API server is ready.
#[derive(Clone)]
pub(super) struct Confirmed<S> {
    pub inner: S,
    pub probe: Probe,
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
            if answer.status() == StatusCode::FORBIDDEN && !probe.is_ready().await {
                return Err(Unready.into());
            }
            Ok(answer)
        })
    }
}

/// Asks the API server whether it is ready.
#[derive(Clone)]
pub(super) struct Probe {
    /// A client of the same API server, without the layer.
    client: Client,
    /// Since when each answer was a refusal.
    refused: Arc<Mutex<Option<Instant>>>,
}

impl Probe {
    pub fn new(client: Client) -> Self {
        Self { client, refused: Arc::default() }
    }

    /// Whether it is. Every account may ask, by the role `system:public-info-viewer`, once roles are read; a cluster may have taken
    /// that right away.
    async fn is_ready(&self) -> bool {
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = Uri::from_static("/readyz");
        let answer = self.client.request_text(request).await;

        let mut refused = lock(&self.refused);
        match answer {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                refused.get_or_insert_with(Instant::now).elapsed() >= STARTS_WITHIN
            }
            Err(kube::Error::Api(status)) if status.code == 404 => true,
            Err(_) => false,
            Ok(_) => {
                *refused = None;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn a_cluster_where_nobody_may_ask_counts_as_ready_after_a_minute() {
        let server = service_fn(async |_: Request<Body>| {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::FORBIDDEN;
            Ok::<_, BoxError>(answer)
        });
        let probe = Probe::new(Client::new(server, "default"));
        assert!(!probe.is_ready().await, "it may be starting");
        *probe.refused.lock().unwrap() = Instant::now().checked_sub(STARTS_WITHIN);
        assert!(probe.is_ready().await);
    }
}
