//! A kind, an object of it, and who owns its fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::values::{self, Set};

/// A kind, as it is served now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub group: String,
    pub plural: String,
    pub is_namespaced: bool,
    pub is_counted: bool,
    /// Versions that are served.
    pub versions: Vec<String>,
    /// The version that is stored.
    pub stored: String,
}

/// Name, group, plural, whether its objects are in namespaces, and whether they count generations.
pub type BuiltIn = (&'static str, &'static str, &'static str, bool, bool);

/// Names an object. Kinds are told apart by their names alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: String,
    pub name: String,
}

/// Who writes fields, and how. Appliers are known by their name alone, others by their version too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Manager {
    pub operation: Operation,
    pub name: String,
    pub subresource: String,
    pub version: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

/// What a manager owns, and when it changed that last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    pub set: Set,
    pub time: String,
}

/// An object. `value` has all of it but what the server alone writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub uid: String,
    pub version: u64,
    /// Where the kind counts generations.
    pub generation: Option<u64>,
    pub is_terminating: bool,
    /// Maps and lists of the metadata that are stored empty, and that nobody is shown. The next write drops those that it does not ask
    /// for, and so changes the object whatever else it asks for.
    pub untidy: BTreeSet<String>,
    pub value: Value,
    pub managers: BTreeMap<Manager, Owned>,
}

impl Kind {
    pub fn built_in((_, group, plural, is_namespaced, is_counted): &BuiltIn) -> Self {
        Self {
            group: (*group).to_owned(),
            plural: (*plural).to_owned(),
            is_namespaced: *is_namespaced,
            is_counted: *is_counted,
            versions: vec!["v1".to_owned()],
            stored: "v1".to_owned(),
        }
    }

    /// What a CRD with this spec defines.
    pub fn defined(spec: &Value) -> Option<Self> {
        let with = |field: &'static str| {
            let versions = spec["versions"].as_array().into_iter().flatten();
            let versions = versions.filter(move |version| version[field] == true);
            versions.filter_map(|version| Some(version["name"].as_str()?.to_owned()))
        };
        Some(Self {
            group: spec["group"].as_str()?.to_owned(),
            plural: spec["names"]["plural"].as_str()?.to_owned(),
            is_namespaced: spec["scope"] == "Namespaced",
            is_counted: true,
            versions: with("served").collect(),
            stored: with("storage").next().unwrap_or_default(),
        })
    }
}

impl Key {
    pub fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned() }
    }
}

impl Object {
    /// As the API server shows it.
    pub fn shown(&self, key: &Key, api_version: &str) -> Value {
        let mut shown = self.value.clone();
        shown["apiVersion"] = json!(api_version);
        shown["kind"] = json!(key.kind);
        let metadata = &mut shown["metadata"];
        metadata["uid"] = json!(self.uid);
        metadata["resourceVersion"] = json!(self.version.to_string());
        if let Some(generation) = self.generation {
            metadata["generation"] = json!(generation);
        }
        if self.is_terminating {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        metadata["managedFields"] = self.managers.iter().map(|(manager, owned)| entry(manager, owned)).collect();
        shown
    }

    pub fn has_finalizers(&self) -> bool {
        self.value["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
    }

    pub fn has_labels(&self, labels: &[(String, String)]) -> bool {
        labels.iter().all(|(key, value)| self.value["metadata"]["labels"][key] == value.as_str())
    }
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = json!({
        "manager": manager.name, "operation": format!("{:?}", manager.operation), "time": owned.time,
        "apiVersion": manager.version, "fieldsType": "FieldsV1", "fieldsV1": values::write(&owned.set),
    });
    if !manager.subresource.is_empty() {
        entry["subresource"] = json!(manager.subresource);
    }
    entry
}

pub fn read_entry(entry: &Value, now: &str) -> (Manager, Owned) {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let operation = if entry["operation"] == "Apply" { Operation::Apply } else { Operation::Update };
    let manager =
        Manager { operation, name: text("manager"), subresource: text("subresource"), version: text("apiVersion") };
    let time = entry["time"].as_str().unwrap_or(now).to_owned();
    (manager, Owned { set: values::read(&entry["fieldsV1"]), time })
}
