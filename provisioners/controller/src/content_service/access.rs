//! Who asks, and whether they may: a client certificate or a bearer token, then a SubjectAccessReview on the URL's path.
//! Asks the API server at each call, so that a right that was taken away is gone at once.

use axum::http::{HeaderMap, Method, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::cluster;

/// Every user that is known at all is in this group.
const AUTHENTICATED: &str = "system:authenticated";

/// The other end of a connection, as far as its certificate tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer(Option<UserInfo>);

/// Why a call is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Nobody knows who it is.
    #[error("Unauthorized: give a bearer token of this cluster, or a client certificate")]
    Unauthenticated,
    /// They may not.
    #[error("Forbidden: user {user:?} cannot {verb} path {path:?}")]
    Forbidden {
        /// Who.
        user: String,
        /// What.
        verb: &'static str,
        /// Where.
        path: String,
    },
    /// The API server does not say.
    #[error("the API server cannot be asked who you are and what you may do; try again")]
    Unavailable(#[source] cluster::Error),
}

impl Peer {
    /// The user that a verified chain names: its common name, and the organizations for groups, as Kubernetes has it.
    pub fn of(chain: Option<&[CertificateDer<'_>]>) -> Self {
        Self(chain.and_then(<[_]>::first).and_then(user_of))
    }
}

fn user_of(certificate: &CertificateDer<'_>) -> Option<UserInfo> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?;
    let organizations = parsed.subject().iter_organization().filter_map(|part| part.as_str().ok());
    let groups = organizations.chain([AUTHENTICATED]).map(str::to_owned).collect();
    let username = Some(name.to_owned()).filter(|name| !name.is_empty())?;
    Some(UserInfo { username: Some(username), groups: Some(groups), ..UserInfo::default() })
}

/// Whether the call may be answered.
///
/// # Errors
/// Why not.
pub async fn check(
    client: &Client,
    peer: &Peer,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<(), Denied> {
    let user = match (&peer.0, bearer(headers)) {
        (Some(user), _) => user.clone(),
        (None, Some(token)) => user_with(client, token).await?,
        (None, None) => return Err(Denied::Unauthenticated),
    };
    let verb = verb(method);
    let name = user.username.clone().unwrap_or_default();
    if may(client, user, verb, path).await? {
        return Ok(());
    }
    Err(Denied::Forbidden { user: name, verb, path: path.to_owned() })
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

async fn user_with(client: &Client, token: &str) -> Result<UserInfo, Denied> {
    let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let status = answer.map_err(|error| Denied::Unavailable(error.into()))?.status.unwrap_or_default();
    status.user.filter(|_| status.authenticated == Some(true)).ok_or(Denied::Unauthenticated)
}

async fn may(client: &Client, user: UserInfo, verb: &str, path: &str) -> Result<bool, Denied> {
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &SubjectAccessReview { spec, ..Default::default() }).await;
    let status = answer.map_err(|error| Denied::Unavailable(error.into()))?.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

#[cfg(test)]
mod tests {
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
        assert_eq!(Peer::of(None), Peer::default());
        assert_eq!(Peer::of(Some(&[CertificateDer::from(vec![1, 2, 3])])), Peer::default());
    }
}
