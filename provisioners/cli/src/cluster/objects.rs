//! Objects of any kind: those that a BundleDeployment has put into the cluster, and one that somebody asks about.

use kube::api::{ApiResource, DynamicObject, ListParams, TypeMeta};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope, pinned_kind};
use kube::{Api, ResourceExt as _};
use rukpak_crds::{BundleDeployment, HealthCheck, InventoryKind};
use rukpak_plan::Owner;
use rukpak_plan::health::has_rule;

use super::{Cluster, Error, owner_labels};

/// A kind of objects that the cluster serves.
#[derive(Clone, Debug)]
pub struct Served {
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

impl Cluster {
    /// The objects of one kind that belong to a BundleDeployment. Of kinds whose content says nothing of their health, such as
    /// Secrets, only the metadata is read. `None` if the cluster does not serve the kind.
    pub async fn owned(
        &self,
        deployment: &BundleDeployment,
        kind: &InventoryKind,
    ) -> Result<Option<Vec<DynamicObject>>, Error> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = match pinned_kind(&self.client, &gvk).await {
            Ok((resource, _)) => resource,
            Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(self.fault(error)),
        };
        let owner = Owner { name: deployment.name_any(), uid: deployment.uid().unwrap_or_default() };
        let parameters = ListParams::default().labels(&owner_labels(&owner.name));
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let is_checked = |check: &HealthCheck| check.objects.is_of_kind(&kind.group, &kind.kind);
        let listed = if has_rule(&kind.group, &kind.kind) || deployment.spec.health_checks.iter().any(is_checked) {
            api.list(&parameters).await.map(|list| list.items)
        } else {
            api.list_metadata(&parameters).await.map(|list| list.items.into_iter().map(metadata_alone).collect())
        };
        let mut objects = listed.map_err(|error| self.fault(error))?;
        objects.retain(|object| owner.owns_fully(&object.metadata));
        for object in &mut objects {
            // A list does not say it of each.
            object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
        }
        Ok(Some(objects))
    }

    /// The kinds that go by a name: `Deployment`, `deployments` or `deployments.apps`, in any case.
    pub async fn kinds(&self, name: &str) -> Result<Vec<Served>, Error> {
        let discovery = Discovery::new(self.client.clone()).run().await.map_err(|error| self.fault(error))?;
        let all = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
        let named = all.filter(|(resource, _)| is_called(resource, name));
        let served = named.map(|(resource, capabilities)| Served {
            resource,
            is_namespaced: capabilities.scope == Scope::Namespaced,
        });
        Ok(served.collect())
    }

    /// One object, if it is there.
    pub async fn object(
        &self,
        kind: &Served,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, Error> {
        let client = self.client.clone();
        let namespace = namespace.unwrap_or(&self.config.default_namespace);
        let api: Api<DynamicObject> = if kind.is_namespaced {
            Api::namespaced_with(client, namespace, &kind.resource)
        } else {
            Api::all_with(client, &kind.resource)
        };
        api.get_opt(name).await.map_err(|error| self.fault(error))
    }
}

fn metadata_alone(object: kube::core::PartialObjectMeta<DynamicObject>) -> DynamicObject {
    DynamicObject { types: None, metadata: object.metadata, data: serde_json::Value::Null }
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
