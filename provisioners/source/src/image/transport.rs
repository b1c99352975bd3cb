//! The client side of HTTP, as registries, token services and what they redirect to need it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use reqwest::Response;
use url::Url;

use super::authorization::Authorization;
use super::{Error, Puller, PullerOptions};
use crate::body::chunk_bytes;
use crate::client::{self, Clients, GetError, Settings, Trust};
use crate::egress::Guard;
use crate::hosts::Server;
use crate::mirrors::{ImageLocation, Mirrors};
use crate::pace::{self, Pace, TooSlow};

/// Clients for registries, token services and what they redirect to, and which registries there are.
#[derive(Debug)]
pub(super) struct Transport {
    clients: Clients,
    plain_http: BTreeSet<String>,
    pub(super) mirrors: Mirrors,
    /// Where what mirrors give is put until it has been checked, and how much of it.
    pub(super) spool_dir: PathBuf,
    pub(super) download_bytes: u64,
    /// How many layers an image may have.
    pub(super) layers: u64,
}

/// A request: what for, in words, and with what.
pub(super) struct Request<'a> {
    pub(super) what: &'a str,
    pub(super) url: Url,
    pub(super) accept: &'a str,
    pub(super) authorization: Option<&'a Authorization>,
    pub(super) trust: Trust,
}

impl Puller {
    /// Pulls from these mirrors where they hold an image, and where not, from its registry.
    ///
    /// The resolved reference stays the user's. A mirror is given the login that matches *its* name, never that of the registry
    /// it mirrors. Whatever goes wrong with one, the next is asked: a mirror that hangs costs [`PullerOptions::idle_timeout`].
    #[must_use]
    pub(crate) fn with_mirrors(self, mirrors: Mirrors) -> Self {
        let transport = Transport { mirrors, ..self.transport };
        Self { transport, ..self }
    }

    /// The registries that may be asked for `reference`: its own and its mirrors. None if it is not a reference.
    pub fn registries(&self, reference: &str) -> Vec<Server> {
        let places = super::parse(reference).ok().and_then(|parsed| self.transport.mirrors.places(&parsed).ok());
        let server = |place: ImageLocation| Server::of_registry(place.reference.registry());
        places.unwrap_or_default().into_iter().map(server).collect()
    }
}

impl Transport {
    pub(super) fn new(options: &PullerOptions) -> Result<Self, Error> {
        let clients = Clients::new(Settings {
            extra_ca_pem: &options.extra_ca_pem,
            idle_timeout: options.idle_timeout,
            guard: &Guard::new(options.egress.clone()),
        })?;
        Ok(Self {
            clients,
            plain_http: options.plain_http.iter().cloned().collect(),
            mirrors: Mirrors::default(),
            spool_dir: options.stage_dir.clone(),
            download_bytes: options.limits.download_bytes,
            layers: options.limits.layers,
        })
    }

    /// The root of a registry's API; without TLS where `plain` or the options say so.
    pub(super) fn registry_url(&self, registry: &str, path: &str, plain: bool) -> Result<Url, Error> {
        let scheme = if plain || self.plain_http.contains(registry) { "http" } else { "https" };
        Url::parse(&format!("{scheme}://{registry}/v2/{path}"))
            .map_err(|_| Error::Redirect { what: registry.to_owned(), why: "not a host that can be asked".into() })
    }

    /// Sends a GET and follows redirects. Credentials stay with the origin they were meant for; TLS is not given up.
    pub(super) async fn get(&self, request: Request<'_>) -> Result<Response, Error> {
        let Request { what, url, accept, authorization, trust } = request;
        let authorization = authorization.map(Authorization::header);
        let request = client::Request { url, accept, authorization, trust, condition: None };
        client::get(&self.clients, request).await.map_err(|error| {
            let what = what.to_owned();
            match error {
                GetError::Request { host, source } => Error::Request { what, host, hint: String::new(), source },
                GetError::Refused(source) => Error::Address { what, source },
                GetError::Redirect(why) => Error::Redirect { what, why },
            }
        })
    }
}

/// The whole body, if it has at most `maximum_bytes`.
pub(super) async fn body(mut response: Response, what: &str, maximum_bytes: u64) -> Result<Vec<u8>, Error> {
    let too_large = || Error::TooLarge { what: what.to_owned(), maximum_bytes };
    if response.content_length().is_some_and(|length| length > maximum_bytes) {
        return Err(too_large());
    }
    let (mut bytes, mut pace) = (Vec::new(), Pace::default());
    loop {
        let received_bytes = bytes.len() as u64;
        let too_slow = |TooSlow| Error::Pace { what: what.to_owned(), received_bytes, asked: pace::asked() };
        let chunk = pace.wait(response.chunk(), chunk_bytes).await.map_err(too_slow)?;
        let chunk = chunk.map_err(|source| Error::Body {
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
