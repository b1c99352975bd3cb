//! Parser events to a JSON value: anchors, aliases, merge keys, duplicates, budgets.
//!
//! Nesting is kept on a stack of our own, so it is bounded by [`MAX_DEPTH`] and not by the thread's stack.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, ScalarStyle, Span, Tag};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::anchor::{Anchored, height, scalar_of};
use super::path::FieldPath;
use super::scalar::{self, Scalar};
use super::{Error, MAX_DEPTH, Position};
use crate::budget::Cost;
use crate::warning::Few;
use crate::{Budget, Warning};

/// A collection that is being filled.
struct Frame {
    /// The parser's number of its anchor; 0 without one.
    anchor: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Value>),
    Mapping {
        map: Map<String, Value>,
        /// The key that waits for its value.
        key: Option<Key>,
        /// Keys that came from a merge and not from the mapping itself.
        merged: HashSet<String>,
    },
}

enum Key {
    Text { text: String, line: usize },
    Merge,
}

/// Takes the events of one document.
pub(super) struct Loader<'a, 'l> {
    /// The document's place; its line is where the text begins.
    place: Position,
    budget: &'a mut Budget<'l>,
    frames: Vec<Frame>,
    root: Option<Value>,
    /// By the parser's number; `None` while the value is not complete.
    anchors: Vec<Option<Anchored>>,
    /// Whether a node has come.
    is_begun: bool,
}

impl<'a, 'l> Loader<'a, 'l> {
    pub(super) fn new(place: &Position, budget: &'a mut Budget<'l>) -> Self {
        Self { place: place.clone(), budget, frames: Vec::new(), root: None, anchors: Vec::new(), is_begun: false }
    }

    /// Takes the next event.
    pub(super) fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Error> {
        match event {
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag.as_deref(), span),
            Event::SequenceStart(anchor, tag) => {
                self.count(of_node("", tag.as_deref()), span)?;
                self.open(anchor, Content::Sequence(Vec::new()), span)
            }
            Event::MappingStart(anchor, tag) => {
                self.count(of_node("", tag.as_deref()), span)?;
                self.open(anchor, Content::Mapping { map: Map::new(), key: None, merged: HashSet::new() }, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            _ => Ok(()),
        }
    }

    /// Whether no node has come yet.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_begun
    }

    /// The document's value, once every event has come; null if there was none.
    pub(super) fn finish(self) -> Value {
        self.root.unwrap_or(Value::Null)
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Error> {
        self.count(of_node(&text, tag), span)?;
        let is_key = self.is_key();
        if is_key && scalar::is_merge(&text, style, tag) {
            self.set_key(Key::Merge);
            return Ok(());
        }
        let scalar = scalar::resolve(text, style, tag).map_err(|error| self.meaning(span, error.to_string()))?;
        if is_key && anchor == 0 {
            let text = self.key_text(scalar, span)?;
            self.set_key(Key::Text { text, line: self.line(span.start) });
            return Ok(());
        }
        let value = match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(boolean) => Value::from(boolean),
            Scalar::Integer(integer) => Value::from(integer),
            Scalar::Unsigned(integer) => Value::from(integer),
            Scalar::Text(text) => Value::String(fitted(text)),
            Scalar::Float(float) => scalar::json_float(float).ok_or_else(|| {
                self.meaning(span, "JSON has no infinity and no NaN: quote the value if it is text".to_owned())
            })?,
        };
        self.complete(value, anchor, span)
    }

    fn key_text(&self, scalar: Scalar<'_>, span: Span) -> Result<String, Error> {
        Ok(match scalar {
            Scalar::Text(text) => fitted(text),
            Scalar::Bool(boolean) => boolean.to_string(),
            Scalar::Integer(integer) => integer.to_string(),
            Scalar::Float(float) => scalar::float_key(float),
            Scalar::Null => return Err(self.meaning(span, "null is not a key: quote it".to_owned())),
            Scalar::Unsigned(_) => {
                return Err(self.meaning(span, "the number is too large for a key: quote it".to_owned()));
            }
        })
    }

    fn open(&mut self, anchor: usize, content: Content, span: Span) -> Result<(), Error> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(Error::Depth(self.at(span)));
        }
        if self.is_key() {
            return Err(self.meaning(span, "a mapping or sequence is not a key: use a string".to_owned()));
        }
        self.reserve(anchor);
        self.frames.push(Frame { anchor, content });
        Ok(())
    }

    fn close(&mut self, span: Span) -> Result<(), Error> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        let value = match frame.content {
            Content::Sequence(items) => Value::Array(items),
            Content::Mapping { map, .. } => Value::Object(map),
        };
        self.complete(value, frame.anchor, span)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Error> {
        let Some(Some(Anchored { value, cost, height })) = self.anchors.get(anchor) else {
            return Err(self.meaning(span, "the anchor's value contains itself".to_owned()));
        };
        // The copy is made after the budget is checked: that is what it is for.
        let place = self.place.at_line_of(span.start);
        self.budget.add(*cost, || place.to_string())?;
        if self.frames.len() + height > MAX_DEPTH {
            return Err(Error::Depth(place));
        }
        self.is_begun = true;
        let value = value.clone();
        self.complete(value, 0, span)
    }

    /// A node is whole: keep it for aliases, then put it where it belongs.
    fn complete(&mut self, value: Value, anchor: usize, span: Span) -> Result<(), Error> {
        if anchor != 0 {
            self.reserve(anchor);
            let cost = Cost::of(&value);
            self.hold(cost, span)?;
            self.anchors[anchor] = Some(Anchored { value: value.clone(), cost, height: height(&value) });
        }
        if self.is_key() {
            let text = self.key_text(scalar_of(value), span)?;
            self.set_key(Key::Text { text, line: self.line(span.start) });
            return Ok(());
        }
        let line = self.line(span.start);
        let key = match self.frames.last_mut() {
            None => {
                self.root = Some(value);
                return Ok(());
            }
            Some(Frame { content: Content::Sequence(items), .. }) => {
                items.push(value);
                return Ok(());
            }
            Some(Frame { content: Content::Mapping { key, .. }, .. }) => key.take(),
        };
        match key {
            Some(Key::Text { text, line }) => self.insert(text, value, line),
            Some(Key::Merge) => return self.merge(value, line, span),
            None => {}
        }
        Ok(())
    }

    fn insert(&mut self, key: String, value: Value, line: usize) {
        let Some(Frame { content: Content::Mapping { map, merged, .. }, .. }) = self.frames.last_mut() else { return };
        match map.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
            }
            Entry::Occupied(mut entry) => {
                entry.insert(value);
                if !merged.remove(entry.key()) {
                    let key = entry.key().clone();
                    self.warn(&key, |file, path| Warning::DuplicateKey { file, line, path });
                }
            }
        }
    }

    /// kubectl's reader merges where `<<` stands: keys before it are replaced, keys after it replace. Of several
    /// mappings the first wins.
    fn merge(&mut self, value: Value, line: usize, span: Span) -> Result<(), Error> {
        let wrong = "the value of `<<` is a mapping or a list of mappings";
        let sources = match value {
            Value::Object(source) => vec![source],
            Value::Array(sources) => sources
                .into_iter()
                .rev()
                .map(|source| match source {
                    Value::Object(source) => Ok(source),
                    _ => Err(self.meaning(span, wrong.to_owned())),
                })
                .collect::<Result<_, _>>()?,
            _ => return Err(self.meaning(span, wrong.to_owned())),
        };
        let Some(Frame { content: Content::Mapping { map, merged, .. }, .. }) = self.frames.last_mut() else {
            return Ok(());
        };
        let mut overridden = Few::default();
        let mut copied = Cost::default();
        for (key, value) in sources.into_iter().flatten() {
            copied.nodes += 1;
            copied.bytes += key.len() as u64;
            if map.get(&key).is_some_and(|known| *known != value) && !merged.contains(&key) {
                overridden.push_with(|| key.clone());
            }
            merged.insert(key.clone());
            map.insert(key, value);
        }
        for key in &overridden {
            self.warn(key, |file, path| Warning::MergeOverride { file, line, path });
        }
        self.budget.skip_warnings(overridden.more());
        // The names of merged keys are kept beside the mapping.
        self.hold(copied, span)
    }

    /// Warns about `key` of the mapping that is being read.
    fn warn(&mut self, key: &str, make: impl FnOnce(Arc<str>, String) -> Warning) {
        let (file, frames) = (&self.place.file, &self.frames);
        self.budget.warn(|| make(Arc::clone(file), path(frames, Some(key))));
    }

    fn is_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { content: Content::Mapping { key: None, .. }, .. }))
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Frame { content: Content::Mapping { key, .. }, .. }) = self.frames.last_mut() {
            *key = Some(new);
        }
    }

    /// Makes room for an anchor whose value is not known yet.
    fn reserve(&mut self, anchor: usize) {
        if anchor != 0 && self.anchors.len() <= anchor {
            self.anchors.resize_with(anchor + 1, || None);
        }
    }

    fn count(&mut self, cost: Cost, span: Span) -> Result<(), Error> {
        self.is_begun = true;
        Ok(self.budget.add(cost, || self.place.at_line_of(span.start).to_string())?)
    }

    /// Counts a copy that goes with the document.
    fn hold(&mut self, cost: Cost, span: Span) -> Result<(), Error> {
        Ok(self.budget.hold(cost, || self.place.at_line_of(span.start).to_string())?)
    }

    fn line(&self, marker: Marker) -> usize {
        self.place.line + marker.line().saturating_sub(1)
    }

    fn at(&self, span: Span) -> Position {
        self.place.at_line_of(span.start)
    }

    fn meaning(&self, span: Span, problem: String) -> Error {
        Error::Meaning { place: self.at(span), path: path(&self.frames, None), problem }
    }
}

/// Of one node. Its tag counts: with a long prefix (`%TAG`) it is copied for each node that has it.
fn of_node(text: &str, tag: Option<&Tag>) -> Cost {
    let tag = tag.map_or(0, |tag| tag.handle.len() + tag.suffix.len());
    Cost { nodes: 1, bytes: (text.len() + tag) as u64 }
}

/// The field that is being read, and `key` in it.
fn path(frames: &[Frame], key: Option<&str>) -> String {
    let mut path = FieldPath::default();
    for frame in frames {
        match &frame.content {
            Content::Sequence(items) => path.index(items.len()),
            Content::Mapping { key: Some(Key::Text { text, .. }), .. } => path.key(text),
            Content::Mapping { key: Some(Key::Merge), .. } => path.key("<<"),
            Content::Mapping { key: None, .. } => {}
        }
    }
    if let Some(key) = key {
        path.key(key);
    }
    path.finish()
}

/// The text, without the room that the parser set aside for more: it is several times as long as most words.
fn fitted(text: Cow<'_, str>) -> String {
    let mut text = text.into_owned();
    text.shrink_to_fit();
    text
}
