//! Objects of any kind: those that a BundleDeployment has put into the cluster, and one that somebody asks about.

use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use rukpak_crds::{BundleDeployment, HealthCheck, InventoryKind};
use rukpak_plan::health::has_rule;
use rukpak_plan::{Kind, Owner};

use super::any::types_of;
use super::{Cluster, Error, owner_labels};

impl Cluster {
    /// The objects of one kind that belong to a BundleDeployment. Of kinds whose content says nothing of their health, such as
    /// Secrets, only the metadata is read. `None` if the cluster does not serve the kind.
    pub async fn owned(
        &self,
        deployment: &BundleDeployment,
        kind: &InventoryKind,
    ) -> Result<Option<Vec<DynamicObject>>, Error> {
        let gvk = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let Some(Kind { resource, .. }) = self.kind(&gvk.api_version(), &kind.kind).await? else { return Ok(None) };
        let owner = Owner { name: deployment.name_any(), uid: deployment.uid().unwrap_or_default() };
        let parameters = ListParams::default().labels(&owner_labels(&owner.name));
        let api = self.api(&resource, None);
        let is_checked = |check: &HealthCheck| check.objects.is_of_kind(&kind.group, &kind.kind);
        let listed = if has_rule(&kind.group, &kind.kind) || deployment.spec.health_checks.iter().any(is_checked) {
            api.list(&parameters).await.map(|list| list.items)
        } else {
            api.list_metadata(&parameters).await.map(|list| list.items.into_iter().map(metadata_alone).collect())
        };
        let mut objects = listed.map_err(|error| self.fault(error))?;
        objects.retain(|object| owner.owns_fully(&object.metadata));
        for object in &mut objects {
            object.types = Some(types_of(&resource));
        }
        Ok(Some(objects))
    }

    /// One object, if it is there.
    pub async fn object(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, Error> {
        let namespace = namespace.unwrap_or(&self.config.default_namespace);
        let api = self.api(&kind.resource, kind.namespaced.then_some(namespace));
        api.get_opt(name).await.map_err(|error| self.fault(error))
    }
}

fn metadata_alone(object: kube::core::PartialObjectMeta<DynamicObject>) -> DynamicObject {
    DynamicObject { types: None, metadata: object.metadata, data: serde_json::Value::Null }
}
