//! Keeps the parts of a value that somebody needs, and skips the rest without allocating: of a bundle of 200 KiB some
//! hundred bytes are kept.
//!
//! Nothing here refuses: a part of an unexpected type is kept as it is, and whoever reads it says what is wrong.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::MAX_ITEMS;
use super::fold::{self, Name};

/// What is kept of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// Nothing: it becomes null.
    Nothing,
    /// Everything. As a value, a list of nothing takes sixteen times its text, so this is for what is small by its nature.
    All,
    /// Of an object these fields, under these names, however their case is written. Null fields are as good as absent, as
    /// they are to Go; of repeated fields the last counts.
    Fields(&'static [(&'static str, Keep)]),
    /// Of a list each item, up to one more than may be read, which is enough to refuse it.
    Items(&'static Keep),
    /// Of a property what its type says.
    Property(fn(&str) -> Keep),
}

impl Keep {
    /// Text. Of lists and objects, which are none, nothing but that they are there.
    pub(super) const TEXT: Self = Self::Fields(&[]);

    /// The same for a value that is there already.
    pub(super) fn of(self, value: &Value) -> Value {
        Sieve(self).deserialize(value).unwrap_or_default()
    }
}

/// Reads a value and keeps what [`Keep`] says.
pub(super) struct Sieve(pub Keep);

impl<'de> DeserializeSeed<'de> for Sieve {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            Keep::Nothing => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null),
            Keep::All => serde::Deserialize::deserialize(deserializer),
            Keep::Fields(_) | Keep::Items(_) | Keep::Property(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Sieve {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Value, E> {
        Ok(Value::Bool(boolean))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Value, E> {
        Ok(Value::from(integer))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Value, E> {
        Ok(Value::from(integer))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Value, E> {
        Ok(Value::from(float))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        if let Keep::Items(keep) = self.0 {
            while kept.len() <= MAX_ITEMS
                && let Some(item) = items.next_element_seed(Sieve(*keep))?
            {
                kept.push(item);
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        match self.0 {
            Keep::Fields(fields) => visit_fields(fields, entries),
            Keep::Property(keep_of) => visit_property(keep_of, entries),
            Keep::Nothing | Keep::All | Keep::Items(_) => visit_fields(&[], entries),
        }
    }
}

fn visit_fields<'de, A: MapAccess<'de>>(
    fields: &'static [(&'static str, Keep)],
    mut entries: A,
) -> Result<Value, A::Error> {
    let mut kept = Map::new();
    while let Some(field) = entries.next_key_seed(Name(|key: &str| find(fields, key)))? {
        let Some((name, keep)) = field else {
            entries.next_value::<IgnoredAny>()?;
            continue;
        };
        insert(&mut kept, name, entries.next_value_seed(Sieve(*keep))?);
    }
    Ok(Value::Object(kept))
}

/// The value of a property is mostly read once its type is known; if the type comes last, it is read as a whole first.
fn visit_property<'de, A: MapAccess<'de>>(keep_of: fn(&str) -> Keep, mut entries: A) -> Result<Value, A::Error> {
    const FIELDS: [(&str, Keep); 2] = [("type", Keep::TEXT), ("value", Keep::All)];
    let mut kept = Map::new();
    let mut is_sieved = true;
    while let Some(field) = entries.next_key_seed(Name(|key: &str| find(&FIELDS, key)))? {
        match field {
            None => {
                entries.next_value::<IgnoredAny>()?;
            }
            Some(("value", _)) => {
                let keep = kept.get("type").and_then(Value::as_str).map(keep_of);
                is_sieved = keep.is_some();
                insert(&mut kept, "value", entries.next_value_seed(Sieve(keep.unwrap_or(Keep::All)))?);
            }
            Some((name, keep)) => insert(&mut kept, name, entries.next_value_seed(Sieve(*keep))?),
        }
    }
    let keep = kept.get("type").and_then(Value::as_str).map(keep_of);
    if let (false, Some(keep), Some(value)) = (is_sieved, keep, kept.get_mut("value")) {
        *value = keep.of(value);
    }
    Ok(Value::Object(kept))
}

fn insert(kept: &mut Map<String, Value>, name: &str, value: Value) {
    if !value.is_null() {
        kept.insert(name.to_owned(), value);
    }
}

fn find<'f>(fields: &'f [(&'static str, Keep)], key: &str) -> Option<&'f (&'static str, Keep)> {
    let exact = fields.iter().find(|(name, _)| *name == key);
    exact.or_else(|| fields.iter().find(|(name, _)| fold::is_same(key, name)))
}
