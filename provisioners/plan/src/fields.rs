//! Field sets, as `metadata.managedFields` lists them (`FieldsV1`).
//!
//! Source: the FieldsV1 format of structured-merge-diff. A set is a tree of JSON objects whose keys are `f:<name>` (a field),
//! `k:<json>` (a list item by its keys), `v:<json>` (a list item by its value), `i:<n>` (by index) or `.` (the thing itself).

mod adoption;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use rukpak_crds::names::SHARING_MANAGER;
use serde_json::{Map, Value, json};

pub use self::adoption::{Heir, adopted};

/// The set of `manager`'s applied fields; `None` if it applied none.
pub fn applied<'a>(meta: &'a ObjectMeta, manager: &str) -> Option<&'a Value> {
    entry(meta, manager).and_then(set)
}

/// Returns when an apply of `manager` changed anything last, in seconds: a value, or which fields it has. Writes of others leave that as
/// it is, and so does an apply that changes nothing.
pub(crate) fn applied_at(meta: &ObjectMeta, manager: &str) -> Option<i64> {
    Some(entry(meta, manager)?.time.as_ref()?.0.as_second())
}

fn entry<'a>(meta: &'a ObjectMeta, manager: &str) -> Option<&'a ManagedFieldsEntry> {
    entries(meta).find(|entry| entry.manager.as_deref() == Some(manager) && is_apply(entry) && !is_sub(entry))
}

fn entries(meta: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    meta.managed_fields.iter().flatten()
}

fn is_apply(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some("Apply")
}

fn is_sub(entry: &ManagedFieldsEntry) -> bool {
    entry.subresource.as_deref().is_some_and(|name| !name.is_empty())
}

fn set(entry: &ManagedFieldsEntry) -> Option<&Value> {
    entry.fields_v1.as_ref().map(|fields| &fields.0)
}

/// Each finalizer with who set it, as far as the object tells: `example.com/hold (set by "backup-operator")`.
pub fn finalizers(meta: &ObjectMeta) -> Vec<String> {
    let set_by = |finalizer: &str| {
        let field = format!("v:{}", Value::from(finalizer));
        entries(meta)
            .filter(|entry| {
                set(entry).and_then(|set| set.get("f:metadata")?.get("f:finalizers")?.get(&field)).is_some()
            })
            .find_map(|entry| entry.manager.clone())
    };
    let finalizers = meta.finalizers.iter().flatten();
    finalizers
        .map(|finalizer| match set_by(finalizer) {
            Some(manager) => format!("{finalizer} (set by {manager:?})"),
            None => finalizer.clone(),
        })
        .collect()
}

/// Everything in `a` or `b`.
pub fn union(a: &Value, b: &Value) -> Value {
    let mut merged = members(a).cloned().unwrap_or_default();
    for (key, below) in members(b).into_iter().flatten() {
        let value = merged.get(key).map_or_else(|| below.clone(), |ours| union(ours, below));
        merged.insert(key.clone(), value);
    }
    Value::Object(merged)
}

/// The leaves of `a` that are not in `b`.
pub fn difference(a: &Value, b: &Value) -> Value {
    let mut rest = Map::new();
    for (key, below) in members(a).into_iter().flatten() {
        match b.get(key) {
            None => {
                rest.insert(key.clone(), below.clone());
            }
            Some(theirs) => {
                let left = difference(below, theirs);
                if !is_empty(&left) {
                    rest.insert(key.clone(), left);
                }
            }
        }
    }
    Value::Object(rest)
}

/// What is in both `a` and `b`.
pub fn intersection(a: &Value, b: &Value) -> Value {
    let mut both = Map::new();
    for (key, below) in members(a).into_iter().flatten() {
        let Some(theirs) = b.get(key) else { continue };
        let common = intersection(below, theirs);
        let is_leaf = is_empty(below) || is_empty(theirs);
        if is_leaf || !is_empty(&common) {
            both.insert(key.clone(), common);
        }
    }
    Value::Object(both)
}

/// The fields of a set that an object has, without the lists and maps that they are in.
pub fn within(set: &Value, object: &Value) -> Value {
    let mut found = Map::new();
    for (key, below) in members(set).into_iter().flatten() {
        let part = match key.split_once(':') {
            Some(("f", name)) => object.get(name),
            Some(("k" | "v", inner)) => serde_json::from_str::<Value>(inner)
                .ok()
                .and_then(|wanted| object.as_array()?.iter().find(|item| matches_item(item, &wanted))),
            _ => None,
        };
        let Some(part) = part else { continue };
        let deeper = within(below, part);
        if is_empty(below) || !is_empty(&deeper) {
            found.insert(key.clone(), deeper);
        }
    }
    Value::Object(found)
}

/// Whether the set has no member.
pub fn is_empty(set: &Value) -> bool {
    members(set).is_none_or(Map::is_empty)
}

fn members(set: &Value) -> Option<&Map<String, Value>> {
    set.as_object()
}

/// What an apply by `manager` has to send at a place so that it changes nothing there: what is its own, or else what belongs to a list
/// or map that managers have as a whole. `None` if it is to send nothing.
///
/// The place is told by a pointer into the body that was declared: the items of lists are counted there, and known by their keys in
/// the cluster.
pub(crate) fn unchanged_at(
    meta: &ObjectMeta,
    manager: &str,
    (declared, live): (&Value, &Value),
    pointer: &[String],
) -> Option<Value> {
    let own = applied(meta, manager).and_then(|own| held_at(own, (declared, live), pointer, true));
    let mut sets = entries(meta).filter_map(set);
    own.or_else(|| sets.find_map(|set| held_at(set, (declared, live), pointer, false)))
}

fn held_at(set: &Value, (declared, live): (&Value, &Value), pointer: &[String], is_own: bool) -> Option<Value> {
    let Some((token, rest)) = pointer.split_first() else { return held(set, live).filter(|_| is_own) };
    if is_empty(set) {
        return within_whole(live, pointer).cloned();
    }
    match declared {
        Value::Object(map) => {
            held_at(set.get(format!("f:{token}"))?, (map.get(token)?, live.get(token)?), rest, is_own)
        }
        Value::Array(items) => {
            let item = items.get(token.parse::<usize>().ok()?)?;
            let (key, below) = members(set)?.iter().find(|(key, _)| is_item(key, item))?;
            let live = live.as_array()?.iter().find(|item| is_item(key, item))?;
            held_at(below, (item, live), rest, is_own)
        }
        _ => None,
    }
}

fn within_whole<'a>(live: &'a Value, pointer: &[String]) -> Option<&'a Value> {
    pointer.iter().try_fold(live, |value, token| match value {
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        other => other.get(token),
    })
}

/// The part of a live value that is in the set. A set without members stands for the whole.
fn held(set: &Value, live: &Value) -> Option<Value> {
    if is_empty(set) {
        return Some(live.clone());
    }
    let set = members(set)?;
    match live {
        Value::Object(map) => {
            let own = set.iter().filter_map(|(key, below)| {
                let name = key.strip_prefix("f:")?;
                Some((name.to_owned(), held(below, map.get(name)?)?))
            });
            let own: Map<String, Value> = own.collect();
            (!own.is_empty() || set.contains_key(".")).then_some(Value::Object(own))
        }
        Value::Array(items) => {
            let own = items.iter().filter_map(|item| {
                let (_, below) = set.iter().find(|(key, _)| is_item(key, item))?;
                held(below, item)
            });
            let own: Vec<Value> = own.collect();
            (!own.is_empty() || set.contains_key(".")).then_some(Value::Array(own))
        }
        other => Some(other.clone()),
    }
}

/// Whether a member of a set stands for the item of a list.
pub(crate) fn is_item(key: &str, item: &Value) -> bool {
    let Some(("k" | "v", inner)) = key.split_once(':') else { return false };
    serde_json::from_str::<Value>(inner).is_ok_and(|wanted| matches_item(item, &wanted))
}

/// A field that another manager has taken from us.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taken {
    /// Who.
    pub manager: String,
    /// Through which subresource, for example `scale`; empty for the object itself.
    pub subresource: String,
    /// Which: the keys of the set from the root to the leaf.
    pub path: Vec<String>,
}

impl Taken {
    /// The path as people write it: `.spec.replicas`, `.spec.template.spec.containers[name=a].image`.
    pub fn words(&self) -> String {
        self.path.iter().fold(String::new(), |mut text, key| {
            match key.split_once(':') {
                Some(("f", name)) => {
                    text.push('.');
                    text.push_str(name);
                }
                Some((_, inner)) => {
                    text.push('[');
                    text.push_str(inner);
                    text.push(']');
                }
                None => {}
            }
            text
        })
    }
}

/// The fields of `before` (our set after the last apply) that now belong to somebody else and not to us.
pub fn taken(before: &Value, meta: &ObjectMeta, manager: &str) -> Vec<Taken> {
    let empty = json!({});
    let lost = difference(before, applied(meta, manager).unwrap_or(&empty));
    let mut all = Vec::new();
    // Who shares an object takes nothing: it is in the next apply, too.
    let is_other = |entry: &&ManagedFieldsEntry| {
        let is_own = entry.manager.as_deref() == Some(manager) && is_apply(entry);
        !is_own && entry.manager.as_deref() != Some(SHARING_MANAGER)
    };
    for entry in entries(meta).filter(is_other) {
        let Some(theirs) = set(entry) else { continue };
        for path in leaves(&intersection(&lost, theirs)) {
            all.push(Taken {
                manager: entry.manager.clone().unwrap_or_default(),
                subresource: entry.subresource.clone().unwrap_or_default(),
                path,
            });
        }
    }
    all
}

/// Whether the field belongs to another manager, and not to this one.
pub(crate) fn is_of_another(path: &[String], meta: &ObjectMeta, manager: &str) -> bool {
    let is_ours = applied(meta, manager).is_some_and(|set| has(set, path));
    let is_own = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(manager) && is_apply(entry);
    let is_theirs = |entry: &ManagedFieldsEntry| !is_own(entry) && set(entry).is_some_and(|set| has(set, path));
    !is_ours && entries(meta).any(is_theirs)
}

/// Whether the set has the path, or something below it.
pub fn has(set: &Value, path: &[String]) -> bool {
    path.iter().try_fold(set, |set, key| set.get(key)).is_some()
}

/// The leaves of `set`, `.` left out.
fn leaves(set: &Value) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for (key, below) in members(set).into_iter().flatten().filter(|(key, _)| *key != ".") {
        let deeper = leaves(below);
        if deeper.is_empty() {
            all.push(vec![key.clone()]);
        }
        all.extend(deeper.into_iter().map(|mut path| {
            path.insert(0, key.clone());
            path
        }));
    }
    all
}

/// Takes what `path` names out of `object`. Nothing happens where it is not there.
pub fn remove(object: &mut Value, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    match (key.split_once(':'), object) {
        (Some(("f", name)), Value::Object(map)) => {
            if rest.is_empty() {
                map.remove(name);
            } else if let Some(below) = map.get_mut(name) {
                remove(below, rest);
            }
        }
        (Some(("k" | "v", inner)), Value::Array(items)) => {
            let Ok(wanted) = serde_json::from_str::<Value>(inner) else { return };
            let Some(index) = items.iter().position(|item| matches_item(item, &wanted)) else { return };
            if rest.is_empty() {
                items.remove(index);
            } else {
                remove(&mut items[index], rest);
            }
        }
        _ => {}
    }
}

fn matches_item(item: &Value, wanted: &Value) -> bool {
    match wanted {
        // A defaulted key (a port's protocol) may be absent from the manifest.
        Value::Object(keys) => keys.iter().all(|(key, value)| item.get(key).is_none_or(|own| own == value)),
        scalar => item == scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_add_up_and_take_apart() {
        let a = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let b = json!({"f:spec": {"f:replicas": {}}, "f:data": {"f:x": {}}});
        assert_eq!(union(&a, &b), json!({"f:spec": {"f:replicas": {}, "f:paused": {}}, "f:data": {"f:x": {}}}));
        assert_eq!(difference(&a, &b), json!({"f:spec": {"f:paused": {}}}));
        assert_eq!(intersection(&a, &b), json!({"f:spec": {"f:replicas": {}}}));
        assert!(is_empty(&difference(&a, &a)));
    }

    #[test]
    fn a_set_is_narrowed_to_what_an_object_has() {
        let set = json!({"f:spec": {".": {}, "f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}, "k:{\"port\":81}": {}},
            "f:items": {"v:\"x\"": {}, "v:\"y\"": {}}, "f:paused": {}}});
        let object = json!({"spec": {"ports": [{"port": 80, "name": "a"}], "items": ["y"], "paused": false}});
        let expected = json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:name": {}}}, "f:items": {"v:\"y\"": {}}, "f:paused": {}}});
        assert_eq!(within(&set, &object), expected);
        assert!(is_empty(&within(&set, &json!({"spec": {}}))));
    }

    #[test]
    fn a_taken_field_is_named_with_its_taker() {
        let before = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let meta: ObjectMeta = serde_json::from_value(json!({"managedFields": [
            {"manager": "us", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}}}},
            {"manager": "hpa", "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        ]}))
        .unwrap();
        let taken = taken(&before, &meta, "us");
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].manager.as_str(), taken[0].subresource.as_str()), ("hpa", "scale"));
        assert_eq!(taken[0].words(), ".spec.replicas");
    }

    #[test]
    fn a_finalizer_is_told_with_who_set_it() {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "finalizers": ["example.com/hold", "orphan"],
            "managedFields": [{"manager": "backup", "operation": "Update", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:finalizers": {".": {}, "v:\"example.com/hold\"": {}}}}}]
        }))
        .unwrap();
        assert_eq!(finalizers(&meta), ["example.com/hold (set by \"backup\")", "orphan"]);
        assert!(finalizers(&ObjectMeta::default()).is_empty());
    }

    #[test]
    fn removes_by_field_key_and_value() {
        let mut object =
            json!({"spec": {"ports": [{"port": 80, "name": "a"}], "finalizers": ["x", "y"], "replicas": 1}});
        let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        remove(&mut object, &path(&["f:spec", "f:replicas"]));
        remove(&mut object, &path(&["f:spec", "f:finalizers", "v:\"x\""]));
        remove(&mut object, &path(&["f:spec", "f:ports", "k:{\"port\":80,\"protocol\":\"TCP\"}", "f:name"]));
        remove(&mut object, &path(&["f:spec", "f:absent", "f:deeper"]));
        assert_eq!(object, json!({"spec": {"ports": [{"port": 80}], "finalizers": ["y"]}}));
    }
}
