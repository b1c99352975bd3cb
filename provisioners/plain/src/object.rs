//! A Kubernetes object as a manifest declares it.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::position::Position;

mod check;
mod clean;

pub(crate) use check::check_kind;
pub use check::{Error, type_name};

/// A declared object: valid enough to be sent, cheap to clone.
///
/// It has an `apiVersion`, a `kind` and a `metadata.name`, all non-empty text that can stand in a URL path, and its
/// labels and annotations are text. What the kind's own schema asks for is the API server's business.
///
/// Two objects are equal if their content is; the origin does not count. `Debug` shows the key and the origin only,
/// for the content may be secret.
#[derive(Clone)]
pub struct Object {
    map: Arc<Map<String, Value>>,
    origin: Origin,
}

/// Where an object is declared, for messages: `manifests/a.yaml, document 2 (line 14), items[3]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file's path in the bundle, or a word for what produced the object.
    pub file: Arc<str>,
    /// The document, from 1, and its first line, from 1; `None` for what no file spells out.
    pub document: Option<(usize, usize)>,
    /// The path inside a List, such as `items[3]`.
    pub item: Option<Arc<str>>,
}

/// The kind of an object and the version it is written in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1beta1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
}

/// What identifies an object in a cluster, whatever version it is written in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace as declared: `None` for cluster-scoped objects and where the manifest leaves it open.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Object {
    /// Checks a parsed object.
    ///
    /// Null labels and annotations become empty text, as the API server reads them.
    pub fn new(value: Value, origin: Origin) -> Result<Self, Error> {
        let map = check::checked(value)?;
        Ok(Self { map: Arc::new(map), origin })
    }

    /// `apiVersion` as written.
    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// The version, without the group.
    pub fn version(&self) -> &str {
        self.api_version().split_once('/').map_or(self.api_version(), |(_, version)| version)
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.metadata_text("name").unwrap_or_default()
    }

    /// `metadata.namespace`; `None` if it is absent or empty.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata_text("namespace").filter(|namespace| !namespace.is_empty())
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk { group: self.group().to_owned(), version: self.version().to_owned(), kind: self.kind().to_owned() }
    }

    /// The object's identity.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            group: self.group().to_owned(),
            kind: self.kind().to_owned(),
            namespace: self.namespace().map(str::to_owned),
            name: self.name().to_owned(),
        }
    }

    /// `metadata.labels`, in the order of the map.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.strings("labels")
    }

    /// `metadata.annotations`, in the order of the map.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.strings("annotations")
    }

    /// One label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata()?.get("labels")?.get(name)?.as_str()
    }

    /// One annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata()?.get("annotations")?.get(name)?.as_str()
    }

    /// Where it is declared.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The whole object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// The field at the end of `path`, such as `["spec", "template"]`.
    pub fn field(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.map.get(*first)?, |value, step| value.get(*step))
    }

    /// A copy of the whole object as a JSON value.
    pub fn as_value(&self) -> Value {
        Value::Object((*self.map).clone())
    }

    /// The whole object as a JSON value, copied only if it is shared.
    pub fn into_value(self) -> Value {
        Value::Object(Arc::unwrap_or_clone(self.map))
    }

    fn text(&self, field: &str) -> &str {
        self.map.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn metadata(&self) -> Option<&Map<String, Value>> {
        self.map.get("metadata")?.as_object()
    }

    fn metadata_text(&self, field: &str) -> Option<&str> {
        self.metadata()?.get(field)?.as_str()
    }

    fn strings(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        let map = self.metadata().and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.map, &other.map) || self.map == other.map
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Object({}, {})", self.key(), self.origin)
    }
}

impl serde::Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.map.serialize(serializer)
    }
}

impl Origin {
    /// The origin of an object that is not spelled out in a document; `what` says what it comes from.
    pub fn made_from(what: &str) -> Self {
        Self { file: Arc::from(what), document: None, item: None }
    }
}

impl From<Position> for Origin {
    fn from(place: Position) -> Self {
        Self { file: place.file, document: Some((place.document, place.line)), item: None }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        if let Some((document, line)) = self.document {
            write!(formatter, ", document {document} (line {line})")?;
        }
        self.item.iter().try_for_each(|item| write!(formatter, ", {item}"))
    }
}

impl Gvk {
    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, Kind={}", self.api_version(), self.kind)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(formatter, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(formatter, " \"{namespace}/{}\"", self.name),
            None => write!(formatter, " \"{}\"", self.name),
        }
    }
}

#[cfg(test)]
#[path = "object/tests.rs"]
mod tests;
