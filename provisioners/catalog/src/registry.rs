//! The registry gRPC API (`api.Registry`), which the catalog Pods of OLM serve: client, [server] and messages.
//!
//! Two traps of that API are met here. A stream that ends with an error, or without its closing status, is an error and never a
//! shorter list: half a catalog would hide newer versions. And a message may be larger than gRPC's 4 MiB, since a
//! ClusterServiceVersion is a string in it.

mod call;
mod calls;
mod codec;
mod csv;
mod error;
mod facts;
mod fold;
pub mod message;
pub mod server;

use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::model::Facts;
use crate::{Catalog, Package};
use calls::Calls;
pub use codec::Messages;
pub use error::{Class, Error, Refusal};

/// The largest message that is read: 32 MiB. gRPC's own bound of 4 MiB is too small for ClusterServiceVersions that come as JSON, and
/// a bundle whose manifests lie in the catalog comes with all of them: 20 definitions of 600 KiB are not unheard of. Lists in it have at
/// most [`MAX_ITEMS`](crate::document::MAX_ITEMS) items each, so that it does not grow by being read.
pub const MESSAGE_BYTES: usize = 32 * 1024 * 1024;
/// The most messages of one `ListBundles`. The largest known catalogs send some 25,000.
pub const MESSAGES: u64 = 1_000_000;
/// The most bytes of one `ListBundles`, 4 GiB: bundles whose manifests lie in the catalog are sent with them, once for each channel.
pub const STREAM_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Room for messages under way. With HTTP/2's 64 KiB a stream waits for its reader at every turn.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// How a catalog server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the catalog is called in messages, such as `openshift-marketplace/redhat-operators`.
    pub name: String,
    /// PEM certificates of the authorities that the server has to prove who it is to. `None`: no TLS, as catalog Pods serve.
    pub authorities_pem: Option<Vec<u8>>,
    /// How long a connection may take to come up, the name's address included.
    pub connect_timeout: Duration,
    /// How long the server may send nothing.
    pub idle_timeout: Duration,
    /// How long one call may take as a whole.
    pub total_timeout: Duration,
}

impl Options {
    /// `timeout` to connect and for silence, 10 minutes for the whole.
    pub fn new(name: &str, timeout: Duration) -> Self {
        Self {
            name: name.to_owned(),
            authorities_pem: None,
            connect_timeout: timeout,
            idle_timeout: timeout,
            total_timeout: Duration::from_mins(10),
        }
    }
}

/// A connection to a catalog server. It is closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    options: Options,
}

/// What a catalog server says about a package beside its bundles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageDetails {
    /// The channel that is used where none is named. `None` if the server does not say.
    pub default_channel: Option<String>,
    /// Why the package is deprecated, if it is.
    pub deprecation: Option<String>,
    /// Channels that are deprecated: name and why.
    pub deprecated_channels: Vec<(String, String)>,
}

impl PackageDetails {
    /// Puts it into `package`. Channels that the package does not have are left out.
    pub fn apply(self, package: &mut Package) {
        package.default_channel = self.default_channel;
        package.deprecation = self.deprecation;
        for (name, message) in self.deprecated_channels {
            if let Some(channel) = package.channels.get_mut(&name) {
                channel.deprecation = Some(message);
            }
        }
    }
}

impl Client {
    /// Connects to `address` (`host:port`, no TLS), which is also the name in messages. `timeout` is for connecting and for
    /// silence; see [`Options::new`].
    pub async fn connect(address: &str, timeout: Duration) -> Result<Self, Error> {
        Self::connect_with(address, Options::new(address, timeout)).await
    }

    /// Connects to `address` (`host:port`). The server's health is not asked: it says `SERVING` whatever is wrong.
    pub async fn connect_with(address: &str, options: Options) -> Result<Self, Error> {
        let endpoint = endpoint(address, &options)?;
        let limit = options.connect_timeout;
        let connected = tokio::time::timeout(limit, endpoint.connect()).await;
        let connect = |source| Error::Connect { name: options.name.clone(), address: address.to_owned(), source };
        match connected {
            Ok(Ok(channel)) => Ok(Self { channel, options }),
            Ok(Err(source)) => Err(connect(source.into())),
            Err(_) => Err(connect(format!("no connection after {} s", limit.as_secs_f32()).into())),
        }
    }

    /// The whole catalog. A stream that ends in an error gives nothing: half a catalog would hide newer versions.
    ///
    /// Default channels, deprecations of packages and of channels are not in it, since they cost a call for each package: ask
    /// [`Client::package_details`] for the packages that matter. Install modes are not in it either: see [`Client::facts`].
    /// Entries of channels are in the order of their names, because the server sends them in none.
    pub async fn catalog(&self) -> Result<Catalog, Error> {
        self.calls().list_bundles().await
    }

    /// What the catalog states about a package beside its bundles. One call.
    pub async fn package_details(&self, package: &str) -> Result<PackageDetails, Error> {
        self.calls().package(package).await
    }

    /// What the catalog states about one bundle; `ListBundles` leaves the ClusterServiceVersion out. One call.
    pub async fn facts(&self, package: &Package, channel: &str, bundle: &str) -> Result<Facts, Error> {
        self.calls().bundle(&package.name, channel, bundle).await
    }

    fn calls(&self) -> Calls<'_> {
        Calls::new(self.channel.clone(), &self.options)
    }
}

fn endpoint(address: &str, options: &Options) -> Result<Endpoint, Error> {
    let fault = || Error::Address { name: options.name.clone(), address: address.chars().take(80).collect() };
    let authority: http::uri::Authority = address.parse().map_err(|_| fault())?;
    if authority.port_u16().is_none() || authority.host().is_empty() || address.contains('@') {
        return Err(fault());
    }
    let scheme = if options.authorities_pem.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{authority}")).map_err(|_| fault())?;
    if let Some(pem) = &options.authorities_pem {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
        let failed = |source: tonic::transport::Error| Error::Authorities { name: options.name.clone(), source };
        endpoint = endpoint.tls_config(tls).map_err(failed)?;
    }
    Ok(endpoint
        .connect_timeout(options.connect_timeout)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(2 * WINDOW_BYTES))
}

#[cfg(test)]
mod tests;
