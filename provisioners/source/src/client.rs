//! HTTP with bounds, for every source that speaks it: certificates, redirects, schemes, silence.
//!
//! Proxies come from the environment, as `reqwest` reads it: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, in capitals
//! or not.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Response};
use rustls::InvalidMessage;
use url::Url;

use crate::egress::{Guard, Refused, Resolver};

pub(crate) const MAXIMUM_REDIRECTS: usize = 5;

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How clients are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) extra_ca_pem: &'a [u8],
    pub(crate) idle_timeout: Duration,
    pub(crate) guard: &'a Arc<Guard>,
}

/// What requests are sent with. Clones share their connections.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// Trusts the authorities of the system and those of the settings.
    careful: Client,
    /// Trusts anyone.
    careless: Client,
    guard: Arc<Guard>,
}

/// Which servers are believed to be who they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those with a certificate of a known authority.
    KnownAuthorities,
    /// Any.
    Anyone,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The extra certificates cannot be read.
    #[error("the extra CA certificates are not PEM certificates")]
    Certificates(#[source] reqwest::Error),
    /// The extra certificates hold none.
    #[error("the extra CA certificates hold no certificate; give PEM")]
    NoCertificates,
    /// The HTTP client cannot be made.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
}

/// A request. `authorization` is for the origin of `url` only.
pub(crate) struct Request<'a> {
    pub(crate) url: Url,
    pub(crate) accept: &'a str,
    pub(crate) authorization: Option<HeaderValue>,
    /// Of the host of `url`. Whoever it redirects to has to prove who they are.
    pub(crate) trust: Trust,
    /// A condition that the answer depends on.
    pub(crate) condition: Option<(HeaderName, HeaderValue)>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum GetError {
    /// `host` said nothing that is HTTP. The error is without its URL.
    Request { host: String, source: reqwest::Error },
    /// An address that may not be connected to.
    Refused(Refused),
    /// A redirect that is not followed, in words.
    Redirect(String),
}

impl Clients {
    pub(crate) fn new(settings: Settings<'_>) -> Result<Self, SetupError> {
        let careful = careful(settings)?;
        let careless = builder(settings).tls_danger_accept_invalid_certs(true).build().map_err(SetupError::Client)?;
        Ok(Self { careful, careless, guard: Arc::clone(settings.guard) })
    }
}

fn careful(settings: Settings<'_>) -> Result<Client, SetupError> {
    let certificates = Certificate::from_pem_bundle(settings.extra_ca_pem).map_err(SetupError::Certificates)?;
    if certificates.is_empty() && !settings.extra_ca_pem.trim_ascii().is_empty() {
        return Err(SetupError::NoCertificates);
    }
    builder(settings)
        .tls_certs_merge(certificates.clone())
        .build()
        .or_else(|error| {
            // A machine without certificate authorities can still speak plain HTTP; TLS then fails by name.
            tracing::warn!(%error, "cannot use the certificate authorities of the system");
            builder(settings).tls_certs_only(certificates).build()
        })
        .map_err(SetupError::Client)
}

fn builder(settings: Settings<'_>) -> ClientBuilder {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster; any provider will do.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    Client::builder()
        .dns_resolver(Resolver(Arc::clone(settings.guard)))
        .tls_backend_rustls()
        .user_agent(concat!("rukpak/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(settings.idle_timeout)
        // Digests are those of the bytes as they are sent.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
}

/// Sends a GET and follows redirects. Credentials stay with the origin they were meant for; TLS is not given up, and only the
/// first host is exempt from proving who it is. Each address on the way has to be one that may be connected to.
pub(crate) async fn get(clients: &Clients, request: Request<'_>) -> Result<Response, GetError> {
    let Request { mut url, accept, mut authorization, mut trust, condition } = request;
    for _ in 0..=MAXIMUM_REDIRECTS {
        clients.guard.check(&url).await.map_err(GetError::Refused)?;
        let client = match trust {
            Trust::KnownAuthorities => &clients.careful,
            Trust::Anyone => &clients.careless,
        };
        let mut builder = client.get(url.clone()).header(header::ACCEPT, accept);
        if let Some(authorization) = &authorization {
            builder = builder.header(header::AUTHORIZATION, authorization.clone());
        }
        if let Some((name, value)) = &condition {
            builder = builder.header(name, value);
        }
        let response = builder.send().await.map_err(|error| failed(&url, error))?;
        let Some(next) = next(&response)? else { return Ok(response) };
        if next.scheme() != "https" && !(url.scheme() == "http" && next.scheme() == "http") {
            let why = format!("{} redirects to {}, which is not https", host(&url), host(&next));
            return Err(GetError::Redirect(why));
        }
        // Neither is to be had back by a redirect to where it all began: what stands in between chose the path.
        if next.origin() != url.origin() {
            authorization = None;
        }
        if next.host() != url.host() {
            trust = Trust::KnownAuthorities;
        }
        url = next;
    }
    Err(GetError::Redirect(format!("more than {MAXIMUM_REDIRECTS} redirects")))
}

fn failed(url: &Url, error: reqwest::Error) -> GetError {
    match cause::<Refused>(&error) {
        Some(refused) => GetError::Refused(refused.clone()),
        None => GetError::Request { host: host(url), source: error.without_url() },
    }
}

fn next(response: &Response) -> Result<Option<Url>, GetError> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    if !redirects {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|location| response.url().join(location).ok());
    let Some(mut next) = next.filter(Url::has_host) else {
        return Err(GetError::Redirect(format!("{} redirects to nowhere", host(response.url()))));
    };
    // A login in the URL would be sent on.
    let cleared = next.set_username("").is_ok() && next.set_password(None).is_ok();
    debug_assert!(cleared, "a URL with a host can lose its login");
    Ok(Some(next))
}

/// Host and port of `url`, and nothing of its path and query, where signatures are.
pub(crate) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// What TLS made of it, if that is where it ended.
pub(crate) fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    cause(error)
}

/// The cause of that type.
fn cause<T: StdError + 'static>(error: &reqwest::Error) -> Option<&T> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        // An I/O error does not count what it wraps as its source.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = wrapped.map(|wrapped| wrapped as &(dyn StdError + 'static)).or_else(|| error.source());
    }
    None
}

/// Whether the answer to a handshake was no TLS at all.
pub(crate) fn is_without_tls(error: &reqwest::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)))
}

#[cfg(test)]
pub(crate) mod server;
