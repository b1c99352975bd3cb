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
    let kind = text("/kind");
    let is_elsewhere = kind.ends_with("WebhookConfiguration") || kind == "VerticalPodAutoscaler";
    let namespace = if is_elsewhere { String::new() } else { text("/metadata/namespace") };
    (text("/apiVersion"), kind, namespace, text("/metadata/name"))
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
        if key.1 == "ServiceAccount" && is_bare(&object) && known.get(&key).is_some_and(|ours| !is_bare(ours)) {
            result.differences.push("shipped service account");
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
            self.differences.push("repeated object");
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
            (Value::String(left), Value::String(right))
                if path.contains("/resources/") && is_same_amount(left, right) =>
            {
                self.differences.push("spelling of quantities");
            }
            (left, right) => self.unexplained.push(format!("{key:?} {path}: ours {left}, golden {right}")),
        }
    }

    fn only_ours(&mut self, key: &Key, path: &str, value: &Value) {
        match (key.1.as_str(), path) {
            _ if is_old_definition(key) => self.differences.push("v1beta1 definition"),
            ("Deployment", "/spec/template/metadata/annotations/olm.operatorNamespace") => {
                self.differences.push("olm.operatorNamespace");
            }
            ("VerticalPodAutoscaler", "/metadata/namespace") => {
                self.differences.push("namespace of VerticalPodAutoscalers");
            }
            ("Deployment" | "CustomResourceDefinition", _) if is_zero(value) => {}
            _ => self.unexplained.push(format!("{key:?} {path}: only ours: {}", short(value))),
        }
    }

    fn only_golden(&mut self, key: &Key, path: &str, value: &Value) {
        let is_empty = value.as_object().is_some_and(serde_json::Map::is_empty);
        match (key.1.as_str(), path) {
            _ if is_old_definition(key) => return self.differences.push("v1beta1 definition"),
            ("ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration", "/metadata/namespace") => {
                return self.differences.push("namespace of webhook configurations");
            }
            // Go always writes these two structures.
            ("Deployment", path) if is_empty && (path == "/spec/strategy" || path.ends_with("/resources")) => return,
            _ => {}
        }
        self.unexplained.push(format!("{key:?} {path}: only golden: {}", short(value)));
    }
}

/// Whether two quantities are the same number: `1000m` and `1`.
fn is_same_amount(left: &str, right: &str) -> bool {
    let amount = |text: &str| {
        let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let factor = match &text[end..] {
            "" => 1.0,
            "m" => 1e-3,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "Ki" => 1024.0,
            "Mi" => 1024.0 * 1024.0,
            "Gi" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        Some(text[..end].parse::<f64>().ok()? * factor)
    };
    amount(left).is_some_and(|left| amount(right).is_some_and(|right| (left - right).abs() < 1e-9))
}

fn is_old_definition(key: &Key) -> bool {
    key.0 == "apiextensions.k8s.io/v1beta1"
}

/// What Go leaves out of a typed object, and every reader takes for absent.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// A service account of nothing but a name and a namespace.
fn is_bare(object: &Value) -> bool {
    let has = |value: &Value, count| value.as_object().is_some_and(|map| map.len() == count);
    has(object, 3) && has(&object["metadata"], 2)
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}
