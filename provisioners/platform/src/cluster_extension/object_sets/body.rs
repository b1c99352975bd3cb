//! What a ClusterObjectSet says that shows a revision, and the Secrets with what it holds. Pure; phases, names and labels are upstream's.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use rukpak_content::Digest;
use rukpak_crds::names::SHOWN_RELEASE;
use rukpak_crds::olm::cluster_object_set::{ObjectReference, ObjectSetObject, ObjectSetPhase};
use rukpak_crds::olm::{ClusterExtension, ClusterObjectSet, ClusterObjectSetSpec, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use rukpak_plan::manifests::SECRET_BYTES;
use serde_json::Value;

use crate::cluster_extension::revisions::ActiveRevision;
use crate::installed::Identity;
use crate::owned::controlled_by;

/// Label of a Secret: the set that names it.
const REVISION_NAME_LABEL: &str = "olm.operatorframework.io/revision-name";
/// Type of a Secret with objects.
const OBJECT_DATA: &str = "olm.operatorframework.io/object-data";
/// Annotation of a set, and of a ClusterServiceVersion: properties of the bundle.
const PROPERTIES: &str = "olm.properties";
/// The same in what is rendered: all annotations of a ClusterServiceVersion are those of its Pods too.
const POD_PROPERTIES: &str = "/spec/template/metadata/annotations/olm.properties";

/// Digits of a digest in the names of Secrets.
const DIGITS: usize = 16;
/// The most objects of a phase.
const OBJECTS_MAX: usize = 50;
/// The most phases of a set.
const PHASES_MAX: usize = 20;

/// The phases in their order.
const PHASES: [&str; 13] = [
    "namespaces",
    "policies",
    "identity",
    "configuration",
    "storage",
    "crds",
    "roles",
    "bindings",
    "infrastructure",
    "deploy",
    "scaling",
    "publish",
    "admission",
];
/// What is left of the metadata of an object.
const METADATA: [&str; 4] = ["annotations", "labels", "name", "namespace"];

/// What a set holds.
pub(super) struct Packed {
    pub phases: Vec<ObjectSetPhase>,
    /// What the phases refer to.
    pub secrets: Vec<Secret>,
    /// Properties of the bundle, if a Deployment tells them.
    pub properties: Option<String>,
}

/// Sorts the manifests into phases of a set of the extension, and puts them into Secrets. Another `nonce` gives the Secrets other names.
pub(super) fn pack(
    extension: &str,
    (name, nonce): (&str, &str),
    namespace: &str,
    manifests: Vec<Value>,
) -> Result<Packed, String> {
    let properties =
        manifests.iter().find_map(|manifest| manifest.pointer(POD_PROPERTIES)?.as_str()).map(str::to_owned);
    let mut manifests: Vec<Value> = manifests.into_iter().map(sanitized).collect();
    manifests.sort_by(|one, other| order(one).cmp(&order(other)));
    let mut parts = Parts { extension, name, nonce, namespace, all: Vec::new(), filled: 0 };
    let mut phases = Vec::new();
    for phase in PHASES {
        let of_phase: Vec<&Value> = manifests.iter().filter(|manifest| phase_of(manifest) == phase).collect();
        for (number, objects) in of_phase.chunks(OBJECTS_MAX).enumerate() {
            let name = if number == 0 { phase.to_owned() } else { format!("{phase}-{}", number + 1) };
            let objects = objects.iter().map(|manifest| parts.add(manifest)).collect::<Result<_, _>>()?;
            phases.push(ObjectSetPhase { name, objects, collision_protection: None });
        }
    }
    if phases.len() > PHASES_MAX {
        return Err(format!("it has more objects than {PHASES_MAX} phases of {OBJECTS_MAX} hold"));
    }
    Ok(Packed { phases, secrets: parts.all, properties })
}

/// The set that shows the revision, whose release has this record.
pub(super) fn set(
    extension: &ClusterExtension,
    (revision, record): (&ActiveRevision, &str),
    packed: &Packed,
) -> ClusterObjectSet {
    let spec = ClusterObjectSetSpec {
        revision: revision.number,
        phases: packed.phases.clone(),
        progress_deadline_minutes: extension.spec.progress_deadline_minutes,
        ..ClusterObjectSetSpec::default()
    };
    let mut set = ClusterObjectSet::new(&revision.name(&extension.name_any()), spec);
    let mut annotations = revision.bundle.as_ref().map(Identity::annotations).unwrap_or_default();
    annotations.insert(SHOWN_RELEASE.to_owned(), record.to_owned());
    annotations.extend(packed.properties.clone().map(|properties| (PROPERTIES.to_owned(), properties)));
    set.metadata.annotations = Some(annotations);
    set.metadata.labels = Some(BTreeMap::from([
        (OWNER_KIND_LABEL.to_owned(), ClusterExtension::kind(&()).into_owned()),
        (OWNER_NAME_LABEL.to_owned(), extension.name_any()),
    ]));
    set.metadata.owner_references = Some(controlled_by(extension));
    set
}

/// The Secret, which goes with the set that names it.
pub(super) fn owned(mut secret: Secret, set: &ClusterObjectSet) -> Secret {
    secret.metadata.owner_references = Some(controlled_by(set));
    secret
}

/// What is being put into Secrets.
struct Parts<'a> {
    extension: &'a str,
    name: &'a str,
    nonce: &'a str,
    namespace: &'a str,
    all: Vec<Secret>,
    /// Bytes in the last one.
    filled: usize,
}

impl Parts<'_> {
    /// Puts a manifest into a Secret, compressed if it is larger alone; returns what a phase says in place of it.
    fn add(&mut self, manifest: &Value) -> Result<ObjectSetObject, String> {
        let mut body = manifest.to_string().into_bytes();
        if body.len() > SECRET_BYTES {
            body = compressed(&body);
        }
        let size = body.len();
        if size > SECRET_BYTES {
            let (_, _, kind) = kind_of(manifest);
            return Err(format!("{kind} {:?} is too large for a Secret", text(manifest, "/metadata/name")));
        }

        let key = Digest::sha256(&body).hex().to_owned();
        if self.filled + size > SECRET_BYTES || self.all.is_empty() {
            let empty = self.empty();
            self.all.push(empty);
            self.filled = 0;
        }
        self.filled += size;
        let secret = self.all.last_mut().ok_or("there is no Secret")?;
        secret.data.get_or_insert_default().insert(key.clone(), ByteString(body));
        let (name, namespace) = (secret.name_any(), Some(self.namespace.to_owned()));
        Ok(ObjectSetObject { reference: Some(ObjectReference { name, namespace, key }), ..ObjectSetObject::default() })
    }

    /// The next Secret, with nothing in it.
    fn empty(&self) -> Secret {
        let digest = Digest::sha256(format!("{} {}", self.nonce, self.all.len()).as_bytes());
        let mut secret = Secret { immutable: Some(true), type_: Some(OBJECT_DATA.to_owned()), ..Secret::default() };
        secret.metadata.name = Some(format!("{}-{}", self.name, digest.hex().get(..DIGITS).unwrap_or_default()));
        secret.metadata.namespace = Some(self.namespace.to_owned());
        secret.metadata.labels = Some(BTreeMap::from([
            (REVISION_NAME_LABEL.to_owned(), self.name.to_owned()),
            (OWNER_NAME_LABEL.to_owned(), self.extension.to_owned()),
        ]));
        secret
    }
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// Without a status, and what is not the author's in the metadata.
fn sanitized(mut manifest: Value) -> Value {
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.remove("status");
    }
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| METADATA.contains(&key.as_str()));
    }
    manifest
}

fn text<'a>(manifest: &'a Value, pointer: &str) -> &'a str {
    manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Group, version and kind.
fn kind_of(manifest: &Value) -> (&str, &str, &str) {
    let version = text(manifest, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    (group, version, text(manifest, "/kind"))
}

/// The order within a phase.
fn order(manifest: &Value) -> [&str; 5] {
    let (group, version, kind) = kind_of(manifest);
    [group, version, kind, text(manifest, "/metadata/namespace"), text(manifest, "/metadata/name")]
}

fn phase_of(manifest: &Value) -> &'static str {
    let (group, _, kind) = kind_of(manifest);
    match (group, kind) {
        ("", "Namespace") => "namespaces",
        ("networking.k8s.io", "NetworkPolicy")
        | ("policy", "PodDisruptionBudget")
        | ("scheduling.k8s.io", "PriorityClass") => "policies",
        ("", "ServiceAccount") => "identity",
        ("", "Secret" | "ConfigMap") => "configuration",
        ("", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io", "StorageClass") => "storage",
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "crds",
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => "roles",
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => "bindings",
        ("", "Service") | ("cert-manager.io", "Issuer" | "Certificate") => "infrastructure",
        ("autoscaling.k8s.io", "VerticalPodAutoscaler") => "scaling",
        ("monitoring.coreos.com", "PrometheusRule" | "ServiceMonitor" | "PodMonitor")
        | ("networking.k8s.io", "Ingress")
        | ("route.openshift.io", "Route")
        | ("console.openshift.io", _) => "publish",
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            "admission"
        }
        _ => "deploy",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use serde_json::json;

    use super::*;

    fn object(version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "n"}})
    }

    fn packed(manifests: Vec<Value>) -> Packed {
        pack("e", ("e-1", "nonce"), "system", manifests).unwrap()
    }

    /// What a phase refers to.
    fn read(packed: &Packed, object: &ObjectSetObject) -> Vec<u8> {
        let reference = object.reference.as_ref().unwrap();
        assert_eq!(reference.namespace.as_deref(), Some("system"));
        let secret = packed.secrets.iter().find(|secret| secret.name_any() == reference.name).unwrap();
        secret.data.as_ref().unwrap()[&reference.key].0.clone()
    }

    #[test]
    fn objects_come_in_upstreams_phases_and_order() {
        let kinds = [
            ("example.com/v1", "Anything"),
            ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
            ("console.openshift.io/v1", "ConsolePlugin"),
            ("apps/v1", "Deployment"),
            ("rbac.authorization.k8s.io/v1", "RoleBinding"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("v1", "Service"),
            ("v1", "Secret"),
            ("v1", "ConfigMap"),
            ("v1", "ServiceAccount"),
            ("v1", "Namespace"),
        ];
        let packed = packed(kinds.iter().map(|(version, kind)| object(version, kind, "x")).collect());
        let told: Vec<(&str, Vec<String>)> = packed
            .phases
            .iter()
            .map(|phase| {
                let objects =
                    phase.objects.iter().map(|object| serde_json::from_slice::<Value>(&read(&packed, object)));
                (phase.name.as_str(), objects.map(|object| text(&object.unwrap(), "/kind").to_owned()).collect())
            })
            .collect();
        let expected: [(&str, &[&str]); 9] = [
            ("namespaces", &["Namespace"]),
            ("identity", &["ServiceAccount"]),
            ("configuration", &["ConfigMap", "Secret"]),
            ("roles", &["ClusterRole"]),
            ("bindings", &["RoleBinding"]),
            ("infrastructure", &["Service"]),
            ("deploy", &["Deployment", "Anything"]),
            ("publish", &["ConsolePlugin"]),
            ("admission", &["MutatingWebhookConfiguration"]),
        ];
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for ((phase, kinds), expected) in told.iter().zip(expected) {
            assert_eq!(
                (*phase, kinds.iter().map(String::as_str).collect::<Vec<_>>()),
                (expected.0, expected.1.to_vec())
            );
        }
    }

    #[test]
    fn many_objects_are_spread_over_phases_until_there_are_too_many() {
        let of = |count: usize| (0..count).map(|number| object("v1", "ConfigMap", &number.to_string())).collect();
        let packed = packed(of(51));
        let told: Vec<_> = packed.phases.iter().map(|phase| (phase.name.as_str(), phase.objects.len())).collect();
        assert_eq!(told, [("configuration", 50), ("configuration-2", 1)]);
        assert!(pack("e", ("e-1", "nonce"), "system", of(1_001)).is_err());
    }

    #[test]
    fn large_objects_are_compressed_and_secrets_hold_no_more_than_they_can() {
        let large = |name: &str, size: usize| {
            let mut object = object("v1", "ConfigMap", name);
            object["data"] = json!({"x": "x".repeat(size)});
            object
        };
        let packed =
            packed(vec![large("a", SECRET_BYTES), large("b", SECRET_BYTES - 500), large("c", SECRET_BYTES - 500)]);
        let [a, b, c] = packed.phases[0].objects.as_slice() else { panic!("{:?}", packed.phases) };
        let mut text = String::new();
        GzDecoder::new(read(&packed, a).as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), large("a", SECRET_BYTES));
        assert_eq!(serde_json::from_slice::<Value>(&read(&packed, b)).unwrap(), large("b", SECRET_BYTES - 500));
        let names = [b, c].map(|object| object.reference.as_ref().unwrap().name.clone());
        assert_ne!(names[0], names[1]);
        let size = |secret: &Secret| secret.data.iter().flatten().map(|(_, value)| value.0.len()).sum::<usize>();
        assert!(packed.secrets.iter().all(|secret| size(secret) <= SECRET_BYTES));
        let other = pack("e", ("e-1", "other"), "system", vec![object("v1", "ConfigMap", "a")]).unwrap();
        let name = other.secrets[0].name_any();
        assert!(packed.secrets.iter().all(|secret| secret.name_any() != name), "those of a set that went may go");
    }

    #[test]
    fn a_set_and_its_secrets_tell_whose_they_are() {
        let extension: ClusterExtension = serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e", "uid": "u"},
            "spec": {"namespace": "ns", "progressDeadlineMinutes": 20,
                     "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        }))
        .unwrap();
        let [package, name, version, reference] = ["p", "p.v1.0.0", "1.0.0", "r.example/p:1"].map(str::to_owned);
        let revision = ActiveRevision {
            number: 1,
            version: "1.0.0".to_owned(),
            stage: crate::cluster_extension::revisions::Stage::Applied,
            release: rukpak_crds::ReleaseRecord::default(),
            bundle: Some(Identity { package, name, version, reference, release: None }),
        };
        let mut deployment = object("apps/v1", "Deployment", "d");
        deployment["metadata"]["ownerReferences"] = json!([{"uid": "x"}]);
        deployment["status"] = json!({"replicas": 1});
        deployment["spec"]["template"]["metadata"]["annotations"]["olm.properties"] = json!("[]");
        let packed = packed(vec![deployment]);
        let mut set = set(&extension, (&revision, "record"), &packed);
        let kept: Value = serde_json::from_slice(&read(&packed, &set.spec.phases[0].objects[0])).unwrap();
        assert_eq!((&kept["status"], &kept["metadata"]), (&Value::Null, &json!({"name": "d", "namespace": "n"})));
        assert_eq!((set.name_any().as_str(), set.spec.revision), ("e-1", 1));
        assert_eq!(set.spec.progress_deadline_minutes, Some(20));
        assert_eq!(set.labels()[OWNER_KIND_LABEL], "ClusterExtension");
        assert_eq!(set.labels()[OWNER_NAME_LABEL], "e");
        let annotations = [
            ("olm.operatorframework.io/package-name", "p"),
            ("olm.operatorframework.io/bundle-name", "p.v1.0.0"),
            ("olm.operatorframework.io/bundle-version", "1.0.0"),
            ("olm.operatorframework.io/bundle-reference", "r.example/p:1"),
            ("olm.properties", "[]"),
            (SHOWN_RELEASE, "record"),
        ];
        assert_eq!(set.annotations().len(), annotations.len());
        assert!(annotations.iter().all(|(key, value)| set.annotations()[*key] == *value));
        let owner = &set.owner_references()[0];
        assert_eq!((owner.uid.as_str(), owner.controller), ("u", Some(true)));

        set.metadata.uid = Some("s".to_owned());
        assert_eq!(packed.secrets.len(), 1);
        let secret = owned(packed.secrets[0].clone(), &set);
        assert_eq!((secret.immutable, secret.type_.as_deref()), (Some(true), Some(OBJECT_DATA)));
        assert_eq!(secret.labels()[REVISION_NAME_LABEL], "e-1");
        assert_eq!(secret.labels()[OWNER_NAME_LABEL], "e");
        assert_eq!(secret.owner_references()[0].uid, "s");
    }
}
