//! The client of the API server: how it is reached, and how long an answer is waited for.
//!
//! No request waits for ever, whoever sends it: a layer of the client bounds the time to the head of every answer, that of a watch
//! included, and each pause within a body that has an end.

mod unready;

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::{Request, Response};
use futures::future::BoxFuture;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::{Sleep, sleep, timeout};
use tower::layer::layer_fn;
use tower::{BoxError, Service};

use self::unready::{Confirmed, Probe};
use super::Error;
use crate::api::Unanswered;
use crate::metrics;
use crate::probes::watches::Starting;

/// A webhook may take 30 s, and a request may call some; what takes longer is a connection that leads nowhere. The API server
/// itself gives up after a minute.
const ANSWERED_WITHIN: Duration = Duration::from_secs(50);

/// How the API server is reached: by the kubeconfig that is named, else by the one of the environment, else as a Pod.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, Error> {
    let mut config = match kubeconfig {
        None => Config::infer().await.map_err(|error| Error::Config(Box::new(error)))?,
        Some(path) => {
            let failed = |source| Error::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
            let read = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(failed)?
        }
    };
    heed_no_proxy(&mut config);
    Ok(config)
}

/// With a kubeconfig the client takes the proxy of the environment, and asks `NO_PROXY` about the proxy: here it is asked about the
/// API server. A proxy that the kubeconfig itself names stays.
fn heed_no_proxy(config: &mut Config) {
    let of_environment = |name: &str| std::env::var(name).is_ok_and(|text| text.parse().ok() == config.proxy_url);
    let is_of_environment =
        config.proxy_url.is_some() && ["HTTPS_PROXY", "https_proxy"].into_iter().any(of_environment);
    if is_of_environment && Matcher::from_env().intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
}

/// A client with that configuration, whose requests are counted, none of which waits for ever, and none of which is refused by an
/// API server that is not ready.
pub fn client(config: Config) -> Result<Client, Error> {
    let failed = |error| Error::Client(Box::new(error));
    let probe = Probe::new(Client::try_from(config.clone()).map_err(failed)?);
    let builder = ClientBuilder::try_from(config).map_err(failed)?;

    let confirmed = layer_fn(move |inner| Confirmed { inner, probe: probe.clone() });
    Ok(builder.with_layer(&confirmed).with_layer(&layer_fn(bounded)).with_layer(&layer_fn(metrics::Counted)).build())
}

/// A client with that configuration, none of whose requests waits for ever: for a program that somebody runs by hand. It counts
/// nothing, and a refusal is told as it comes.
pub fn bounded_client(config: Config) -> Result<Client, kube::Error> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer_fn(bounded)).build())
}

fn bounded<S>(inner: S) -> Bounded<S> {
    Bounded { inner, within: ANSWERED_WITHIN }
}

/// Whether the body of the answer ends only when whoever reads it has enough: that of a watch, and a log that is followed.
fn is_endless(query: &str) -> bool {
    query.split('&').any(|parameter| matches!(parameter, "watch=true" | "follow=true"))
}

/// A layer of the client: the service within, whose answers are waited for so long.
#[derive(Clone, Debug)]
struct Bounded<S> {
    inner: S,
    within: Duration,
}

impl<S, B, R> Service<Request<B>> for Bounded<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Flowing<R>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let query = request.uri().query().unwrap_or_default();
        let is_endless = is_endless(query);
        let start = metrics::is_watch(&method, query).then(|| Starting::new(&path));
        let (answer, within) = (self.inner.call(request), self.within);

        Box::pin(async move {
            let Ok(answer) = timeout(within, answer).await else {
                // Whoever asked says what that means, once.
                tracing::debug!(%method, path, "the API server did not answer within {within:?}");
                start.into_iter().for_each(Starting::give_up);
                return Err(Unanswered(within).into());
            };
            // Events and lines come when there are some; whoever reads them knows when it is to end.
            let pause = (!is_endless).then_some(within);
            Ok(answer.map_err(Into::into)?.map(|body| Flowing { body, pause, waiting: None }))
        })
    }
}

/// A body of which something has to come within each pause.
struct Flowing<B> {
    body: B,
    /// `None`: it may take its time.
    pause: Option<Duration>,
    /// Since nothing has come.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<B> Body for Flowing<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(pause) = self.pause else { return Poll::Pending };
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(pause))).as_mut().poll(context));
        Poll::Ready(Some(Err(Unanswered(pause).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use axum::http::{Method, StatusCode, header};
    use axum::{Router, body, routing};
    use futures::{StreamExt as _, stream};
    use kube::client::Body as KubeBody;
    use tokio::net::TcpListener;
    use tokio::sync::Mutex;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::AbortOnDropHandle;
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::api;
    use crate::probes::watches::none_waits;
    use crate::process::PROBES;
    use crate::server::{self, Plain};

    fn get(uri: &str) -> Request<KubeBody> {
        Request::builder().method(Method::GET).uri(uri).body(KubeBody::empty()).expect("a request")
    }

    const SHORT: Duration = Duration::from_millis(100);

    /// Whoever asks which watch waits is told of the oldest of the process: one test at a time has some.
    static WATCHES: Mutex<()> = Mutex::const_new(());

    /// A client whose API server never answers what asks for `/hangs`, and answers all else with a body that stalls.
    fn client() -> Client {
        let server = service_fn(async |request: Request<KubeBody>| {
            if request.uri().path() == "/hangs" {
                std::future::pending::<()>().await;
            }
            let begin = stream::iter([Ok::<_, Infallible>("{")]);
            Ok::<_, BoxError>(Response::new(body::Body::from_stream(begin.chain(stream::pending()))))
        });
        Client::new(Bounded { inner: server, within: SHORT }, "default")
    }

    #[tokio::test]
    async fn requests_end_when_the_api_server_does_not_answer() {
        let _turn = WATCHES.lock().await;
        for uri in ["/hangs", "/hangs?watch=true&resourceVersion=1", "/hangs?follow=true", "/stalls"] {
            let request = get(uri).map(|_| Vec::new());
            let error = api::Error::from(client().request_text(request).await.expect_err("no answer"));
            assert!(matches!(error, api::Error::TimedOut(SHORT)), "{uri}: {error}");
        }
        drop(Starting::new("/hangs")); // given up, it would be told of for a minute
    }

    /// A client of a real server with those answers.
    async fn client_of(router: Router) -> (Client, AbortOnDropHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let never = (CancellationToken::new(), Duration::ZERO);
        let server = tokio::spawn(server::serve(listener, Plain, router, PROBES, never));
        (super::client(config).unwrap(), AbortOnDropHandle::new(server))
    }

    fn write() -> Request<Vec<u8>> {
        Request::patch("/api/v1/namespaces/n").body(b"what is written".to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_request_that_was_refused_for_a_while_is_sent_again_after_it() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let answer = async |body: String| match ASKED.fetch_add(1, Ordering::Relaxed) {
            0 => (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], String::new()),
            _ => (StatusCode::OK, [(header::RETRY_AFTER, "0")], body),
        };
        let (client, _server) = client_of(Router::new().fallback(answer)).await;

        let begun = Instant::now();
        let answer = client.request_text(write()).await.unwrap();
        assert_eq!((answer.as_str(), ASKED.load(Ordering::Relaxed)), ("what is written", 2));
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_refusal_counts_once_the_api_server_is_ready() {
        let ready = Arc::new(AtomicBool::new(false));
        let readiness = {
            let ready = Arc::clone(&ready);
            async move || if ready.load(Ordering::Relaxed) { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
        };
        let router = Router::new().route("/readyz", routing::get(readiness)).fallback(async || StatusCode::FORBIDDEN);
        let (client, _server) = client_of(router).await;

        let refused = async || api::Error::from(client.request_text(write()).await.expect_err("a refusal"));
        let early = refused().await;
        assert!(early.is_transient(), "{early:?}");
        ready.store(true, Ordering::Relaxed);
        let late = refused().await;
        assert!(late.code() == 403 && !late.is_transient(), "{late:?}");
    }

    #[tokio::test]
    async fn a_watch_without_events_and_a_log_without_lines_go_on() {
        let _turn = WATCHES.lock().await;
        for uri in ["/quiet?watch=true", "/quiet/log?container=c&follow=true"] {
            let answer = client().send(get(uri)).await.expect("its head");
            let mut events = body::Body::new(answer.into_body()).into_data_stream();
            assert_eq!(events.next().await.expect("an event").expect("no error"), "{");
            assert!(timeout(SHORT * 3, events.next()).await.is_err(), "{uri} goes on");
        }
    }

    #[tokio::test]
    async fn a_watch_that_waits_for_its_head_is_told_of_until_it_has_it() {
        let _turn = WATCHES.lock().await;
        let ask = || {
            let server = service_fn(async |_: Request<KubeBody>| {
                std::future::pending::<()>().await;
                Ok::<_, BoxError>(Response::new(KubeBody::empty()))
            });
            Bounded { inner: server, within: SHORT }.oneshot(get("/late?watch=true"))
        };
        let waits = |longest: Duration| none_waits(longest).is_err_and(|text| text.contains("the watch /late for"));
        let mut first = Box::pin(ask());
        assert!(futures::poll!(first.as_mut()).is_pending());
        assert!(waits(Duration::ZERO) && !waits(Duration::from_mins(1)));

        // Given up, and tried again after a pause: all the while nothing is seen.
        assert!(first.await.is_err());
        assert!(waits(SHORT));
        let mut second = Box::pin(ask());
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert!(waits(SHORT));

        // Nobody wants it any more.
        drop(second);
        assert!(!waits(Duration::ZERO));
    }
}
