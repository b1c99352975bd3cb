//! Whether an object is valid under the structural schema of a version.
//!
//! The keywords, formats and exceptions are the API server's (`apiextensions`, `kube-openapi`), the wording of
//! violations too, but for the values: an object may hold secrets, and what is found ends in conditions and events.
//! Missing fields that have a default are filled in first, as the API server fills them in when it reads an object. Rules
//! in CEL are not evaluated: [`ObjectValidator::unchecked`] says where there are any.

use std::fmt::{self, Display};

use serde_json::Value;

use super::effort::Effort;
use super::pattern::Patterns;
use super::text;

mod defaults;
mod format;
mod keywords;

pub use super::pattern::{MAX_PATTERNS, MAX_TOTAL_BYTES as MAX_PATTERN_BYTES};

/// The most violations that are looked for in one object.
pub const MAX_VIOLATIONS: usize = 100;
/// The most constraints that are told of as not checked.
pub const MAX_UNCHECKED: usize = 1_000;
/// What is in a list or a map, in a path through a schema.
const ITEMS: &str = "[]";

/// A schema, ready to validate any number of objects. Borrows the schema; only its patterns are compiled.
#[derive(Debug)]
pub struct ObjectValidator<'a> {
    schema: &'a Value,
    patterns: Patterns<'a>,
    unchecked: Vec<Unchecked>,
    has_defaults: bool,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, such as `spec.sizes[0]`; empty for the object itself.
    pub path: String,
    /// What is wrong. No value of the object is in it.
    pub message: String,
}

/// A constraint of a schema that is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// The field, such as `spec.sizes[]`; empty for the object itself.
    pub path: String,
    /// What is not checked.
    pub constraint: Constraint,
}

/// A kind of constraint that is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Constraint {
    /// This number of rules in CEL (`x-kubernetes-validations`).
    CelRules(usize),
    /// A pattern that our regular expressions cannot express, or that is too large when compiled: by itself, or all patterns of
    /// the schema together ([`MAX_PATTERNS`], [`MAX_PATTERN_BYTES`]).
    Pattern(String),
    /// A format that the API server checks and we do not.
    Format(String),
}

/// Validates one object; to validate several, keep an [`ObjectValidator`].
pub fn validate_object(schema: &Value, object: &Value) -> Vec<Violation> {
    ObjectValidator::new(schema).validate(object)
}

impl<'a> ObjectValidator<'a> {
    /// Reads a schema: `spec.versions[].schema.openAPIV3Schema` of a CRD. What is no schema constrains nothing.
    pub fn new(schema: &'a Value) -> Self {
        Self::within(schema, &Effort::default())
    }

    /// Like [`new`](Self::new); once `effort` is spent, patterns that were not looked at yet are not checked.
    pub fn within(schema: &'a Value, effort: &Effort<'_>) -> Self {
        let mut new = Self { schema, patterns: Patterns::default(), unchecked: Vec::new(), has_defaults: false };
        let mut found = Vec::new();
        new.survey(schema, &mut Vec::new(), &mut found);
        new.patterns.compile(effort);
        for (path, pattern) in found {
            if new.patterns.get(pattern).is_none() {
                new.leave(path, Constraint::Pattern(text::cut(pattern.to_owned(), text::MAX_PATH_BYTES)));
            }
        }
        new
    }

    /// What the schema asks for and [`validate`](Self::validate) does not look at, up to [`MAX_UNCHECKED`].
    pub fn unchecked(&self) -> &[Unchecked] {
        &self.unchecked
    }

    /// What is wrong with an object: all of it, up to [`MAX_VIOLATIONS`]. Empty if it is valid. One that takes more than
    /// [`MAX_STEPS`](super::MAX_STEPS) to look at is not.
    pub fn validate(&self, object: &Value) -> Vec<Violation> {
        self.validate_within(object, &Effort::default())
    }

    /// Like [`validate`](Self::validate); not all of it where `effort` is stopped, which the caller then knows.
    pub fn validate_within(&self, object: &Value, effort: &Effort<'_>) -> Vec<Violation> {
        let filled;
        let mut object = object;
        if self.has_defaults {
            filled = defaults::filled_in(self.schema, object, effort);
            object = &filled;
        }
        let mut run = keywords::Run::new(&self.patterns, effort);
        run.visit(self.schema, object);
        let mut violations = run.violations;
        if effort.is_spent() {
            let message = "Too complex: it cannot be checked within 20,000,000 steps, and the time that there is";
            violations.push(Violation { path: String::new(), message: message.to_owned() });
        }
        violations
    }

    fn survey(&mut self, schema: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<(String, &'a str)>) {
        let Some(words) = schema.as_object() else { return };
        for (word, value) in words {
            match (word.as_str(), value) {
                ("default", value) => self.has_defaults |= !value.is_null(),
                ("pattern", Value::String(text)) => {
                    self.patterns.add(text);
                    // Of more nobody is told whether they are checked.
                    if found.len() < 10 * MAX_UNCHECKED {
                        found.push((schema_path(path), text));
                    }
                }
                ("format", Value::String(name)) if format::is_unchecked(name) => {
                    self.leave(schema_path(path), Constraint::Format(name.clone()));
                }
                ("x-kubernetes-validations", Value::Array(rules)) if !rules.is_empty() => {
                    self.leave(schema_path(path), Constraint::CelRules(rules.len()));
                }
                ("properties", Value::Object(members)) => {
                    for (name, member) in members {
                        path.push(name);
                        self.survey(member, path, found);
                        path.pop();
                    }
                }
                ("items" | "additionalProperties", Value::Object(_)) => {
                    path.push(ITEMS);
                    self.survey(value, path, found);
                    path.pop();
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(alternatives)) => {
                    for alternative in alternatives {
                        self.survey(alternative, path, found);
                    }
                }
                ("not", _) => self.survey(value, path, found),
                _ => {}
            }
        }
    }

    fn leave(&mut self, path: String, constraint: Constraint) {
        if self.unchecked.len() < MAX_UNCHECKED {
            self.unchecked.push(Unchecked { path, constraint });
        }
    }
}

fn schema_path(path: &[&str]) -> String {
    text::path(path).replace(".[]", ITEMS)
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "<object>" } else { &self.path };
        write!(f, "{path}: {}", self.message)
    }
}

impl Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "<object>" } else { &self.path };
        match &self.constraint {
            Constraint::CelRules(1) => write!(f, "{path}: 1 CEL rule is not checked"),
            Constraint::CelRules(count) => write!(f, "{path}: {count} CEL rules are not checked"),
            Constraint::Pattern(pattern) => write!(f, "{path}: pattern {pattern:?} is not checked"),
            Constraint::Format(format) => write!(f, "{path}: format {format:?} is not checked"),
        }
    }
}

#[cfg(test)]
#[path = "validator/tests.rs"]
mod tests;
