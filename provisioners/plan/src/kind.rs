//! Kinds that an API server serves, objects of them, and the order in which kinds are applied.

use std::fmt;
use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::{InventoryKind, ObjectSelector};
use rukpak_plain::{Object, ObjectKey};
use serde_json::Value;

/// A kind that the API server serves, or will once a CRD of the same bundle is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Group, version, kind and plural; shared by everything that is of the kind.
    pub resource: Arc<ApiResource>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// As an inventory lists it.
    pub fn inventory(&self) -> InventoryKind {
        let ApiResource { group, version, kind, .. } = &*self.resource;
        InventoryKind { group: group.clone(), version: version.clone(), kind: kind.clone() }
    }
}

/// Which object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Identity {
    /// The same without the version.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.kind.resource.group.clone(),
            kind: self.kind.resource.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.kind.resource.kind, self.name)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace:?}"),
            None => Ok(()),
        }
    }
}

/// A kind that nobody serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingKind {
    /// `group/version`, or `version` in the core group.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}

impl MissingKind {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version, without the group.
    pub fn version(&self) -> &str {
        self.api_version.split_once('/').map_or(&self.api_version, |(_, version)| version)
    }
}

impl fmt::Display for MissingKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no matches for kind {:?} in version {:?}", self.kind, self.api_version)
    }
}

/// Whether a rule of a BundleDeployment is about an object.
pub(crate) fn is_selected(rule: &ObjectSelector, key: &ObjectKey) -> bool {
    rule.selects(&key.group, &key.kind, key.namespace.as_deref(), &key.name)
}

/// Whether the key is that of a CustomResourceDefinition.
pub fn is_crd(key: &ObjectKey) -> bool {
    key.group == "apiextensions.k8s.io" && key.kind == "CustomResourceDefinition"
}

/// Whether the key is that of a Job.
pub(crate) fn is_job(key: &ObjectKey) -> bool {
    key.group == "batch" && key.kind == "Job"
}

/// The kinds that a CRD of the bundle defines: they need no discovery.
pub fn defined_by(crd: &Object) -> Vec<Kind> {
    let text = |path: &[&str]| crd.field(path).and_then(Value::as_str).unwrap_or_default();
    let versions = crd.field(&["spec", "versions"]).and_then(Value::as_array);
    let listed = versions.into_iter().flatten().filter(|version| version["served"].as_bool().unwrap_or(false));
    let listed = listed.filter_map(|version| version["name"].as_str());
    // v1beta1 may name one version and list none.
    let only = Some(text(&["spec", "version"])).filter(|version| versions.is_none() && !version.is_empty());
    listed
        .chain(only)
        .map(|version| Kind {
            resource: Arc::new(ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(text(&["spec", "group"]), version, text(&["spec", "names", "kind"])),
                text(&["spec", "names", "plural"]),
            )),
            namespaced: text(&["spec", "scope"]) == "Namespaced",
        })
        .collect()
}

/// A group of kinds that are applied together; the next group begins when all of this one was written, and what the API server
/// has to do first, such as serving a CRD, is done. It does not wait for Pods: an operator may need what comes after it.
///
/// The order is the union of what Helm, Flux and OLM v1 do, with one difference: a bundle's own custom resources come after
/// its workloads and before its webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Namespaces, PriorityClasses.
    Namespaces,
    /// CustomResourceCrds; the phase ends when they are served.
    Crds,
    /// ServiceAccounts, roles, quotas and policies.
    Identities,
    /// RoleBindings and ClusterRoleBindings: whoever may not bind every role is asked to hold the rules of the one that is bound, so that
    /// it has to be there.
    Bindings,
    /// ConfigMaps, Secrets.
    Configuration,
    /// StorageClasses, volumes and claims.
    Storage,
    /// Services.
    Services,
    /// Deployments and all that makes Pods.
    Workloads,
    /// Everything of a kind that is not built in.
    CustomResources,
    /// Webhook configurations and APIServices: last, so that what answers for them is there.
    Admission,
}

impl Phase {
    /// All phases in order.
    pub const ALL: [Self; 10] = [
        Self::Namespaces,
        Self::Crds,
        Self::Identities,
        Self::Bindings,
        Self::Configuration,
        Self::Storage,
        Self::Services,
        Self::Workloads,
        Self::CustomResources,
        Self::Admission,
    ];

    /// The phase of a kind.
    pub fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace") | ("scheduling.k8s.io", _) => Self::Namespaces,
            ("apiextensions.k8s.io", _) => Self::Crds,
            ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => Self::Bindings,
            ("", "ServiceAccount" | "LimitRange" | "ResourceQuota")
            | ("rbac.authorization.k8s.io" | "policy", _)
            | ("networking.k8s.io", "NetworkPolicy" | "IngressClass") => Self::Identities,
            ("", "ConfigMap" | "Secret") => Self::Configuration,
            ("", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io", _) => Self::Storage,
            ("", "Service" | "Endpoints") | ("discovery.k8s.io", _) => Self::Services,
            ("admissionregistration.k8s.io" | "apiregistration.k8s.io", _) => Self::Admission,
            (group, _) if is_built_in(group) => Self::Workloads,
            _ => Self::CustomResources,
        }
    }
}

/// Whether a group is served by the API server itself. Such groups have no dot, or end in `.k8s.io` and are on this list;
/// `*.x-k8s.io` and other `*.k8s.io` groups are custom resources of the project.
fn is_built_in(group: &str) -> bool {
    matches!(
        group,
        "" | "apps"
            | "autoscaling"
            | "batch"
            | "extensions"
            | "authentication.k8s.io"
            | "authorization.k8s.io"
            | "certificates.k8s.io"
            | "coordination.k8s.io"
            | "events.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "internal.apiserver.k8s.io"
            | "networking.k8s.io"
            | "node.k8s.io"
            | "resource.k8s.io"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_applied_from_its_namespace_to_its_webhooks() {
        let order = [
            ("", "Namespace"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("", "ConfigMap"),
            ("", "PersistentVolumeClaim"),
            ("", "Service"),
            ("apps", "Deployment"),
            ("example.com", "Widget"),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ];
        assert_eq!(order.map(|(group, kind)| Phase::of(group, kind)), Phase::ALL);
        assert_eq!(Phase::of("snapshot.storage.k8s.io", "VolumeSnapshot"), Phase::CustomResources);
        assert_eq!(Phase::of("networking.k8s.io", "Ingress"), Phase::Workloads);
    }
}
