//! HTTP with bounds, for every source that speaks it: certificates, redirects, schemes, silence.
//!
//! Proxies come from the environment, as `reqwest` reads it: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, in capitals
//! or not.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Response};
use rustls::InvalidMessage;
use url::Url;

pub(crate) const MAXIMUM_REDIRECTS: usize = 5;

/// How a client is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) extra_ca_pem: &'a [u8],
    pub(crate) user_agent: &'a str,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) trust: Trust,
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
    /// A condition that the answer depends on.
    pub(crate) condition: Option<(HeaderName, HeaderValue)>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum GetError {
    /// `host` said nothing that is HTTP. The error is without its URL.
    Request { host: String, source: reqwest::Error },
    /// A redirect that is not followed, in words.
    Redirect(String),
}

pub(crate) fn build(settings: Settings<'_>) -> Result<Client, SetupError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have been faster; any provider will do.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let certificates = Certificate::from_pem_bundle(settings.extra_ca_pem).map_err(SetupError::Certificates)?;
    if certificates.is_empty() && !settings.extra_ca_pem.trim_ascii().is_empty() {
        return Err(SetupError::NoCertificates);
    }
    if settings.trust == Trust::Anyone {
        return builder(settings).tls_danger_accept_invalid_certs(true).build().map_err(SetupError::Client);
    }
    builder(settings)
        .tls_certs_merge(certificates.clone())
        .build()
        .or_else(|error| {
            // A machine without certificate authorities can still speak plain HTTP; TLS then fails by name.
            tracing::warn!(%error, "no certificate authorities of the system can be used");
            builder(settings).tls_certs_only(certificates).build()
        })
        .map_err(SetupError::Client)
}

fn builder(settings: Settings<'_>) -> ClientBuilder {
    Client::builder()
        .tls_backend_rustls()
        .user_agent(settings.user_agent)
        .redirect(Policy::none())
        .connect_timeout(settings.connect_timeout)
        .read_timeout(settings.idle_timeout)
        // Digests are those of the bytes as they are sent.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
}

/// Sends a GET and follows redirects. Credentials stay with the origin they were meant for; TLS is not given up.
pub(crate) async fn get(client: &Client, request: Request<'_>) -> Result<Response, GetError> {
    let Request { mut url, accept, mut authorization, condition } = request;
    for _ in 0..=MAXIMUM_REDIRECTS {
        let mut builder = client.get(url.clone()).header(header::ACCEPT, accept);
        if let Some(authorization) = &authorization {
            builder = builder.header(header::AUTHORIZATION, authorization.clone());
        }
        if let Some((name, value)) = &condition {
            builder = builder.header(name, value);
        }
        let failed = |source: reqwest::Error| GetError::Request { host: host(&url), source: source.without_url() };
        let response = builder.send().await.map_err(failed)?;
        let Some(next) = next(&response)? else { return Ok(response) };
        if next.scheme() != "https" && !(url.scheme() == "http" && next.scheme() == "http") {
            let why = format!("{} redirects to {}, which is not https", host(&url), host(&next));
            return Err(GetError::Redirect(why));
        }
        // Not to be had back by a redirect to where it all began: what stands in between chose the path.
        if next.origin() != url.origin() {
            authorization = None;
        }
        url = next;
    }
    Err(GetError::Redirect(format!("more than {MAXIMUM_REDIRECTS} redirects")))
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
