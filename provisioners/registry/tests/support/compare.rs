//! Objects field by field, with the table of deliberate differences.

use std::collections::BTreeMap;

use rukpak_plain::{Object, Origin};
use serde_json::Value;

/// How two sets of objects compare.
#[derive(Default)]
pub struct Comparison {
    /// Rows of the table in the README.
    pub differences: Vec<&'static str>,
    /// What no row explains.
    pub unexplained: Vec<String>,
}

type Key = (String, String, String, String);

fn key(object: &Value) -> Key {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let namespace = if text("/kind").ends_with("WebhookConfiguration") { String::new() } else { text("/metadata/namespace") };
    (text("/apiVersion"), text("/kind"), namespace, text("/metadata/name"))
}

/// Compares what is applied: server fields are taken out of both.
pub fn compare(ours: Vec<Value>, golden: &Value) -> Comparison {
    let mut result = Comparison::default();
    let mut known: BTreeMap<Key, Value> = ours.into_iter().map(|object| (key(&object), object)).collect();
    let mut seen: BTreeMap<Key, Value> = BTreeMap::new();
    for object in golden.as_array().into_iter().flatten() {
        let object = match Object::new(object.clone(), Origin::made_from("golden")) {
            Ok(object) => object.without_server_fields(&mut Vec::new()).into_value(),
            Err(error) => {
                result.unexplained.push(format!("golden object: {error}"));
                continue;
            }
        };
        let key = key(&object);
        if let Some(first) = seen.get(&key) {
            result.repeated(&key, first, &object);
            continue;
        }
        seen.insert(key.clone(), object.clone());
        match known.remove(&key) {
            Some(ours) => result.fields(&key, "", &ours, &object),
            None => result.unexplained.push(format!("{key:?} is missing")),
        }
    }
    result.unexplained.extend(known.into_keys().map(|key| format!("{key:?} is not in the golden")));
    result
}

impl Comparison {
    fn repeated(&mut self, key: &Key, first: &Value, second: &Value) {
        let mut same = Self::default();
        same.fields(key, "", first, second);
        if same.unexplained.is_empty() && same.differences.is_empty() {
            self.differences.push("repeated");
        } else {
            self.unexplained.push(format!("{key:?} is in the golden twice and differs"));
        }
    }

    fn fields(&mut self, key: &Key, path: &str, ours: &Value, golden: &Value) {
        match (ours, golden) {
            (Value::Object(left), Value::Object(right)) => {
                for (name, value) in left {
                    let path = format!("{path}/{name}");
                    match right.get(name) {
                        Some(golden) => self.fields(key, &path, value, golden),
                        None => self.only_ours(key, &path, value),
                    }
                }
                for (name, value) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
                    self.only_golden(key, &format!("{path}/{name}"), value);
                }
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    self.fields(key, &format!("{path}/{index}"), left, right);
                }
            }
            (Value::Array(left), Value::Null) if left.is_empty() => {}
            (Value::Number(left), Value::Number(right)) if left.as_f64() == right.as_f64() => {}
            (left, right) if left == right => {}
            (left, right) => self.unexplained.push(format!("{key:?} {path}: ours {left}, golden {right}")),
        }
    }

    fn only_ours(&mut self, key: &Key, path: &str, value: &Value) {
        self.unexplained.push(format!("{key:?} {path}: only ours: {}", short(value)));
    }

    fn only_golden(&mut self, key: &Key, path: &str, value: &Value) {
        self.unexplained.push(format!("{key:?} {path}: only golden: {}", short(value)));
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}
