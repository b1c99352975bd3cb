//! The order of applying, and the reverse order of deleting.

/// A group of kinds that are applied together; the next group begins when this one is done.
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
