//! A Deployment's specification: typed, so that wrong types are found here and fields that no API server knows are left out.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DeploymentSpec;
use rukpak_plain::Few;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Deployment;
use crate::decode::{Path, decode};

/// As it stands in the manifest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    name: String,
    label: BTreeMap<String, String>,
    spec: Value,
}

impl<'de> Deserialize<'de> for Deployment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { name, label, mut spec } = Written::deserialize(deserializer)?;
        if spec.is_null() {
            return Ok(Self { name, label, ..Self::default() });
        }
        quantities_to_text(&mut spec);
        let typed: DeploymentSpec = decode(&spec, "spec").map_err(D::Error::custom)?;
        let kept = serde_json::to_value(&typed).map_err(D::Error::custom)?;
        let mut unknown_fields = Few::default();
        lost(&spec, &kept, &Path::Field(&Path::Root, "spec"), &mut unknown_fields);
        Ok(Self { name, label, spec: typed, unknown_fields })
    }
}

/// Quantities may be written as numbers.
fn quantities_to_text(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(quantities_to_text),
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("limits" | "requests", Value::Object(quantities)) => quantities.values_mut().for_each(to_text),
                    ("sizeLimit" | "divisor", value) => to_text(value),
                    (_, value) => quantities_to_text(value),
                }
            }
        }
        _ => {}
    }
}

fn to_text(value: &mut Value) {
    if let Value::Number(number) = value {
        *value = Value::String(number.to_string());
    }
}

/// The paths of the fields that `written` has and `kept` has not.
fn lost(written: &Value, kept: &Value, path: &Path<'_>, paths: &mut Few<String>) {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            for (key, value) in written {
                let path = Path::Field(path, key);
                match kept.get(key) {
                    Some(kept) => lost(value, kept, &path, paths),
                    None => paths.push_with(|| path.to_string()),
                }
            }
        }
        (Value::Array(written), Value::Array(kept)) => {
            for (index, (written, kept)) in written.iter().zip(kept).enumerate() {
                lost(written, kept, &Path::Index(path, index), paths);
            }
        }
        _ => {}
    }
}
