//! One conversation with a registry about one repository.

use http::StatusCode;
use oci_client::Reference;
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use reqwest::Response;
use rukpak_content::Digest;
use serde::Deserialize;
use url::Url;

use super::Error;
use super::authorization::{self, Authorization, Challenge};
use super::credentials::{Credentials, Login};
use super::transport::{self, Request, Transport};

const TOKEN_BYTES: u64 = 64 * 1024;
const ERROR_BYTES: u64 = 8 * 1024;

/// A registry, a repository and how we may speak to it.
pub(super) struct Session<'a> {
    transport: &'a Transport,
    reference: &'a Reference,
    login: Option<&'a Login>,
    authorization: Option<Authorization>,
}

impl<'a> Session<'a> {
    /// `authorization` is one that worked before, if there is one.
    pub(super) fn new(
        transport: &'a Transport,
        reference: &'a Reference,
        credentials: &'a Credentials,
        authorization: Option<Authorization>,
    ) -> Self {
        Self { transport, reference, login: credentials.login(reference), authorization }
    }

    pub(super) fn into_authorization(self) -> Option<Authorization> {
        self.authorization
    }

    /// The manifest that `name`, a tag or a digest, names.
    pub(super) async fn manifest(&mut self, name: &str, what: &str) -> Result<Response, Error> {
        let accept = [
            OCI_IMAGE_MEDIA_TYPE,
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        ];
        self.get(&format!("manifests/{name}"), &accept.join(", "), what).await
    }

    /// The blob that `digest` names; its body has not been read.
    pub(super) async fn blob(&mut self, digest: &Digest) -> Result<Response, Error> {
        let what = format!("layer {digest} of {}", self.reference);
        self.get(&format!("blobs/{digest}"), "*/*", &what).await
    }

    async fn get(&mut self, path: &str, accept: &str, what: &str) -> Result<Response, Error> {
        let registry = self.reference.resolve_registry();
        let url = self.transport.registry_url(registry, &format!("{}/{path}", self.reference.repository()))?;
        let mut response = self.send(&url, accept, what).await?;
        // A challenge counts only from the registry itself: whoever it redirects to shall not name a realm for our password.
        if response.status() == StatusCode::UNAUTHORIZED && response.url().origin() == url.origin() {
            self.authorize(&url, &response, what).await?;
            response = self.send(&url, accept, what).await?;
        }
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response, what).await) }
    }

    async fn send(&self, url: &Url, accept: &str, what: &str) -> Result<Response, Error> {
        let authorization = self.authorization.as_ref();
        self.transport.get(Request { what, url: url.clone(), accept, authorization }).await
    }

    async fn authorize(&mut self, registry: &Url, response: &Response, what: &str) -> Result<(), Error> {
        let challenge = Challenge::from_headers(response.headers())
            .map_err(|asked| Error::Challenge { what: what.to_owned(), asked })?;
        self.authorization = match (challenge, self.login) {
            (Challenge::Bearer { realm, service }, _) => {
                Some(self.token(registry, realm, service.as_deref(), what).await?)
            }
            (Challenge::Basic, Some(login)) => Authorization::basic(login),
            (Challenge::Basic, None) => {
                return Err(self.unauthorized(response.status(), String::new(), what));
            }
        };
        Ok(())
    }

    async fn token(
        &self,
        registry: &Url,
        realm: Url,
        service: Option<&str>,
        what: &str,
    ) -> Result<Authorization, Error> {
        if realm.scheme() != "https" && !(realm.scheme() == "http" && registry.scheme() == "http") {
            let asked = format!("a token from {}, which is not https", transport::host(&realm));
            return Err(Error::Challenge { what: what.to_owned(), asked });
        }
        let host = transport::host(&realm);
        let url = authorization::token_url(realm, service, self.reference.repository());
        let basic = self.login.and_then(Authorization::basic);
        let request = Request { what, url, accept: "application/json", authorization: basic.as_ref() };
        let response = self.transport.get(request).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response, what).await);
        }
        let body = transport::body(response, what, TOKEN_BYTES).await?;
        authorization::token(&body).ok_or_else(|| Error::Token { what: what.to_owned(), host })
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
        let hint = match self.login {
            Some(_) => "check the login in the pull secret and what it may read",
            None => "check the name; a private image needs a pull secret with a login for this registry",
        };
        Error::Unauthorized { what: what.to_owned(), status, detail, hint }
    }

    /// `text` without our secrets: a registry may echo what it was sent.
    fn redacted(&self, text: &str) -> String {
        let basic = self.login.and_then(Authorization::basic);
        let secrets = [
            self.authorization.as_ref().and_then(Authorization::secret),
            basic.as_ref().and_then(Authorization::secret),
            self.login.map(|login| login.password.expose()),
        ];
        let redact = |text: String, secret: &str| text.replace(secret, "<redacted>");
        secrets.into_iter().flatten().filter(|secret| !secret.is_empty()).fold(text.to_owned(), redact)
    }
}

/// The registry's own words, `: CODE: message`, at most 200 printable characters of them.
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
    let text = [fault.code, fault.message].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
    let text: String = text.chars().filter(|character| !character.is_control()).take(200).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
