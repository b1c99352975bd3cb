//! Values and sets of fields, as the API server merges and compares them (structured-merge-diff).
//!
//! Maps are merged by their keys, finalizers by their values, owner references by their UIDs; every other list is one value.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The keys from the root to a member, as FieldsV1 writes them: `f:data`, `v:"a"`, `k:{"uid":"1"}`.
pub type Path = Vec<String>;
/// A set of members. A member that has others below it is there itself where FieldsV1 writes a dot.
pub type Set = BTreeSet<Path>;

/// How one value differs from another.
#[derive(Debug, Default)]
pub struct Compared {
    pub added: Set,
    pub removed: Set,
    pub modified: Set,
}

/// The members below `path`; `None` if what is there is one value.
fn members<'a>(value: &'a Value, path: &[String]) -> Option<Vec<(String, &'a Value)>> {
    match value {
        Value::Object(map) if path.last().is_none_or(|key| key.starts_with("f:")) => {
            Some(map.iter().map(|(key, value)| (format!("f:{key}"), value)).collect())
        }
        Value::Array(items) => {
            let key = item_key(path)?;
            Some(items.iter().map(|item| (key(item), item)).collect())
        }
        _ => None,
    }
}

/// How the items of a list that is merged are told apart.
fn item_key(path: &[String]) -> Option<fn(&Value) -> String> {
    match path {
        [metadata, list] if metadata == "f:metadata" && list == "f:finalizers" => Some(|item| format!("v:{item}")),
        [metadata, list] if metadata == "f:metadata" && list == "f:ownerReferences" => {
            Some(|item| format!("k:{}", json!({"uid": item["uid"]})))
        }
        _ => None,
    }
}

fn below(path: &[String], key: &str) -> Path {
    path.iter().cloned().chain([key.to_owned()]).collect()
}

/// The fields of an applied configuration: its leaves.
pub fn leaves(value: &Value) -> Set {
    fn walk(value: &Value, path: &[String], set: &mut Set) {
        match members(value, path).filter(|members| !members.is_empty()) {
            Some(members) => members.iter().for_each(|(key, value)| walk(value, &below(path, key), set)),
            None => drop(set.insert(path.to_vec())),
        }
    }
    let mut set = Set::new();
    walk(value, &[], &mut set);
    set
}

/// What was added, removed and modified between two values.
pub fn compare(before: &Value, after: &Value) -> Compared {
    let mut compared = Compared::default();
    walk_both(Some(before), Some(after), &[], &mut compared);
    compared
}

fn walk_both(before: Option<&Value>, after: Option<&Value>, path: &[String], compared: &mut Compared) {
    let (one, other) = match (before, after) {
        (Some(before), Some(after)) if before == after => return,
        (Some(before), Some(after)) => {
            let (Some(one), Some(other)) = (members(before, path), members(after, path)) else {
                compared.modified.insert(path.to_vec());
                return;
            };
            (one, other)
        }
        (None, None) => return,
        (None, Some(after)) => {
            compared.added.insert(path.to_vec());
            (Vec::new(), members(after, path).unwrap_or_default())
        }
        (Some(before), None) => {
            compared.removed.insert(path.to_vec());
            (members(before, path).unwrap_or_default(), Vec::new())
        }
    };
    let find =
        |members: &[(String, &Value)], key: &str| members.iter().find(|(k, _)| k == key).map(|(_, v)| (*v).clone());
    let keys: BTreeSet<&String> = one.iter().chain(&other).map(|(key, _)| key).collect();
    for key in keys {
        let (before, after) = (find(&one, key), find(&other, key));
        walk_both(before.as_ref(), after.as_ref(), &below(path, key), compared);
    }
}

/// Makes `live` what it is after `config` was applied to it.
pub fn merge(live: &mut Value, config: &Value) {
    merge_at(live, config, &[]);
}

fn merge_at(live: &mut Value, config: &Value, path: &[String]) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if members(&json!({}), path).is_some() => {
            for (key, value) in config {
                let path = below(path, &format!("f:{key}"));
                merge_at(live.entry(key.clone()).or_insert(Value::Null), value, &path);
            }
        }
        (Value::Array(live), Value::Array(config)) if item_key(path).is_some() => {
            let Some(key) = item_key(path) else { return };
            *live = merge_lists(live, config, key);
        }
        (live, config) => live.clone_from(config),
    }
}

/// The items of both lists, each once, as an apply orders them: those of `config` in its order, and the others where they were among
/// these. Of an item that both have, that of `config` is taken.
fn merge_lists(live: &[Value], config: &[Value], key: fn(&Value) -> String) -> Vec<Value> {
    let has = |items: &[Value], item: &Value| items.iter().any(|other| key(other) == key(item));
    let mut shared = config.iter().filter(|item| has(live, item)).map(key).peekable();
    let (mut left, mut right) = (live.iter().peekable(), config.iter().peekable());
    let mut merged: Vec<Value> = Vec::new();
    while left.peek().is_some() || right.peek().is_some() {
        if let (Some(one), Some(other)) = (left.peek(), right.peek()) {
            if key(one) == key(other) {
                merged.extend(right.next().cloned());
                left.next();
                shared.next();
                continue;
            }
            if has(config, one) && shared.peek().is_some_and(|next| *next != key(one)) {
                left.next();
                continue;
            }
        }
        if let Some(one) = left.peek() {
            if !has(config, one) {
                merged.extend(left.next().cloned());
                continue;
            }
            if has(&merged, one) {
                left.next();
            }
        }
        if let Some(other) = right.next() {
            shared.next_if(|next| *next == key(other));
            merged.push(other.clone());
        }
    }
    merged
}

/// Takes the member that `path` names out of `value`, and every map and list above it that is empty then and not `owned`.
pub fn remove(value: &mut Value, path: &[String], owned: &Set) {
    for length in (1..=path.len()).rev() {
        let (above, key) = (&path[..length - 1], &path[length - 1]);
        let is_leaf = length == path.len();
        let Some(parent) = find(value, above) else { continue };
        let is_over = |member: &Value| match member {
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        match parent {
            Value::Object(map) => {
                let name = key.trim_start_matches("f:");
                if is_leaf || (map.get(name).is_some_and(is_over) && !owned.contains(&path[..length])) {
                    map.remove(name);
                }
            }
            Value::Array(items) => {
                if let Some(key_of) = item_key(above) {
                    items.retain(|item| key_of(item) != *key);
                }
            }
            _ => {}
        }
    }
}

fn find<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| value.get_mut(key.trim_start_matches("f:")))
}

/// The set as FieldsV1.
pub fn write(set: &Set) -> Value {
    let mut root = Map::new();
    for path in set {
        let mut at = &mut root;
        for key in path {
            let below = at.entry(key.clone()).or_insert_with(|| json!({}));
            at = below.as_object_mut().expect("because only maps are put in");
        }
        at.insert(".".to_owned(), json!({}));
    }
    root.values_mut().filter_map(Value::as_object_mut).for_each(remove_lone_dots);
    Value::Object(root)
}

/// A dot says something only where others are below the same member.
fn remove_lone_dots(map: &mut Map<String, Value>) {
    if map.len() == 1 {
        map.remove(".");
    }
    map.values_mut().filter_map(Value::as_object_mut).for_each(remove_lone_dots);
}

/// The set that FieldsV1 means.
pub fn read(fields: &Value) -> Set {
    fn walk(fields: &Value, path: &[String], set: &mut Set) {
        let Some(map) = fields.as_object() else { return };
        if (map.is_empty() || map.contains_key(".")) && !path.is_empty() {
            set.insert(path.to_vec());
        }
        map.iter().filter(|(key, _)| *key != ".").for_each(|(key, fields)| walk(fields, &below(path, key), set));
    }
    let mut set = Set::new();
    walk(fields, &[], &mut set);
    set
}

/// A merge patch, as RFC 7386 has it.
pub fn patch(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let Some(map) = value.as_object_mut() else { return };
    for (key, member) in patch {
        if member.is_null() {
            map.remove(key);
        } else {
            self::patch(map.entry(key.clone()).or_insert(Value::Null), member);
        }
    }
}
