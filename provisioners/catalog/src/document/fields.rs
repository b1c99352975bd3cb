//! Reads fields of a known type and says which one has another. Null and absent are the same, as they are to Go.

use serde_json::{Map, Value};

use super::{MAX_ITEMS, MAX_NAME};

/// Fields of an object, with the path that messages begin with.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    /// The fields of the root.
    pub(super) fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, path: String::new() }
    }

    /// The fields of `value`, which stands at `path`.
    pub(super) fn at(path: String, value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            other => Err(wrong(&path, "an object", other)),
        }
    }

    /// The value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A text; `None` if it is absent or empty.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(other) => Err(wrong(&self.path_of(name), "a string", other)),
        }
    }

    /// A text; empty if it is absent.
    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        Ok(self.optional_text(name)?.unwrap_or_default())
    }

    /// A name, a version or the name of an image; empty if it is absent. See [`MAX_NAME`].
    pub(super) fn name(&self, name: &str) -> Result<String, String> {
        Ok(self.optional_name(name)?.unwrap_or_default())
    }

    /// The same; `None` if it is absent or empty.
    pub(super) fn optional_name(&self, name: &str) -> Result<Option<String>, String> {
        if let Some(Value::String(text)) = self.get(name) {
            check_name(&self.path_of(name), text)?;
        }
        self.optional_text(name)
    }

    /// A list of names; empty if it is absent.
    pub(super) fn names(&self, name: &str) -> Result<Vec<String>, String> {
        let item = |(path, value): (String, &Value)| match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => check_name(&path, text).map(|()| text.clone()),
            other => Err(wrong(&path, "a string", other)),
        };
        self.items(name)?.map(item).collect()
    }

    /// The items of a list with their paths; none if it is absent.
    pub(super) fn items(
        &self,
        name: &str,
    ) -> Result<impl ExactSizeIterator<Item = (String, &'a Value)> + use<'a>, String> {
        let path = self.path_of(name);
        let items = match self.get(name) {
            None => &[],
            Some(Value::Array(items)) if items.len() > MAX_ITEMS => {
                return Err(format!("{path}: more than {MAX_ITEMS} items are not read"));
            }
            Some(Value::Array(items)) => items.as_slice(),
            Some(other) => return Err(wrong(&path, "a list", other)),
        };
        Ok(items.iter().enumerate().map(move |(index, value)| (format!("{path}[{index}]"), value)))
    }

    /// An object; `None` if it is absent.
    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, String> {
        self.get(name).map(|value| Self::at(self.path_of(name), value)).transpose()
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

fn wrong(path: &str, expected: &str, found: &Value) -> String {
    format!("{path}: expected {expected}, got {}", kind_of(found))
}

/// What is wrong with a name that is longer than [`MAX_NAME`].
pub(crate) fn check_name(path: &str, name: &str) -> Result<(), String> {
    if name.len() <= MAX_NAME {
        return Ok(());
    }
    Err(format!("{path}: {} bytes, and more than {MAX_NAME} are not read: {}", name.len(), excerpt(name)))
}

/// What a value is, in words.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The beginning of a text, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    const LENGTH: usize = 120;
    let words: Vec<&str> = text.split_whitespace().take(LENGTH).collect();
    let text = words.join(" ");
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
