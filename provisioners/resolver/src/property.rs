//! One property of a bundle, and what is read of its value.

use serde_json::Value;

/// The type of the property that says which package a bundle is of.
pub const PACKAGE: &str = "olm.package";

/// A property, as a catalog or the annotation of an installed bundle has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// Its type, such as `olm.gvk`.
    pub kind: String,
    /// Its value.
    pub value: Value,
}

/// A text in an object; empty if it is absent, as Go reads it.
pub(crate) fn field(value: &Value, name: &str) -> Result<String, String> {
    let Value::Object(map) = value else { return Err("expected an object".to_owned()) };
    match map.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{name}: expected a text")),
    }
}
