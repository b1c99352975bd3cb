//! Which kinds the cluster serves.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList};
use kube::Client;
use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind, verbs};
use rukpak_format::{Proxy, proxy};
use rukpak_plan::Kind;
use rukpak_plan::plan::Served;
use rukpak_runtime::process::bounded_client;

use super::{Cluster, Error};
use crate::output::warn;

/// Which versions of a group are asked for.
#[derive(Clone, Copy)]
enum Versions {
    Preferred,
    All,
}

impl Versions {
    fn of(self, group: APIGroup) -> Vec<String> {
        let asked = match self {
            Self::Preferred => {
                group.preferred_version.or_else(|| group.versions.into_iter().next()).into_iter().collect()
            }
            Self::All => group.versions,
        };
        asked.into_iter().map(|version| version.group_version).collect()
    }
}

/// What the cluster serves.
#[derive(Default)]
struct Discovery {
    /// With what can be done with their objects.
    resources: Vec<(Kind, Vec<String>)>,
    /// Versions of aggregated APIs whose server does not answer.
    silent: Vec<String>,
}

impl Discovery {
    fn add(&mut self, api_version: &str, list: APIResourceList) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resources = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        self.resources.extend(resources.map(|resource| {
            let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
            let named = Arc::new(ApiResource::from_gvk_with_plural(&gvk, &resource.name));
            (Kind { resource: named, namespaced: resource.namespaced }, resource.verbs)
        }));
    }

    /// The kinds that were told of. Of the others it is said that they are not known.
    fn known(self) -> Vec<Kind> {
        warn(self.silent.iter().map(|api| format!("the API {api} does not answer: what it serves is not known")));
        self.resources.into_iter().map(|(kind, _)| kind).collect()
    }
}

impl Cluster {
    /// Looks kinds up, each given as apiVersion and kind.
    pub async fn served(&self, kinds: BTreeSet<(String, String)>) -> Result<Served, Error> {
        let mut served = Served::new();
        for (api_version, kind) in kinds {
            let found = self.kind(&api_version, &kind).await?;
            served.insert((api_version, kind), found);
        }
        Ok(served)
    }

    /// A kind; `None` if it is not served.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, Error> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        match pinned_kind(&self.client, &GroupVersionKind::gvk(group, version, kind)).await {
            Ok((resource, capabilities)) => {
                Ok(Some(Kind { resource: Arc::new(resource), namespaced: capabilities.scope == Scope::Namespaced }))
            }
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// All kinds of objects in namespaces that can be listed and deleted, in one version each: what is only computed is nobody's.
    ///
    /// # Errors
    /// [`Error::Silent`] as well: what it has might be overlooked.
    pub async fn namespaced_kinds(&self) -> Result<Vec<Kind>, Error> {
        let Discovery { resources, silent } = self.discover(Versions::Preferred).await?;
        if let Some(api) = silent.into_iter().next() {
            return Err(Error::Silent(api));
        }
        let is_kept =
            |known: &[String]| [verbs::LIST, verbs::DELETE].iter().all(|verb| known.iter().any(|it| it == verb));
        let kept = resources.into_iter().filter(|(kind, verbs)| kind.namespaced && is_kept(verbs));
        Ok(kept.map(|(kind, _)| kind).collect())
    }

    /// The kinds that go by a name: `Deployment`, `deployments` or `deployments.apps`, in any case.
    pub async fn kinds(&self, name: &str) -> Result<Vec<Kind>, Error> {
        let kinds = self.discover(Versions::Preferred).await?.known().into_iter();
        Ok(kinds.filter(|kind| is_called(&kind.resource, name)).collect())
    }

    /// What is served, as charts ask for it: `apps/v1`, `apps/v1/Deployment`.
    pub async fn api_versions(&self) -> Result<BTreeSet<String>, Error> {
        let kinds = self.discover(Versions::All).await?.known();
        let versions = kinds.iter().map(|kind| kind.resource.api_version.clone());
        let named = kinds.iter().map(|kind| format!("{}/{}", kind.resource.api_version, kind.resource.kind));
        Ok(versions.chain(named).collect())
    }

    /// Asks what is served. A group that goes meanwhile has nothing.
    async fn discover(&self, versions: Versions) -> Result<Discovery, Error> {
        let mut discovery = Discovery::default();
        let core = self.client.list_core_api_resources("v1").await.map_err(|error| self.fault(error))?;
        discovery.add("v1", core);

        let impatient = self.impatient_client()?;
        let groups = self.client.list_api_groups().await.map_err(|error| self.fault(error))?.groups;
        for version in groups.into_iter().flat_map(|group| versions.of(group)) {
            let mut listed = impatient.list_api_group_resources(&version).await;
            if code(&listed) == Some(429) {
                listed = self.client.list_api_group_resources(&version).await;
            }
            match (code(&listed), listed) {
                (Some(404), _) => {}
                (Some(503), _) => discovery.silent.push(version),
                (_, listed) => discovery.add(&version, listed.map_err(|error| self.fault(error))?),
            }
        }
        Ok(discovery)
    }

    /// A client that tries nothing again: an API without a server is answered for with 503, and would be asked until time is over.
    fn impatient_client(&self) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.default_retry = false;
        bounded_client(config).map_err(|error| self.fault(error))
    }

    /// `gitVersion` of the API server.
    pub async fn kubernetes(&self) -> Result<String, Error> {
        let version = self.client.apiserver_version().await;
        version.map(|version| version.git_version).map_err(|error| self.fault(error))
    }

    /// The proxy that operators are told of, where the cluster has a kind for it.
    pub async fn proxy(&self) -> Result<Proxy, Error> {
        // Whoever lacks the right to read it would be refused a kind that is not there, too.
        let api_version = format!("{}/{}", proxy::GROUP, proxy::VERSION);
        let Some(kind) = self.kind(&api_version, proxy::KIND).await? else { return Ok(Proxy::default()) };
        let found = self.api(&kind.resource, None).get_opt(proxy::NAME).await.map_err(|error| self.fault(error))?;
        Ok(found.map_or_else(Proxy::default, |found| Proxy::read(&found.data)))
    }
}

/// The code of a refusal.
fn code<T>(answer: &Result<T, kube::Error>) -> Option<u16> {
    match answer {
        Err(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

fn is_called(resource: &ApiResource, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let (name, group) = name.split_once('.').map_or((name.as_str(), None), |(name, group)| (name, Some(group)));
    let is_named = [resource.kind.to_ascii_lowercase(), resource.plural.clone()].iter().any(|known| known == name);
    is_named && group.is_none_or(|group| group == resource.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_go_by_kind_plural_and_group() {
        let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "deployments");
        for name in ["Deployment", "deployment", "deployments", "deployments.apps", "Deployment.apps"] {
            assert!(is_called(&resource, name), "{name}");
        }
        for name in ["deploy", "deployments.batch", "deployments.", ""] {
            assert!(!is_called(&resource, name), "{name}");
        }
    }
}
