//! A document to objects: Lists are flattened, everything has a kind and a version.

use std::sync::Arc;

use rukpak_plain::Origin;
use serde_json::Value;

use super::{ObjectsError, found};

/// Calls `add` for the object in `value`, or for those of a List. The depth of the recursion is that of the value.
pub(super) fn flatten(
    mut value: Value,
    origin: Origin,
    add: &mut dyn FnMut(Value, Origin) -> Result<(), ObjectsError>,
) -> Result<(), ObjectsError> {
    let Value::Object(map) = &mut value else {
        return Err(ObjectsError::NotAnObject { found: found(&value), origin });
    };
    for (field, name) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if map.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(ObjectsError::Missing { origin, field: name });
        }
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
