//! What is really sent for one object, given what is in the cluster: the one place that knows of stored versions, conversion,
//! scaling, volumes that grew, their order in Pods, and fields that were relinquished, whoever asks.

mod united;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::names::FIELD_MANAGER;
use rukpak_plain::ObjectKey;
use serde_json::{Value, json};

use crate::fields::{self, Taken};
use crate::kind::is_crd;
use crate::opt_out::Ignored;

pub use self::united::sharers;

/// Why objects are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing is installed yet.
    First,
    /// Another release replaces the installed one.
    Upgrade,
    /// The same, because somebody asked for an earlier revision.
    Rollback,
    /// An upgrade failed, or was not healthy in time: the release before comes back.
    WayBack,
    /// The cluster is not, or may not be, as it was left.
    Resync,
    /// Certificates among the objects are to be renewed.
    Renewal,
    /// Some objects have drifted.
    Repair,
}

/// What an installation does, by why it is made. Each reason has its row in [`Why::policy`], so that a combination of which nobody has
/// thought is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Policy {
    /// It waits until every required kind is served. Otherwise what can be applied is.
    pub waits_for_kinds: bool,
    /// It is refused without what the bundle says that it needs: packages, a version of Kubernetes.
    pub heeds_dependencies: bool,
    /// CRDs are compared by the rules of safe upgrades, and what would break stored objects is refused.
    pub checks_definitions: bool,
    /// Every changed object is sent as a dry run before the first write.
    pub tries_first: bool,
    /// It stops at objects of others. Otherwise all else is applied, and they are told at the end.
    pub stops_at_collisions: bool,
    /// Versions of a CRD stay in which objects may be stored, and its conversion with them.
    pub keeps_stored_versions: bool,
    /// Replicas that the release before declared otherwise are meant, whatever somebody has scaled.
    pub scales: bool,
    /// So are sizes of volumes.
    pub resizes: bool,
    /// A ConfigMap or Secret that became immutable is deleted and created again.
    pub replaces_immutable: bool,
}

impl Why {
    /// What the installation does. A release that was in the cluster before has to be there again, and what has changed since is lived
    /// with.
    pub const fn policy(self) -> Policy {
        let new = Policy {
            waits_for_kinds: true,
            heeds_dependencies: true,
            checks_definitions: true,
            tries_first: true,
            stops_at_collisions: true,
            keeps_stored_versions: false,
            scales: true,
            resizes: true,
            replaces_immutable: false,
        };
        let known = Policy {
            waits_for_kinds: false,
            heeds_dependencies: false,
            checks_definitions: false,
            tries_first: false,
            stops_at_collisions: false,
            keeps_stored_versions: true,
            scales: false,
            resizes: false,
            replaces_immutable: true,
        };
        match self {
            // Its own namespaces and kinds are not there yet, and nothing was declared before.
            Self::First => Policy { tries_first: false, scales: false, ..new },
            Self::Upgrade => new,
            Self::Rollback => Policy { replaces_immutable: true, ..new },
            Self::WayBack | Self::Resync | Self::Renewal | Self::Repair => known,
        }
    }
}

/// An object as the API server returned it.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// Metadata.
    pub metadata: &'a ObjectMeta,
    /// The rest.
    pub body: &'a Value,
}

/// What else decides about a body.
#[derive(Clone, Debug)]
pub struct Basis<'a> {
    /// Why it is applied.
    pub why: Why,
    /// What the installed release declares, if it has the object.
    pub installed: Option<Value>,
    /// Fields that are left to others who insist on them.
    pub relinquished: Option<&'a BTreeSet<Taken>>,
    /// Fields that are left to others by rule.
    pub ignored: Ignored,
    /// Whether the release that is taken back asks for a replacement where a field cannot be changed.
    pub is_forced: bool,
}

impl Basis<'_> {
    /// Where nothing is left to others.
    pub fn plain(why: Why, installed: Option<Value>) -> Self {
        Self { why, installed, relinquished: None, ignored: Ignored::default(), is_forced: false }
    }
}

/// What to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The body of the apply request, without preconditions.
    pub body: Value,
    /// What stays as it is in the cluster although the bundle says otherwise, in words.
    pub kept: Option<String>,
}

/// Whether [`resolve`] needs to see the live object.
pub fn needs_live(key: &ObjectKey, body: &Value, basis: &Basis<'_>) -> bool {
    let is_left = basis.relinquished.is_some_and(|fields| !fields.is_empty());
    body.pointer(REPLICAS).is_some()
        || has_order(body)
        || is_claim(key)
        || is_left
        || !basis.ignored.is_empty()
        || is_crd(key)
}

fn is_claim(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "PersistentVolumeClaim"
}

const REPLICAS: &str = "/spec/replicas";
const STORAGE: &str = "/spec/resources/requests/storage";
const POD: &str = "/spec/template/spec";
/// Lists of containers in a Pod.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// The body for an object, of which `live` is in the cluster.
pub fn resolve(key: &ObjectKey, body: &Value, live: Option<Live<'_>>, basis: &Basis<'_>) -> Resolved {
    let mut resolved = Resolved { body: body.clone(), kept: None };
    // What is made anew has nobody to whom anything is left.
    let Some(live) = live else { return resolved };
    let relinquished = basis.relinquished.into_iter().flatten();
    for field in relinquished.filter(|field| fields::is_of_another(&field.path, live.metadata, FIELD_MANAGER)) {
        fields::remove(&mut resolved.body, &field.path);
    }
    basis.ignored.leave(&mut resolved.body, live.metadata, live.body);
    leave_scaled(&mut resolved.body, live, basis);
    keep_order(&mut resolved.body, live.body);
    if is_claim(key) && !is_size_declared_anew(&resolved.body, basis) {
        resolved.kept = keep_size(&mut resolved.body, live);
    }
    let lacking = if is_crd(key) { lacking_stored(&resolved.body, live) } else { Vec::new() };
    if is_crd(key) {
        let common = united::keep_common(&mut resolved.body, live.metadata);
        resolved.kept = joined([common, united::keep_united(&mut resolved.body, live, basis)]);
        keep_conversion(&mut resolved.body, live, &lacking);
    }
    if is_crd(key) && basis.why.policy().keeps_stored_versions {
        let kept = keep_stored_versions(&mut resolved.body, live);
        let text = (!kept.is_empty()).then(|| {
            format!("keeps the versions {} and its conversion: objects may be stored in them", kept.join(", "))
        });
        resolved.kept = joined([resolved.kept, text]);
    }
    resolved
}

fn joined(texts: [Option<String>; 2]) -> Option<String> {
    texts.into_iter().flatten().reduce(|one, other| format!("{one}; {other}"))
}

/// Replicas that were set through the `scale` subresource (an autoscaler, `kubectl scale`) are not ours, unless a new release
/// declares another number than the one before. The field is left out and not sent with its live value, which would undo what
/// the autoscaler does meanwhile.
fn leave_scaled(body: &mut Value, live: Live<'_>, basis: &Basis<'_>) {
    let (Some(ours), Some(current)) = (body.pointer(REPLICAS), live.body.pointer(REPLICAS)) else { return };
    let is_declared_anew = basis.why.policy().scales
        && basis.installed.as_ref().is_some_and(|installed| installed.pointer(REPLICAS) != Some(ours));
    if ours == current || is_declared_anew {
        return;
    }

    if is_scaled_by_subresource(live.metadata)
        && let Some(spec) = live_spec(body)
    {
        spec.remove("replicas");
    }
}

fn live_spec(body: &mut Value) -> Option<&mut serde_json::Map<String, Value>> {
    body.get_mut("spec").and_then(Value::as_object_mut)
}

fn is_scaled_by_subresource(metadata: &ObjectMeta) -> bool {
    metadata.managed_fields.iter().flatten().any(|entry| {
        entry.subresource.as_deref() == Some("scale")
            && entry.fields_v1.as_ref().is_some_and(|set| set.0.pointer("/f:spec/f:replicas").is_some())
    })
}

/// Whether there is an order that could be kept.
fn has_order(body: &Value) -> bool {
    body.pointer(POD).is_some_and(|pod| is_list(&pod["volumes"]) || mounts(pod).any(is_list))
}

/// Brings volumes and their mounts into the order that they have in the cluster. The order means nothing, and a change of it replaces all
/// Pods: an apply puts its own in the place of the one that whoever made the object before has chosen.
fn keep_order(body: &mut Value, live: &Value) {
    let (Some(pod), Some(there)) = (body.pointer_mut(POD), live.pointer(POD)) else { return };
    sort_as(pod.get_mut("volumes"), &there["volumes"], "name");
    for list in CONTAINERS {
        for container in pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut all = there[list].as_array().into_iter().flatten();
            let Some(same) = all.find(|other| other["name"] == container["name"]) else { continue };
            sort_as(container.get_mut("volumeMounts"), &same["volumeMounts"], "mountPath");
        }
    }
}

fn mounts(pod: &Value) -> impl Iterator<Item = &Value> {
    let containers = CONTAINERS.into_iter().filter_map(|list| pod[list].as_array()).flatten();
    containers.map(|container| &container["volumeMounts"])
}

fn is_list(list: &Value) -> bool {
    list.as_array().is_some_and(|items| items.len() > 1)
}

/// What is in the cluster comes first, as it stands there.
fn sort_as(declared: Option<&mut Value>, live: &Value, key: &str) {
    let (Some(declared), Some(live)) = (declared.and_then(Value::as_array_mut), live.as_array()) else { return };
    declared.sort_by_key(|item| live.iter().position(|other| other[key] == item[key]).unwrap_or(live.len()));
}

/// Whether a new release asks for another size than the one before. Where that declares none, nobody else than the release is asked.
fn is_size_declared_anew(body: &Value, basis: &Basis<'_>) -> bool {
    let before = basis.installed.as_ref().and_then(|installed| installed.pointer(STORAGE));
    basis.why.policy().resizes && before != body.pointer(STORAGE)
}

/// A volume cannot shrink: what a later release or an administrator asked for stays.
fn keep_size(body: &mut Value, live: Live<'_>) -> Option<String> {
    let (ours, current) = (body.pointer_mut(STORAGE)?, live.body.pointer(STORAGE)?);
    if ours == current {
        return None;
    }
    ours.clone_from(current);
    Some(format!("keeps its size {}: volumes do not shrink", current.as_str().unwrap_or_default()))
}

/// Names the versions in which objects may be stored by now and that a CRD does not declare.
fn lacking_stored(body: &Value, live: Live<'_>) -> Vec<String> {
    let stored = live.body.pointer("/status/storedVersions").and_then(Value::as_array).into_iter().flatten();
    let names = stored.filter_map(Value::as_str).filter(|name| !has_version(body, name));
    names.map(str::to_owned).collect()
}

fn has_version(crd: &Value, name: &str) -> bool {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten().any(|version| version["name"] == name)
}

/// Keeps the live conversion where a CRD has one of the versions that its bundle lacks: without it objects would be relabelled, and fields
/// lost.
fn keep_conversion(body: &mut Value, live: Live<'_>, lacking: &[String]) {
    let is_kept = lacking.iter().any(|name| has_version(body, name));
    if let Some(conversion) = live.body.pointer("/spec/conversion").filter(|_| is_kept)
        && let Some(spec) = live_spec(body)
    {
        spec.insert("conversion".to_owned(), conversion.clone());
    }
}

/// Adds to a CRD the versions in which objects may be stored by now, and returns them: without them the API server refuses it. As long as
/// there are such versions, the live conversion stays too.
pub fn keep_stored_versions(body: &mut Value, live: Live<'_>) -> Vec<String> {
    let lacking = lacking_stored(body, live);
    let offered = live.body.pointer("/spec/versions").and_then(Value::as_array);
    let declared = body.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let (Some(offered), Some(declared)) = (offered, declared) else { return Vec::new() };
    let mut kept = Vec::new();
    for name in lacking {
        if let Some(version) = offered.iter().find(|version| version["name"] == name) {
            let mut version = version.clone();
            version["storage"] = json!(false);
            declared.push(version);
            kept.push(name);
        }
    }
    keep_conversion(body, live, &kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &str, kind: &str) -> ObjectKey {
        ObjectKey { group: group.into(), kind: kind.into(), namespace: None, name: "a".into() }
    }

    fn workload(replicas: i64) -> Value {
        json!({"spec": {"replicas": replicas}})
    }

    /// Our manager owns the replicas; with `scaled`, an autoscaler has set them through the subresource, and owns them.
    fn metadata(scaled: bool) -> ObjectMeta {
        let set = json!({"f:spec": {"f:replicas": {}}});
        let entry = |manager: &str, operation: &str, sub: &str| json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": set, "subresource": sub});
        let entries =
            if scaled { vec![entry("hpa", "Update", "scale")] } else { vec![entry(FIELD_MANAGER, "Apply", "")] };
        serde_json::from_value(json!({"managedFields": entries})).unwrap()
    }

    fn replicas(why: Why, ours: i64, live: i64, scaled: bool, installed: i64) -> Option<i64> {
        let (metadata, live) = (metadata(scaled), workload(live));
        let basis = Basis::plain(why, Some(workload(installed)));
        let live = Live { metadata: &metadata, body: &live };
        resolve(&key("apps", "Deployment"), &workload(ours), Some(live), &basis).body.pointer(REPLICAS)?.as_i64()
    }

    #[test]
    fn leaves_out_replicas_that_were_set_through_the_subresource() {
        assert_eq!(replicas(Why::Repair, 2, 5, true, 2), None);
        assert_eq!(replicas(Why::WayBack, 2, 5, true, 2), None);
        assert_eq!(replicas(Why::Upgrade, 2, 5, true, 2), None, "the release says what it said before");
        assert_eq!(replicas(Why::Upgrade, 3, 5, true, 2), Some(3), "the release says something new");
        assert_eq!(replicas(Why::Repair, 2, 5, false, 2), Some(2), "nobody used the subresource");
        assert_eq!(replicas(Why::WayBack, 2, 0, false, 2), Some(2), "the failed release said 0");
    }

    #[test]
    fn on_the_way_back_a_crd_keeps_stored_versions_and_their_conversion() {
        let crd = |versions: &[(&str, bool)], conversion: &str| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(name, storage)| json!({"name": name, "served": true, "storage": storage}))
                .collect();
            json!({"spec": {"versions": versions, "conversion": {"strategy": conversion}}})
        };
        let mut live = crd(&[("v1", false), ("v2", true)], "Webhook");
        live["status"] = json!({"storedVersions": ["v1", "v2"]});
        let body = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true}]}});
        let metadata = ObjectMeta::default();
        let key = key("apiextensions.k8s.io", "CustomResourceDefinition");
        for (why, kept) in [
            (Why::Upgrade, None),
            (Why::Rollback, None),
            (Why::WayBack, Some("v2")),
            (Why::Resync, Some("v2")),
            (Why::Renewal, Some("v2")),
            (Why::Repair, Some("v2")),
        ] {
            let basis = Basis::plain(why, None);
            let live = Live { metadata: &metadata, body: &live };
            let resolved = resolve(&key, &body, Some(live), &basis);
            assert_eq!(resolved.kept.is_some_and(|text| text.contains("v2")), kept.is_some(), "{why:?}");
            let conversion = resolved.body.pointer("/spec/conversion/strategy").and_then(Value::as_str);
            assert_eq!(conversion, kept.map(|_| "Webhook"), "{why:?}");
        }
    }

    #[test]
    fn volumes_do_not_shrink_on_the_way_back() {
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let (metadata, live) = (ObjectMeta::default(), claim("2Gi"));
        let basis = Basis::plain(Why::WayBack, None);
        let live = Live { metadata: &metadata, body: &live };
        let resolved = resolve(&key("", "PersistentVolumeClaim"), &claim("1Gi"), Some(live), &basis);
        assert_eq!(resolved.body, claim("2Gi"));
    }

    fn object(volumes: &[&str], mounts: &[&str]) -> Value {
        let volumes: Vec<Value> = volumes.iter().map(|name| json!({ "name": name })).collect();
        let mounts: Vec<Value> = mounts.iter().map(|path| json!({ "mountPath": path })).collect();
        let containers = json!([{"name": "c", "volumeMounts": mounts}]);
        json!({"spec": {"template": {"spec": {"volumes": volumes, "containers": containers}}}})
    }

    #[test]
    fn volumes_and_mounts_stand_as_in_the_cluster_and_new_ones_behind() {
        let mut body = object(&["new", "a", "b"], &["/a", "/b"]);
        keep_order(&mut body, &object(&["b", "other", "a"], &["/b", "/a"]));
        assert_eq!(body, object(&["b", "a", "new"], &["/b", "/a"]));
        let same = body.clone();
        keep_order(&mut body, &json!({"spec": {}}));
        assert_eq!(body, same, "nothing is known of another order");
    }

    #[test]
    fn one_volume_has_no_order() {
        assert!(!has_order(&object(&["a"], &["/a"])));
        assert!(has_order(&object(&["a", "b"], &[])) && has_order(&object(&[], &["/a", "/b"])));
        assert!(!has_order(&json!({"data": {"a": "b"}})));
    }
}
