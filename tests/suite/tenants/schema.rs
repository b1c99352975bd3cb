//! Values for fields, from the schemas: a new field is tried by itself.

use serde_json::{Map, Value, json};

/// A field, as a merge patch of its object that gives it another value.
pub struct Field {
    /// Its path, with dots.
    pub path: String,
    pub patch: Value,
}

/// Every field below `schema`, which describes `current`, the value of the field `path`.
pub fn fields(schema: &Value, current: Option<&Value>, path: &str) -> Vec<Field> {
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
    let Some(properties) = properties else {
        // There is no other value.
        if current.is_some() && schema["enum"].as_array().is_some_and(|values| values.len() == 1) {
            return Vec::new();
        }
        let value = other(schema, current.unwrap_or(&Value::Null));
        return vec![Field { path: path.to_owned(), patch: nested(path, value) }];
    };
    let mut all = Vec::new();
    for (name, property) in properties {
        let inner = fields(property, current.and_then(|current| current.get(name)), &format!("{path}.{name}"));
        all.extend(inner.into_iter().map(|mut field| {
            // What is not there yet needs what belongs to it.
            if current.is_none() {
                let mut whole = nested(path, required(schema));
                merge(&mut whole, &field.patch);
                field.patch = whole;
            }
            field
        }));
    }
    all
}

fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, name| json!({name: value}))
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// The required fields of an object that is not there.
fn required(schema: &Value) -> Value {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Value::Object(
        names.map(|name| (name.to_owned(), other(&schema["properties"][name], &Value::Null))).collect::<Map<_, _>>(),
    )
}

/// A value of the schema, and not this one.
fn other(schema: &Value, current: &Value) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().find(|value| *value != current).cloned().unwrap_or_else(|| values[0].clone());
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(current != &json!(true)),
        Some("integer" | "number") => json!(if current == &json!(3) { 4 } else { 3 }),
        Some("array") => json!([other(&schema["items"], &Value::Null)]),
        Some("object") if schema["properties"].is_object() => {
            let mut value = required(schema);
            if value == json!({})
                && let Some((name, property)) = schema["properties"].as_object().and_then(|all| all.iter().next())
            {
                value = json!({name: other(property, &Value::Null)});
            }
            value
        }
        Some("string") => json!(text(schema)),
        _ => json!({"changed": "changed"}),
    }
}

fn text(schema: &Value) -> &'static str {
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    match schema["format"].as_str() {
        Some("date-time") => "2026-01-01T00:00:00Z",
        _ if pattern.contains("ms|s|m|h") => "7m",
        _ => "changed",
    }
}
