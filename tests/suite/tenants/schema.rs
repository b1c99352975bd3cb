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
        if current.is_some() && has_one_value(schema) {
            return Vec::new();
        }
        let name = path.rsplit('.').next().unwrap_or_default();
        let value = other(name, schema, current.unwrap_or(&Value::Null));
        return vec![Field { path: path.to_owned(), patch: nested(path, value) }];
    };
    let mut all = Vec::new();
    for (name, property) in properties {
        let inner = fields(property, current.and_then(|current| current.get(name)), &format!("{path}.{name}"));
        all.extend(inner.into_iter().map(|mut field| {
            let mut whole = nested(path, chosen(schema, name));
            // What is not there yet needs what belongs to it.
            if current.is_none() {
                merge(&mut whole, &nested(path, required(schema)));
                merge(&mut whole, &nested(path, chosen(schema, name)));
            }
            merge(&mut whole, &field.patch);
            field.patch = whole;
            field
        }));
    }
    all
}

/// Whether there is no other value: the only one of an enumeration, or an object without fields.
fn has_one_value(schema: &Value) -> bool {
    let is_empty = schema["type"] == "object"
        && schema["properties"].is_null()
        && schema["additionalProperties"].is_null()
        && schema["x-kubernetes-preserve-unknown-fields"].is_null();
    is_empty || schema["enum"].as_array().is_some_and(|values| values.len() == 1)
}

/// What has to stand beside the field `name`: of fields that exclude one another it is the only one, and their type names it.
fn chosen(schema: &Value, name: &str) -> Value {
    let properties = &schema["properties"];
    let is_named = properties["type"]["type"] == "string" && properties["type"]["enum"].is_null();
    let mut alternatives: Vec<&str> = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one.pointer("/required/0")?.as_str())
        .collect();
    // Some schemas leave it to the webhook.
    if alternatives.is_empty() && is_named {
        let all = properties.as_object().into_iter().flatten();
        alternatives = all.filter(|(_, one)| one["type"] == "object").map(|(name, _)| name.as_str()).collect();
    }

    let mut beside = Map::new();
    if alternatives.contains(&name) {
        let others = alternatives.iter().filter(|other| **other != name);
        beside.extend(others.map(|other| ((*other).to_owned(), Value::Null)));
        if is_named {
            beside.insert("type".to_owned(), json!(name));
        }
    }
    if name == "configType" {
        beside.insert("inline".to_owned(), json!({"changed": "changed"}));
    }
    Value::Object(beside)
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
    let value = |name: &str| other(name, &schema["properties"][name], &Value::Null);
    Value::Object(names.map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>())
}

/// A value of the schema for the field `name`, and not this one.
fn other(name: &str, schema: &Value, current: &Value) -> Value {
    if name == "progressionProbes" {
        let selector = json!({"type": "GroupKind", "groupKind": {"group": "", "kind": "Pod"}});
        let equal = json!({"type": "ConditionEqual", "conditionEqual": {"type": "Ready", "status": "True"}});
        return json!([{"selector": selector, "assertions": [equal]}]);
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().find(|value| *value != current).cloned().unwrap_or_else(|| values[0].clone());
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(current != &json!(true)),
        Some("integer" | "number") => {
            // A schema has its numbers as floats.
            let least = schema["minimum"].as_f64().map(|least| format!("{least:.0}"));
            let least = least.and_then(|least| least.parse().ok()).unwrap_or(3_i64);
            json!(if current == &json!(least) { least + 1 } else { least })
        }
        Some("array") => json!([other(name, &schema["items"], &Value::Null)]),
        Some("object") if schema["properties"].is_object() => {
            let mut value = required(schema);
            let alternatives = schema["oneOf"].as_array();
            if value == json!({})
                && let Some(one) = alternatives.and_then(|all| all.last()?.pointer("/required/0")?.as_str())
            {
                value = json!({one: other(one, &schema["properties"][one], &Value::Null)});
            }
            if value == json!({})
                && let Some((name, property)) = schema["properties"].as_object().and_then(|all| all.iter().next())
            {
                value = json!({name: other(name, property, &Value::Null)});
            }
            value
        }
        Some("string") => json!(text(name, schema)),
        _ => json!({"changed": "changed"}),
    }
}

/// A text that the schema takes: what rules in CEL ask of a field is known by its name.
fn text(name: &str, schema: &Value) -> String {
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    match name {
        _ if schema["format"] == "date-time" => "2026-01-01T00:00:00Z".to_owned(),
        _ if pattern.contains("ms|s|m|h") => "7m".to_owned(),
        _ if pattern.starts_with("^(/") => "/changed".to_owned(),
        _ if pattern.starts_with("^sha256:") => format!("sha256:{}", "0".repeat(64)),
        "schedule" => "0 2 * * 6".to_owned(),
        "version" => "9.9.9".to_owned(),
        "ref" => format!("registry.example.com/changed@sha256:{}", "0".repeat(64)),
        "base" => "https://changed.example.com".to_owned(),
        "digest" => format!("sha256:{}", "0".repeat(64)),
        _ => "changed".to_owned(),
    }
}
