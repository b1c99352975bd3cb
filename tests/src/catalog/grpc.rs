//! Requests of `api.Registry` and of the health service, by hand.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::http::{Request, Response};
use futures::{FutureExt, Stream, StreamExt, future, stream};
use prost::Message;
use rukpak_catalog::registry::Messages;
use rukpak_catalog::registry::message::{
    Bundle, GetBundleRequest, GetPackageRequest, HealthCheckRequest, HealthCheckResponse, ListBundlesRequest,
    ListPackageRequest, PackageName, method,
};
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;

use super::Documents;
use super::server::{Content, Cut, Ending, Shared};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(super) async fn answer(shared: Arc<Shared>, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let (content, cut, empty_paths, delay) = {
        let mut switches = shared.switches();
        *switches.calls.entry(path.rsplit('/').next().unwrap_or_default().to_owned()).or_default() += 1;
        (switches.content.clone(), switches.cut, switches.empty_bundle_paths, switches.delay)
    };
    if !delay.is_zero() {
        tokio::time::sleep(delay).await; // the very thing that was asked for
    }
    let documents = match &content {
        Content::Documents(documents) => Arc::clone(documents),
        Content::Generated(..) => Arc::default(),
    };
    Ok(match path.as_str() {
        method::LIST_BUNDLES => {
            let bundles = bundles(content, empty_paths);
            let response = streamed::<ListBundlesRequest, _>(request, broken_off(bundles, cut, shared)).await;
            if cut.is_some_and(|cut| cut.ending == Ending::NoStatus) { without_status(response) } else { response }
        }
        method::LIST_PACKAGES => {
            let names: Vec<_> = documents.packages().into_iter().map(|name| Ok(PackageName { name })).collect();
            streamed::<ListPackageRequest, _>(request, stream::iter(names).boxed()).await
        }
        method::GET_PACKAGE => {
            let asked = Arc::new(OnceLock::new());
            let noted = asked.clone();
            let find = move |GetPackageRequest { name }| {
                let found = documents.package_message(&name);
                let found = found.ok_or_else(|| Status::unknown(format!("package {name:?} not found")));
                let _ = noted.set(name); // it is asked once
                found
            };
            let response = unary(request, find).await;
            if asked.get().is_some_and(|name| shared.switches().unanswered.as_ref() == Some(name)) {
                future::pending::<()>().await;
            }
            response
        }
        method::GET_BUNDLE => unary(request, move |wanted| bundle(&documents, &wanted, empty_paths)).await,
        method::HEALTH_CHECK => unary(request, |_: HealthCheckRequest| Ok(HealthCheckResponse { status: 1 })).await,
        _ => Status::unimplemented("").into_http(),
    })
}

fn bundle(documents: &Documents, wanted: &GetBundleRequest, empty_paths: bool) -> Result<Bundle, Status> {
    let GetBundleRequest { pkg_name, channel_name, csv_name } = wanted;
    let found = documents.bundle_message(pkg_name, channel_name, csv_name);
    let missing =
        || Status::unknown(format!("package {pkg_name:?}, channel {channel_name:?}, bundle {csv_name:?} not found"));
    found.map(|bundle| shown(bundle, empty_paths)).ok_or_else(missing)
}

fn shown(bundle: Bundle, empty_paths: bool) -> Bundle {
    if empty_paths { Bundle { bundle_path: String::new(), ..bundle } } else { bundle }
}

/// Bundles of documents are few and made at once; generated ones are made one by one.
fn bundles(content: Content, empty_paths: bool) -> Answers<Bundle> {
    let all: Box<dyn Iterator<Item = Bundle> + Send> = match content {
        Content::Documents(documents) => Box::new(documents.bundle_messages().collect::<Vec<_>>().into_iter()),
        Content::Generated(count, make) => Box::new((0..count).map(move |index| make(index))),
    };
    stream::iter(all.map(move |bundle| Ok(shown(bundle, empty_paths)))).boxed()
}

fn broken_off(bundles: Answers<Bundle>, cut: Option<Cut>, shared: Arc<Shared>) -> Answers<Bundle> {
    let Some(Cut { after, ending }) = cut else { return bundles };
    let last = async move {
        tokio::task::yield_now().await; // what is before goes out
        match ending {
            Ending::Unavailable | Ending::NoStatus => {}
            Ending::Closed => shared.hang_up(),
            Ending::Silence => future::pending().await,
        }
        Err(Status::unavailable("the catalog is going away"))
    };
    bundles.take(after).chain(last.into_stream()).boxed()
}

/// The same without trailers, where the status is.
fn without_status(response: Response<Body>) -> Response<Body> {
    response.map(|body| Body::new(axum::body::Body::from_stream(axum::body::Body::new(body).into_data_stream())))
}

async fn streamed<Q, A>(request: Request<Body>, answers: Answers<A>) -> Response<Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
{
    let mut grpc = Grpc::new(Messages::<A, Q>::default());
    let mut answers = Some(answers);
    let service = tower::service_fn(move |_: tonic::Request<Q>| {
        let answers = answers.take().map(tonic::Response::new);
        future::ready(answers.ok_or_else(|| Status::internal("asked twice")))
    });
    grpc.server_streaming(service, request).await
}

async fn unary<Q, A>(request: Request<Body>, find: impl FnOnce(Q) -> Result<A, Status>) -> Response<Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
{
    let mut grpc = Grpc::new(Messages::<A, Q>::default());
    let mut find = Some(find);
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let find = find.take().ok_or_else(|| Status::internal("asked twice"));
        future::ready(find.and_then(|find| find(request.into_inner())).map(tonic::Response::new))
    });
    grpc.unary(service, request).await
}
