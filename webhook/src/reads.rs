//! What the rules need to know of the cluster, read when it is asked: nothing is kept, so nothing is out of date.
//!
//! Rights: create of SubjectAccessReviews, which are questions and are not kept; get of CustomResourceDefinitions and BundleDeployments, list of Bundles, get of ConfigMaps and of the Namespace in the
//! system namespace; and, in a role that the controller keeps, list of the kinds that CRDs of BundleDeployments define.
//!
//! Whoever calls chooses the names that are read, so what is no name is not put into a path; and how much is listed, so a page has
//! a size that it does not exceed, and is taken apart on another thread.

use std::time::Duration;

use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, Resource as _};
use rukpak_crd_upgrade::{ObjectCheck, SAFE_UPGRADE_ANNOTATION};
use rukpak_crds::validate::is_name;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::handlers::apart;
use crate::review::UserInfo;
use crate::rules::account::Identity;
use crate::rules::config_map::{Use, use_of};

/// So many objects are asked for at a time, at first.
const PAGE: u32 = 250;
/// Largest page. Where it does not suffice, half as many objects are asked for; the API server takes objects up to 3 MiB.
pub const PAGE_BYTES: usize = 8 << 20;

/// Reads, by their purpose.
pub trait Reads: Send + Sync {
    /// Whether a ConfigMap of the system namespace is immutable; `None` if it does not exist.
    fn is_immutable<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Option<bool>, Error>>;
    /// The Bundles that name a ConfigMap.
    fn uses<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Vec<Use>, Error>>;
    /// Whether the annotation of this BundleDeployment switches the check of its CRDs off. One that does not exist
    /// switches nothing off.
    fn is_unchecked<'a>(&'a self, deployment: &'a str) -> BoxFuture<'a, Result<bool, Error>>;
    /// The UID of a CRD; `None` if it does not exist.
    fn definition_uid<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, Error>>;
    /// A CRD; `None` if it does not exist.
    fn definition<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, Error>>;
    /// The objects to check, from the page behind `after` on.
    fn objects<'a>(&'a self, check: &'a ObjectCheck, after: Option<Next>) -> BoxFuture<'a, Result<Page, Error>>;
    /// Whether the user may impersonate somebody.
    fn may_impersonate<'a>(&'a self, user: &'a UserInfo, whom: &'a Identity) -> BoxFuture<'a, Result<bool, Error>>;
    /// Whether the user may create ClusterServiceVersions in the namespace.
    fn may_create_versions<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Result<bool, Error>>;
}

/// Some of the objects of a kind.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects, as they came.
    pub objects: Vec<Box<RawValue>>,
    /// Where the next page begins; `None` behind the last.
    pub next: Option<Next>,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The API server's word for it.
    pub token: String,
    /// How many objects are asked for.
    pub limit: u32,
}

/// A read that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Of a ConfigMap.
    #[error("cannot get configmap {0:?}")]
    ConfigMap(String, #[source] Box<kube::Error>),
    /// Of the Bundles.
    #[error("cannot list bundles")]
    Bundles(#[source] Box<kube::Error>),
    /// Of a BundleDeployment.
    #[error("cannot get bundledeployment {0:?}")]
    Deployment(String, #[source] Box<kube::Error>),
    /// Of a CRD.
    #[error("cannot get customresourcedefinition {0:?}")]
    Crd(String, #[source] Box<kube::Error>),
    /// Of custom resources, by their group, version and kind. The words are RukPak's.
    #[error("error listing objects for {0}")]
    Objects(String, #[source] Box<kube::Error>),
    /// Of what a user may do.
    #[error("cannot ask what user {0:?} may do")]
    Access(String, #[source] Box<kube::Error>),
    /// There are more objects than are looked at.
    #[error("there are {0} objects or more, which is more than the webhook looks at")]
    TooMany(usize),
    /// There was no time to look at them all.
    #[error("the existing objects could not be looked at within {0:?}")]
    TooLong(Duration),
}

impl Error {
    /// Whether the objects may not be listed, or not yet.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Objects(_, source) if matches!(source.as_ref(), kube::Error::Api(status) if status.code == 403))
    }
}

/// Reads from the API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    config_maps: Api<ConfigMap>,
    bundles: ApiResource,
    deployments: Api<DynamicObject>,
    definitions: Api<DynamicObject>,
}

/// A list, its objects as they came.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

impl Cluster {
    /// With the client's rights; ConfigMaps are those of `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        let own = |kind, plural| resource("core.rukpak.io", "v1alpha1", kind, plural);
        let definition =
            resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
        Self {
            config_maps: Api::namespaced(client.clone(), namespace),
            bundles: own("Bundle", "bundles"),
            deployments: Api::all_with(client.clone(), &own("BundleDeployment", "bundledeployments")),
            definitions: Api::all_with(client.clone(), &definition),
            client,
        }
    }

    async fn bundles_with(&self, config_map: &str) -> Result<Vec<Use>, kube::Error> {
        let (mut uses, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(&self.bundles, after).await?;
            let name = config_map.to_owned();
            let objects = page.objects;
            uses.extend(
                apart(true, move || {
                    let bundles = objects.iter().filter_map(|text| serde_json::from_str::<Value>(text.get()).ok());
                    bundles.filter_map(|bundle| use_of(&bundle, &name)).collect::<Vec<_>>()
                })
                .await,
            );
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(uses),
            }
        }
    }

    async fn ask(&self, user: &UserInfo, attributes: ResourceAttributes) -> Result<bool, kube::Error> {
        let spec = SubjectAccessReviewSpec {
            user: Some(user.username.clone()),
            uid: Some(user.uid.clone()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let question = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &question).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn page(&self, resource: &ApiResource, after: Option<Next>) -> Result<Page, kube::Error> {
        let (token, mut limit) = after.map_or((None, PAGE), |next| (Some(next.token), next.limit));
        let url = DynamicObject::url_path(resource, None);
        let body = loop {
            let parameters = ListParams { continue_token: token.clone(), ..ListParams::default().limit(limit) };
            let request = kube::core::Request::new(url.clone()).list(&parameters).map_err(kube::Error::BuildRequest)?;
            match self.text(request.map(Into::into)).await? {
                Some(body) => break body,
                None => limit = (limit / 2).max(1),
            }
        };
        let list: List = apart(true, move || serde_json::from_slice(&body)).await.map_err(kube::Error::SerdeError)?;
        let token = list.metadata.token.filter(|token| !token.is_empty());
        Ok(Page { objects: list.items, next: token.map(|token| Next { token, limit }) })
    }

    /// The answer to a request; `None` if it is larger than a page. An error for one that is no success.
    async fn text(&self, request: http::Request<kube::client::Body>) -> Result<Option<Vec<u8>>, kube::Error> {
        let answer = self.client.send(request).await?;
        let is_success = answer.status().is_success();
        match Limited::new(answer.into_body(), PAGE_BYTES).collect().await {
            Ok(body) if is_success => Ok(Some(body.to_bytes().to_vec())),
            Ok(body) => {
                let status = serde_json::from_slice(&body.to_bytes()).map_err(kube::Error::SerdeError)?;
                Err(kube::Error::Api(status))
            }
            Err(error) if error.is::<LengthLimitError>() => Ok(None),
            Err(error) => Err(kube::Error::Service(error)),
        }
    }
}

impl Reads for Cluster {
    fn is_immutable<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Option<bool>, Error>> {
        Box::pin(async move {
            if !is_name(config_map) {
                return Ok(None);
            }
            let found = self.config_maps.get_opt(config_map).await;
            let found = found.map_err(|error| Error::ConfigMap(config_map.to_owned(), Box::new(error)))?;
            Ok(found.map(|config_map| config_map.immutable == Some(true)))
        })
    }

    fn uses<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Vec<Use>, Error>> {
        Box::pin(async move { self.bundles_with(config_map).await.map_err(|error| Error::Bundles(Box::new(error))) })
    }

    fn is_unchecked<'a>(&'a self, deployment: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            if !is_name(deployment) {
                return Ok(false);
            }
            let found = self.deployments.get_opt(deployment).await;
            let found = found.map_err(|error| Error::Deployment(deployment.to_owned(), Box::new(error)))?;
            let annotations = found.and_then(|deployment| deployment.metadata.annotations).unwrap_or_default();
            Ok(annotations.get(SAFE_UPGRADE_ANNOTATION).is_some_and(|value| value == "false"))
        })
    }

    fn definition_uid<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            if !is_name(name) {
                return Ok(None);
            }
            let found: Result<Option<PartialObjectMeta<DynamicObject>>, _> =
                self.definitions.get_metadata_opt(name).await;
            let found = found.map_err(|error| Error::Crd(name.to_owned(), Box::new(error)))?;
            Ok(found.and_then(|definition| definition.metadata.uid))
        })
    }

    fn definition<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            if !is_name(name) {
                return Ok(None);
            }
            let found = self.definitions.get_opt(name).await;
            let found = found.map_err(|error| Error::Crd(name.to_owned(), Box::new(error)))?;
            // An object that came as JSON goes back to it.
            Ok(found.map(|definition| serde_json::to_value(definition).unwrap_or_default()))
        })
    }

    fn objects<'a>(&'a self, check: &'a ObjectCheck, after: Option<Next>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let ObjectCheck { group, list_version, kind, plural, .. } = check;
            let failed = |error| Error::Objects(format!("{group}/{list_version}, Kind={kind}"), Box::new(error));
            // What is in no group, or has no name, is no custom resource.
            if ![group, list_version, plural].into_iter().all(|part| is_name(part)) {
                return Ok(Page::default());
            }
            match self.page(&resource(group, list_version, kind, plural), after).await {
                // A CRD that was never served has no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Page::default()),
                page => page.map_err(failed),
            }
        })
    }

    fn may_impersonate<'a>(&'a self, user: &'a UserInfo, whom: &'a Identity) -> BoxFuture<'a, Result<bool, Error>> {
        let (resource, namespace, name) = match whom {
            Identity::ServiceAccount(account) => ("serviceaccounts", Some(account.namespace.clone()), &account.name),
            Identity::User(name) => ("users", None, name),
        };
        let attributes = ResourceAttributes {
            verb: Some("impersonate".to_owned()),
            resource: Some(resource.to_owned()),
            namespace,
            name: Some(name.clone()),
            ..ResourceAttributes::default()
        };
        Box::pin(async move {
            self.ask(user, attributes).await.map_err(|error| Error::Access(user.username.clone(), Box::new(error)))
        })
    }

    fn may_create_versions<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        let attributes = ResourceAttributes {
            verb: Some("create".to_owned()),
            group: Some("operators.coreos.com".to_owned()),
            resource: Some("clusterserviceversions".to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ResourceAttributes::default()
        };
        Box::pin(async move {
            self.ask(user, attributes).await.map_err(|error| Error::Access(user.username.clone(), Box::new(error)))
        })
    }
}
