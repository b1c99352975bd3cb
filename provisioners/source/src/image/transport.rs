//! HTTP with bounds: redirects, schemes, sizes, silence.

use std::collections::BTreeSet;

use http::{StatusCode, header};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Response};
use url::Url;

use super::authorization::Authorization;
use super::{Error, PullerOptions};

const MAXIMUM_REDIRECTS: usize = 5;

/// A client for registries, token services and what they redirect to.
#[derive(Debug)]
pub(super) struct Transport {
    client: Client,
    plain_http: BTreeSet<String>,
}

/// A request: what for, in words, and with what.
pub(super) struct Request<'a> {
    pub(super) what: &'a str,
    pub(super) url: Url,
    pub(super) accept: &'a str,
    pub(super) authorization: Option<&'a Authorization>,
}

impl Transport {
    pub(super) fn new(options: &PullerOptions) -> Result<Self, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another thread may have been faster; any provider will do.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let certificates =
            Certificate::from_pem_bundle(&options.extra_ca_pem).map_err(|source| Error::Certificates { source })?;
        if certificates.is_empty() && !options.extra_ca_pem.trim_ascii().is_empty() {
            return Err(Error::NoCertificates);
        }
        let client = builder(options)
            .tls_certs_merge(certificates.clone())
            .build()
            .or_else(|error| {
                // A machine without certificate authorities can still pull over plain HTTP; TLS then fails by name.
                tracing::warn!(%error, "no certificate authorities of the system can be used");
                builder(options).tls_certs_only(certificates).build()
            })
            .map_err(|source| Error::Client { source })?;
        Ok(Self { client, plain_http: options.plain_http.iter().cloned().collect() })
    }

    /// The root of a registry's API.
    pub(super) fn registry_url(&self, registry: &str, path: &str) -> Result<Url, Error> {
        let scheme = if self.plain_http.contains(registry) { "http" } else { "https" };
        Url::parse(&format!("{scheme}://{registry}/v2/{path}"))
            .map_err(|_| Error::Redirect { what: registry.to_owned(), why: "not a host that can be asked".into() })
    }

    /// Sends a GET and follows redirects. Credentials stay with the origin they were meant for; TLS is not given up.
    pub(super) async fn get(&self, request: Request<'_>) -> Result<Response, Error> {
        let Request { what, mut url, accept, mut authorization } = request;
        let plain = url.scheme() == "http";
        for _ in 0..=MAXIMUM_REDIRECTS {
            let mut builder = self.client.get(url.clone()).header(header::ACCEPT, accept);
            if let Some(authorization) = authorization {
                builder = builder.header(header::AUTHORIZATION, authorization.header());
            }
            let response = builder.send().await.map_err(|source| Error::Request {
                what: what.to_owned(),
                host: host(&url),
                source: source.without_url(),
            })?;
            let Some(next) = next(&response, what)? else { return Ok(response) };
            if next.scheme() != "https" && !(plain && next.scheme() == "http") {
                let why = format!("{} redirects to {}, which is not https", host(&url), host(&next));
                return Err(Error::Redirect { what: what.to_owned(), why });
            }
            if next.origin() != url.origin() {
                authorization = None;
            }
            url = next;
        }
        let why = format!("more than {MAXIMUM_REDIRECTS} redirects");
        Err(Error::Redirect { what: what.to_owned(), why })
    }
}

fn builder(options: &PullerOptions) -> ClientBuilder {
    Client::builder()
        .tls_backend_rustls()
        .user_agent(&options.user_agent)
        .redirect(Policy::none())
        .connect_timeout(options.connect_timeout)
        .read_timeout(options.idle_timeout)
        // Digests are those of the bytes as they are sent.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
}

fn next(response: &Response, what: &str) -> Result<Option<Url>, Error> {
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
        let why = format!("{} redirects to nowhere", host(response.url()));
        return Err(Error::Redirect { what: what.to_owned(), why });
    };
    // A login in the URL would be sent on.
    let cleared = next.set_username("").is_ok() && next.set_password(None).is_ok();
    debug_assert!(cleared, "a URL with a host can lose its login");
    Ok(Some(next))
}

/// Host and port of `url`, and nothing of its path and query, where signatures are.
pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The whole body, if it has at most `maximum_bytes`.
pub(super) async fn body(mut response: Response, what: &str, maximum_bytes: u64) -> Result<Vec<u8>, Error> {
    let too_large = || Error::TooLarge { what: what.to_owned(), maximum_bytes };
    if response.content_length().is_some_and(|length| length > maximum_bytes) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    loop {
        let received_bytes = bytes.len() as u64;
        let chunk = response.chunk().await.map_err(|source| Error::Body {
            what: what.to_owned(),
            received_bytes,
            source: source.without_url(),
        })?;
        let Some(chunk) = chunk else { return Ok(bytes) };
        if received_bytes + chunk.len() as u64 > maximum_bytes {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
}
