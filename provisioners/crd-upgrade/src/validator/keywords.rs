//! The keywords of a schema, one after the other, at one value after the other.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{MAX_VIOLATIONS, Violation, format};
use crate::effort::Effort;
use crate::pattern::Patterns;
use crate::text;

/// So many allowed values are told.
const MAX_ALLOWED: usize = 50;

/// How far from a whole number a quotient may be, relatively, and still count as whole.
const TOLERANCE: f64 = 1e-9;

/// One object under validation.
pub(super) struct Run<'p, 'o> {
    patterns: &'p Patterns<'p>,
    effort: &'p Effort<'p>,
    path: Vec<Step<'o>>,
    /// With so many there is nothing more to find out.
    enough: usize,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Copy)]
enum Step<'o> {
    Field(&'o str),
    Item(usize),
}

impl<'p, 'o> Run<'p, 'o> {
    pub fn new(patterns: &'p Patterns<'p>, effort: &'p Effort<'p>) -> Self {
        Self { patterns, effort, path: Vec::new(), enough: MAX_VIOLATIONS, violations: Vec::new() }
    }

    /// Validates a value. What is no schema accepts everything.
    pub fn visit(&mut self, schema: &'o Value, value: &'o Value) {
        let Some(words) = schema.as_object() else { return };
        if self.violations.len() >= self.enough || !self.effort.spend(1 + words.len() as u64) {
            return;
        }
        self.types(words, value);
        self.allowed_values(words, value);
        // Null that is allowed, or has been complained of, has nothing else to it.
        if value.is_null() {
            return;
        }
        self.alternatives(words, value);
        match value {
            Value::String(text) => self.text(words, text),
            Value::Number(number) => self.number(words, number.as_f64().unwrap_or_default()),
            Value::Array(items) => self.list(words, items),
            Value::Object(fields) => self.object(words, fields),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn types(&mut self, words: &Map<String, Value>, value: &Value) {
        let expected = match words.get("type") {
            _ if flag(words, "x-kubernetes-int-or-string") => "integer,string",
            Some(Value::String(name)) if !name.is_empty() => name,
            _ => return,
        };
        let actual = type_of(value);
        let fits = |name: &str| name == actual || (name == "number" && actual == "integer");
        if expected.split(',').any(fits) || (value.is_null() && flag(words, "nullable")) {
            return;
        }
        let in_body = self.in_body();
        self.report(format!("Invalid value: {actual:?}: {in_body} must be of type {expected}: {actual:?}"));
    }

    fn allowed_values(&mut self, words: &Map<String, Value>, value: &Value) {
        let Some(allowed) = words.get("enum").and_then(Value::as_array).filter(|allowed| !allowed.is_empty()) else {
            return;
        };
        if !self.effort.spend(allowed.len() as u64) || allowed.iter().any(|other| same(other, value)) {
            return;
        }
        let names: Vec<_> = allowed.iter().take(MAX_ALLOWED).map(text::brief).collect();
        let more = if allowed.len() > MAX_ALLOWED { ", …" } else { "" };
        self.report(format!("Unsupported value: supported values: {}{more}", names.join(", ")));
    }

    fn alternatives(&mut self, words: &'o Map<String, Value>, value: &'o Value) {
        let schemas = |word| words.get(word).and_then(Value::as_array).into_iter().flatten();
        for schema in schemas("allOf") {
            self.visit(schema, value);
        }
        let (mut any, mut fitting) = (schemas("anyOf").peekable(), 0);
        if any.peek().is_some() && !any.any(|schema| self.accepts(schema, value)) {
            self.invalid("must validate at least one schema (anyOf)");
        }
        let mut one = schemas("oneOf").peekable();
        if one.peek().is_some() {
            one.for_each(|schema| fitting += usize::from(self.accepts(schema, value)));
            match fitting {
                1 => {}
                0 => self.invalid("must validate one and only one schema (oneOf). Found none valid"),
                _ => self.invalid(&format!(
                    "must validate one and only one schema (oneOf). Found {fitting} valid alternatives"
                )),
            }
        }
        if words.get("not").is_some_and(|schema| schema.is_object() && self.accepts(schema, value)) {
            self.invalid("must not validate the schema (not)");
        }
    }

    fn accepts(&mut self, schema: &'o Value, value: &'o Value) -> bool {
        let found = std::mem::take(&mut self.violations);
        let enough = std::mem::replace(&mut self.enough, 1);
        self.visit(schema, value);
        self.enough = enough;
        std::mem::replace(&mut self.violations, found).is_empty()
    }

    fn text(&mut self, words: &Map<String, Value>, given: &str) {
        let (least, most) = (count(words, "minLength"), count(words, "maxLength"));
        // Characters are counted only where it matters, and bytes bound them from both sides.
        let chars = if least.is_some() || most.is_some() { given.chars().count() as u64 } else { 0 };
        if let Some(least) = least.filter(|least| chars < *least) {
            self.invalid(&format!("should be at least {least} chars long"));
        }
        if let Some(most) = most.filter(|most| chars > *most) {
            self.invalid(&format!("should be at most {most} chars long"));
        }
        if let Some(pattern) = words.get("pattern").and_then(Value::as_str)
            && let Some(regex) = self.patterns.get(pattern)
            && !regex.is_match(given, self.effort)
        {
            let pattern = text::cut(pattern.to_owned(), text::MAX_PATH_BYTES);
            self.invalid(&format!("should match '{pattern}'"));
        }
        self.effort.spend(given.len() as u64);
        if let Some(format) = words.get("format").and_then(Value::as_str)
            && !format::fits(format, given)
        {
            self.invalid(&format!("must be of type {format}"));
        }
    }

    fn number(&mut self, words: &Map<String, Value>, number: f64) {
        let bound = |word| words.get(word).and_then(Value::as_f64);
        if let Some(most) = bound("maximum") {
            if flag(words, "exclusiveMaximum") {
                self.unless(number < most, || format!("should be less than {most}"));
            } else {
                self.unless(number <= most, || format!("should be less than or equal to {most}"));
            }
        }
        if let Some(least) = bound("minimum") {
            if flag(words, "exclusiveMinimum") {
                self.unless(number > least, || format!("should be greater than {least}"));
            } else {
                self.unless(number >= least, || format!("should be greater than or equal to {least}"));
            }
        }
        if let Some(factor) = bound("multipleOf").filter(|factor| *factor > 0.0) {
            // As the API server reckons: dividing by 0.1 is less exact than multiplying with 10.
            let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            let off = (times - times.round()).abs();
            self.unless(off <= TOLERANCE * times.abs().max(1.0), || format!("should be a multiple of {factor}"));
        }
    }

    fn list(&mut self, words: &'o Map<String, Value>, items: &'o [Value]) {
        let length = items.len() as u64;
        self.size(words, ["minItems", "maxItems"], length, "items");
        if flag(words, "uniqueItems") && self.has_duplicates(items, ToString::to_string) {
            self.invalid("shouldn't contain duplicates");
        }
        match words.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") if self.has_duplicates(items, ToString::to_string) => {
                self.report("Duplicate value: items of a set must differ".to_owned());
            }
            Some("map") => {
                let names = words.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let names: Vec<_> = names.into_iter().flatten().filter_map(Value::as_str).collect();
                let effort = self.effort;
                let goes_on = || effort.spend(names.len() as u64);
                let key = |item: &Value| names.iter().map(|name| item.get(name).cloned()).collect::<Vec<_>>();
                if self.has_duplicates(items, |item| if goes_on() { format!("{:?}", key(item)) } else { String::new() })
                {
                    self.report(format!("Duplicate value: items must differ in {}", names.join(", ")));
                }
            }
            _ => {}
        }
        if let Some(schema) = words.get("items").filter(|schema| schema.is_object()) {
            for (index, item) in items.iter().enumerate() {
                self.step(Step::Item(index), schema, item);
            }
        }
    }

    fn object(&mut self, words: &'o Map<String, Value>, fields: &'o Map<String, Value>) {
        self.size(words, ["minProperties", "maxProperties"], fields.len() as u64, "properties");
        for name in words.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !self.effort.spend(1) {
                return;
            }
            if !fields.contains_key(name) {
                self.report_at(name, "Required value");
            }
        }
        if flag(words, "x-kubernetes-embedded-resource") {
            for name in ["apiVersion", "kind"] {
                if fields.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                    self.report_at(name, "Required value: must not be empty");
                }
            }
        }
        let properties = words.get("properties").and_then(Value::as_object);
        let others = words.get("additionalProperties");
        for (name, value) in fields {
            match (properties.and_then(|properties| properties.get(name)), others) {
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => {
                    self.step(Step::Field(name), schema, value);
                }
                (None, Some(Value::Bool(false))) => self.report_at(name, "Forbidden: not a field of the schema"),
                (None, _) => {}
            }
        }
    }

    fn size(&mut self, words: &Map<String, Value>, [least, most]: [&str; 2], size: u64, what: &str) {
        if let Some(least) = count(words, least).filter(|least| size < *least) {
            self.invalid(&format!("should have at least {least} {what}"));
        }
        if let Some(most) = count(words, most).filter(|most| size > *most) {
            self.invalid(&format!("should have at most {most} {what}"));
        }
    }

    /// Whether two items have the same key; not, once there are no steps left.
    fn has_duplicates(&self, items: &[Value], key: impl Fn(&Value) -> String) -> bool {
        let mut seen = HashSet::with_capacity(items.len());
        let is_new = |item| {
            let key = key(item);
            !self.effort.spend(1 + key.len() as u64) || seen.insert(key)
        };
        !items.iter().all(is_new)
    }

    fn step(&mut self, step: Step<'o>, schema: &'o Value, value: &'o Value) {
        self.path.push(step);
        self.visit(schema, value);
        self.path.pop();
    }

    fn unless(&mut self, fits: bool, message: impl FnOnce() -> String) {
        if !fits {
            self.invalid(&message());
        }
    }

    fn invalid(&mut self, what: &str) {
        let in_body = self.in_body();
        self.report(format!("Invalid value: {in_body} {what}"));
    }

    fn report_at(&mut self, field: &str, message: &str) {
        let around = self.path();
        let path = if around.is_empty() { field.to_owned() } else { format!("{around}.{field}") };
        self.push(Violation { path: text::cut(path, text::MAX_PATH_BYTES), message: message.to_owned() });
    }

    fn report(&mut self, message: String) {
        let path = self.path();
        self.push(Violation { path, message });
    }

    fn push(&mut self, violation: Violation) {
        if self.violations.len() < self.enough {
            self.violations.push(violation);
        }
    }

    fn in_body(&self) -> String {
        let path = self.path();
        if path.is_empty() { "body".to_owned() } else { format!("{path} in body") }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            if path.len() > text::MAX_PATH_BYTES {
                break;
            }
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                // Writing to a String cannot fail.
                Step::Item(index) => drop(write!(path, "[{index}]")),
            }
        }
        text::cut(path, text::MAX_PATH_BYTES)
    }
}

fn flag(words: &Map<String, Value>, word: &str) -> bool {
    words.get(word).is_some_and(|value| value == true)
}

fn count(words: &Map<String, Value>, word: &str) -> Option<u64> {
    words.get(word)?.as_u64()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() && number.as_f64().is_none_or(|number| number.fract() != 0.0) => {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Equal values; 1 and 1.0 are.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (left, right) => left == right,
    }
}
