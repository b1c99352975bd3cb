//! Concatenated JSON values. Numbers stay as they are written, but for whole floats (see [`scalar::json_float`]).

use std::fmt;
use std::sync::Arc;

use rukpak_content::LimitExceeded;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::path::FieldPath;
use super::{Document, Error, MAX_DEPTH, Position, scalar, text};
use crate::budget::Cost;
use crate::{Budget, Warning};

pub(super) fn parse(file: &Arc<str>, text: &str, budget: &mut Budget<'_>) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    let mut rest = text;
    let mut line = 1;
    loop {
        let blank = rest.len() - rest.trim_start().len();
        line += text::line_at(&rest.as_bytes()[..blank]) - 1;
        rest = &rest[blank..];
        if rest.is_empty() {
            return Ok(documents);
        }
        let place = Position { file: Arc::clone(file), document: documents.len() + 1, line };
        let length = value_length(rest).map_err(|error| syntax(&place, &error))?;
        let (value_text, after) = rest.split_at(length);
        let value = load(&place, value_text, budget)?;
        documents.push(Document { place, value });
        line += text::line_at(value_text.as_bytes()) - 1;
        rest = after;
    }
}

/// How many bytes the first value takes.
fn value_length(text: &str) -> Result<usize, serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(values.byte_offset()),
    }
}

fn load(place: &Position, text: &str, budget: &mut Budget<'_>) -> Result<Value, Error> {
    let mut state = State { place, budget, path: Vec::new(), refusal: None };
    let value = Node(&mut state).deserialize(&mut serde_json::Deserializer::from_str(text));
    match (state.refusal, value) {
        (Some(refusal), _) => Err(refusal),
        (None, value) => value.map_err(|error| syntax(place, &error)),
    }
}

fn syntax(place: &Position, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    // serde_json ends its text with the position, which we say in our own way.
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).to_owned();
    let line = place.line + error.line().saturating_sub(1);
    Error::Syntax { place: Position { line, ..place.clone() }, column: error.column(), problem }
}

struct State<'a, 'l> {
    place: &'a Position,
    budget: &'a mut Budget<'l>,
    path: Vec<Step>,
    /// Why reading was stopped, if it was not the JSON's fault.
    refusal: Option<Error>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl State<'_, '_> {
    /// Counts a node before it is made.
    fn count<E: serde::de::Error>(&mut self, text: &str) -> Result<(), E> {
        let cost = Cost { nodes: 1, bytes: text.len() as u64 };
        let added = self.budget.add(cost, || self.place.to_string());
        added.map_err(|error| self.refuse(error.into()))
    }

    fn enter_collection<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.count("")?;
        if self.path.len() < MAX_DEPTH { Ok(()) } else { Err(self.refuse(Error::Depth(self.place.clone()))) }
    }

    fn refuse<E: serde::de::Error>(&mut self, refusal: Error) -> E {
        self.refusal = Some(refusal);
        E::custom("refused")
    }

    fn duplicate(&mut self) {
        let (file, line) = (Arc::clone(&self.place.file), self.place.line);
        let steps = &self.path;
        let path = || {
            let mut path = FieldPath::default();
            for step in steps {
                match step {
                    Step::Key(key) => path.key(key),
                    Step::Index(index) => path.index(*index),
                }
            }
            path.finish()
        };
        self.budget.warn(|| Warning::DuplicateKey { file, line, path: path() });
    }
}

struct Node<'a, 'b, 'l>(&'a mut State<'b, 'l>);

impl<'de> DeserializeSeed<'de> for Node<'_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.0.count("")?;
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, boolean: bool) -> Result<Value, E> {
        self.0.count("")?;
        Ok(Value::Bool(boolean))
    }

    fn visit_i64<E: serde::de::Error>(self, integer: i64) -> Result<Value, E> {
        self.0.count("")?;
        Ok(Value::from(integer))
    }

    fn visit_u64<E: serde::de::Error>(self, integer: u64) -> Result<Value, E> {
        self.0.count("")?;
        Ok(Value::from(integer))
    }

    fn visit_f64<E: serde::de::Error>(self, float: f64) -> Result<Value, E> {
        self.0.count("")?;
        scalar::json_float(float).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.count(text)?;
        Ok(Value::from(text))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.0.count(&text)?;
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.enter_collection()?;
        let mut values = Vec::new();
        loop {
            self.0.path.push(Step::Index(values.len()));
            let item = items.next_element_seed(Node(self.0));
            self.0.path.pop();
            match item? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.enter_collection()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.count(&key)?;
            self.0.path.push(Step::Key(key.clone()));
            let value = entries.next_value_seed(Node(self.0));
            if let (Ok(_), true) = (&value, map.contains_key(&key)) {
                self.0.duplicate();
            }
            self.0.path.pop();
            map.insert(key, value?);
        }
        Ok(Value::Object(map))
    }
}

/// Counts what JSON in a text would cost as values; see [`super::count_json`].
pub(super) fn count(place: &str, text: &str, budget: &mut Budget<'_>) -> Result<(), LimitExceeded> {
    let mut counting = Counting { place, budget, exceeded: None };
    // What is not JSON is found out by whoever reads it.
    let _ = Counted(&mut counting).deserialize(&mut serde_json::Deserializer::from_str(text));
    counting.exceeded.map_or(Ok(()), Err)
}

struct Counting<'a, 'l> {
    place: &'a str,
    budget: &'a mut Budget<'l>,
    exceeded: Option<LimitExceeded>,
}

struct Counted<'a, 'b, 'l>(&'a mut Counting<'b, 'l>);

impl Counted<'_, '_, '_> {
    fn add<E: serde::de::Error>(&mut self, text: &str) -> Result<(), E> {
        let cost = Cost { nodes: 1, bytes: text.len() as u64 };
        let place = self.0.place;
        self.0.budget.add(cost, || place.to_owned()).map_err(|exceeded| {
            self.0.exceeded = Some(exceeded);
            E::custom("refused")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.add("")
    }

    fn visit_bool<E: serde::de::Error>(mut self, _: bool) -> Result<(), E> {
        self.add("")
    }

    fn visit_i64<E: serde::de::Error>(mut self, _: i64) -> Result<(), E> {
        self.add("")
    }

    fn visit_u64<E: serde::de::Error>(mut self, _: u64) -> Result<(), E> {
        self.add("")
    }

    fn visit_f64<E: serde::de::Error>(mut self, _: f64) -> Result<(), E> {
        self.add("")
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        self.add(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.add("")?;
        while items.next_element_seed(Counted(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.add("")?;
        while entries.next_key_seed(Counted(self.0))?.is_some() {
            entries.next_value_seed(Counted(self.0))?;
        }
        Ok(())
    }
}
