//! A document to objects: Lists are flattened, everything has a kind.

use std::sync::Arc;

use rukpak_plain::{Budget, Origin, Warning, type_name};
use serde_json::{Map, Value};

use super::ObjectsError;

/// Calls `add` for the object in `value`, or for those of a List. The depth of the recursion is that of the value.
pub(super) fn flatten(
    mut value: Value,
    origin: Origin,
    add: &mut dyn FnMut(Value, Origin) -> Result<(), ObjectsError>,
) -> Result<(), ObjectsError> {
    let Value::Object(map) = &mut value else {
        return Err(ObjectsError::NotAnObject { found: type_name(&value), origin });
    };
    if is_missing(map, "kind") {
        return Err(ObjectsError::Missing { origin, field: "Kind" });
    }
    let is_list = map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    if !is_list || !map.contains_key("items") {
        return add(value, origin);
    }
    let items = match map.remove("items") {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => return Ok(()),
        Some(_) => return Err(ObjectsError::Items(origin)),
    };
    for (index, item) in items.into_iter().enumerate() {
        let path = match &origin.item {
            Some(outer) => format!("{outer}.items[{index}]"),
            None => format!("items[{index}]"),
        };
        flatten(item, Origin { item: Some(Arc::from(path)), ..origin.clone() }, add)?;
    }
    Ok(())
}

/// Gives an object without an apiVersion the one that OLM installs its kind with, and says which. Fails for other kinds.
pub(super) fn complete_version(
    value: &mut Value,
    kind: &str,
    origin: &Origin,
    budget: &mut Budget<'_>,
) -> Result<(), ObjectsError> {
    let Some(map) = value.as_object_mut().filter(|map| is_missing(map, "apiVersion")) else { return Ok(()) };
    // OLM reads these by their kind alone, into the types that it was built with.
    let api_version = match kind {
        "ClusterServiceVersion" => "operators.coreos.com/v1alpha1",
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => "rbac.authorization.k8s.io/v1",
        "ConfigMap" | "Secret" | "Service" | "ServiceAccount" => "v1",
        _ => return Err(ObjectsError::Missing { origin: origin.clone(), field: "apiVersion" }),
    };
    map.insert("apiVersion".to_owned(), Value::from(api_version));
    budget.warn(|| Warning::AssumedVersion { origin: origin.clone(), api_version });
    Ok(())
}

fn is_missing(map: &Map<String, Value>, field: &str) -> bool {
    map.get(field).and_then(Value::as_str).is_none_or(str::is_empty)
}
