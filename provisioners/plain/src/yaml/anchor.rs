//! What an alias copies, and what the copy costs.

use std::borrow::Cow;

use serde_json::Value;

use super::scalar::Scalar;

/// A value that aliases may name, and what copying it costs.
pub(super) struct Anchored {
    pub value: Value,
    pub size: Size,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Size {
    pub nodes: u64,
    /// Of keys and text.
    pub bytes: u64,
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

/// Counts a value. Recursion is bounded by [`MAX_DEPTH`](super::MAX_DEPTH).
pub(super) fn measure(value: &Value) -> Size {
    fn add(total: Size, part: Size) -> Size {
        Size {
            nodes: total.nodes + part.nodes,
            bytes: total.bytes + part.bytes,
            height: total.height.max(part.height + 1),
        }
    }
    let start = Size { nodes: 1, bytes: 0, height: 1 };
    match value {
        Value::String(text) => Size { nodes: 1, bytes: text.len() as u64, height: 0 },
        Value::Array(items) => items.iter().map(measure).fold(start, add),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let size = measure(value);
                Size { nodes: size.nodes + 1, bytes: size.bytes + key.len() as u64, ..size }
            })
            .fold(start, add),
        _ => Size { nodes: 1, bytes: 0, height: 0 },
    }
}
