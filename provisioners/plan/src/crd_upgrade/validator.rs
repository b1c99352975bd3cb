//! Whether an object is valid under the structural schema of a version.
//!
//! The keywords, formats and exceptions are the API server's (`apiextensions`, `kube-openapi`), the wording of
//! violations too, but for the values: an object may hold secrets, and what is found ends in conditions and events.
//! Missing fields that have a default are filled in first, as the API server fills them in when it reads an object. Rules
//! in CEL are not evaluated: [`ObjectValidator::unchecked`] says where there are any.

use std::collections::HashMap;
use std::fmt::{self, Display};

use regex::Regex;
use serde_json::Value;

use super::pattern;

mod defaults;
mod format;
mod keywords;

/// The most violations that are looked for in one object.
pub const MAX_VIOLATIONS: usize = 100;

/// A schema, ready to validate any number of objects. Borrows the schema; only its patterns are compiled.
#[derive(Debug)]
pub struct ObjectValidator<'a> {
    schema: &'a Value,
    /// `None` for a pattern that cannot be expressed.
    patterns: HashMap<&'a str, Option<Regex>>,
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
    /// A pattern that our regular expressions cannot express, or that is too large when compiled.
    Pattern(String),
    /// A format that the API server checks and we do not.
    Format(String),
}

/// Validates one object; to validate several, keep an [`ObjectValidator`].
pub fn validate_object(schema: &Value, object: &Value) -> Vec<Violation> {
    ObjectValidator::new(schema).validate(object)
}

impl<'a> ObjectValidator<'a> {
    /// Reads a schema: `spec.versions[].schema.openAPIV3Schema` of a definition. What is no schema constrains nothing.
    pub fn new(schema: &'a Value) -> Self {
        let mut new = Self { schema, patterns: HashMap::new(), unchecked: Vec::new(), has_defaults: false };
        new.survey(schema, "");
        new
    }

    /// What the schema asks for and [`validate`](Self::validate) does not look at.
    pub fn unchecked(&self) -> &[Unchecked] {
        &self.unchecked
    }

    /// What is wrong with an object: all of it, up to [`MAX_VIOLATIONS`]. Empty if it is valid.
    pub fn validate(&self, object: &Value) -> Vec<Violation> {
        let filled;
        let mut object = object;
        if self.has_defaults {
            filled = defaults::filled_in(self.schema, object);
            object = &filled;
        }
        let mut run = keywords::Run::new(&self.patterns);
        run.visit(self.schema, object);
        run.violations
    }

    fn survey(&mut self, schema: &'a Value, path: &str) {
        let Some(words) = schema.as_object() else { return };
        for (word, value) in words {
            match (word.as_str(), value) {
                ("default", value) => self.has_defaults |= !value.is_null(),
                ("pattern", Value::String(text)) => self.survey_pattern(text, path),
                ("format", Value::String(name)) if format::is_unchecked(name) => {
                    self.leave(path, Constraint::Format(name.clone()));
                }
                ("x-kubernetes-validations", Value::Array(rules)) if !rules.is_empty() => {
                    self.leave(path, Constraint::CelRules(rules.len()));
                }
                ("properties", Value::Object(members)) => {
                    for (name, member) in members {
                        let dot = if path.is_empty() { "" } else { "." };
                        self.survey(member, &format!("{path}{dot}{name}"));
                    }
                }
                ("items" | "additionalProperties", Value::Object(_)) => self.survey(value, &format!("{path}[]")),
                ("allOf" | "anyOf" | "oneOf", Value::Array(alternatives)) => {
                    for alternative in alternatives {
                        self.survey(alternative, path);
                    }
                }
                ("not", _) => self.survey(value, path),
                _ => {}
            }
        }
    }

    fn survey_pattern(&mut self, text: &'a str, path: &str) {
        if self.patterns.entry(text).or_insert_with(|| pattern::compile(text)).is_none() {
            self.leave(path, Constraint::Pattern(text.to_owned()));
        }
    }

    fn leave(&mut self, path: &str, constraint: Constraint) {
        self.unchecked.push(Unchecked { path: path.to_owned(), constraint });
    }
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
