//! Who asks, and whether they may: a client certificate or a bearer token, then a SubjectAccessReview on the URL's path. For an upload
//! there is another, on the object that the content is installed for: a path says nothing of whose Bundle it is.
//! Asks the API server at each call, so that a right that was taken away is gone at once; but not about what cannot be a token,
//! nor again about one that was refused just now, and a few at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::{HeaderMap, Method, header};
use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use rukpak_crds::ServiceAccountReference;
use rukpak_runtime::api;
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer as _, X509Certificate};

use super::tokens::{self, Refused};

/// Every user that is known at all is in this group.
const AUTHENTICATED: &str = "system:authenticated";
/// Calls that the API server is asked about at once; more wait.
const QUESTIONS: usize = 16;

/// The group of Bundles and BundleDeployments.
const GROUP: &str = "core.rukpak.io";

/// Whose content an upload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadOwner {
    /// `bundledeployments`, or `bundles` for one that nobody owns.
    pub resource: &'static str,
    /// The name of the object.
    pub name: String,
    /// With whose rights the content is installed.
    pub installed_by: InstalledBy,
}

/// With whose rights the content of a Bundle is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstalledBy {
    /// With those of the ServiceAccount that is named.
    Account(ServiceAccountReference),
    /// With those of this controller, which nobody gets unasked (`--require-service-account`).
    Controller,
    /// With nobody's, or with the controller's where that asks for nothing.
    Unasked,
}

/// The other end of a connection, as far as its certificate tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer(Option<UserInfo>);

/// Why a call is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// Nobody knows who it is.
    #[error("Unauthorized: give a bearer token of this cluster, or a client certificate")]
    Unauthenticated,
    #[error("Forbidden: user {user:?} cannot {verb} path {path:?}")]
    Forbidden { user: String, verb: &'static str, path: String },
    /// They may upload, and not for this Bundle.
    #[error("Forbidden: user {user:?} cannot {verb} {what}, whose content this is")]
    Foreign {
        user: String,
        /// What they would need.
        verb: &'static str,
        what: String,
    },
    /// The API server does not say.
    #[error("the API server cannot be asked who you are and what you may do; try again")]
    Unavailable(#[source] api::Error),
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

    /// Returns the user, if the call may be answered.
    ///
    /// # Errors
    /// Why it may not.
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
        Err(Denied::Forbidden { user: user.username.unwrap_or_default(), verb, path: path.to_owned() })
    }

    /// Checks that the user may decide what the Bundle holds: may write the object that it belongs to, and act with the rights that its
    /// objects are installed with.
    ///
    /// # Errors
    /// What they may not.
    pub async fn check_upload(&self, user: &UserInfo, owner: &UploadOwner) -> Result<(), Denied> {
        let may = async |verb: &str, group: &str, resource: &str, namespace: Option<String>, name: &str| {
            let attributes = ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                namespace,
                name: Some(name.to_owned()),
                ..ResourceAttributes::default()
            };
            let on_object =
                SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() };
            self.may(user, on_object).await
        };
        let foreign = |verb, what| Denied::Foreign { user: user.username.clone().unwrap_or_default(), verb, what };

        // Either verb writes the spec.
        let (resource, name) = (owner.resource, &owner.name);
        if !may("update", GROUP, resource, None, name).await? && !may("patch", GROUP, resource, None, name).await? {
            return Err(foreign("update", format!("{resource}.{GROUP} {name:?}")));
        }
        let installer = match &owner.installed_by {
            InstalledBy::Account(account) => account.user_name(),
            InstalledBy::Controller => self.own_name().await?,
            InstalledBy::Unasked => return Ok(()),
        };
        if user.username.as_ref() == Some(&installer) {
            return Ok(());
        }
        let (may, what) = match account_of(&installer) {
            Some(account) => {
                let (namespace, name) = (Some(account.namespace.clone()), &account.name);
                (may("impersonate", "", "serviceaccounts", namespace, name).await?, account.to_string())
            }
            None => (may("impersonate", "", "users", None, &installer).await?, format!("user {installer:?}")),
        };
        if may { Ok(()) } else { Err(foreign("impersonate", what)) }
    }

    /// Asks the API server by which name it knows this process.
    async fn own_name(&self) -> Result<String, Denied> {
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
        work(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn may(&self, user: &UserInfo, asked: SubjectAccessReviewSpec) -> Result<bool, Denied> {
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

/// The ServiceAccount of a user name, if it is one.
fn account_of(user_name: &str) -> Option<ServiceAccountReference> {
    let (namespace, name) = user_name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(ServiceAccountReference { name: name.to_owned(), namespace: namespace.to_owned() })
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

    use http::{Request, Response};
    use kube::client::Body;
    use rcgen::{DistinguishedName, DnType, DnValue};
    use serde_json::{Value, json};

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
}
