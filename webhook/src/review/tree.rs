//! JSON as a tree, up to a number of values: two bytes of text can be a value, which takes thirty times as much.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Values of a review at most, those in lists and objects counted. The largest CRDs that an API server takes, the old beside the
/// new, have fewer.
pub const MAX_VALUES: usize = 300_000;

/// Reads a whole text, and counts its values.
///
/// # Errors
/// It is no JSON, or has more than [`MAX_VALUES`].
pub(super) fn read(text: &[u8]) -> Result<(Value, usize), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let left = Cell::new(MAX_VALUES);
    let value = Counted(&left).deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, MAX_VALUES - left.get()))
}

/// What is left.
#[derive(Clone, Copy)]
struct Counted<'c>(&'c Cell<usize>);

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        match self.0.get().checked_sub(1) {
            Some(left) => self.0.set(left),
            None => return Err(D::Error::custom(format_args!("it has more than {MAX_VALUES} values"))),
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            object.insert(name, fields.next_value_seed(self)?);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_the_usual_reader_reads() {
        for text in [r#"{"a": [1, -2, 1.5, "x\n", true, null, {"b": {}}], "a": [], "c": 1e300}"#, "[]", "null", "\"ü\""]
        {
            let usual: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(text.as_bytes()).unwrap().0, usual, "{text}");
        }
        for text in ["", "[1", "{}x", "{\"a\"}", "nul", "\u{1}", &"[".repeat(200)] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_counted() {
        let list = |items: usize| format!("[{}0]", "0,".repeat(items - 1));
        assert_eq!(read(list(MAX_VALUES - 1).as_bytes()).unwrap().1, MAX_VALUES);
        assert_eq!(read(br#"{"a": [1, {}]}"#).unwrap().1, 4);
        let error = read(list(MAX_VALUES).as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("it has more than 300000 values"), "{error}");
    }
}
