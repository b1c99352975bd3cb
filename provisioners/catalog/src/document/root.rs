//! The root of a document: keys in any case, `schema`, `package` and `name`, and what the known schemas need beside them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::fold::{Name, fold};
use super::sieve::{Keep, Sieve};
use super::{Error, MAX_NAME, fields, properties};

/// All that the known schemas need. A document of another schema may have these too: what is kept of them is small.
const FIELDS: [(&str, Keep); 8] = [
    ("schema", Keep::TEXT),
    ("package", Keep::TEXT),
    ("name", Keep::TEXT),
    ("image", Keep::TEXT),
    ("defaultChannel", Keep::TEXT),
    ("icon", Keep::Fields(&[("base64data", Keep::TEXT), ("mediatype", Keep::TEXT)])),
    ("entries", Keep::Items(&ENTRY)),
    ("properties", Keep::Items(&Keep::Property(properties::keep))),
];

/// An entry of a channel, or one of deprecations.
const ENTRY: Keep = Keep::Fields(&[
    ("name", Keep::TEXT),
    ("replaces", Keep::TEXT),
    ("skips", Keep::Items(&Keep::TEXT)),
    ("skipRange", Keep::TEXT),
    ("reference", Keep::Fields(&[("schema", Keep::TEXT), ("name", Keep::TEXT)])),
    ("message", Keep::TEXT),
]);

/// The root as it was read.
#[derive(Debug, Default)]
pub(super) struct Root {
    pub schema: String,
    pub package: Option<String>,
    pub name: Option<String>,
    /// Under the names of [`FIELDS`].
    pub fields: Map<String, Value>,
    fault: Option<Error>,
}

impl Root {
    /// The root, if nothing is wrong with its keys.
    pub(super) fn check(self) -> Result<Self, Error> {
        match self.fault {
            Some(fault) => Err(fault),
            None if self.schema.is_empty() => Err(Error::NoSchema(String::new())),
            None => Ok(self),
        }
    }

    /// The three keys that index a document must be text if they are there, and no longer than a name may be.
    fn index(&mut self, key: &str, name: &str, value: Value) {
        let Value::String(text) = value else {
            let kind = fields::kind_of(&value);
            // Of lists and objects nothing was kept.
            let found = match value {
                Value::Array(_) | Value::Object(_) => kind.to_owned(),
                value => format!("{kind}: {}", fields::excerpt(&value.to_string())),
            };
            self.fault.get_or_insert(Error::NotText { key: key.to_owned(), found });
            return;
        };
        if text.len() > MAX_NAME {
            let fault = Error::TooLong { key: key.to_owned(), length: text.len(), start: fields::excerpt(&text) };
            self.fault.get_or_insert(fault);
            return;
        }
        match name {
            "schema" => self.schema = text,
            "package" => self.package = Some(text),
            _ => self.name = Some(text),
        }
    }
}

/// Reads a [`Root`]. Fails only where the text is not the object it should be.
pub(super) struct RootSeed;

impl<'de> DeserializeSeed<'de> for RootSeed {
    type Value = Root;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Root, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RootSeed {
    type Value = Root;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Root, A::Error> {
        let mut root = Root::default();
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        while let Some(key) = entries.next_key_seed(Name(str::to_owned))? {
            let folded = fold(&key).into_owned();
            match FIELDS.iter().find(|(name, _)| folded.eq_ignore_ascii_case(name)) {
                None => {
                    entries.next_value::<IgnoredAny>()?;
                }
                Some((name @ ("schema" | "package" | "name"), keep)) => {
                    root.index(&key, name, entries.next_value_seed(Sieve(*keep))?);
                }
                Some((name, keep)) => {
                    let value = entries.next_value_seed(Sieve(*keep))?;
                    if !value.is_null() {
                        root.fields.insert((*name).to_owned(), value);
                    }
                }
            }
            let same = keys.entry(folded).or_default();
            if !same.contains(&key) {
                same.push(key);
            }
        }
        if let Some((folded, mut keys)) = keys.into_iter().find(|(_, keys)| keys.len() > 1) {
            keys.sort();
            root.fault = Some(Error::DuplicateKeys { folded, keys });
        }
        Ok(root)
    }
}
