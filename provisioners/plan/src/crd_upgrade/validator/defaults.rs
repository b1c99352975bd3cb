//! Defaults, as the API server fills them in when it reads an object.

use serde_json::Value;

/// The object with its missing fields that have a default, and with defaults for null fields that must not be null.
pub(super) fn filled_in(schema: &Value, object: &Value) -> Value {
    let mut object = object.clone();
    fill_in(schema, &mut object);
    object
}

fn fill_in(schema: &Value, object: &mut Value) {
    match object {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, member) in properties.into_iter().flatten() {
                let Some(default) = member.get("default").filter(|default| !default.is_null()) else { continue };
                let nullable = member.get("nullable").is_some_and(|value| value == true);
                let missing = fields.get(name).is_none_or(|value| value.is_null() && !nullable);
                if missing {
                    fields.insert(name.clone(), default.clone());
                }
            }
            let others = schema.get("additionalProperties").filter(|schema| schema.is_object());
            for (name, value) in fields {
                if let Some(member) = properties.and_then(|properties| properties.get(name)).or(others) {
                    fill_in(member, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items").filter(|schema| schema.is_object()) {
                for item in items {
                    fill_in(schema, item);
                }
            }
        }
        _ => {}
    }
}
