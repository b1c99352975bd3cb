//! Who asks, and whether they may: a client certificate or a bearer token, then a SubjectAccessReview on the URL's path.
//!
//! Asks the API server at each call, so that a right that was taken away is gone at once; but not about what cannot be a token,
//! nor again about one that was refused just now, and a few at a time.

mod tokens;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, X509Certificate};

use self::tokens::Refused;
use crate::api;
use crate::error::Chain;
use crate::lock::lock;

/// Every user that is known at all is in this group.
const AUTHENTICATED: &str = "system:authenticated";
/// Calls that the API server is asked about at once; more wait.
const QUESTIONS: usize = 16;

/// The other end of a connection, as far as its certificate tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer(Option<UserInfo>);

/// Why a call is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Nobody knows who it is.
    #[error("Unauthorized: give a bearer token of this cluster, or a client certificate")]
    Unauthenticated,
    /// They have no right to it.
    #[error("Forbidden: user {user:?} cannot {verb} {what}")]
    Forbidden {
        /// The user's name.
        user: String,
        /// What they would do.
        verb: &'static str,
        /// With what.
        what: String,
    },
    /// The API server does not say.
    #[error("the API server cannot be asked who you are and what you may do; try again")]
    Unavailable(#[source] api::Error),
}

impl Denied {
    /// Returns what the caller is answered. That the API server cannot be asked is logged.
    pub fn response(&self) -> Response {
        let text = format!("{self}\n");
        match self {
            Self::Unauthenticated => {
                (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
            }
            Self::Forbidden { .. } => (StatusCode::FORBIDDEN, text).into_response(),
            Self::Unavailable(_) => {
                tracing::warn!(error = %Chain(self), "cannot authorize a call");
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            }
        }
    }
}

impl Peer {
    /// The user that a verified chain names: its common name, and the organizations for groups, as Kubernetes has it.
    pub fn of(chain: &[CertificateDer<'_>]) -> Self {
        Self(chain.first().and_then(user_of))
    }
}

/// Of several common names the last one counts, as in Go and so in the API server. A name that cannot be read as text might be
/// that one: then nobody is known.
fn user_of(certificate: &CertificateDer<'_>) -> Option<UserInfo> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let name = texts(parsed.subject().iter_common_name())?.pop()?;
    let mut groups = texts(parsed.subject().iter_organization())?;
    groups.push(AUTHENTICATED.to_owned());
    let username = Some(name).filter(|name| !name.is_empty())?;
    Some(UserInfo { username: Some(username), groups: Some(groups), ..UserInfo::default() })
}

fn texts<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Option<Vec<String>> {
    attributes.map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect()
}

/// Asks the API server who may what.
pub struct Gate {
    client: Client,
    /// Whom tokens have to be made out to; the API server itself, if this is empty.
    audiences: Vec<String>,
    questions: Semaphore,
    refused: Mutex<Refused>,
}

impl Gate {
    /// Takes tokens that are made out to one of `audiences`; to the API server, if there are none.
    pub fn new(client: Client, audiences: Vec<String>) -> Self {
        Self { client, audiences, questions: Semaphore::new(QUESTIONS), refused: Mutex::default() }
    }

    /// Has these routes answer callers alone who show a token and have the right to the path.
    pub fn guard(self, routes: Router) -> Router {
        routes.route_layer(from_fn_with_state(Arc::new(self), admit))
    }

    /// Returns the user, if the call may be answered.
    pub async fn check(
        &self,
        peer: &Peer,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<UserInfo, Denied> {
        let user = match (&peer.0, bearer(headers)) {
            (Some(user), _) => user.clone(),
            (None, Some(token)) => self.user_with(token).await?,
            (None, None) => return Err(Denied::Unauthenticated),
        };
        let verb = verb(method);
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let on_path =
            SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() };
        if self.may(&user, on_path).await? {
            return Ok(user);
        }
        Err(Denied::Forbidden { user: user.username.unwrap_or_default(), verb, what: format!("path {path:?}") })
    }

    /// Asks the API server by which name it knows this process.
    pub async fn own_name(&self) -> Result<String, Denied> {
        let answer = self.ask(&SelfSubjectReview::default()).await?;
        let user = answer.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }

    async fn user_with(&self, token: &str) -> Result<UserInfo, Denied> {
        if !tokens::is_plausible(token) || self.refused(|refused| refused.contains(token, Instant::now())) {
            return Err(Denied::Unauthenticated);
        }
        let audiences = Some(self.audiences.clone()).filter(|audiences| !audiences.is_empty());
        let spec = TokenReviewSpec { token: token.to_owned(), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.ask(&review).await?;
        let user = answer.status.and_then(|status| accepted(status, &self.audiences));
        user.ok_or_else(|| {
            self.refused(|refused| refused.insert(token, Instant::now()));
            Denied::Unauthenticated
        })
    }

    fn refused<T>(&self, work: impl FnOnce(&mut Refused) -> T) -> T {
        work(&mut lock(&self.refused))
    }

    /// Asks the API server whether the user may do this.
    pub async fn may(&self, user: &UserInfo, asked: SubjectAccessReviewSpec) -> Result<bool, Denied> {
        let user = user.clone();
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            ..asked
        };
        let answer = self.ask(&SubjectAccessReview { spec, ..SubjectAccessReview::default() }).await?;
        let status = answer.status.unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }

    async fn ask<K>(&self, review: &K) -> Result<K, Denied>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        // Never closed.
        let _permit = self.questions.acquire().await;
        let reviews: Api<K> = Api::all(self.client.clone());
        reviews.create(&PostParams::default(), review).await.map_err(|error| Denied::Unavailable(error.into()))
    }
}

/// Has the call answered, if its sender may make it.
async fn admit(State(gate): State<Arc<Gate>>, call: Request, next: Next) -> Response {
    let (parts, body) = call.into_parts();
    let checked = gate.check(&Peer::default(), &parts.method, parts.uri.path(), &parts.headers).await;
    match checked {
        Ok(_) => next.run(Request::from_parts(parts, body)).await,
        Err(denied) => denied.response(),
    }
}

/// Whom the token is of. An API server that knows nothing of audiences does not repeat them: its word then says nothing.
fn accepted(status: TokenReviewStatus, audiences: &[String]) -> Option<UserInfo> {
    let given = status.audiences.unwrap_or_default();
    let is_for_us = audiences.is_empty() || given.iter().any(|audience| audiences.contains(audience));
    status.user.filter(|_| status.authenticated == Some(true) && is_for_us)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// The verb that Kubernetes' proxies make of a method.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use axum::body::Body as CallBody;
    use axum::http::{Request, Response};
    use axum::routing::get;
    use kube::client::Body;
    use rcgen::{DistinguishedName, DnType, DnValue};
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use super::*;

    #[test]
    fn only_a_bearer_token_is_one() {
        let token = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            bearer(&headers).map(str::to_owned)
        };
        for value in ["Bearer abc", "bearer  abc", "BEARER abc "] {
            assert_eq!(token(value).as_deref(), Some("abc"), "{value}");
        }
        for value in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(token(value), None, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_put_is_an_update() {
        assert_eq!([verb(&Method::PUT), verb(&Method::GET), verb(&Method::HEAD)], ["update", "get", "get"]);
    }

    #[test]
    fn without_a_certificate_nobody_is_known() {
        assert_eq!(Peer::of(&[]), Peer::default());
        assert_eq!(Peer::of(&[CertificateDer::from(vec![1, 2, 3])]), Peer::default());
    }

    fn named(names: &[(DnType, DnValue)]) -> Option<UserInfo> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            parameters.distinguished_name.push(kind.clone(), value.clone());
        }
        let certificate = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        user_of(certificate.der())
    }

    /// rcgen takes each type once, but this is another way to say the same.
    fn again(last: u64) -> DnType {
        DnType::CustomDnType(vec![2, 5, 4, last])
    }

    #[test]
    fn a_certificate_names_the_user_that_go_would_see() {
        let text = |text: &str| DnValue::Utf8String(text.to_owned());
        let (name, organization) = (DnType::CommonName, DnType::OrganizationName);
        let user = named(&[
            (name.clone(), text("system:masters")),
            (organization.clone(), text("first")),
            (again(3), text("nobody")),
            (again(10), text("second")),
        ])
        .unwrap();
        assert_eq!(user.username.as_deref(), Some("nobody"), "the last common name");
        assert_eq!(user.groups.unwrap(), ["first", "second", AUTHENTICATED]);
        assert_eq!(named(&[(organization.clone(), text("o"))]), None, "no common name");
        assert_eq!(named(&[(name.clone(), text("a")), (again(3), text(""))]), None, "the last one is empty");
        let unreadable = DnValue::BmpString("root".try_into().unwrap());
        assert_eq!(named(&[(name.clone(), text("a")), (again(3), unreadable.clone())]), None);
        assert_eq!(named(&[(name, text("a")), (organization, unreadable)]), None);
    }

    #[test]
    fn a_token_for_somebody_else_is_none() {
        let status = |authenticated: bool, audiences: Option<&[&str]>| TokenReviewStatus {
            authenticated: Some(authenticated),
            audiences: audiences.map(|audiences| audiences.iter().map(|&audience| audience.to_owned()).collect()),
            user: Some(UserInfo { username: Some("u".to_owned()), ..UserInfo::default() }),
            ..TokenReviewStatus::default()
        };
        let ours = ["rukpak".to_owned(), "core".to_owned()];
        assert!(accepted(status(true, None), &[]).is_some());
        assert!(accepted(status(true, Some(&["core"])), &ours).is_some());
        for refused in [status(false, Some(&["core"])), status(true, Some(&["api"])), status(true, None)] {
            assert!(accepted(refused, &ours).is_none());
        }
        assert!(accepted(status(false, None), &[]).is_none());
    }

    /// An API server that knows whom every token is of, and says this about what they may.
    fn gate(may: Value) -> Gate {
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_about_token = request.uri().path().ends_with("/tokenreviews");
            let known = json!({"authenticated": true, "user": {"username": "u"}});
            let answer = json!({"spec": {}, "status": if is_about_token { &known } else { &may }});
            ready(Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes()))))
        });
        Gate::new(Client::new(service, "default"), Vec::new())
    }

    #[tokio::test]
    async fn a_token_without_the_right_is_forbidden() {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer abc".parse().unwrap())]);
        let forbidden = "Forbidden: user \"u\" cannot get path \"/bundles/b.tgz\"";
        for (may, expected) in [
            (json!({"allowed": true}), Ok("u")),
            (json!({"allowed": false}), Err(forbidden)),
            (json!({"allowed": true, "denied": true}), Err(forbidden)),
        ] {
            let answer = gate(may.clone()).check(&Peer::default(), &Method::GET, "/bundles/b.tgz", &headers).await;
            let answer = answer.map(|user| user.username.unwrap_or_default()).map_err(|denied| denied.to_string());
            assert_eq!(answer.as_deref().map_err(String::as_str), expected, "{may}");
        }
    }

    #[tokio::test]
    async fn guarded_routes_answer_whoever_may() {
        for (token, may, expected) in [
            (None, true, StatusCode::UNAUTHORIZED),
            (Some("Bearer abc"), false, StatusCode::FORBIDDEN),
            (Some("Bearer abc"), true, StatusCode::OK),
        ] {
            let routes = gate(json!({"allowed": may})).guard(Router::new().route("/metrics", get(async || "shown")));
            let mut call = Request::get("/metrics");
            if let Some(token) = token {
                call = call.header(header::AUTHORIZATION, token);
            }
            let answer = routes.oneshot(call.body(CallBody::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), expected, "{token:?} {may}");
        }
    }
}
