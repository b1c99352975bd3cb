//! Which kinds the cluster serves.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope, pinned_kind, verbs};
use rukpak_format::{Proxy, proxy};
use rukpak_plan::Kind;
use rukpak_plan::plan::Served;

use super::{Cluster, Error};

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
    pub async fn namespaced_kinds(&self) -> Result<Vec<Kind>, Error> {
        let discovery = Discovery::new(self.client.clone()).run().await.map_err(|error| self.fault(error))?;
        let all = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        let listed = all.filter(|(_, capabilities)| {
            let is_kept = [verbs::LIST, verbs::DELETE].iter().all(|verb| capabilities.supports_operation(verb));
            capabilities.scope == Scope::Namespaced && is_kept
        });
        Ok(listed.map(|(resource, _)| Kind { resource: Arc::new(resource), namespaced: true }).collect())
    }

    /// What is served, as charts ask for it: `apps/v1`, `apps/v1/Deployment`.
    pub async fn api_versions(&self) -> Result<BTreeSet<String>, Error> {
        let discovery = Discovery::new(self.client.clone()).run().await.map_err(|error| self.fault(error))?;
        let mut all = BTreeSet::new();
        for group in discovery.groups() {
            for version in group.versions() {
                for (resource, _) in group.versioned_resources(version) {
                    all.insert(format!("{}/{}", resource.api_version, resource.kind));
                    all.insert(resource.api_version);
                }
            }
        }
        Ok(all)
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
