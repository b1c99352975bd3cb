//! The server of `api.Registry`: answers calls from a [`Content`], one document in memory at a time.
//!
//! ```text
//! content   the catalog in memory, its documents in a file       disk
//! place     where a bundle is in the graph                       pure
//! entries   which entries replace a bundle or provide an API     pure
//! bundle    a document as a message                              disk
//! room      how much answers on their way take together          memory
//! ```
//!
//! Answers and errors are those of `opm serve`, whose errors have no code. Every answer is sent as a stream, of one message for most
//! calls: on the wire there is no difference, and what an answer takes is given back when it was sent.

mod bundle;
mod content;
mod entries;
mod place;
mod room;
#[cfg(test)]
mod tests;

use std::future;
use std::io;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::server::Grpc;

pub use self::content::{Content, Stage};
pub use self::room::{Room, Turn};

use self::bundle::Extent;
use self::place::Place;
use self::room::Taken;
use super::message::{
    Bundle, GetAllReplacementsRequest, GetBundleInChannelRequest, GetBundleRequest, GetPackageRequest,
    GetReplacementRequest, GroupVersionKind, HealthCheckRequest, HealthCheckResponse, ListBundlesRequest,
    ListPackageRequest, method,
};
use super::{MESSAGE_BYTES, Messages};
use crate::Catalog;

/// The longest request that is read. All are a few names.
const REQUEST_BYTES: usize = 8 * 1024;
/// Answers of the health service.
const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

/// Why a call is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no catalog of that name.
    NotFound(String),
    /// There is, and its content is not known yet.
    Unavailable(String),
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(why) => Self::not_found(why),
            Refusal::Unavailable(why) => Self::unavailable(why),
        }
    }
}

/// What is sent.
type Answers<A> = BoxStream<'static, Result<A, Status>>;

/// Answers a call about a catalog. The health service says that one that is refused is not served.
pub async fn answer<B>(
    request: http::Request<B>,
    content: Result<Arc<Content>, Refusal>,
    turn: Turn,
) -> http::Response<Body>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
{
    if request.uri().path() == method::HEALTH_CHECK {
        let status = if content.is_ok() { SERVING } else { NOT_SERVING };
        let health = move |_: HealthCheckRequest| future::ready(Ok(sent([HealthCheckResponse { status }])));
        return call(request, health).await;
    }
    match content {
        Ok(content) => Asked { content, turn }.answer(request).await,
        Err(refusal) => Status::from(refusal).into_http(),
    }
}

/// A catalog that is asked, by a call that waits for its turn.
struct Asked {
    content: Arc<Content>,
    turn: Turn,
}

impl Asked {
    async fn answer<B>(self, request: http::Request<B>) -> http::Response<Body>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        let path = request.uri().path().to_owned();
        match path.as_str() {
            method::LIST_PACKAGES => {
                let find = |catalog: &Catalog, _: &ListPackageRequest| entries::packages(catalog);
                call(request, move |wanted: ListPackageRequest| self.list(wanted, find)).await
            }
            method::GET_PACKAGE => {
                let find = |catalog: &Catalog, wanted: &GetPackageRequest| entries::package(catalog, &wanted.name);
                call(request, move |wanted: GetPackageRequest| self.list(wanted, find)).await
            }
            method::LIST_BUNDLES => call(request, move |_: ListBundlesRequest| future::ready(Ok(self.bundles()))).await,
            method::GET_BUNDLE => {
                let find = |catalog: &Catalog, wanted: &GetBundleRequest| {
                    place::named(catalog, &wanted.pkg_name, &wanted.channel_name, &wanted.csv_name)
                };
                call(request, move |wanted: GetBundleRequest| self.bundle(wanted, find)).await
            }
            method::GET_BUNDLE_FOR_CHANNEL => {
                let find = |catalog: &Catalog, wanted: &GetBundleInChannelRequest| {
                    place::head(catalog, &wanted.pkg_name, &wanted.channel_name)
                };
                call(request, move |wanted: GetBundleInChannelRequest| self.bundle(wanted, find)).await
            }
            method::GET_BUNDLE_THAT_REPLACES => {
                let find = |catalog: &Catalog, wanted: &GetReplacementRequest| {
                    place::replacing(catalog, &wanted.pkg_name, &wanted.channel_name, &wanted.csv_name)
                };
                call(request, move |wanted: GetReplacementRequest| self.bundle(wanted, find)).await
            }
            method::GET_DEFAULT_BUNDLE_THAT_PROVIDES => {
                call(request, move |api: GroupVersionKind| self.bundle(api, entries::default_provider)).await
            }
            method::GET_CHANNEL_ENTRIES_THAT_REPLACE => {
                let find = entries::that_replace;
                call(request, move |wanted: GetAllReplacementsRequest| self.list(wanted, find)).await
            }
            method::GET_CHANNEL_ENTRIES_THAT_PROVIDE => {
                call(request, move |api: GroupVersionKind| self.list(api, entries::that_provide)).await
            }
            method::GET_LATEST_CHANNEL_ENTRIES_THAT_PROVIDE => {
                call(request, move |api: GroupVersionKind| self.list(api, entries::latest_that_provide)).await
            }
            _ => Status::unimplemented(format!("{path} is not served")).into_http(),
        }
    }

    /// Every bundle, once for each channel that it is in.
    fn bundles(self) -> Answers<Bundle> {
        let begin = (self, None::<Place>, None);
        let bundles = stream::try_unfold(begin, |(asked, last, taken)| async move {
            // The one before was sent.
            drop::<Option<Taken>>(taken);
            let Some(place) = place::after(asked.content.catalog(), last.as_ref()) else {
                return Ok::<_, Status>(None);
            };
            let (bundle, taken) = asked.read(place.clone(), Extent::Listed).await?;
            Ok(Some((bundle, (asked, Some(place), Some(taken)))))
        });
        bundles.boxed()
    }

    /// The bundle that `find` finds, without its edges: upstream leaves them out here.
    async fn bundle<Q: Send + 'static>(
        self,
        wanted: Q,
        find: impl FnOnce(&Catalog, &Q) -> Result<Place, Status> + Send + 'static,
    ) -> Result<Answers<Bundle>, Status> {
        let content = Arc::clone(&self.content);
        let searches = self.turn.take(0).await?;
        let place = blocking(move || find(content.catalog(), &wanted)).await?;
        // Nobody holds some of the room and waits for more.
        drop(searches);
        let (mut bundle, taken) = self.read(place, Extent::Whole).await?;
        bundle.replaces.clear();
        bundle.skips.clear();
        let once = stream::unfold((Some(bundle), taken), |(bundle, taken)| {
            future::ready(bundle.map(|bundle| (Ok(bundle), (None, taken))))
        });
        Ok(once.boxed())
    }

    /// All that `find` finds.
    async fn list<Q: Send + 'static, A: Message + 'static>(
        self,
        wanted: Q,
        find: impl FnOnce(&Catalog, &Q) -> Result<Vec<A>, Status> + Send + 'static,
    ) -> Result<Answers<A>, Status> {
        let Self { content, turn } = self;
        let taken = turn.take(entries::MAX_BYTES / room::COPIES).await?;
        let found = blocking(move || find(content.catalog(), &wanted)).await?;
        let messages = stream::unfold((found.into_iter(), taken), |(mut left, taken)| {
            future::ready(left.next().map(|message| (Ok(message), (left, taken))))
        });
        Ok(messages.boxed())
    }

    /// A bundle, and the room that it takes until it was sent.
    async fn read(&self, place: Place, extent: Extent) -> Result<(Bundle, Taken), Status> {
        let taken = self.turn.take(self.content.length(&place)).await?;
        let content = Arc::clone(&self.content);
        let read = move || bundle::read(&content, &place, extent).map_err(|error| unreadable(&error));
        Ok((blocking(read).await?, taken))
    }
}

/// Reads the request, and sends what `find` makes of it.
async fn call<Q, A, B, F>(request: http::Request<B>, find: impl FnOnce(Q) -> F + Send) -> http::Response<Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + 'static,
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send,
    F: Future<Output = Result<Answers<A>, Status>> + Send,
{
    let mut grpc = Grpc::new(Messages::<A, Q>::default())
        .max_decoding_message_size(REQUEST_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES);
    let mut find = Some(find);
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let found = find.take().map(|find| find(request.into_inner()));
        async move {
            let found = found.ok_or_else(|| Status::internal("a service answers one call"))?;
            found.await.map(tonic::Response::new)
        }
    });
    grpc.server_streaming(service, request).await
}

fn sent<A, I>(messages: I) -> Answers<A>
where
    A: Send + 'static,
    I: IntoIterator<Item = A>,
    I::IntoIter: Send + 'static,
{
    stream::iter(messages.into_iter().map(Ok)).boxed()
}

/// Runs what reads the disk, or may take a while.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Status> + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Status::internal("the worker thread ended early"))?
}

fn unreadable(error: &io::Error) -> Status {
    tracing::warn!(%error, "a document of a catalog cannot be read again");
    Status::internal("a document of the catalog cannot be read")
}
