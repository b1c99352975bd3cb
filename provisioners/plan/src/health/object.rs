//! The parts of an object that health rules read.

use serde_json::Value;

/// An object of which the rules know the kind.
pub(super) struct Object<'a> {
    /// API group, empty for the core.
    pub(super) group: &'a str,
    /// API version without the group.
    pub(super) version: &'a str,
    /// Kind.
    pub(super) kind: &'a str,
    body: &'a Value,
}

/// One entry of `status.conditions`; a field that is missing is empty.
pub(super) struct Condition<'a> {
    /// `type`.
    pub(super) name: &'a str,
    /// `True`, `False`, `Unknown`; not checked.
    pub(super) status: &'a str,
    /// One word, for programs.
    pub(super) reason: &'a str,
    /// A sentence, for people.
    pub(super) message: &'a str,
}

/// Why an object cannot be judged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Error {
    /// No rule can be chosen.
    #[error("the object has no apiVersion or no kind")]
    Untyped,
    /// A field has a type that Kubernetes does not give it.
    #[error("{path} is not {expected}")]
    Mistyped {
        /// Path of the field, dotted.
        path: String,
        /// The type it should have.
        expected: &'static str,
    },
}

impl<'a> Object<'a> {
    pub(super) fn new(body: &'a Value) -> Result<Self, Error> {
        let text = |name| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else { return Err(Error::Untyped) };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Ok(Self { group, version, kind, body })
    }

    /// The whole number at a JSON pointer; `default` when it is missing or something else, as kstatus reads counters.
    pub(super) fn count(&self, pointer: &str, default: i64) -> i64 {
        self.body.pointer(pointer).and_then(Value::as_i64).unwrap_or(default)
    }

    /// The string at a JSON pointer; empty when it is missing or something else.
    pub(super) fn text(&self, pointer: &str) -> &'a str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the value at a JSON pointer is `true`.
    pub(super) fn flag(&self, pointer: &str) -> bool {
        self.body.pointer(pointer) == Some(&Value::Bool(true))
    }

    /// The list at a JSON pointer; empty when it is missing or something else.
    pub(super) fn list(&self, pointer: &str) -> &'a [Value] {
        self.body.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_deleted(&self) -> Result<bool, Error> {
        let metadata = self.section("metadata")?;
        Ok(!string(metadata, "deletionTimestamp", "metadata")?.is_empty())
    }

    pub(super) fn generation(&self) -> Result<Option<i64>, Error> {
        self.number("metadata", "generation")
    }

    pub(super) fn observed_generation(&self) -> Result<Option<i64>, Error> {
        self.number("status", "observedGeneration")
    }

    /// `status.conditions` in its order; empty when there is none.
    pub(super) fn conditions(&self) -> Result<Vec<Condition<'a>>, Error> {
        match self.section("status")?.and_then(|status| present(status, "conditions")) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().enumerate().map(|(index, entry)| condition(index, entry)).collect(),
            Some(_) => Err(mistyped("status.conditions", "a list")),
        }
    }

    fn number(&self, section: &str, name: &str) -> Result<Option<i64>, Error> {
        let Some(value) = self.section(section)?.and_then(|fields| present(fields, name)) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| mistyped(format!("{section}.{name}"), "a whole number"))
    }

    fn section(&self, name: &str) -> Result<Option<&'a Value>, Error> {
        match present(self.body, name) {
            Some(section) if !section.is_object() => Err(mistyped(name, "an object")),
            section => Ok(section),
        }
    }
}

impl Condition<'_> {
    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn is_false(&self) -> bool {
        self.status == "False"
    }
}

fn condition(index: usize, entry: &Value) -> Result<Condition<'_>, Error> {
    let path = format!("status.conditions[{index}]");
    let fields = match entry {
        Value::Null => None,
        Value::Object(_) => Some(entry),
        _ => return Err(mistyped(path, "an object")),
    };
    let field = |name| string(fields, name, &path);
    Ok(Condition {
        name: field("type")?,
        status: field("status")?,
        reason: field("reason")?,
        message: field("message")?,
    })
}

fn string<'a>(fields: Option<&'a Value>, name: &str, path: &str) -> Result<&'a str, Error> {
    let Some(value) = fields.and_then(|fields| present(fields, name)) else { return Ok("") };
    value.as_str().ok_or_else(|| mistyped(format!("{path}.{name}"), "a string"))
}

/// A field that is there and not null: the API server reads null as absent.
fn present<'a>(fields: &'a Value, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn mistyped(path: impl Into<String>, expected: &'static str) -> Error {
    Error::Mistyped { path: path.into(), expected }
}
