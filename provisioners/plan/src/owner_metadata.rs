//! From an object of a bundle to the body of its apply request.

use rukpak_crds::{DeletionPolicy, names};
use rukpak_plain::{Gvk, Object};
use serde_json::{Map, Value, json};

use crate::Owner;
use crate::kind::is_crd;

/// Who applies, and where objects without a namespace go.
#[derive(Clone, Debug)]
pub struct OwnerMetadata {
    /// The BundleDeployment.
    pub owner: Owner,
    /// Namespace of namespaced objects that name none: upstream's release namespace, the system namespace.
    pub default_namespace: String,
    /// What becomes of the objects when the BundleDeployment is deleted.
    pub policy: DeletionPolicy,
}

impl OwnerMetadata {
    /// The body to apply: owner labels merged in (ours win), the controller owner reference (or, for kept objects, operator-lib's
    /// owner annotations), the namespace as the scope wants it, and without the fields that others fill in.
    pub fn body(&self, object: Object, namespaced: bool) -> Value {
        let is_common = object.annotation(names::IN_COMMON).is_some() && is_crd(&object.key());
        let keep = is_common
            || object.annotation(names::RESOURCE_POLICY) == Some("keep")
            || match self.policy {
                DeletionPolicy::Delete | DeletionPolicy::InOrder => false,
                DeletionPolicy::Orphan => true,
                DeletionPolicy::KeepCRDs => is_crd(&object.key()),
            };
        let Gvk { group, kind, .. } = object.gvk();
        // What is dropped was warned of when the bundle was unpacked.
        let cleaned = object.without_server_fields(&mut Vec::new());
        drop(object);
        let mut body = cleaned.into_value();
        leave_to_others(&group, &kind, &mut body);
        fill_in_defaults(&group, &kind, &mut body);
        let metadata = member(&mut body, "metadata");
        if namespaced {
            metadata.entry("namespace").or_insert_with(|| json!(self.default_namespace));
        } else {
            metadata.remove("namespace");
        }
        let labels = child(metadata, "labels");
        labels.insert(names::OWNER_KIND.to_owned(), json!(names::OWNER_KIND_VALUE));
        labels.insert(names::OWNER_NAME.to_owned(), json!(self.owner.name));
        if keep {
            keep_for(metadata, &self.owner.name, &self.owner.uid);
        } else {
            metadata.insert("ownerReferences".to_owned(), json!([self.owner.reference()]));
        }
        body
    }
}

/// Says in the metadata of an object that outlives its BundleDeployment which one that is.
pub(crate) fn keep_for(metadata: &mut Map<String, Value>, name: &str, uid: &str) {
    let annotations = child(metadata, "annotations");
    annotations.insert(names::PRIMARY_RESOURCE.to_owned(), json!(format!("/{name}")));
    annotations.insert(names::PRIMARY_RESOURCE_TYPE.to_owned(), json!("BundleDeployment.core.rukpak.io"));
    annotations.insert(names::OWNER_UID.to_owned(), json!(uid));
}

/// For the first write: a resource version that no object can have lets the request create, and answers 409 Conflict
/// where the object exists, in one round trip. Undocumented; the system tests guard it.
pub fn creating(mut body: Value) -> Value {
    member(&mut body, "metadata").insert("resourceVersion".to_owned(), json!("1"));
    body
}

/// For later writes: only the object with this UID, not another of the same name; and with `version` only as it was seen last.
pub fn updating(mut body: Value, uid: &str, version: Option<&str>) -> Value {
    let metadata = member(&mut body, "metadata");
    metadata.insert("uid".to_owned(), json!(uid));
    if let Some(version) = version {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    body
}

/// Fields that controllers fill in by design. Applying them would start a fight, or empty what was filled.
fn leave_to_others(group: &str, kind: &str, body: &mut Value) {
    match (group, kind) {
        // Aggregation computes the rules.
        ("rbac.authorization.k8s.io", "ClusterRole")
            if body.get("aggregationRule").is_some_and(|rule| !rule.is_null()) =>
        {
            if let Some(map) = body.as_object_mut() {
                map.remove("rules");
            }
        }
        // Injectors (cert-manager, service-ca) fill an empty caBundle.
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            for webhook in body.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
                drop_empty_bundle(webhook.get_mut("clientConfig"));
            }
        }
        ("apiregistration.k8s.io", "APIService") => drop_empty_bundle(body.get_mut("spec")),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            drop_empty_bundle(body.pointer_mut("/spec/conversion/webhook/clientConfig"));
        }
        _ => {}
    }
}

/// Defaults that have to be said. Ports are merged by port *and* protocol, and nearly every published manifest leaves the protocol to
/// its default: without both keys, fields that are left to others would be taken out of port 53 of TCP in place of that of UDP.
fn fill_in_defaults(group: &str, kind: &str, body: &mut Value) {
    match (group, kind) {
        ("", "Service") => default_protocol(body.pointer_mut("/spec/ports")),
        ("", "Pod") => default_container_ports(body.pointer_mut("/spec")),
        ("", "PodTemplate") => default_container_ports(body.pointer_mut("/template/spec")),
        ("" | "apps" | "batch", "CronJob") => {
            default_container_ports(body.pointer_mut("/spec/jobTemplate/spec/template/spec"));
        }
        ("" | "apps" | "batch", _) => default_container_ports(body.pointer_mut("/spec/template/spec")),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => default_preservation(body.get_mut("spec")),
        _ => {}
    }
}

/// A CRD that was v1beta1 once keeps its `true` where nobody says `false`, and v1 refuses most of what goes with that.
fn default_preservation(spec: Option<&mut Value>) {
    if let Some(spec) = spec.and_then(Value::as_object_mut) {
        spec.entry("preserveUnknownFields").or_insert(json!(false));
    }
}

fn default_container_ports(pod: Option<&mut Value>) {
    let Some(pod) = pod else { return };
    for list in ["containers", "initContainers"] {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_protocol(container.get_mut("ports"));
        }
    }
}

fn default_protocol(ports: Option<&mut Value>) {
    for port in ports.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.entry("protocol").or_insert_with(|| json!("TCP"));
        }
    }
}

fn drop_empty_bundle(config: Option<&mut Value>) {
    let Some(map) = config.and_then(Value::as_object_mut) else { return };
    // controller-gen's placeholder for "to be injected" is a newline in base64.
    let is_empty = map.get("caBundle").is_some_and(|value| value.is_null() || value == "" || value == "Cg==");
    if is_empty {
        map.remove("caBundle");
    }
}

fn member<'a>(body: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !body.is_object() {
        *body = json!({});
    }
    match body {
        Value::Object(map) => child(map, key),
        _ => unreachable!("it was made an object above"),
    }
}

fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let entry = map.entry(key).or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    match entry {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use rukpak_plain::Origin;

    use super::*;
    use crate::fields;

    fn body(object: Value, namespaced: bool) -> Value {
        let owner = Owner { name: "bd".to_owned(), uid: "u".to_owned() };
        let owner =
            OwnerMetadata { owner, default_namespace: "rukpak-system".to_owned(), policy: DeletionPolicy::Delete };
        owner.body(Object::new(object, Origin::made_from("a test")).unwrap(), namespaced)
    }

    #[test]
    fn labels_are_merged_and_ours_win() {
        for labels in [json!(null), json!({}), json!({"app": "x", "core.rukpak.io/owner-name": "other"})] {
            let has_app = labels.get("app").is_some();
            let made = body(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": labels}}),
                true,
            );
            let made = &made["metadata"];
            assert_eq!(made["labels"]["core.rukpak.io/owner-kind"], "BundleDeployment");
            assert_eq!(made["labels"]["core.rukpak.io/owner-name"], "bd");
            assert_eq!(made["labels"].as_object().unwrap().len(), if has_app { 3 } else { 2 });
            assert_eq!(made["namespace"], "rukpak-system");
            assert_eq!(made["ownerReferences"][0]["uid"], "u");
        }
    }

    #[test]
    fn a_kept_object_carries_annotations_and_no_reference() {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "a", "namespace": "b", "annotations": {"helm.sh/resource-policy": "keep"}}});
        let made = body(object, false);
        assert!(made["metadata"].get("ownerReferences").is_none());
        assert!(made["metadata"].get("namespace").is_none());
        assert_eq!(made["metadata"]["annotations"]["operator-sdk/primary-resource"], "/bd");
        assert_eq!(made["metadata"]["annotations"]["core.rukpak.io/owner-uid"], "u");
    }

    #[test]
    fn a_definition_that_is_used_in_common_is_kept_whatever_the_policy() {
        let object = |kind: &str, group: &str| {
            json!({"apiVersion": group, "kind": kind,
                "metadata": {"name": "a.b", "annotations": {"core.rukpak.io/in-common": "p"}}, "spec": {}})
        };
        let is_owned = |object: Value| body(object, false)["metadata"].get("ownerReferences").is_some();
        assert!(!is_owned(object("CustomResourceDefinition", "apiextensions.k8s.io/v1")));
        assert!(is_owned(object("ConfigMap", "v1")), "nothing else is");
    }

    #[test]
    fn what_controllers_fill_in_is_left_to_them() {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
            "aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": ["get"]}]});
        assert!(body(role, false).get("rules").is_none());
        let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "a"}, "webhooks": [{"clientConfig": {"caBundle": ""}}, {"clientConfig": {"caBundle": "QQ=="}}]});
        let made = body(hook, false);
        assert!(made.pointer("/webhooks/0/clientConfig/caBundle").is_none());
        assert!(made.pointer("/webhooks/1/clientConfig/caBundle").is_some());
    }

    #[test]
    fn definitions_say_that_unknown_fields_are_not_kept() {
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "a.b"}, "spec": {}});
        assert_eq!(body(definition, false)["spec"], json!({"preserveUnknownFields": false}));
    }

    #[test]
    fn ports_name_their_protocol() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}});
        let made = body(service, true);
        assert_eq!(made["spec"]["ports"], json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]));
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}]}]}}}});
        let made = body(deployment, true);
        assert_eq!(made.pointer("/spec/template/spec/containers/0/ports/0/protocol"), Some(&json!("TCP")));
    }

    #[test]
    fn a_port_is_told_from_that_of_another_protocol() {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
            "spec": {"ports": [{"port": 53, "name": "tcp"}, {"port": 53, "name": "udp", "protocol": "UDP"}]}});
        let mut made = body(service, true);
        let path = ["f:spec", "f:ports", r#"k:{"port":53,"protocol":"UDP"}"#, "f:name"].map(str::to_owned);
        fields::remove(&mut made, &path);
        let ports = json!([{"port": 53, "name": "tcp", "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
        assert_eq!(made["spec"]["ports"], ports);
    }
}
