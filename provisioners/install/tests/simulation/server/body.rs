//! Bodies of requests and objects: what the server writes itself, what it leaves out, and which paths have owners.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::values;

/// Fields that the server alone writes.
const SERVERS: [&str; 7] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"];
/// What no manager owns.
const UNOWNED: [&str; 2] = ["name", "namespace"];

/// What somebody sends, without what the server alone writes.
pub fn own(body: &Value) -> Value {
    let mut own = without(body, &["apiVersion", "kind"]);
    if let Some(metadata) = own.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !SERVERS.contains(&key.as_str()));
    }
    own
}

pub fn without(value: &Value, keys: &[&str]) -> Value {
    let map = value.as_object().into_iter().flatten();
    map.filter(|(key, _)| !keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    }
}

/// The maps and lists of the metadata that are empty.
pub fn empty_members(value: &Value) -> BTreeSet<String> {
    let members = value["metadata"].as_object().into_iter().flatten();
    members.filter(|(_, member)| is_empty(member)).map(|(name, _)| name.clone()).collect()
}

/// Empty maps and lists that the server does not keep.
pub fn tidy(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, member| !is_empty(member));
    }
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, member| !(member.is_null() || key == "data" && is_empty(member)));
    }
}

pub fn is_owned(path: &values::Path) -> bool {
    let is_metadata = path.first().is_some_and(|key| key == "f:metadata");
    !is_metadata || path.get(1).is_some_and(|key| !UNOWNED.contains(&key.trim_start_matches("f:")))
}
