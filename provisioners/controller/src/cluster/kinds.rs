//! Discovery: from apiVersion and kind to a resource, with a cache that forgets what turns out stale.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_plain::Object;

use super::Error;

/// A kind that the API server serves, or will once a definition of the same bundle is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// A kind that nobody serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingKind {
    /// `group/version`, or `version` in the core group.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}

impl fmt::Display for MissingKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no matches for kind {:?} in version {:?}", self.kind, self.api_version)
    }
}

impl MissingKind {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// The kinds of the cluster, by apiVersion.
pub struct Kinds {
    client: Client,
    versions: Mutex<HashMap<String, HashMap<String, Kind>>>,
}

impl Kinds {
    pub(super) fn new(client: Client) -> Self {
        Self { client, versions: Mutex::default() }
    }

    /// The kind, asking the API server if it is not in the cache. `None` if it is not served.
    pub async fn get(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, Error> {
        if let Some(found) = self.cached(api_version, kind) {
            return Ok(Some(found));
        }
        let list = match self.fetch(api_version).await {
            Ok(list) => list,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let kinds = read(api_version, list);
        let found = kinds.get(kind).cloned();
        self.lock().insert(api_version.to_owned(), kinds);
        Ok(found)
    }

    /// Forgets what is known of `api_version`: a definition of it came, changed or went.
    pub fn forget(&self, group: &str) {
        let prefix = format!("{group}/");
        self.lock().retain(|api_version, _| !api_version.starts_with(&prefix));
    }

    fn cached(&self, api_version: &str, kind: &str) -> Option<Kind> {
        self.lock().get(api_version)?.get(kind).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, HashMap<String, Kind>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self, api_version: &str) -> Result<APIResourceList, Error> {
        let list = if api_version.contains('/') {
            self.client.list_api_group_resources(api_version).await
        } else {
            self.client.list_core_api_resources(api_version).await
        };
        list.map_err(Error::from)
    }
}

fn read(api_version: &str, list: APIResourceList) -> HashMap<String, Kind> {
    list.resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| {
            let gvk = gvk(api_version, &resource.kind);
            let kind = Kind {
                resource: ApiResource::from_gvk_with_plural(&gvk, &resource.name),
                namespaced: resource.namespaced,
            };
            (resource.kind, kind)
        })
        .collect()
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

/// The kinds that a CustomResourceDefinition of the bundle brings: they need no discovery.
pub fn defined_by(definition: &Object) -> Vec<Kind> {
    let text = |path: &[&str]| definition.field(path).and_then(serde_json::Value::as_str).unwrap_or_default();
    let versions = definition.field(&["spec", "versions"]).and_then(serde_json::Value::as_array);
    let listed = versions.into_iter().flatten().filter(|version| version["served"].as_bool().unwrap_or(false));
    let listed = listed.filter_map(|version| version["name"].as_str());
    // v1beta1 may name one version and list none.
    let only = Some(text(&["spec", "version"])).filter(|version| versions.is_none() && !version.is_empty());
    listed
        .chain(only)
        .map(|version| Kind {
            resource: ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(text(&["spec", "group"]), version, text(&["spec", "names", "kind"])),
                text(&["spec", "names", "plural"]),
            ),
            namespaced: text(&["spec", "scope"]) == "Namespaced",
        })
        .collect()
}
