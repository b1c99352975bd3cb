//! Whether two schemas say the same.

use serde_json::Value;

use super::effort::Effort;

/// Words that do not constrain: what they say may change freely.
const DOCUMENTATION: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// Whether two schemas accept the same objects as far as their text tells: they differ in documentation at most.
pub(super) fn says_the_same(left: &Value, right: &Value, effort: &Effort<'_>) -> bool {
    if !effort.spend(1) {
        return false;
    }
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
            let both_unset =
                |key: &str| key != "additionalProperties" && is_unset(left.get(key)) && is_unset(right.get(key));
            keys.filter(|key| !both_unset(key)).filter(|key| !DOCUMENTATION.contains(&key.as_str())).all(|key| {
                let (left, right) = (left.get(key).unwrap_or(&Value::Null), right.get(key).unwrap_or(&Value::Null));
                match key.as_str() {
                    "default" | "enum" => left == right,
                    "properties" | "patternProperties" | "definitions" | "dependencies" => {
                        same_members(left, right, effort)
                    }
                    _ => says_the_same(left, right, effort),
                }
            })
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| says_the_same(left, right, effort))
        }
        _ => left == right,
    }
}

/// Whether a word says nothing; API servers leave it out then. `additionalProperties` alone says something by `false`.
pub(super) fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Names of members may be words of the schema language, `description` for one.
fn same_members(left: &Value, right: &Value, effort: &Effort<'_>) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, left)| right.get(name).is_some_and(|right| says_the_same(left, right, effort)))
        }
        _ => left == right,
    }
}
