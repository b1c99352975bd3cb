//! Single calls, each with its deadlines.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::codec::{Bounded, Lists};
use super::fold::{Fold, said};
use super::message::{Bundle, GetBundleRequest, GetPackageRequest, ListBundlesRequest, Package, method};
use super::{Error, MESSAGE_BYTES, Options, PackageDetails, csv, facts};
use crate::Catalog;
use crate::model::Facts;

/// Calls over one connection.
pub(super) struct Calls<'a> {
    channel: Channel,
    options: &'a Options,
}

/// One call while it is under way: for its deadlines and its errors.
pub(super) struct Call<'a> {
    options: &'a Options,
    what: String,
    end: Instant,
    /// Messages that have come.
    pub(super) messages: u64,
}

impl<'a> Calls<'a> {
    pub(super) fn new(channel: Channel, options: &'a Options) -> Self {
        Self { channel, options }
    }

    pub(super) async fn list_bundles(&self) -> Result<Catalog, Error> {
        let mut call = self.call("list bundles from".to_owned());
        let mut stream = self.stream::<_, Bundle>(&call, method::LIST_BUNDLES, ListBundlesRequest {}).await?;
        let mut fold = Fold::default();
        while let Some(bundle) = call.next(&mut stream).await? {
            fold.add(bundle, &call)?;
        }
        Ok(fold.finish())
    }

    pub(super) async fn package(&self, name: &str) -> Result<PackageDetails, Error> {
        let call = self.call(format!("get package {name:?} from"));
        let request = GetPackageRequest { name: name.to_owned() };
        let package: Package = self.unary(&call, method::GET_PACKAGE, request).await?;
        let deprecated = |channel: super::message::Channel| Some((channel.name, channel.deprecation?.message));
        Ok(PackageDetails {
            default_channel: said(package.default_channel_name),
            deprecation: package.deprecation.map(|deprecation| deprecation.message),
            deprecated_channels: package.channels.into_iter().filter_map(deprecated).collect(),
        })
    }

    pub(super) async fn bundle(&self, package: &str, channel: &str, bundle: &str) -> Result<Facts, Error> {
        let call = self.call(format!("get bundle {bundle:?} of package {package:?} from"));
        let request = GetBundleRequest {
            pkg_name: package.to_owned(),
            channel_name: channel.to_owned(),
            csv_name: bundle.to_owned(),
        };
        let bundle: Bundle = self.unary(&call, method::GET_BUNDLE, request).await?;
        let mut facts = facts::read(&bundle).facts;
        csv::add(&bundle.csv_json, &mut facts).map_err(|source| Error::Csv {
            name: self.options.name.clone(),
            what: call.what.clone(),
            source,
        })?;
        Ok(facts)
    }

    fn call(&self, what: String) -> Call<'a> {
        Call::new(self.options, what)
    }

    async fn stream<Q, A>(&self, call: &Call<'_>, path: &'static str, request: Q) -> Result<Streaming<A>, Error>
    where
        Q: Message + 'static,
        A: Lists,
    {
        let mut grpc = self.ready(call).await?;
        let path = PathAndQuery::from_static(path);
        let answer = grpc.server_streaming(Request::new(request), path, Bounded::<Q, A>::default());
        call.in_time(answer).await.map(Response::into_inner)
    }

    async fn unary<Q, A>(&self, call: &Call<'_>, path: &'static str, request: Q) -> Result<A, Error>
    where
        Q: Message + 'static,
        A: Lists,
    {
        let mut grpc = self.ready(call).await?;
        let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(path), Bounded::<Q, A>::default());
        call.in_time(answer).await.map(Response::into_inner)
    }

    /// A connection that is up. Of one that was lost, a new one is made.
    async fn ready(&self, call: &Call<'_>) -> Result<Grpc<Channel>, Error> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES);
        let ready = async { grpc.ready().await.map_err(|error| Status::from_error(error.into())) };
        call.in_time(ready).await?;
        Ok(grpc)
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(options: &'a Options, what: String) -> Self {
        Self { options, what, end: Instant::now() + options.total_timeout, messages: 0 }
    }

    /// The next message; `None` once the server has said that it has sent them all.
    async fn next<A>(&mut self, stream: &mut Streaming<A>) -> Result<Option<A>, Error> {
        let next = self.in_time(stream.message()).await?;
        if next.is_some() {
            self.messages += 1;
            self.bounded(self.messages, super::MESSAGES, "messages")?;
        }
        Ok(next)
    }

    /// `Err` if the server has sent more than it may.
    pub(super) fn bounded(&self, value: u64, maximum: u64, unit: &'static str) -> Result<(), Error> {
        if value <= maximum {
            return Ok(());
        }
        Err(Error::TooLarge { name: self.options.name.clone(), what: self.what.clone(), maximum, unit })
    }

    /// The last message has no such name.
    pub(super) fn incomplete(&self, missing: &'static str) -> Error {
        let (name, what) = (self.options.name.clone(), self.what.clone());
        Error::Incomplete { name, what, number: self.messages, missing }
    }

    /// Something in the last message is too long.
    pub(super) fn too_long(&self, problem: String) -> Error {
        let (name, what) = (self.options.name.clone(), self.what.clone());
        Error::TooLong { name, what, number: self.messages, problem }
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Status>>) -> Result<T, Error> {
        let idle = self.options.idle_timeout;
        let left = self.end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(idle.min(left), work).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(Error::Call {
                name: self.options.name.clone(),
                what: self.what.clone(),
                after: self.after(),
                source: status.into(),
            }),
            Err(_) if left < idle => Err(self.late("not done after", self.options.total_timeout)),
            Err(_) => Err(self.late("nothing came for", idle)),
        }
    }

    fn late(&self, problem: &'static str, limit: Duration) -> Error {
        let (name, what) = (self.options.name.clone(), self.what.clone());
        Error::Time { name, what, after: self.after(), problem, limit }
    }

    /// Half a catalog is worth nothing, yet how much of it came says where to look.
    fn after(&self) -> String {
        if self.messages == 0 { String::new() } else { format!(" after {} messages", self.messages) }
    }
}
