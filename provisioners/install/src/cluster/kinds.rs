//! Discovery: from apiVersion and kind to a resource, with a cache that forgets what turns out stale.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::InventoryKind;
use rukpak_plan::Kind;
use rukpak_runtime::lock::lock;

use super::Error;

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
        lock(&self.versions).insert(api_version.to_owned(), kinds);
        Ok(found)
    }

    /// The kind in the version that is known of it, or else in any other that is served, but for those that are known not to be.
    /// `None` if none is.
    pub async fn any_version(&self, kind: &InventoryKind, unserved: &BTreeSet<String>) -> Result<Option<Kind>, Error> {
        let api_version = |version: &str| {
            if kind.group.is_empty() { version.to_owned() } else { format!("{}/{version}", kind.group) }
        };
        if !unserved.contains(&kind.version)
            && let Some(found) = self.get(&api_version(&kind.version), &kind.kind).await?
        {
            return Ok(Some(found));
        }
        if kind.group.is_empty() {
            return Ok(None);
        }
        let groups = self.client.list_api_groups().await?.groups;
        let versions = groups.into_iter().filter(|group| group.name == kind.group).flat_map(|group| group.versions);
        for version in
            versions.filter(|version| version.version != kind.version && !unserved.contains(&version.version))
        {
            if let Some(found) = self.get(&version.group_version, &kind.kind).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What is served, as charts ask for it: `v1`, `v1/Pod`, `apps/v1`, `apps/v1/Deployment`. A version whose server does not answer is
    /// not among them; who needs a kind of it waits for it anyway.
    pub async fn api_versions(&self) -> Result<BTreeSet<String>, Error> {
        let groups = self.client.list_api_groups().await?.groups;
        let versions = groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version);
        let mut all = BTreeSet::new();
        for version in std::iter::once("v1".to_owned()).chain(versions) {
            let list = match self.fetch(&version).await {
                Ok(list) => list,
                Err(error) if error.is_not_found() || error.is_unavailable() => {
                    tracing::warn!(version, %error, "cannot ask what is served; charts are rendered without it");
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_kind = |resource: &&APIResource| !resource.name.contains('/');
            all.extend(list.resources.iter().filter(is_kind).map(|resource| format!("{version}/{}", resource.kind)));
            all.insert(version);
        }
        Ok(all)
    }

    /// Every kind whose objects can be listed and deleted, in one version of it: what cannot be deleted (measurements, offers of
    /// catalogs) is made of other objects. A group that goes away meanwhile has none.
    pub(crate) async fn listable(&self) -> Result<Vec<Kind>, Error> {
        let mut all = listable("v1", self.fetch("v1").await?);
        for group in self.client.list_api_groups().await?.groups {
            let Some(version) = group.preferred_version.or_else(|| group.versions.first().cloned()) else { continue };
            match self.fetch(&version.group_version).await {
                Ok(list) => all.extend(listable(&version.group_version, list)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Forgets what is known of all versions of `group`: a CRD of it came, changed or went.
    pub fn forget(&self, group: &str) {
        let prefix = format!("{group}/");
        lock(&self.versions).retain(|api_version, _| !api_version.starts_with(&prefix));
    }

    fn cached(&self, api_version: &str, kind: &str) -> Option<Kind> {
        lock(&self.versions).get(api_version)?.get(kind).cloned()
    }

    async fn fetch(&self, api_version: &str) -> Result<APIResourceList, Error> {
        if api_version.contains('/') {
            self.client.list_api_group_resources(api_version).await.map_err(Error::from)
        } else {
            self.client.list_core_api_resources(api_version).await.map_err(Error::from)
        }
    }
}

fn listable(api_version: &str, mut list: APIResourceList) -> Vec<Kind> {
    let can = |resource: &APIResource, verb: &str| resource.verbs.iter().any(|known| known == verb);
    list.resources.retain(|resource| can(resource, "list") && can(resource, "delete"));
    read(api_version, list).into_values().collect()
}

fn read(api_version: &str, list: APIResourceList) -> HashMap<String, Kind> {
    list.resources
        .into_iter()
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| {
            let gvk = gvk(api_version, &resource.kind);
            let kind = Kind {
                resource: Arc::new(ApiResource::from_gvk_with_plural(&gvk, &resource.name)),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_deleted_is_not_listed() {
        let resource = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
        let list = serde_json::from_value(json!({"groupVersion": "metrics.k8s.io/v1beta1", "resources": [
            resource("pods", "PodMetrics", &["get", "list"]), resource("gadgets", "Gadget", &["delete", "get", "list"])]}));
        let kinds: Vec<String> = listable("metrics.k8s.io/v1beta1", list.unwrap())
            .into_iter()
            .map(|kind| kind.resource.kind.clone())
            .collect();
        assert_eq!(kinds, ["Gadget"]);
    }
}
