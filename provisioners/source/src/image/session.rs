//! One conversation about one image, with its registry or with the mirrors of it.

mod document;
mod endpoint;
mod page;
mod spooled;

use oci_client::Reference;
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use reqwest::Response;
use rukpak_content::Digest;

use super::Error;
use super::authorization::Authorization;
use super::credentials::Credentials;
use super::transport::Transport;
use crate::chain::chain;
use crate::mirrors;
pub(super) use document::{Document, Wanted, verified};
use endpoint::Endpoint;
pub(super) use page::Page;

/// The places that may hold an image, and how we may speak to them.
///
/// They are asked in order, the one that answered last first. Whatever goes wrong with one, the next is asked; what comes is
/// checked against the same digests wherever it comes from.
pub(super) struct Session<'a> {
    transport: &'a Transport,
    reference: &'a Reference,
    endpoints: Result<Vec<Endpoint<'a>>, mirrors::Error>,
    /// Which one answered last.
    current: usize,
}

impl<'a> Session<'a> {
    /// `authorization` is one that worked before, if there is one.
    pub(super) fn new(
        transport: &'a Transport,
        reference: &'a Reference,
        credentials: &'a Credentials,
        authorization: Option<Authorization>,
    ) -> Self {
        let places = transport.mirrors.places(reference);
        let endpoint = |place| Endpoint::new(transport, place, credentials);
        let mut endpoints: Result<Vec<_>, _> = places.map(|places| places.into_iter().map(endpoint).collect());
        if let (Ok(endpoints), Some(authorization)) = (&mut endpoints, authorization)
            && let Some(endpoint) = endpoints.iter_mut().find(|endpoint| endpoint.gave(&authorization))
        {
            endpoint.resume(authorization);
        }
        Self { transport, reference, endpoints, current: 0 }
    }

    /// Of the place that answered last.
    pub(super) fn into_authorization(self) -> Option<Authorization> {
        self.endpoints.ok()?.into_iter().nth(self.current)?.into_authorization()
    }

    /// The manifest that `wanted` names, checked.
    pub(super) async fn manifest(&mut self, wanted: &Wanted<'_>, what: &str) -> Result<Document, Error> {
        let accept = [
            OCI_IMAGE_MEDIA_TYPE,
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        ];
        let (path, accept) = (format!("manifests/{}", wanted.name), accept.join(", "));
        self.first(&path, &accept, what, move |response, _| Document::read(response, wanted, what)).await
    }

    /// The blob that `digest` names. Of the last place its body has not been read; what comes from a place before it has been
    /// checked, since once it is being unpacked it is too late to ask another.
    pub(super) async fn layer(&mut self, digest: &Digest) -> Result<Response, Error> {
        let what = format!("layer {digest} of {}", self.reference);
        self.blob(digest, &what).await
    }

    /// Like [`Session::layer`] for any blob; `what` stands in messages.
    pub(super) async fn blob(&mut self, digest: &Digest, what: &str) -> Result<Response, Error> {
        let path = format!("blobs/{digest}");
        let transport = self.transport;
        self.first(&path, "*/*", what, move |response, is_last| async move {
            if is_last { Ok(response) } else { spooled::checked(response, digest, transport, what).await }
        })
        .await
    }

    /// A page of the registry's list of what refers to the manifest or index that `digest` names: the first, or the one that
    /// `query` of the page before names.
    pub(super) async fn referrers(&mut self, digest: &Digest, query: &str, what: &str) -> Result<Page, Error> {
        let path = format!("referrers/{digest}{query}");
        self.first(&path, OCI_IMAGE_INDEX_MEDIA_TYPE, what, move |response, _| Page::read(response, what)).await
    }

    /// Asks one place after the other; returns what `read` makes of the first answer that it can read. The `bool` says whether the
    /// place is the last one.
    async fn first<T, F: Future<Output = Result<T, Error>>>(
        &mut self,
        path: &str,
        accept: &str,
        what: &str,
        read: impl Fn(Response, bool) -> F,
    ) -> Result<T, Error> {
        let mut failures = Failures::new(what);
        let order = self.order()?;
        for at in &order {
            let endpoint = self.endpoint(*at)?;
            let answer = match endpoint.get(path, accept, what).await {
                Ok(response) => read(response, order.last() == Some(at)).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => {
                    self.current = *at;
                    return Ok(answer);
                }
                Err(error) => failures.add(endpoint, error),
            }
        }
        Err(failures.into_error())
    }

    /// Positions of the endpoints, the current one first.
    fn order(&self) -> Result<Vec<usize>, Error> {
        let endpoints = self.endpoints.as_ref().map_err(|error| Error::Mirrors(error.clone()))?;
        let others = (0..endpoints.len()).filter(|at| *at != self.current);
        Ok(std::iter::once(self.current).chain(others).collect())
    }

    fn endpoint(&mut self, at: usize) -> Result<&mut Endpoint<'a>, Error> {
        self.endpoints.as_mut().map(|endpoints| &mut endpoints[at]).map_err(|error| Error::Mirrors(error.clone()))
    }
}

/// What went wrong, place by place.
struct Failures<'a> {
    what: &'a str,
    failures: Vec<(String, Error)>,
}

impl<'a> Failures<'a> {
    fn new(what: &'a str) -> Self {
        Self { what, failures: Vec::new() }
    }

    fn add(&mut self, endpoint: &Endpoint<'_>, error: Error) {
        let kind = if endpoint.is_mirror() { "mirror" } else { "registry" };
        let place = format!("{kind} {}", endpoint.name());
        if endpoint.is_mirror() {
            tracing::warn!(what = self.what, mirror = endpoint.name(), error = chain(&error), "cannot use a mirror");
        }
        self.failures.push((place, error));
    }

    /// The last failure is the source; the ones before it are told in words. One place alone fails as if there were no list.
    fn into_error(mut self) -> Error {
        let what = self.what.to_owned();
        let Some((place, source)) = self.failures.pop() else {
            // Not reached: there is never no place.
            return Error::Mirrors(mirrors::Error::Blocked { name: what.clone(), prefix: what });
        };
        if self.failures.is_empty() && place.starts_with("registry") {
            return source;
        }
        let tell = |(place, error): &(String, Error)| format!("{place} failed ({}); ", chain(error));
        let before = self.failures.iter().map(tell).collect();
        Error::Places { what, before, place, source: Box::new(source) }
    }
}
