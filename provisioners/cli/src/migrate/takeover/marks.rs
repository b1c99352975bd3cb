//! The one write by which an object leaves OLM, and the one by which it comes back. Pure.
//!
//! An object keeps its UID and all that is in it. What changes is whose it is: OLM's labels and the owner references to the
//! ClusterServiceVersion go, the annotation comes by which the BundleDeployment may take it over, and the fields that OLM wrote and
//! that the bundle declares change hands, so that a later version can leave them out. What OLM wrote besides stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use rukpak_crds::names::{ADOPT_BY, FIELD_MANAGER, IN_COMMON, OWNER_KIND, OWNER_NAME, OWNER_UID};
use rukpak_plan::fields::{difference, is_empty, union, within};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::olm::GROUP;

/// Under which OLM's programs write.
const MANAGERS: [&str; 4] = ["olm", "catalog", "olm.install", "operator-lifecycle-manager"];
/// Under which the controller finds what it may take over, see `rukpak_plan::fields::adopted`.
const HEIR: &str = "rukpakctl";
/// Keys of a Secret: the authority as OLM stores it, and as the controller reads it.
const OLM_AUTHORITY: &str = "olmCAKey";
const AUTHORITY: &str = "ca.crt";

/// What an object loses when it leaves OLM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Marks {
    pub labels: BTreeMap<String, String>,
    pub owners: Vec<OwnerReference>,
}

/// Whether a label is one of OLM's.
pub(super) fn is_label(key: &str) -> bool {
    key.starts_with("olm.") || key.split_once('/').is_some_and(|(prefix, _)| prefix == GROUP)
}

/// Whether OLM made an object, or has taken it for the operator.
pub(super) fn is_olms(meta: &ObjectMeta) -> bool {
    meta.labels.iter().flatten().any(|(key, _)| is_label(key))
        || owners(meta).any(|owner| is_csv(owner) || is_condition(owner))
}

/// Whether it is a ClusterServiceVersion that owns something.
fn is_csv(owner: &OwnerReference) -> bool {
    owner.kind == "ClusterServiceVersion" && is_of_group(owner)
}

/// Whether it is an OperatorCondition that owns something: its Role.
pub(super) fn is_condition(owner: &OwnerReference) -> bool {
    owner.kind == "OperatorCondition" && is_of_group(owner)
}

fn is_of_group(owner: &OwnerReference) -> bool {
    owner.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
}

/// The owners of an object.
pub(super) fn owners(meta: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    meta.owner_references.iter().flatten()
}

impl Marks {
    /// The marks that are on an object; `uids` are those of the owners that go.
    pub fn of(meta: &ObjectMeta, uids: &BTreeSet<String>) -> Self {
        let labels = meta.labels.iter().flatten().filter(|(key, _)| is_label(key));
        let owners = owners(meta).filter(|owner| uids.contains(&owner.uid));
        Self {
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            owners: owners.cloned().collect(),
        }
    }

    /// The patch by which the object may become the BundleDeployment's. `body` is what that declares.
    pub fn leave(&self, live: &DynamicObject, body: &Value, deployment: &str) -> Value {
        let meta = &live.metadata;
        let gone: Map<String, Value> = self.labels.keys().map(|key| (key.clone(), Value::Null)).collect();
        let stay: Vec<&OwnerReference> = owners(meta).filter(|owner| !self.owners.contains(owner)).collect();
        let mut patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version,
            "annotations": {ADOPT_BY: deployment}, "labels": gone, "ownerReferences": stay,
        }});
        if let Some(entries) = handed_on(meta, body) {
            patch["metadata"]["managedFields"] = json!(entries);
        }
        let data = &live.data["data"];
        if data[AUTHORITY].is_null() && data[OLM_AUTHORITY].is_string() {
            // So the controller goes on with the certificate that the operator serves with.
            patch["data"] = json!({AUTHORITY: data[OLM_AUTHORITY]});
        }
        patch
    }

    /// The patch by which it becomes OLM's again. `uids` has the UIDs of the owners that are there
    /// again, by those that they had.
    pub fn come_back(&self, meta: &ObjectMeta, uids: &BTreeMap<String, String>) -> Value {
        let mut owners: Vec<OwnerReference> =
            owners(meta).filter(|owner| owner.kind != "BundleDeployment").cloned().collect();
        for owner in &self.owners {
            // One that is not there any more would take the object along.
            let Some(uid) = uids.get(&owner.uid) else { continue };
            if !owners.iter().any(|there| there.uid == *uid) {
                owners.push(OwnerReference { uid: uid.clone(), ..owner.clone() });
            }
        }
        let mut labels: Map<String, Value> =
            self.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        labels.extend([OWNER_KIND, OWNER_NAME].map(|key| (key.to_owned(), Value::Null)));
        let mut patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "labels": labels, "ownerReferences": owners,
            "annotations": {ADOPT_BY: null, OWNER_UID: null, IN_COMMON: null},
        }});
        let entries = meta.managed_fields.iter().flatten();
        if entries.clone().any(is_ours) {
            // OLM writes by updates.
            let entry = |entry: &ManagedFieldsEntry| {
                if !is_ours(entry) {
                    return entry.clone();
                }
                let (manager, operation) = (Some(MANAGERS[0].to_owned()), Some("Update".to_owned()));
                ManagedFieldsEntry { manager, operation, ..entry.clone() }
            };
            patch["metadata"]["managedFields"] = json!(entries.map(entry).collect::<Vec<_>>());
        }
        patch
    }
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    let manager = entry.manager.as_deref();
    entry.operation.as_deref() == Some("Apply") && manager.is_some_and(|name| [FIELD_MANAGER, HEIR].contains(&name))
}

/// The managers of an object once the fields of `body` that OLM wrote are the heir's; `None` if there are none.
fn handed_on(meta: &ObjectMeta, body: &Value) -> Option<Vec<ManagedFieldsEntry>> {
    let (mut result, mut heir, mut last) = (Vec::new(), json!({}), None);
    for entry in meta.managed_fields.iter().flatten() {
        let moved = entry.fields_v1.as_ref().filter(|_| is_of_olm(meta, entry)).map(|set| declared(&set.0, body));
        let Some(moved) = moved.filter(|moved| !is_empty(moved)) else {
            result.push(entry.clone());
            continue;
        };
        let all = entry.fields_v1.as_ref().map_or(&Value::Null, |set| &set.0);
        let rest = difference(all, &moved);
        if !is_empty(&rest) {
            result.push(ManagedFieldsEntry { fields_v1: Some(FieldsV1(rest)), ..entry.clone() });
        }
        heir = union(&heir, &moved);
        last = Some(entry);
    }
    result.push(ManagedFieldsEntry {
        manager: Some(HEIR.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(heir)),
        ..last?.clone()
    });
    Some(result)
}

/// Whether OLM wrote it: by the name of the manager, or because that manager put OLM's labels on the object.
fn is_of_olm(meta: &ObjectMeta, entry: &ManagedFieldsEntry) -> bool {
    let Some(manager) = entry.manager.as_deref().filter(|_| entry.subresource.as_deref().unwrap_or("").is_empty())
    else {
        return false;
    };
    let put_labels = |entry: &ManagedFieldsEntry| {
        let labels = entry.fields_v1.as_ref().and_then(|set| set.0.pointer("/f:metadata/f:labels")?.as_object());
        labels.into_iter().flatten().any(|(key, _)| key.strip_prefix("f:").is_some_and(is_label))
    };
    let mut same = meta.managed_fields.iter().flatten().filter(|other| other.manager.as_deref() == Some(manager));
    MANAGERS.contains(&manager) || same.any(put_labels)
}

/// The fields of a set that a manifest declares. Metadata but for labels and annotations is nobody's to hand on.
fn declared(set: &Value, body: &Value) -> Value {
    let mut body = body.clone();
    let (labels, annotations) = (body["metadata"]["labels"].take(), body["metadata"]["annotations"].take());
    body["metadata"] = json!({});
    for (key, value) in [("labels", labels), ("annotations", annotations)] {
        if value.is_object() {
            body["metadata"][key] = value;
        }
    }
    if let Some(body) = body.as_object_mut() {
        body.remove("status");
    }
    within(set, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn deployment() -> DynamicObject {
        live(json!({
            "metadata": {
                "name": "d", "uid": "u", "resourceVersion": "7",
                "labels": {"app": "pump", "olm.owner": "pump.v1", "operators.coreos.com/pump.ns": ""},
                "ownerReferences": [
                    {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "pump.v1", "uid": "csv"},
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other"}],
                "managedFields": [
                    {"manager": "anything", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app": {}, "f:olm.owner": {}}, "f:ownerReferences": {"k:{\"uid\":\"csv\"}": {}}},
                        "f:spec": {"f:replicas": {}, "f:extra": {}}}},
                    {"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {
                        "f:spec": {"f:replicas": {}}}}],
            },
        }))
    }

    #[test]
    fn an_object_loses_the_marks_of_olm_and_hands_on_what_the_bundle_declares() {
        let object = deployment();
        let marks = Marks::of(&object.metadata, &["csv".to_owned()].into());
        assert_eq!(marks.labels.len(), 2);
        let body = json!({"metadata": {"name": "d", "labels": {"app": "pump"}}, "spec": {"replicas": 1}});
        let patch = marks.leave(&object, &body, "pump");
        let metadata = &patch["metadata"];
        assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("u"), &json!("7")));
        assert_eq!(metadata["annotations"], json!({"core.rukpak.io/adopt-by": "pump"}));
        assert_eq!(metadata["labels"], json!({"olm.owner": null, "operators.coreos.com/pump.ns": null}));
        assert_eq!(metadata["ownerReferences"][0]["uid"], "other");
        let entries = metadata["managedFields"].as_array().unwrap();
        let sets: Vec<_> =
            entries.iter().map(|entry| (entry["manager"].as_str().unwrap(), &entry["fieldsV1"])).collect();
        let rest = json!({"f:metadata": {"f:labels": {"f:olm.owner": {}}, "f:ownerReferences": {"k:{\"uid\":\"csv\"}": {}}},
                          "f:spec": {"f:extra": {}}});
        assert_eq!(sets[0], ("anything", &rest));
        assert_eq!(sets[1], ("kubectl", &json!({"f:spec": {"f:replicas": {}}})), "somebody else's stays");
        let moved = json!({"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:replicas": {}}});
        assert_eq!(sets[2], ("rukpakctl", &moved));
        assert_eq!(entries[2]["operation"], "Apply");
        assert!(patch.get("data").is_none());
    }

    #[test]
    fn it_comes_back_with_the_same_marks_and_the_new_owner() {
        let marks = Marks::of(&deployment().metadata, &["csv".to_owned()].into());
        let ours = live(json!({"metadata": {
            "name": "d", "uid": "u", "resourceVersion": "9", "labels": {"app": "pump", "core.rukpak.io/owner-name": "pump"},
            "ownerReferences": [{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "pump", "uid": "b"}],
            "managedFields": [{"manager": "rukpak-core", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
        }}));
        let patch = marks.come_back(&ours.metadata, &[("csv".to_owned(), "new".to_owned())].into());
        let metadata = &patch["metadata"];
        assert_eq!(metadata["ownerReferences"].as_array().map(Vec::len), Some(1));
        assert_eq!(metadata["ownerReferences"][0]["uid"], "new");
        assert_eq!(metadata["labels"]["olm.owner"], "pump.v1");
        assert_eq!(metadata["labels"]["core.rukpak.io/owner-name"], Value::Null);
        assert_eq!(metadata["managedFields"][0]["operation"], "Update");
        // Said twice it is the same.
        let back = deployment();
        let patch = marks.come_back(&back.metadata, &BTreeMap::new());
        assert_eq!(patch["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn the_authority_of_olms_certificate_is_where_the_controller_looks() {
        let secret = live(json!({"metadata": {"name": "s"}, "data": {"olmCAKey": "Y2E=", "tls.crt": "Yw=="}}));
        let patch = Marks::default().leave(&secret, &json!({}), "pump");
        assert_eq!(patch["data"], json!({"ca.crt": "Y2E="}));
    }
}
