//! The files of `metadata/`: annotations, properties, dependencies.

use std::collections::BTreeMap;
use std::sync::Arc;

use rukpak_content::{BundleTree, Entry, LimitExceeded};
use rukpak_plain::{Budget, type_name, yaml};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::FieldError;
use crate::decode::{decode, drop_nulls};
use crate::name::go_escaped;

/// The annotation with the package's name.
pub const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
/// The annotation with the channels that a catalog has the bundle in, separated by commas.
pub const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
/// The CSV annotation that carries properties.
pub const PROPERTIES: &str = "olm.properties";
/// The property that lists objects which may be left out.
pub const OPTIONAL_MANIFESTS: &str = "olm.manifests.optional";

pub(crate) const ANNOTATIONS_FILE: &str = "metadata/annotations.yaml";
const PROPERTIES_FILE: &str = "metadata/properties.yaml";
const DEPENDENCIES_FILE: &str = "metadata/dependencies.yaml";

/// A fact about a bundle, or something it needs: `olm.gvk`, `olm.package`, `olm.constraint`, ….
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Property {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value; the type says what it holds.
    #[serde(default)]
    pub value: Value,
}

/// What `metadata/` says.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// `annotations.yaml`.
    pub annotations: BTreeMap<String, String>,
    /// `properties.yaml`.
    pub properties: Vec<Property>,
    /// `dependencies.yaml`.
    pub dependencies: Vec<Property>,
    /// Why `dependencies.yaml` could not be read. The reference does not read it at all, so this refuses nothing.
    pub dependencies_problem: Option<Arc<Error>>,
}

/// An object that may be left out where its kind is not served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OptionalManifest {
    /// The API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace as the manifest has it, if that matters.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Why a file of `metadata/` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is missing.
    #[error("open {0}: file does not exist: a registry+v1 bundle keeps its package's name in it")]
    Missing(&'static str),
    /// The file is not YAML.
    #[error(transparent)]
    Yaml(#[from] yaml::Error),
    /// Too large.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// A field has a wrong type.
    #[error("{file}")]
    Field {
        /// The file.
        file: &'static str,
        /// What is wrong in it.
        source: FieldError,
    },
    /// The CSV's annotation `olm.properties` is no JSON list.
    #[error("annotation {PROPERTIES} of the ClusterServiceVersion is not a JSON list of properties")]
    Annotation(#[source] serde_json::Error),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    annotations: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Properties {
    properties: Vec<Property>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Dependencies {
    dependencies: Vec<Property>,
}

impl Metadata {
    /// Reads the folder. Only `annotations.yaml` is required.
    pub fn read(tree: &BundleTree, budget: &mut Budget<'_>) -> Result<Self, Error> {
        let written: Annotations = file(tree, ANNOTATIONS_FILE, budget)?.ok_or(Error::Missing(ANNOTATIONS_FILE))?;
        let properties: Properties = file(tree, PROPERTIES_FILE, budget)?.unwrap_or_default();
        let (dependencies, problem) = match file::<Dependencies>(tree, DEPENDENCIES_FILE, budget) {
            Ok(read) => (read.unwrap_or_default().dependencies, None),
            // The budget is that of the whole bundle.
            Err(error @ (Error::Limit(_) | Error::Yaml(yaml::Error::Limit(_)))) => return Err(error),
            Err(error) => (Vec::new(), Some(Arc::new(error))),
        };
        Ok(Self {
            annotations: texts(written.annotations)?,
            properties: properties.properties,
            dependencies,
            dependencies_problem: problem,
        })
    }

    /// The channels that a catalog has the bundle in.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        let text = self.annotations.get(CHANNELS).map_or("", String::as_str);
        text.split(',').map(str::trim).filter(|channel| !channel.is_empty())
    }

    /// The objects that may be left out. A property of that type with another value counts as absent.
    pub(crate) fn optional_manifests(&self) -> Vec<OptionalManifest> {
        let lists = self.properties.iter().filter(|property| property.kind == OPTIONAL_MANIFESTS);
        let items = lists.filter_map(|property| property.value.get("manifests")?.as_array()).flatten();
        items.filter_map(|item| OptionalManifest::deserialize(item).ok()).collect()
    }
}

/// Only the package must be text, for nothing else is read: published bundles have annotations that are booleans.
fn texts(annotations: BTreeMap<String, Value>) -> Result<BTreeMap<String, String>, Error> {
    if let Some(package) = annotations.get(PACKAGE).filter(|package| !package.is_string()) {
        let field = format!("annotations[{PACKAGE:?}]");
        let source = FieldError { field, problem: format!("{}, not a string", type_name(package)) };
        return Err(Error::Field { file: ANNOTATIONS_FILE, source });
    }
    let text = |value| if let Value::String(text) = value { text } else { value.to_string() };
    Ok(annotations.into_iter().map(|(name, value)| (name, text(value))).collect())
}

fn file<T: serde::de::DeserializeOwned + Default>(
    tree: &BundleTree,
    file: &'static str,
    budget: &mut Budget<'_>,
) -> Result<Option<T>, Error> {
    let Some(Entry::File { body, .. }) = tree.get(file) else { return Ok(None) };
    budget.add_file(file, body.len() as u64)?;
    let documents = yaml::parse(&Arc::from(file), body, budget)?;
    let Some(mut document) = documents.into_iter().next() else { return Ok(Some(T::default())) };
    drop_nulls(&mut document.value);
    decode(&document.value, "").map(Some).map_err(|source| Error::Field { file, source })
}

/// The annotation `olm.properties` with `properties` added: compact JSON as Go writes it, for it goes to the pods.
pub(crate) fn merged(annotation: Option<&str>, properties: &[Property]) -> Result<String, Error> {
    let mut all: Vec<Property> = match annotation {
        Some(text) if !text.is_empty() => serde_json::from_str(text).map_err(Error::Annotation)?,
        _ => Vec::new(),
    };
    all.extend_from_slice(properties);
    serde_json::to_string(&all).map(|json| go_escaped(&json)).map_err(Error::Annotation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn properties_are_added_to_those_of_the_annotation() {
        let property = Property { kind: "olm.maxOpenShiftVersion".into(), value: json!("<4.9") };
        let text = merged(Some(r#"[ {"type": "a", "value": {"b": 1}} ]"#), std::slice::from_ref(&property)).unwrap();
        assert_eq!(text, r#"[{"type":"a","value":{"b":1}},{"type":"olm.maxOpenShiftVersion","value":"\u003c4.9"}]"#);
        assert_eq!(merged(None, &[]).unwrap(), "[]");
        assert!(merged(Some("{}"), &[property]).is_err());
    }

    #[test]
    fn optional_manifests_are_read_from_their_property() {
        let value = json!({"manifests": [{"group": "a.io", "kind": "A", "name": "n"}, {"kind": 5}]});
        let metadata =
            Metadata { properties: vec![Property { kind: OPTIONAL_MANIFESTS.into(), value }], ..Metadata::default() };
        let found = metadata.optional_manifests();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].group.as_str(), found[0].name.as_str()), ("a.io", "n"));
    }
}
