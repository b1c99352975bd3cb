//! What is made of `managedFields` as Kubernetes lists them: writes through a subresource have entries of their own.
//!
//! `managed_fields/deployment.json` is a Deployment in the form of Kubernetes 1.30: we applied it with two replicas, its status was
//! written, and an autoscaler made them five.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use rukpak_crds::names::{FIELD_MANAGER, SHARING_MANAGER};
use rukpak_plain::ObjectKey;
use rukpak_plan::conflict::Repairs;
use rukpak_plan::fields::{self, Heir};
use rukpak_plan::fingerprint::Drift;
use rukpak_plan::resolve::{Basis, Live, Why, resolve};
use rukpak_plan::{Fingerprint, Owner};
use serde_json::{Value, json};

const SCALED: &str = include_str!("managed_fields/deployment.json");

/// The object as the autoscaler left it.
fn scaled() -> (ObjectMeta, Value) {
    let object: Value = serde_json::from_str(SCALED).expect("it is JSON");
    (serde_json::from_value(object["metadata"].clone()).expect("it is metadata"), object)
}

/// The object as we applied it: the replicas are in our set, and nobody has scaled it.
fn applied() -> ObjectMeta {
    let (mut metadata, _) = scaled();
    metadata.generation = Some(1);
    let entries = metadata.managed_fields.as_mut().expect("there are entries");
    entries.retain(|entry| entry.subresource.as_deref() != Some("scale"));
    let ours = entries.iter_mut().find(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER)).expect("ours");
    ours.fields_v1.as_mut().expect("a set").0["f:spec"]["f:replicas"] = json!({});
    metadata
}

/// The object with what somebody took from us by an update of the object itself.
fn edited() -> ObjectMeta {
    taken_by("kubectl-edit", "Update")
}

/// The object with what this manager took from us by a write to the object itself.
fn taken_by(manager: &str, operation: &str) -> ObjectMeta {
    let (mut metadata, _) = scaled();
    for entry in metadata.managed_fields.iter_mut().flatten() {
        if entry.subresource.as_deref() == Some("scale") {
            (entry.subresource, entry.manager) = (None, Some(manager.to_owned()));
            entry.operation = Some(operation.to_owned());
        }
    }
    metadata
}

fn entry(manager: &str, operation: &str, subresource: &str, set: &Value) -> ManagedFieldsEntry {
    let entry = json!({"manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "apps/v1",
                       "fieldsType": "FieldsV1", "fieldsV1": set});
    serde_json::from_value(entry).expect("an entry")
}

/// The replicas that are sent; `None` where the field is left out.
fn sent(metadata: &ObjectMeta, why: Why, declared: i64, before: i64) -> Option<i64> {
    let key = ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: None, name: "pump".into() };
    let (_, live) = scaled();
    let (body, installed) = (json!({"spec": {"replicas": declared}}), json!({"spec": {"replicas": before}}));
    let basis = Basis::plain(why, Some(installed));
    let resolved = resolve(&key, &body, Some(Live { metadata, body: &live }), &basis);
    resolved.body["spec"].get("replicas").map(|replicas| replicas.as_i64().expect("a number"))
}

#[test]
fn replicas_are_left_to_the_autoscaler_until_a_release_declares_others() {
    let (scaled, _) = scaled();
    for why in [Why::Repair, Why::Resync, Why::Renewal, Why::WayBack, Why::Upgrade, Why::Rollback] {
        assert_eq!(sent(&scaled, why, 2, 2), None, "{why:?}");
    }
    for why in [Why::Upgrade, Why::Rollback] {
        assert_eq!(sent(&scaled, why, 3, 2), Some(3), "{why:?}");
    }
    assert_eq!(sent(&scaled, Why::WayBack, 2, 3), None, "nothing is declared on the way back");
}

#[test]
fn replicas_that_somebody_edited_are_put_back() {
    // The status has a field of that name too, in an entry of a subresource.
    assert_eq!(sent(&edited(), Why::Repair, 2, 2), Some(2));
}

#[test]
fn a_field_taken_through_a_subresource_is_no_contest() {
    let before = fields::applied(&applied(), FIELD_MANAGER).cloned().expect("we applied it");
    let (scaled, _) = scaled();
    let taken = fields::taken(&before, &scaled, FIELD_MANAGER);
    let [field] = taken.as_slice() else { panic!("one field: {taken:?}") };
    assert_eq!((field.manager.as_str(), field.subresource.as_str()), ("kube-controller-manager", "scale"));
    assert_eq!(field.words(), ".spec.replicas");
    let (mut scalings, mut edits) = (Repairs::default(), Repairs::default());
    let edited = fields::taken(&before, &edited(), FIELD_MANAGER);
    for second in 0..10 {
        let now = Timestamp::from_second(second).expect("a time");
        assert!(scalings.count(taken.clone(), now).is_empty());
        edits.count(edited.clone(), now);
    }
    assert!(scalings.relinquished().is_empty());
    let left: Vec<_> = edits.relinquished().iter().map(|field| (field.manager.as_str(), field.words())).collect();
    assert_eq!(left, [("kubectl-edit", ".spec.replicas".to_owned())], "by the object itself it is one");
}

#[test]
fn a_field_that_stays_in_a_shared_object_is_not_taken() {
    let before = fields::applied(&applied(), FIELD_MANAGER).cloned().expect("we applied it");
    let shared = taken_by(SHARING_MANAGER, "Update");
    let taken = fields::taken(&before, &shared, FIELD_MANAGER);
    assert!(taken.is_empty(), "{taken:?}");
}

#[test]
fn a_field_is_left_to_whoever_applies_it() {
    let before = fields::applied(&applied(), FIELD_MANAGER).cloned().expect("we applied it");
    let theirs = taken_by("argocd", "Apply");
    let left = fields::taken(&before, &theirs, FIELD_MANAGER).into_iter().collect();
    let key = ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: None, name: "pump".into() };
    let (_, live) = scaled();
    let basis = Basis { relinquished: Some(&left), ..Basis::plain(Why::Resync, None) };
    let live = Live { metadata: &theirs, body: &live };
    let resolved = resolve(&key, &json!({"spec": {"replicas": 2}}), Some(live), &basis);
    assert_eq!(resolved.body.pointer("/spec/replicas"), None);
}

#[test]
fn a_written_status_is_no_drift_and_a_scaling_is_a_lost_field() {
    let owner = Owner { name: "pump".to_owned(), uid: "0c9d3f3e-93a3-4c51-8d7e-0c1c5b6d2f11".to_owned() };
    let of = |metadata: &ObjectMeta| Fingerprint::of(metadata, &owner, FIELD_MANAGER);
    let mut fresh = applied();
    fresh.managed_fields.get_or_insert_default().retain(|entry| entry.subresource.is_none());
    assert_eq!(of(&fresh).drift(&of(&applied())), Drift::None);
    let (scaled, _) = scaled();
    assert_eq!(of(&applied()).drift(&of(&scaled)), Drift::Fields);
    // We own what is left once the field was left out; the next scaling takes nothing.
    let again = ObjectMeta { generation: Some(3), ..scaled.clone() };
    assert_eq!(of(&scaled).drift(&of(&again)), Drift::Generation);
}

#[test]
fn what_is_applied_to_a_subresource_is_not_in_our_set() {
    let mut metadata = applied();
    let before = fields::applied(&metadata, FIELD_MANAGER).cloned();
    let status = entry(FIELD_MANAGER, "Apply", "status", &json!({"f:status": {"f:replicas": {}}}));
    metadata.managed_fields.get_or_insert_default().insert(0, status);
    assert_eq!(fields::applied(&metadata, FIELD_MANAGER).cloned(), before);
}

#[test]
fn adoption_leaves_entries_of_subresources_to_whoever_wrote_them() {
    let (mut metadata, _) = scaled();
    let entries = metadata.managed_fields.get_or_insert_default();
    entries.retain(|entry| entry.subresource.is_some());
    // An operator of that name writes a status; upstream's Helm client wrote the object under the same.
    entries.push(entry("manager", "Update", "status", &json!({"f:status": {"f:readyReplicas": {}}})));
    entries.push(entry(FIELD_MANAGER, "Apply", "status", &json!({"f:status": {"f:replicas": {}}})));
    let subresources = entries.clone();
    let heir = Heir { manager: FIELD_MANAGER, uid: "1", body: &json!({}), replaces_olm: false };
    assert!(fields::adopted(&metadata, heir).is_none(), "nothing is to be moved");
    let marks = json!({"f:annotations": {"f:meta.helm.sh/release-name": {}}});
    let helm = entry("manager", "Update", "", &json!({"f:metadata": marks, "f:spec": {"f:template": {}}}));
    metadata.managed_fields.get_or_insert_default().push(helm);
    let mut moved = fields::adopted(&metadata, heir).expect("Helm's entry moves");
    let ours = moved.pop().expect("ours is the last");
    assert_eq!((ours.manager.as_deref(), ours.operation.as_deref()), (Some(FIELD_MANAGER), Some("Apply")));
    assert_eq!(ours.fields_v1.map(|set| set.0), Some(json!({"f:metadata": marks, "f:spec": {"f:template": {}}})));
    assert_eq!(moved, subresources);
}
