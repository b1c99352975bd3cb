//! What is known of Kubernetes' own kinds without a cluster: their names, and that the data of ConfigMaps and Secrets is text.

use rukpak_plain::{Few, Object, shortened};
use serde_json::Value;

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

/// How many bytes of a key are shown.
const KEY_BYTES: usize = 64;

/// What no cluster will take of these objects, or not as it was meant.
pub(super) fn warnings(objects: &[Object]) -> Few<String> {
    let mut warnings = Few::default();
    for object in objects {
        if let Some(warning) = unknown_kind(object) {
            warnings.push_with(|| warning);
        }
        not_text(object, &mut warnings);
    }
    warnings
}

fn unknown_kind(object: &Object) -> Option<String> {
    let (_, kinds) = KINDS.iter().find(|(group, _)| *group == object.group())?;
    let kind = object.kind();
    if kinds.contains(&kind) {
        return None;
    }
    let like = kinds.iter().min_by_key(|known| distance(known, kind)).filter(|known| distance(known, kind) <= 2);
    let like = like.map(|known| format!(": is {known} meant?")).unwrap_or_default();
    Some(format!("{}: Kubernetes has no kind {kind} in {}{like}", object.origin(), object.api_version()))
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

/// Values of ConfigMaps and Secrets that the API server refuses: YAML makes numbers and booleans of what has no quotes. A
/// Secret's `stringData` was looked at before.
fn not_text(object: &Object, warnings: &mut Few<String>) {
    if !object.group().is_empty() || !["ConfigMap", "Secret"].contains(&object.kind()) {
        return;
    }
    for field in ["data", "binaryData"] {
        let Some(Value::Object(values)) = object.as_map().get(field) else { continue };
        for (key, value) in values {
            let what = match value {
                Value::String(_) | Value::Null => continue,
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::Array(_) => "a list",
                Value::Object(_) => "a mapping",
            };
            let key = shortened(key, KEY_BYTES);
            warnings.push_with(|| {
                format!("{}, {field}[{key:?}] is {what}, not a string: quote the value", object.origin())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use rukpak_plain::Origin;
    use serde_json::json;

    use super::*;

    fn of(object: Value) -> Vec<String> {
        warnings(&[Object::new(object, Origin::made_from("a test")).unwrap()]).lines()
    }

    #[test]
    fn kinds_of_kubernetes_are_known_and_others_nobodys_business() {
        let object =
            |version: &str, kind: &str| of(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}));
        for (version, kind) in [
            ("v1", "Secret"),
            ("apps/v1", "Deployment"),
            ("policy/v1beta1", "PodDisruptionBudget"),
            ("example.com/v1", "Deploymnt"),
            ("apps.example.com/v1", "Deploymnt"),
            ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
        ] {
            assert!(object(version, kind).is_empty(), "{version} {kind}");
        }
        let told = object("apps/v1", "Deploymnt");
        assert!(told[0].ends_with("Kubernetes has no kind Deploymnt in apps/v1: is Deployment meant?"), "{told:?}");
        assert!(object("v1", "configmap")[0].ends_with("is ConfigMap meant?"));
        assert!(object("v1", "Deployment")[0].ends_with("Kubernetes has no kind Deployment in v1"));
    }

    #[test]
    fn data_is_text() {
        let data = json!({"n": 1, "b": true, "l": [], "m": {}, "s": "1", "z": null});
        for (kind, field, count) in [
            ("ConfigMap", "data", 4),
            ("ConfigMap", "binaryData", 4),
            ("Secret", "data", 4),
            ("ConfigMap", "more", 0),
            ("Pod", "data", 0),
        ] {
            let told = of(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, field: data}));
            assert_eq!(told.len(), count, "{kind} {field}: {told:?}");
        }
        let told = of(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"n": 1}}));
        assert!(told[0].ends_with(", data[\"n\"] is a number, not a string: quote the value"), "{told:?}");
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
