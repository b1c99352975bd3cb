//! What a declared object must have.

use serde_json::{Map, Value};

use crate::warning::shortened;

/// How many bytes a name may have. Most kinds allow 253; those of RBAC name no bound.
const NAME_BYTES: usize = 1024;
/// How many bytes a group, a version or a kind may have.
const KIND_BYTES: usize = 253;
/// How many bytes of what is wrong are shown.
const SHOWN_BYTES: usize = 64;

/// Why a value is not a declared object. Values are never shown: they may be secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a mapping: a README or a `.gitignore`, mostly. The text is what upstream's users know.
    #[error(
        "json: cannot unmarshal {found} into Go value of type unstructured.detector: a manifest is a mapping with apiVersion, kind and metadata"
    )]
    NotAnObject {
        /// The JSON type.
        found: &'static str,
    },
    /// No `kind`. The beginning of the text is what upstream's users know.
    #[error("Object 'Kind' is missing: set kind")]
    KindMissing,
    /// No `apiVersion`.
    #[error("Object 'apiVersion' is missing: set apiVersion, such as v1 or apps/v1")]
    ApiVersionMissing,
    /// More than one slash, or nothing on one side of it.
    #[error("apiVersion {0:?} is neither <version> nor <group>/<version>")]
    ApiVersion(String),
    /// No name, but `generateName`.
    #[error("metadata.name is missing: generateName would make a new object at every apply, so give it a name")]
    GenerateName,
    /// No name.
    #[error("metadata.name is missing: set it")]
    NameMissing,
    /// A field has another type than every Kubernetes object gives it.
    #[error("{field} is {found}, not {expected}{}", if *.expected == "a string" { ": quote the value" } else { "" })]
    Type {
        /// The field's path.
        field: String,
        /// The JSON type it has.
        found: &'static str,
        /// The one it should have.
        expected: &'static str,
    },
    /// A name that cannot be part of a URL path, which is how the API server is asked for it.
    #[error("{field} {text:?} is not a name: {problem}")]
    PathSegment {
        /// The field's path.
        field: &'static str,
        /// What it says, shortened.
        text: String,
        /// Which rule it breaks.
        problem: &'static str,
    },
}

/// Checks `value` and fills in what the API server would.
pub(super) fn checked(value: Value) -> Result<Map<String, Value>, Error> {
    let Value::Object(mut map) = value else { return Err(Error::NotAnObject { found: json_type(&value) }) };
    let kind = required(&map, "kind", Error::KindMissing)?;
    word("kind", kind)?;
    api_version(required(&map, "apiVersion", Error::ApiVersionMissing)?)?;
    if kind == "CustomResourceDefinition" {
        definition(&map)?;
    }
    let is_secret = kind == "Secret" && map.get("apiVersion").is_some_and(|version| version == "v1");
    metadata(&mut map)?;
    if is_secret {
        strings(map.get_mut("stringData"), "stringData")?;
    }
    Ok(map)
}

fn required<'a>(map: &'a Map<String, Value>, field: &str, missing: Error) -> Result<&'a str, Error> {
    match map.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null | Value::String(_)) => Err(missing),
        Some(other) => Err(wrong_type(field, other, "a string")),
    }
}

fn api_version(text: &str) -> Result<(), Error> {
    let (group, version) = text.split_once('/').map_or((None, text), |(group, version)| (Some(group), version));
    if version.is_empty() || version.contains('/') || group == Some("") {
        return Err(Error::ApiVersion(shortened(text, SHOWN_BYTES)));
    }
    word("apiVersion", version)?;
    group.map_or(Ok(()), |group| word("apiVersion", group))
}

/// What a typed list says of all its items.
pub(crate) fn check_kind(version: &Value, kind: &str) -> Result<(), Error> {
    word("kind", kind)?;
    match version {
        Value::String(version) => api_version(version),
        other => Err(wrong_type("apiVersion", other, "a string")),
    }
}

/// The parts of a CustomResourceDefinition that become parts of URLs, where it has them: what else is wrong with it the API
/// server says.
fn definition(map: &Map<String, Value>) -> Result<(), Error> {
    let is_core = |version: &Value| version.as_str().is_some_and(|text| text.starts_with("apiextensions.k8s.io/"));
    let Some(spec) = map.get("spec").filter(|_| map.get("apiVersion").is_some_and(is_core)) else { return Ok(()) };
    let check = |field, value: Option<&Value>| value.and_then(Value::as_str).map_or(Ok(()), |text| word(field, text));
    let names = spec.get("names");
    let name = |field: &str| names.and_then(|names| names.get(field));
    check("spec.group", spec.get("group"))?;
    check("spec.names.plural", name("plural"))?;
    check("spec.names.kind", name("kind"))?;
    check("spec.version", spec.get("version"))?;
    let mut versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    versions.try_for_each(|version| check("spec.versions[].name", version.get("name")))
}

fn metadata(map: &mut Map<String, Value>) -> Result<(), Error> {
    let metadata = match map.get_mut("metadata") {
        None | Some(Value::Null) => return Err(Error::NameMissing),
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return Err(wrong_type("metadata", other, "a mapping")),
    };
    match metadata.get("name") {
        Some(Value::String(name)) if !name.is_empty() => path_segment("metadata.name", name)?,
        None | Some(Value::Null | Value::String(_)) => {
            let generates = metadata.get("generateName").is_some_and(|prefix| !prefix.is_null());
            return Err(if generates { Error::GenerateName } else { Error::NameMissing });
        }
        Some(other) => return Err(wrong_type("metadata.name", other, "a string")),
    }
    match metadata.get("namespace") {
        None | Some(Value::Null) => {}
        Some(Value::String(namespace)) => path_segment("metadata.namespace", namespace)?,
        Some(other) => return Err(wrong_type("metadata.namespace", other, "a string")),
    }
    strings(metadata.get_mut("labels"), "metadata.labels")?;
    strings(metadata.get_mut("annotations"), "metadata.annotations")
}

/// A mapping to text. Null is empty text, as Go decodes it.
fn strings(value: Option<&mut Value>, field: &str) -> Result<(), Error> {
    let map = match value {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong_type(field, other, "a mapping")),
    };
    for (key, value) in map {
        match value {
            Value::String(_) => {}
            Value::Null => *value = Value::String(String::new()),
            other => return Err(wrong_type(&format!("{field}[{:?}]", shortened(key, SHOWN_BYTES)), other, "a string")),
        }
    }
    Ok(())
}

fn path_segment(field: &'static str, text: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    let problem = if matches!(text, "." | "..") || text.contains(['/', '%']) {
        "it is `.` or `..`, or contains `/` or `%`"
    } else if !text.bytes().all(is_plain) {
        "it contains a character that cannot stand in a URL as it is: use letters, digits, `-`, `.`, `_` and `:`"
    } else if text.len() > NAME_BYTES {
        "it has more than 1024 bytes"
    } else {
        return Ok(());
    };
    Err(Error::PathSegment { field, text: shortened(text, SHOWN_BYTES), problem })
}

/// A group, a version, a kind, or a resource.
fn word(field: &'static str, text: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let problem = if matches!(text, "." | "..") || !text.bytes().all(is_plain) {
        "it is made of letters, digits, `-`, `.` and `_`"
    } else if text.len() > KIND_BYTES {
        "it has more than 253 bytes"
    } else {
        return Ok(());
    };
    Err(Error::PathSegment { field, text: shortened(text, SHOWN_BYTES), problem })
}

fn wrong_type(field: &str, value: &Value, expected: &'static str) -> Error {
    Error::Type { field: field.to_owned(), found: type_name(value), expected }
}

/// Returns the JSON type in words.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// The type's name in Go's error texts.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
