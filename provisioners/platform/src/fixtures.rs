//! What the tests of several modules begin with.

use serde_json::{Value, json};

/// Conditions as a status has them, each from its type, status, reason and message.
pub fn conditions(told: &[(&str, &str, &str, &str)]) -> Vec<Value> {
    let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    told.iter().map(condition).collect()
}
