//! Which fields of others become ours when an object does: so many that a later release can remove what it leaves out, and no more.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use rukpak_crds::names::{HELM_RELEASE_NAME, SHARING_MANAGER};
use serde_json::{Value, json};

use super::{applied, difference, entries, is_apply, is_empty, is_sub, set, union, within};

/// Under which operator-controller wrote objects: by Helm, which calls itself as the program, and by its revisions, which apply.
const OLM_MANAGERS: [&str; 2] = ["olm.operatorframework.io", "operator-controller"];
/// Under which upstream's `rukpakctl alpha bootstrap` applied objects, to hand them over to a release.
const BOOTSTRAP_MANAGER: &str = "rukpakctl";
/// Under which `kubectl apply` wrote, and what the API server makes of objects from before it noted managers.
const KUBECTL_MANAGERS: [&str; 2] = ["kubectl-client-side-apply", "before-first-apply"];
/// In which `kubectl apply` notes the manifest that it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Who takes over an object.
#[derive(Clone, Copy, Debug)]
pub struct Heir<'a> {
    /// Its field manager.
    pub manager: &'a str,
    /// UID of its BundleDeployment.
    pub uid: &'a str,
    /// What it is going to apply.
    pub body: &'a Value,
    /// Whether operator-controller is known to have installed the object.
    pub replaces_olm: bool,
}

/// `metadata.managedFields` for an object that becomes the heir's; `None` if nothing moves.
///
/// What the heir owns by updates moves, and what was written by whoever installed the object before for the same purpose: Helm's
/// client, which is known by its marks and not by its name (operators are called `manager` as well), upstream's `rukpakctl` and
/// operator-controller. Of what `kubectl apply` wrote only that moves which the heir declares, too. All of it becomes one applied set,
/// so that a field can later be removed by leaving it out. Finalizers, owner references of others and the status never move: whoever
/// wrote them still needs them.
pub fn adopted(meta: &ObjectMeta, heir: Heir<'_>) -> Option<Vec<ManagedFieldsEntry>> {
    let mut ours = applied(meta, heir.manager).cloned().unwrap_or_else(|| json!({}));
    let installers = installers(meta, heir.uid);
    let (mut result, mut last) = (Vec::new(), None);
    for entry in entries(meta) {
        if entry.manager.as_deref() == Some(heir.manager) && is_apply(entry) && !is_sub(entry) {
            continue;
        }
        let moved = moved(meta, entry, &installers, heir);
        if is_empty(&moved) {
            result.push(entry.clone());
            continue;
        }
        ours = union(&ours, &moved);
        last = Some(entry);
        let rest = set(entry).map(|all| difference(all, &moved)).filter(|rest| !is_empty(rest));
        result.extend(rest.map(|rest| ManagedFieldsEntry { fields_v1: Some(FieldsV1(rest)), ..entry.clone() }));
    }
    result.push(ManagedFieldsEntry {
        manager: Some(heir.manager.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(ours)),
        ..last?.clone()
    });
    Some(result)
}

/// The managers that put Helm's mark, or the heir's owner reference, on the object by an update.
fn installers<'a>(meta: &'a ObjectMeta, uid: &str) -> BTreeSet<&'a str> {
    let reference = format!("k:{}", json!({"uid": uid}));
    let release = format!("f:{HELM_RELEASE_NAME}");
    let is_marked = |all: &Value| {
        let metadata = &all["f:metadata"];
        metadata["f:annotations"].get(&release).is_some() || metadata["f:ownerReferences"].get(&reference).is_some()
    };
    entries(meta)
        .filter(|entry| !is_apply(entry) && !is_sub(entry) && set(entry).is_some_and(is_marked))
        .filter_map(|entry| entry.manager.as_deref())
        .filter(|manager| *manager != SHARING_MANAGER)
        .collect()
}

/// What moves of an entry that is not the heir's applied set.
fn moved(meta: &ObjectMeta, entry: &ManagedFieldsEntry, installers: &BTreeSet<&str>, heir: Heir<'_>) -> Value {
    let nothing = json!({});
    let (Some(all), Some(manager)) = (set(entry), entry.manager.as_deref()) else { return nothing };
    if is_sub(entry) {
        return nothing;
    }
    let is_new = applied(meta, heir.manager).is_none();
    let is_of_olm = OLM_MANAGERS.contains(&manager) && (is_new || heir.replaces_olm);
    if is_apply(entry) {
        let is_installed = is_of_olm || (manager == BOOTSTRAP_MANAGER && is_new);
        return if is_installed { installed(all, heir.uid) } else { nothing };
    }

    if manager == heir.manager {
        return all.clone();
    }
    if is_of_olm || installers.contains(manager) {
        return installed(all, heir.uid);
    }
    match last_applied(meta).filter(|_| is_new && KUBECTL_MANAGERS.contains(&manager)) {
        Some(manifest) => within(&within(&installed(all, heir.uid), &manifest), heir.body),
        None => nothing,
    }
}

/// The fields of a manifest in a set: a controller writes finalizers, owner references and the status, and still needs them.
fn installed(set: &Value, uid: &str) -> Value {
    let mut fields = set.clone();
    let reference = format!("k:{}", json!({"uid": uid}));
    if let Some(all) = fields.as_object_mut() {
        all.remove("f:status");
    }
    if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) {
        metadata.remove("f:finalizers");
        let owners = metadata.remove("f:ownerReferences");
        if let Some(owners) = owners
            && let Some(own) = owners.get(&reference)
        {
            // The mark of the list itself stays with whoever has other entries in it.
            let is_alone =
                owners.as_object().is_some_and(|owners| owners.keys().all(|key| *key == reference || key == "."));
            let moved = if is_alone { owners } else { json!({reference: own}) };
            metadata.insert("f:ownerReferences".to_owned(), moved);
        }
        if metadata.is_empty()
            && let Some(all) = fields.as_object_mut()
        {
            all.remove("f:metadata");
        }
    }
    fields
}

fn last_applied(meta: &ObjectMeta) -> Option<Value> {
    serde_json::from_str(meta.annotations.as_ref()?.get(LAST_APPLIED)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "1";

    fn object(entries: &Value) -> ObjectMeta {
        serde_json::from_value(json!({"managedFields": entries})).unwrap()
    }

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    /// The sets after the adoption, by manager and operation.
    fn sets(meta: &ObjectMeta, body: &Value) -> Option<Vec<(String, Value)>> {
        let heir = Heir { manager: "us", uid: UID, body, replaces_olm: false };
        let line = |entry: ManagedFieldsEntry| {
            let name = format!("{} {}", entry.manager.unwrap(), entry.operation.unwrap());
            (name, entry.fields_v1.unwrap().0)
        };
        Some(adopted(meta, heir)?.into_iter().map(line).collect())
    }

    fn marks() -> Value {
        json!({"f:annotations": {"f:meta.helm.sh/release-name": {}}})
    }

    #[test]
    fn adoption_moves_what_helm_installed_and_leaves_what_others_wrote() {
        let meta = object(&json!([
            entry("core", "Update", &json!({"f:metadata": marks(), "f:data": {"f:a": {}}})),
            entry("kubectl-edit", "Update", &json!({"f:data": {"f:b": {}}})),
        ]));
        let expected = [
            ("kubectl-edit Update".to_owned(), json!({"f:data": {"f:b": {}}})),
            ("us Apply".to_owned(), json!({"f:metadata": marks(), "f:data": {"f:a": {}}})),
        ];
        assert_eq!(sets(&meta, &json!({})).unwrap(), expected);
        assert!(sets(&ObjectMeta::default(), &json!({})).is_none());
    }

    #[test]
    fn adoption_moves_nothing_from_an_operator_that_is_called_like_helms_client() {
        let written = json!({"f:metadata": {"f:finalizers": {"v:\"x\"": {}}}, "f:spec": {"f:volume": {}}});
        let meta = object(&json!([entry("manager", "Update", &written)]));
        assert!(sets(&meta, &json!({"spec": {"volume": "v"}})).is_none());
        // Nor where Helm installed the object, and the operator found it there.
        let helm = entry("core", "Update", &json!({"f:metadata": marks(), "f:spec": {"f:size": {}}}));
        let meta = object(&json!([helm, entry("manager", "Update", &written)]));
        let sets = sets(&meta, &json!({})).unwrap();
        assert_eq!(sets[0], ("manager Update".to_owned(), written));
    }

    #[test]
    fn adoption_leaves_finalizers_owners_and_status_to_whoever_wrote_them() {
        let ours = format!("k:{{\"uid\":\"{UID}\"}}");
        let all = json!({
            "f:metadata": {"f:finalizers": {"v:\"x\"": {}},
                "f:ownerReferences": {".": {}, ours.clone(): {}, "k:{\"uid\":\"2\"}": {}}},
            "f:spec": {"f:size": {}}, "f:status": {"f:ready": {}},
        });
        let meta = object(&json!([entry("core", "Update", &all)]));
        let sets = sets(&meta, &json!({})).unwrap();
        assert_eq!(sets[1].1, json!({"f:metadata": {"f:ownerReferences": {ours: {}}}, "f:spec": {"f:size": {}}}));
        let rest = json!({
            "f:metadata": {"f:finalizers": {"v:\"x\"": {}}, "f:ownerReferences": {".": {}, "k:{\"uid\":\"2\"}": {}}},
            "f:status": {"f:ready": {}},
        });
        assert_eq!(sets[0], ("core Update".to_owned(), rest));
    }

    #[test]
    fn adoption_moves_what_kubectl_applied_and_the_bundle_declares() {
        let fields = json!({"f:data": {".": {}, "f:both": {}, "f:applied": {}, "f:declared": {}}});
        let mut meta = object(&json!([entry("kubectl-client-side-apply", "Update", &fields)]));
        let body = json!({"data": {"both": "1", "declared": "1"}});
        assert!(sets(&meta, &body).is_none(), "it is not known what was applied");
        let manifest = json!({"data": {"both": "1", "applied": "1"}}).to_string();
        meta.annotations = Some([(LAST_APPLIED.to_owned(), manifest)].into());
        let sets = sets(&meta, &body).unwrap();
        assert_eq!(sets[1], ("us Apply".to_owned(), json!({"f:data": {"f:both": {}}})));
    }

    #[test]
    fn adoption_moves_what_was_bootstrapped() {
        let meta = object(&json!([
            entry("rukpakctl", "Apply", &json!({"f:data": {"f:a": {}}})),
            entry("core", "Apply", &json!({"f:data": {"f:b": {}}})),
        ]));
        let sets = sets(&meta, &json!({})).unwrap();
        let managers: Vec<_> = sets.iter().map(|(manager, _)| manager.as_str()).collect();
        assert_eq!(managers, ["core Apply", "us Apply"], "Helm did not apply: whoever does is somebody else");
        assert_eq!(sets[1].1, json!({"f:data": {"f:a": {}}}));
    }

    #[test]
    fn what_we_created_becomes_what_we_applied() {
        let meta = object(&json!([entry("us", "Update", &json!({"f:metadata": {"f:finalizers": {"v:\"x\"": {}}}}))]));
        let created = json!({"f:metadata": {"f:finalizers": {"v:\"x\"": {}}}});
        assert_eq!(sets(&meta, &json!({})).unwrap(), [("us Apply".to_owned(), created)]);
    }
}
