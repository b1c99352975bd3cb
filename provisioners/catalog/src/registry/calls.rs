//! The calls that a catalog server answers, over one connection.

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::call::Call;
use super::codec::{Bounded, Lists};
use super::fold::Fold;
use super::message::{Bundle, GetBundleRequest, GetPackageRequest, ListBundlesRequest, Package, method, said};
use super::{Error, MESSAGE_BYTES, Options, PackageDetails, csv, facts};
use crate::Catalog;
use crate::model::Facts;

/// Calls over one connection.
pub(super) struct Calls<'a> {
    channel: Channel,
    options: &'a Options,
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
        csv::add(&bundle.csv_json, &mut facts).map_err(|source| call.unreadable_csv(source))?;
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
