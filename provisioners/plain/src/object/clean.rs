//! What is taken out of a manifest before it is applied.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Object;
use crate::Warning;

/// Metadata that only the server sets, or that only it can know.
const SERVER_METADATA: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
];

impl Object {
    /// The object as it is applied on the server's side.
    ///
    /// Without `status` and without the metadata that servers set; null metadata fields are left out too, all other
    /// nulls stay (a custom resource may mean them). A Secret's `stringData` becomes `data`, where it wins, for the
    /// server would record the one and store the other. `metadata.ownerReferences` are dropped with a warning.
    #[must_use]
    pub fn without_server_fields(&self, warnings: &mut Vec<Warning>) -> Self {
        let is_secret = self.api_version() == "v1" && self.kind() == "Secret";
        let metadata = self.metadata();
        let is_server = |name: &str, value: &Value| value.is_null() || SERVER_METADATA.contains(&name);
        let is_touched = self.map.contains_key("status")
            || metadata.is_some_and(|metadata| metadata.iter().any(|(name, value)| is_server(name, value)))
            || (is_secret && self.map.contains_key("stringData"));
        if !is_touched {
            return self.clone();
        }
        if metadata.and_then(|metadata| metadata.get("ownerReferences")).is_some_and(|owners| !owners.is_null()) {
            warnings.push(Warning::OwnerReferences { key: self.key(), origin: self.origin.clone() });
        }
        let mut map = (*self.map).clone();
        map.remove("status");
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            metadata.retain(|name, value| !is_server(name, value));
        }
        if is_secret {
            encode_string_data(&mut map);
        }
        Self { map: Arc::new(map), origin: self.origin.clone() }
    }
}

fn encode_string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    // Data that is not a mapping stays as it is: the server's refusal names it.
    if let Value::Object(data) = data {
        for (key, value) in plain {
            data.insert(key, Value::String(STANDARD.encode(value.as_str().unwrap_or_default())));
        }
    }
}
