//! One conversation with one registry about one repository: addresses, challenges, logins.

use http::StatusCode;
use reqwest::Response;
use serde::Deserialize;
use url::Url;

use crate::client::{self, Trust};
use crate::hosts::Server;
use crate::image::Error;
use crate::image::authorization::{self, Authorization, Challenge};
use crate::image::credentials::{Credentials, Login};
use crate::image::transport::{self, Request, Transport};
use crate::mirrors::ImageLocation;

const TOKEN_BYTES: u64 = 64 * 1024;
const ERROR_BYTES: u64 = 8 * 1024;

/// A registry or a mirror of one, a repository, and how we may speak to it.
pub(super) struct Endpoint<'a> {
    transport: &'a Transport,
    place: ImageLocation,
    /// The logins that match, in the order in which they are tried.
    logins: Vec<&'a Login>,
    /// The one in use.
    login: Option<&'a Login>,
    authorization: Option<Authorization>,
    /// Without TLS, because with TLS there was no answer. Only where the place is insecure.
    plain: bool,
}

impl<'a> Endpoint<'a> {
    pub(super) fn new(transport: &'a Transport, place: ImageLocation, credentials: &'a Credentials) -> Self {
        let logins = credentials.logins(&place.reference);
        Self { transport, place, logins, login: None, authorization: None, plain: false }
    }

    /// How people call it: `registry/repository`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.place.reference.registry(), self.place.reference.repository())
    }

    pub(super) fn is_mirror(&self) -> bool {
        self.place.is_mirror
    }

    /// Whether `authorization` comes from a conversation with this place.
    pub(super) fn gave(&self, authorization: &Authorization) -> bool {
        authorization.mirror() == self.mirror().as_deref()
    }

    /// Goes on with it.
    pub(super) fn resume(&mut self, authorization: Authorization) {
        self.authorization = Some(authorization);
    }

    /// What a later conversation may go on with.
    pub(super) fn into_authorization(self) -> Option<Authorization> {
        let mirror = self.mirror();
        self.authorization.map(|authorization| authorization.of_mirror(mirror))
    }

    fn mirror(&self) -> Option<String> {
        self.place.is_mirror.then(|| self.name())
    }

    /// A successful answer to a GET of `path` below the repository.
    pub(super) async fn get(&mut self, path: &str, accept: &str, what: &str) -> Result<Response, Error> {
        let answer = self.get_once(path, accept, what).await;
        match answer {
            Err(Error::Request { source, .. }) if self.place.insecure && !self.plain && source.is_connect() => {
                self.plain = true;
                self.get_once(path, accept, what).await
            }
            answer => answer,
        }
    }

    async fn get_once(&mut self, path: &str, accept: &str, what: &str) -> Result<Response, Error> {
        let reference = &self.place.reference;
        let path = format!("{}/{path}", reference.repository());
        let url = self.transport.registry_url(reference.resolve_registry(), &path, self.plain)?;
        let response = self.send(&url, accept, what).await?;
        // A challenge counts only from the registry itself: whoever it redirects to shall not name a realm for our password.
        if response.status() == StatusCode::UNAUTHORIZED && response.url().origin() == url.origin() {
            return self.log_in(&url, &response, accept, what).await;
        }
        self.accepted(response, what).await
    }

    async fn send(&self, url: &Url, accept: &str, what: &str) -> Result<Response, Error> {
        let (trust, authorization) = (self.trust(), self.authorization.as_ref());
        let answer = self.transport.get(Request { what, url: url.clone(), accept, authorization, trust }).await;
        answer.map_err(|error| self.with_hint(error, url))
    }

    /// Says what to do about a registry that speaks no TLS. Whoever it redirects to is not for us to choose.
    fn with_hint(&self, mut error: Error, url: &Url) -> Error {
        if let Error::Request { host, hint, source, .. } = &mut error
            && *host == client::host(url)
            && client::is_without_tls(source)
        {
            let registry = self.place.reference.resolve_registry();
            *hint = format!(
                " (it does not speak TLS: if it is meant not to, add --plain-http-registry={registry} to the arguments of this program, in a \
                 cluster of Deployment core, for catalogs of platform-operators-controller-manager)"
            );
        }
        error
    }

    fn trust(&self) -> Trust {
        if self.place.insecure { Trust::Anyone } else { Trust::KnownAuthorities }
    }

    async fn accepted(&self, response: Response, what: &str) -> Result<Response, Error> {
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response, what).await) }
    }

    /// Answers the challenge in `response`, with one login after the other as long as they are refused, as the kubelet does.
    async fn log_in(&mut self, url: &Url, response: &Response, accept: &str, what: &str) -> Result<Response, Error> {
        let challenge = Challenge::from_headers(response.headers())
            .map_err(|asked| Error::Challenge { what: what.to_owned(), asked })?;
        let logins: Vec<_> = self.logins.iter().copied().map(Some).collect();
        let logins = if logins.is_empty() { vec![None] } else { logins };
        let mut refusal = None;
        for login in logins {
            self.login = login;
            match self.try_login(url, &challenge, response.status(), accept, what).await {
                Err(error @ Error::Unauthorized { .. }) => refusal = Some(error),
                answer => return answer,
            }
        }
        Err(refusal.unwrap_or_else(|| self.unauthorized(response.status(), String::new(), what)))
    }

    async fn try_login(
        &mut self,
        url: &Url,
        challenge: &Challenge,
        status: StatusCode,
        accept: &str,
        what: &str,
    ) -> Result<Response, Error> {
        self.authorization = match (challenge, self.login) {
            (Challenge::Bearer { realm, service }, _) => Some(self.token(url, realm, service.as_deref(), what).await?),
            (Challenge::Basic, Some(login)) => Authorization::basic(login),
            (Challenge::Basic, None) => return Err(self.unauthorized(status, String::new(), what)),
        };
        let response = self.send(url, accept, what).await?;
        self.accepted(response, what).await
    }

    async fn token(
        &self,
        registry: &Url,
        realm: &Url,
        service: Option<&str>,
        what: &str,
    ) -> Result<Authorization, Error> {
        if realm.scheme() != "https" && !(realm.scheme() == "http" && registry.scheme() == "http") {
            let asked = format!("a token from {}, which is not https", client::host(realm));
            return Err(Error::Challenge { what: what.to_owned(), asked });
        }
        let server = Server::of_url(realm);
        if self.login.is_some_and(|login| !server.is_some_and(|server| login.is_for(&server))) {
            let asked =
                format!("a token from {}, which is not one of the hosts that the login is for", client::host(realm));
            return Err(Error::Challenge { what: what.to_owned(), asked });
        }
        // Someone else than the insecure mirror itself has to prove who they are.
        let trust = if realm.origin() == registry.origin() { self.trust() } else { Trust::KnownAuthorities };
        let url = authorization::token_url(realm.clone(), service, self.place.reference.repository());
        let basic = self.login.and_then(Authorization::basic);
        let request = Request { what, url, accept: "application/json", authorization: basic.as_ref(), trust };
        let response = self.transport.get(request).await?;
        let response = self.accepted(response, what).await?;
        let body = transport::body(response, what, TOKEN_BYTES).await?;
        let unusable = || Error::Token { what: what.to_owned(), host: client::host(realm) };
        authorization::token(&body).ok_or_else(unusable)
    }

    async fn refusal(&self, response: Response, what: &str) -> Error {
        let status = response.status();
        // The status is the answer; its body is only decoration and may be missing.
        let body = transport::body(response, what, ERROR_BYTES).await.unwrap_or_default();
        let detail = self.redacted(&detail(&body));
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return self.unauthorized(status, detail, what);
        }
        Error::Status { what: what.to_owned(), status, detail }
    }

    fn unauthorized(&self, status: StatusCode, detail: String, what: &str) -> Error {
        let hint = match self.logins.as_slice() {
            [] => "check the name; a private image needs a pull secret with a login for this registry",
            [_] => "check the login in the pull secret and what it may read",
            _ => "none of the matching logins in the pull secrets may read it; check them",
        };
        Error::Unauthorized { what: what.to_owned(), status, detail, hint }
    }

    /// `text` without our secrets: a registry may echo what it was sent, now or before.
    fn redacted(&self, text: &str) -> String {
        let basics: Vec<_> = self.logins.iter().filter_map(|login| Authorization::basic(login)).collect();
        let secrets = self
            .authorization
            .iter()
            .chain(&basics)
            .filter_map(Authorization::secret)
            .chain(self.logins.iter().map(|login| login.password.expose()));
        let redact = |text: String, secret: &str| text.replace(secret, "<redacted>");
        secrets.filter(|secret| !secret.is_empty()).fold(text.to_owned(), redact)
    }
}

/// The registry's own words, `: code: message`, with the code as its usual clients write it (`manifest unknown`), at most 200 printable characters of them.
fn detail(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        errors: Vec<Fault>,
    }
    #[derive(Deserialize)]
    struct Fault {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else { return String::new() };
    let Some(fault) = answer.errors.into_iter().next() else { return String::new() };
    let code = fault.code.to_ascii_lowercase().replace('_', " ");
    let text = [code, fault.message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
    let text: String = text.chars().filter(|character| !character.is_control()).take(200).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
