//! Values as people read them.

use std::fmt::Write as _;

use serde_json::Value;

/// The value in YAML, below a key.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    below(&mut text, value, 1);
    text
}

fn below(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let _ = write!(text, "\n{indent}{}:", word(key));
                below(text, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(text, "\n{indent}-");
                match item {
                    Value::Object(_) | Value::Array(_) => {
                        let _ = write!(text, " {item}");
                    }
                    scalar => below(text, scalar, depth),
                }
            }
        }
        Value::String(scalar) => {
            let _ = write!(text, " {}", word(scalar));
        }
        other => {
            let _ = write!(text, " {other}");
        }
    }
}

/// A scalar, quoted where YAML might take it for something else.
fn word(text: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || " .,;/()=_-+>".contains(letter);
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.chars().all(is_safe)
        && !text.ends_with(' ')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}
