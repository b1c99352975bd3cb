//! What an alias copies, and what the copy costs.

use std::borrow::Cow;

use serde_json::Value;

use super::scalar::Scalar;
use crate::budget::Cost;

/// A value that aliases may name, and what copying it costs.
pub(super) struct Anchored {
    pub value: Value,
    pub cost: Cost,
    /// Collections in each other, 0 for a scalar.
    pub height: usize,
}

/// The scalar that an aliased value stands for when it is used as a key.
pub(super) fn scalar_of(value: Value) -> Scalar<'static> {
    match value {
        Value::Bool(boolean) => Scalar::Bool(boolean),
        Value::String(text) => Scalar::Text(Cow::Owned(text)),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), _, _) => Scalar::Integer(integer),
            (None, Some(integer), _) => Scalar::Unsigned(integer),
            (None, None, float) => Scalar::Float(float.unwrap_or(f64::NAN)),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => Scalar::Null,
    }
}

/// How many collections lie in each other. Recursion is bounded by [`MAX_DEPTH`](super::MAX_DEPTH).
pub(super) fn height(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(height).max().unwrap_or(0),
        _ => 0,
    }
}
