//! Kubernetes' own kinds, known without a cluster.

use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};

use crate::Kind;

/// Kubernetes' own groups with their kinds, of all versions that anybody may still have. Only what can be applied.
const KINDS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("apps", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling", &["HorizontalPodAutoscaler"]),
    ("batch", &["CronJob", "Job"]),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"]),
    ("coordination.k8s.io", &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("events.k8s.io", &["Event"]),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("networking.k8s.io", &["IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["PodDisruptionBudget", "PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
];

/// Those of the kinds whose objects are in no namespace.
const CLUSTER_SCOPED: &[&str] = &[
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PodSecurityPolicy",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// A kind of Kubernetes' own.
pub fn kind(api_version: &str, kind: &str) -> Option<Kind> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // Their plurals are regular.
    let resource = || Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)));
    let is_known = builtin(group, kind) == Builtin::Kind;
    is_known.then(|| Kind { resource: resource(), namespaced: !CLUSTER_SCOPED.contains(&kind) })
}

/// What is known of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    /// It is one of Kubernetes.
    Kind,
    /// The group is one of Kubernetes and has no such kind, but this one, which is written nearly so.
    Like(&'static str),
    /// The group is one of Kubernetes and has no such kind.
    Unknown,
    /// The group is somebody else's.
    OtherGroup,
}

/// Looks a kind up, whatever its version.
pub fn builtin(group: &str, kind: &str) -> Builtin {
    let Some((_, kinds)) = KINDS.iter().find(|(known, _)| *known == group) else { return Builtin::OtherGroup };
    if kinds.contains(&kind) {
        return Builtin::Kind;
    }
    let like = kinds.iter().min_by_key(|known| distance(known, kind)).filter(|known| distance(known, kind) <= 2);
    like.map_or(Builtin::Unknown, |known| Builtin::Like(known))
}

/// Edits that make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (down, a) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = down + 1;
        for (across, b) in other.bytes().enumerate() {
            let replaced = before + usize::from(!a.eq_ignore_ascii_case(&b));
            before = row[across + 1];
            row[across + 1] = replaced.min(before + 1).min(row[across] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_group_and_misspelt_ones_recognized() {
        assert_eq!(builtin("apps", "Deployment"), Builtin::Kind);
        assert_eq!(builtin("apps", "Deploymnt"), Builtin::Like("Deployment"));
        assert_eq!(builtin("", "Deployment"), Builtin::Unknown);
        assert_eq!(builtin("apps.example.com", "Deploymnt"), Builtin::OtherGroup);
    }

    #[test]
    fn resources_are_named_as_api_servers_name_them() {
        for (api_version, kind, plural, namespaced) in [
            ("v1", "Endpoints", "endpoints", true),
            ("v1", "Namespace", "namespaces", false),
            ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
            ("networking.k8s.io/v1", "Ingress", "ingresses", true),
            ("storage.k8s.io/v1", "StorageClass", "storageclasses", false),
            ("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", true),
        ] {
            let found = super::kind(api_version, kind).unwrap();
            assert_eq!((found.resource.plural.as_str(), found.namespaced), (plural, namespaced), "{kind}");
        }
        assert_eq!(super::kind("example.com/v1", "Widget"), None);
    }

    #[test]
    fn edits_are_counted() {
        for (one, other, edits) in
            [("", "ab", 2), ("kitten", "sitting", 3), ("Pod", "pod", 0), ("Deployment", "Deploymnt", 1)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (edits, edits), "{one} {other}");
        }
    }
}
