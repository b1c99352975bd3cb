//! What differs between two states of one object. Pure.

use std::collections::BTreeSet;

use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What is shown of the values of Secrets.
pub(super) const MASK: &str = "***";
/// Of the metadata, what somebody declares; servers set the rest.
const METADATA: [&str; 4] = ["labels", "annotations", "ownerReferences", "finalizers"];
/// Where kubectl keeps a copy of the object, of Secrets, too.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FieldChange {
    /// As `rukpakctl why` writes it: `.spec.template.spec.containers[name=manager].image`.
    pub path: String,
    /// What it is; absent if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What it would be; absent if it would go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// What of an object can differ by somebody's wish: neither its status nor what servers set.
pub(super) fn declared(object: &DynamicObject) -> Value {
    let mut value = if object.data.is_object() { object.data.clone() } else { json!({}) };
    value["metadata"] = serde_json::to_value(&object.metadata).unwrap_or_default();
    declared_in(&value)
}

/// As [`declared`], of a whole body.
pub(super) fn declared_in(body: &Value) -> Value {
    let mut value = body.clone();
    let metadata = value["metadata"].take();
    let kept: Map<String, Value> =
        METADATA.iter().filter_map(|&key| Some((key.to_owned(), metadata.get(key)?.clone()))).collect();
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !["apiVersion", "kind", "status"].contains(&key.as_str()));
        map.insert("metadata".to_owned(), Value::Object(kept));
    }
    value
}

/// Every field that differs, by path. Of a Secret it is told which values differ, and none is shown.
pub(super) fn changes(before: &Value, after: &Value, is_secret: bool) -> Vec<FieldChange> {
    let mut all = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut all);
    for change in &mut all {
        if is_secret && is_sensitive(&change.path) {
            change.before = change.before.take().map(|_| json!(MASK));
            change.after = change.after.take().map(|_| json!(MASK));
        }
    }
    all
}

fn is_sensitive(path: &str) -> bool {
    path.starts_with(".data") || path.starts_with(".stringData") || path.contains(LAST_APPLIED)
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, all: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => maps(&path, old, new, all),
        // A map that comes or goes is told field by field.
        (None, Some(Value::Object(new))) if !new.is_empty() => maps(&path, &Map::new(), new, all),
        (Some(Value::Object(old)), None) if !old.is_empty() => maps(&path, old, &Map::new(), all),
        (Some(Value::Array(old)), Some(Value::Array(new))) => match (named(old), named(new)) {
            (Some(old_names), Some(new_names)) => {
                let item = |list: &'_ [Value], name: &str| list.iter().find(|item| item["name"] == *name).cloned();
                for name in old_names.union(&new_names) {
                    let (was, is) = (item(old, name), item(new, name));
                    // An item that comes or goes is told as a whole.
                    compare_items(format!("{path}[name={name}]"), was.as_ref(), is.as_ref(), all);
                }
                order(&path, (old, &old_names), (new, &new_names), all);
            }
            _ => {
                for index in 0..old.len().max(new.len()) {
                    compare_items(format!("{path}[{index}]"), old.get(index), new.get(index), all);
                }
            }
        },
        _ => all.push(FieldChange { path, before: before.cloned(), after: after.cloned() }),
    }
}

/// The order of named items is told if those that stay have another one: init containers run in theirs.
fn order(
    path: &str,
    (old, old_names): (&[Value], &BTreeSet<String>),
    (new, new_names): (&[Value], &BTreeSet<String>),
    all: &mut Vec<FieldChange>,
) {
    let names = |list: &[Value], others: &BTreeSet<String>| {
        let names = list.iter().filter_map(|item| item["name"].as_str());
        names.filter(|name| others.contains(*name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let (before, after) = (names(old, new_names), names(new, old_names));
    if before != after {
        all.push(FieldChange {
            path: format!("{path}[*].name"),
            before: Some(json!(before)),
            after: Some(json!(after)),
        });
    }
}

fn maps(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, all: &mut Vec<FieldChange>) {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        compare(format!("{path}.{key}"), old.get(key), new.get(key), all);
    }
}

fn compare_items(path: String, was: Option<&Value>, is: Option<&Value>, all: &mut Vec<FieldChange>) {
    if was.is_some() && is.is_some() {
        compare(path, was, is, all);
    } else {
        all.push(FieldChange { path, before: was.cloned(), after: is.cloned() });
    }
}

/// The names of the items of a list, if each has one of its own.
fn named(list: &[Value]) -> Option<BTreeSet<String>> {
    let names: Option<BTreeSet<String>> =
        list.iter().map(|item| item.get("name").and_then(Value::as_str).map(str::to_owned)).collect();
    names.filter(|names| names.len() == list.len())
}

/// What becomes of `live` where the API server cannot be asked: the fields of `body` in the place of its own.
pub(super) fn overlaid(live: &Value, body: &Value) -> Value {
    match (live, body) {
        (Value::Object(live), Value::Object(body)) => {
            let mut all = live.clone();
            for (key, value) in body {
                let value = all.get(key).map_or_else(|| value.clone(), |live| overlaid(live, value));
                all.insert(key.clone(), value);
            }
            Value::Object(all)
        }
        _ => body.clone(),
    }
}

/// Puts what is in the cluster where the bundle has a placeholder: certificates are made there, and are no part of a bundle.
pub(super) fn fill(body: &mut Value, live: &Value, placeholder: &str) {
    match body {
        Value::String(text) if text == placeholder => *body = live.clone(),
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| {
            if let Some(live) = live.get(key) {
                fill(value, live, placeholder);
            }
        }),
        Value::Array(items) => {
            let live = live.as_array().map(Vec::as_slice).unwrap_or_default();
            for (index, item) in items.iter_mut().enumerate() {
                let name = item.get("name").cloned();
                let same = live.iter().find(|other| name.is_some() && other.get("name") == name.as_ref());
                if let Some(live) = same.or_else(|| live.get(index)) {
                    fill(item, live, placeholder);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &Value, after: &Value, is_secret: bool) -> Vec<String> {
        let text = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), Value::to_string);
        let all = changes(before, after, is_secret);
        all.iter().map(|one| format!("{} {} {}", one.path, text(&one.before), text(&one.after))).collect()
    }

    #[test]
    fn fields_are_told_by_path_and_items_by_name() {
        let before = json!({"spec": {"replicas": 1, "containers": [{"name": "a", "image": "x:1"}, {"name": "b"}], "args": ["-v"]},
            "data": {"old": "x"}});
        let after = json!({"spec": {"replicas": 1, "containers": [{"name": "c"}, {"name": "a", "image": "x:2"}], "args": ["-v", "-q"]},
            "metadata": {"labels": {"team": "a"}}});
        let wanted = [
            ".data.old \"x\" none",
            ".metadata.labels.team none \"a\"",
            ".spec.args[1] none \"-q\"",
            ".spec.containers[name=a].image \"x:1\" \"x:2\"",
            ".spec.containers[name=b] {\"name\":\"b\"} none",
            ".spec.containers[name=c] none {\"name\":\"c\"}",
        ];
        assert_eq!(told(&before, &after, false), wanted);
        assert!(told(&after, &after, false).is_empty());
    }

    #[test]
    fn another_order_of_items_is_told() {
        let items =
            |names: &[&str]| json!({"items": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
        let wanted = [r#".items[name=c] none {"name":"c"}"#, r#".items[*].name ["a","b"] ["b","a"]"#];
        assert_eq!(told(&items(&["a", "b"]), &items(&["b", "c", "a"]), false), wanted);
        assert!(told(&items(&["a", "b"]), &items(&["a", "b"]), false).is_empty());
    }

    #[test]
    fn values_of_secrets_are_never_shown() {
        let before = json!({"data": {"a": "b2xk", "gone": "eA=="}, "type": "Opaque",
            "metadata": {"annotations": {LAST_APPLIED: "{\"data\": 1}"}}});
        let after = json!({"data": {"a": "bmV3"}, "type": "Other", "metadata": {"annotations": {LAST_APPLIED: "{}"}}});
        let wanted = [
            ".data.a \"***\" \"***\"",
            ".data.gone \"***\" none",
            ".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration \"***\" \"***\"",
            ".type \"Opaque\" \"Other\"",
        ];
        assert_eq!(told(&before, &after, true), wanted);
        // All of the data may come or go, too.
        assert_eq!(told(&json!({"data": {}}), &json!({"data": null}), true), [".data \"***\" \"***\""]);
    }

    #[test]
    fn certificates_are_taken_from_the_cluster() {
        let mut body = json!({"webhooks": [{"name": "b", "ca": "P"}, {"name": "a", "ca": "P"}], "data": {"k": "P"}});
        let live = json!({"webhooks": [{"name": "a", "ca": "A"}, {"name": "b", "ca": "B"}]});
        fill(&mut body, &live, "P");
        let wanted = json!({"webhooks": [{"name": "b", "ca": "B"}, {"name": "a", "ca": "A"}], "data": {"k": "P"}});
        assert_eq!(body, wanted);
    }

    #[test]
    fn what_cannot_be_tried_is_laid_over_what_is() {
        let live = json!({"spec": {"a": 1, "b": {"c": 1}}, "status": {}});
        let wanted = json!({"spec": {"a": 1, "b": {"c": 2, "d": [1]}}, "status": {}});
        assert_eq!(overlaid(&live, &json!({"spec": {"b": {"c": 2, "d": [1]}}})), wanted);
    }
}
