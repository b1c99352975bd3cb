//! Concatenated JSON values. Numbers stay as they are written, but for whole floats (see [`scalar::json_float`]).

use std::fmt;
use std::sync::Arc;

use rukpak_content::{Limit, Limits};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::path::FieldPath;
use super::{Document, Error, MAX_DEPTH, Place, scalar, text};
use crate::Warning;
use crate::warning::warn;

pub(super) fn parse(
    file: &Arc<str>,
    text: &str,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Document>, Error> {
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
        let place = Place { file: Arc::clone(file), document: documents.len() + 1, line };
        let length = value_length(rest).map_err(|error| syntax(&place, &error))?;
        let (value_text, after) = rest.split_at(length);
        let value = load(&place, value_text, limits, warnings)?;
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

fn load(place: &Place, text: &str, limits: &Limits, warnings: &mut Vec<Warning>) -> Result<Value, Error> {
    let mut state = State { place, limits, warnings, nodes: 0, path: Vec::new(), refusal: None };
    let value = Node(&mut state).deserialize(&mut serde_json::Deserializer::from_str(text));
    match (state.refusal, value) {
        (Some(refusal), _) => Err(refusal),
        (None, value) => value.map_err(|error| syntax(place, &error)),
    }
}

fn syntax(place: &Place, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    // serde_json ends its text with the position, which we say in our own way.
    let problem = text.rsplit_once(" at line ").map_or(text.as_str(), |(problem, _)| problem).to_owned();
    let line = place.line + error.line().saturating_sub(1);
    Error::Syntax { place: Place { line, ..place.clone() }, column: error.column(), problem }
}

struct State<'a> {
    place: &'a Place,
    limits: &'a Limits,
    warnings: &'a mut Vec<Warning>,
    nodes: u64,
    path: Vec<Step>,
    /// Why reading was stopped, if it was not the JSON's fault.
    refusal: Option<Error>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl State<'_> {
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.nodes += 1;
        let check = Limit::YamlNodes.check(self.nodes, self.limits.yaml_nodes, || self.place.to_string());
        check.map_err(|error| self.refuse(error.into()))
    }

    fn enter_collection<E: serde::de::Error>(&mut self) -> Result<(), E> {
        if self.path.len() < MAX_DEPTH { Ok(()) } else { Err(self.refuse(Error::Depth(self.place.clone()))) }
    }

    fn refuse<E: serde::de::Error>(&mut self, refusal: Error) -> E {
        self.refusal = Some(refusal);
        E::custom("refused")
    }

    fn duplicate(&mut self) {
        let (file, line) = (Arc::clone(&self.place.file), self.place.line);
        let path = || {
            let mut path = FieldPath::default();
            for step in &self.path {
                match step {
                    Step::Key(key) => path.key(key),
                    Step::Index(index) => path.index(*index),
                }
            }
            path.finish()
        };
        warn(self.warnings, || Warning::DuplicateKey { file, line, path: path() });
    }
}

struct Node<'a, 'b>(&'a mut State<'b>);

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.enter()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
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

    fn visit_f64<E: serde::de::Error>(self, float: f64) -> Result<Value, E> {
        scalar::json_float(float).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
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
            self.0.nodes += 1;
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
