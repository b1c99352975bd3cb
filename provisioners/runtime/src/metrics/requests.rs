//! Requests to the API server, counted where the client sends them.

use std::task::{Context, Poll};

use axum::http::{Method, Request, Response, StatusCode};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tower::Service;

use super::COUNTED;

/// A layer of the client: the service within, counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S>(pub(crate) S);

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let verb = verb(request.method(), request.uri().query().unwrap_or_default());
        let answer = self.0.call(request);
        let answer = answer.inspect(move |answer| {
            let code = class(answer.as_ref().ok().map(Response::status));
            COUNTED.requests.get_or_create(&[("verb", verb), ("code", code)]).inc();
        });
        Box::pin(answer)
    }
}

/// The API's verb, as far as the method tells: lists are gets.
fn verb(method: &Method, query: &str) -> &'static str {
    match *method {
        _ if is_watch(method, query) => "watch",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Whether a request asks for a watch.
pub(crate) fn is_watch(method: &Method, query: &str) -> bool {
    method == Method::GET && query.split('&').any(|parameter| parameter == "watch=true")
}

/// The class of a status; that there is none is one, too.
fn class(status: Option<StatusCode>) -> &'static str {
    match status.map(|status| status.as_u16() / 100) {
        Some(1) => "1xx",
        Some(2) => "2xx",
        Some(3) => "3xx",
        Some(4) => "4xx",
        Some(_) => "5xx",
        None => "none",
    }
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt as _, service_fn};

    use super::*;

    #[tokio::test]
    async fn what_comes_back_is_counted_and_handed_on() {
        let counted = |verb, code| COUNTED.requests.get_or_create(&[("verb", verb), ("code", code)]).get();
        let server = Counted(service_fn(async |request: Request<u16>| match *request.body() {
            0 => Err("no connection"),
            code => Ok(Response::builder().status(code).body(()).unwrap()),
        }));
        // No other test sends these.
        for (method, uri, code, verb, class) in [
            (Method::GET, "/api/v1/nodes?limit=5", 200, "get", "2xx"),
            (Method::GET, "/api/v1/nodes?&watch=true&timeoutSeconds=290", 410, "watch", "4xx"),
            (Method::PATCH, "/api/v1/nodes/watch=true", 0, "patch", "none"),
            (Method::DELETE, "/api/v1/nodes/n", 503, "delete", "5xx"),
        ] {
            let before = counted(verb, class);
            let request = Request::builder().method(method).uri(uri).body(code).unwrap();
            let answer = server.clone().oneshot(request).await;
            assert_eq!(answer.map(|answer| answer.status().as_u16()).unwrap_or_default(), code, "{uri}");
            assert_eq!(counted(verb, class), before + 1, "{uri}");
        }
    }
}
