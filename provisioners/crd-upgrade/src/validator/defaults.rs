//! Defaults, as the API server fills them in when it reads an object.

use serde_json::Value;

use crate::effort::Effort;

/// What defaults may add to one object, in bytes of text and 32 for each value: a list may have many items, and each of them gets
/// its own.
const MAX_ADDED_BYTES: usize = 16 << 20;

/// The object with its missing fields that have a default, and with defaults for null fields that must not be null.
pub(super) fn filled_in(schema: &Value, object: &Value, effort: &Effort<'_>) -> Value {
    let (mut object, mut left) = (object.clone(), MAX_ADDED_BYTES);
    fill_in(schema, &mut object, &mut left, effort);
    object
}

fn size(value: &Value) -> usize {
    32 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| 32 + name.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn fill_in(schema: &Value, object: &mut Value, left: &mut usize, effort: &Effort<'_>) {
    if !effort.spend(1) {
        return;
    }
    match object {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, member) in properties.into_iter().flatten() {
                let Some(default) = member.get("default").filter(|default| !default.is_null()) else { continue };
                let nullable = member.get("nullable").is_some_and(|value| value == true);
                let missing = fields.get(name).is_none_or(|value| value.is_null() && !nullable);
                if !effort.spend(1) {
                    return;
                }
                if missing {
                    match left.checked_sub(name.len() + size(default)) {
                        Some(rest) => *left = rest,
                        None => return effort.exhaust(),
                    }
                    fields.insert(name.clone(), default.clone());
                }
            }
            let others = schema.get("additionalProperties").filter(|schema| schema.is_object());
            for (name, value) in fields {
                if let Some(member) = properties.and_then(|properties| properties.get(name)).or(others) {
                    fill_in(member, value, left, effort);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items").filter(|schema| schema.is_object()) {
                for item in items {
                    fill_in(schema, item, left, effort);
                }
            }
        }
        _ => {}
    }
}
