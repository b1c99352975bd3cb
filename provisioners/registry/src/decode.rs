//! JSON values to typed ones: a wrong type is reported with the path of its field.

use std::fmt;

use rukpak_plain::{shortened, type_name};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How many bytes of a key are shown: a key can be as long as its file.
const KEY_BYTES: usize = 64;
/// How many bytes of a path, and of what is wrong, are shown: serde quotes the value.
const TEXT_BYTES: usize = 1024;

/// A field has another type than it must have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// The path of the field, such as `spec.install.spec.deployments[0].name`.
    pub field: String,
    /// What it has and what it should have.
    pub problem: String,
}

/// A field's path while a value is walked; printed only when something is wrong.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(crate) fn error(&self, value: &Value, expected: &str) -> FieldError {
        FieldError { field: self.to_string(), problem: format!("{}, not {expected}", type_name(value)) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => formatter.write_str(&shortened(name, KEY_BYTES)),
            Self::Field(parent, name) => write!(formatter, "{parent}.{}", shortened(name, KEY_BYTES)),
            Self::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// Reads `value` into `T`, `prefix` being the path of `value` itself. Null fields count as absent, as in Go.
pub(crate) fn decode<T: DeserializeOwned>(value: &Value, prefix: &str) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = shortened(&error.path().to_string(), TEXT_BYTES);
        let field = match (prefix, path.as_str()) {
            (prefix, ".") => prefix.to_owned(),
            ("", path) => path.to_owned(),
            (prefix, path) if path.starts_with('[') => format!("{prefix}{path}"),
            (prefix, path) => format!("{prefix}.{path}"),
        };
        FieldError { field, problem: shortened(&error.into_inner().to_string(), TEXT_BYTES) }
    })
}

/// Takes null fields out of all mappings in `value`: Go reads them as if they were absent.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            drop_nulls(value);
            !value.is_null()
        }),
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
