//! What the rules need to know of the cluster, read when it is asked: nothing is kept, so nothing is out of date.
//!
//! Rights: list of everything (Bundles, and custom resources of kinds that nobody knows beforehand), get of BundleDeployments,
//! and get of ConfigMaps and of the Namespace in the system namespace.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use rukpak_plan::crd_upgrade::{ObjectCheck, SAFE_UPGRADE_ANNOTATION};
use serde_json::{Value, json};

use crate::rules::config_map::{Use, use_of};

/// So many objects are asked for at a time; a page of them is all that is held.
const PAGE: u32 = 250;

/// Reads, by their purpose.
pub trait Reads: Send + Sync {
    /// Whether a ConfigMap of the system namespace is immutable; `None` if it does not exist.
    fn is_immutable<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Option<bool>, Error>>;
    /// The Bundles that name a ConfigMap.
    fn uses<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Vec<Use>, Error>>;
    /// Whether the annotation of this BundleDeployment switches the check of its definitions off. One that does not exist
    /// switches nothing off.
    fn is_unchecked<'a>(&'a self, deployment: &'a str) -> BoxFuture<'a, Result<bool, Error>>;
    /// The objects to check, from the page behind `after` on.
    fn objects<'a>(&'a self, check: &'a ObjectCheck, after: Option<String>) -> BoxFuture<'a, Result<Page, Error>>;
}

/// Some of the objects of a kind.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects, whole.
    pub objects: Vec<Value>,
    /// Where the next page begins; `None` behind the last.
    pub next: Option<String>,
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
    /// Of custom resources, by their group, version and kind. The words are RukPak's.
    #[error("error listing objects for {0}")]
    Objects(String, #[source] Box<kube::Error>),
}

/// Reads from the API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    config_maps: Api<ConfigMap>,
    bundles: Api<DynamicObject>,
    deployments: Api<DynamicObject>,
}

impl Cluster {
    /// With the client's rights; ConfigMaps are those of `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        let own = |kind, plural| {
            let kind = GroupVersionKind::gvk("core.rukpak.io", "v1alpha1", kind);
            Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, plural))
        };
        Self {
            config_maps: Api::namespaced(client.clone(), namespace),
            bundles: own("Bundle", "bundles"),
            deployments: own("BundleDeployment", "bundledeployments"),
            client,
        }
    }

    async fn bundles_with(&self, config_map: &str) -> Result<Vec<Use>, kube::Error> {
        let mut parameters = ListParams::default().limit(PAGE);
        let mut uses = Vec::new();
        loop {
            let page = self.bundles.list(&parameters).await?;
            uses.extend(page.items.iter().filter_map(|bundle| use_of(&raw(bundle), config_map)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None => return Ok(uses),
            }
        }
    }

    async fn page(&self, check: &ObjectCheck, after: Option<String>) -> Result<Page, kube::Error> {
        let kind = GroupVersionKind::gvk(&check.group, &check.list_version, &check.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &check.plural);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let parameters = ListParams { continue_token: after, ..ListParams::default().limit(PAGE) };
        let page = match api.list(&parameters).await {
            Ok(page) => page,
            // A definition that was never served has no objects.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Page::default()),
            Err(error) => return Err(error),
        };
        let objects = page.items.iter().map(|object| {
            let mut object = raw(object);
            // Items of a list do not say what they are.
            object["apiVersion"] = json!(resource.api_version);
            object["kind"] = json!(resource.kind);
            object
        });
        Ok(Page { objects: objects.collect(), next: page.metadata.continue_.filter(|token| !token.is_empty()) })
    }
}

impl Reads for Cluster {
    fn is_immutable<'a>(&'a self, config_map: &'a str) -> BoxFuture<'a, Result<Option<bool>, Error>> {
        Box::pin(async move {
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
            let found = self.deployments.get_opt(deployment).await;
            let found = found.map_err(|error| Error::Deployment(deployment.to_owned(), Box::new(error)))?;
            let annotations = found.and_then(|deployment| deployment.metadata.annotations).unwrap_or_default();
            Ok(annotations.get(SAFE_UPGRADE_ANNOTATION).is_some_and(|value| value == "false"))
        })
    }

    fn objects<'a>(&'a self, check: &'a ObjectCheck, after: Option<String>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let ObjectCheck { group, list_version, kind, .. } = check;
            let failed = |error| Error::Objects(format!("{group}/{list_version}, Kind={kind}"), Box::new(error));
            self.page(check, after).await.map_err(failed)
        })
    }
}

fn raw(object: &DynamicObject) -> Value {
    // An object that came as JSON goes back to it.
    serde_json::to_value(object).unwrap_or_default()
}
