//! Two schemas, field by field.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::definition::Definition;
use super::effort::Effort;
use super::property::{self, Difference};
use super::text;
use super::{Location, Rule, Severity, UnsafeChange, versions};

/// So many findings are told of two schemas; nobody reads more.
const MAX_FOUND: usize = 1_000;

/// The walk over two schemas.
struct Walk<'a> {
    effort: &'a Effort<'a>,
    path: Vec<&'a str>,
    found: Vec<FieldDifference>,
    /// What to make of a field that the newer schema lacks.
    absent: Absent,
}

struct FieldDifference {
    path: String,
    difference: Difference,
}

enum Absent {
    /// It was removed.
    Removed,
    /// It is a field without any type.
    Untyped,
}

/// The changes inside each version that both CRDs have.
pub(super) fn same_versions(
    old: &Definition<'_>,
    new: &Definition<'_>,
    severity: Severity,
    effort: &Effort<'_>,
) -> Vec<UnsafeChange> {
    let mut changes = Vec::new();
    for version in &new.versions {
        let Some(before) = old.version(version.name).and_then(|before| before.schema) else { continue };
        let schemas = (before, version.schema.unwrap_or(&Value::Null));
        changes.extend(same_version(new, version.name, schemas, severity, effort));
    }
    changes
}

/// The changes from one schema of a version to another.
pub(super) fn same_version(
    crd: &Definition<'_>,
    version: &str,
    (old, new): (&Value, &Value),
    severity: Severity,
    effort: &Effort<'_>,
) -> Vec<UnsafeChange> {
    let named = |mut found: FieldDifference| {
        if found.difference.rule == Rule::ExistingFieldRemoval {
            found.difference.message = format!("removed field : {version}.{}", found.path);
        }
        found.at(crd.name, Location::Version(version.to_owned()), severity)
    };
    differences(old, new, Absent::Removed, effort).into_iter().map(named).collect()
}

/// The differences between versions that are served side by side, unless the existing CRD has them too.
pub(super) fn served_versions(
    old: &Definition<'_>,
    new: &Definition<'_>,
    severity: Severity,
    effort: &Effort<'_>,
) -> Vec<UnsafeChange> {
    if new.webhook_converts {
        return Vec::new();
    }
    let mut served: Vec<_> = new.versions.iter().filter(|version| version.served).collect();
    served.sort_by(|left, right| versions::rank(left.name).cmp(&versions::rank(right.name)));
    let mut changes = Vec::new();
    for (index, from) in served.iter().enumerate() {
        for to in &served[index + 1..] {
            let (Some(left), Some(right)) = (from.schema, to.schema) else { continue };
            let mut found = differences(left, right, Absent::Untyped, effort);
            if found.is_empty() {
                continue;
            }
            let known = already_there(old, from.name, to.name, effort);
            found.retain(|found| !known.contains(&found.key()));
            let place = || Location::Versions { from: from.name.to_owned(), to: to.name.to_owned() };
            changes.extend(found.into_iter().map(|found| found.at(new.name, place(), severity)));
        }
    }
    changes
}

fn already_there(old: &Definition<'_>, from: &str, to: &str, effort: &Effort<'_>) -> HashSet<(String, Rule, String)> {
    let served = |name| old.version(name).filter(|version| version.served).and_then(|version| version.schema);
    match (served(from), served(to)) {
        (Some(left), Some(right)) if !old.webhook_converts => {
            differences(left, right, Absent::Untyped, effort).iter().map(FieldDifference::key).collect()
        }
        _ => HashSet::new(),
    }
}

fn differences(old: &Value, new: &Value, absent: Absent, effort: &Effort<'_>) -> Vec<FieldDifference> {
    let mut walk = Walk { effort, path: vec!["^"], found: Vec::new(), absent };
    if old != new {
        walk.visit(old, new);
    }
    walk.found
}

impl<'a> Walk<'a> {
    fn visit(&mut self, old: &'a Value, new: &'a Value) {
        let empty = Map::new();
        let (old_words, new_words) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
        let steps = 1 + old_words.len() + new_words.len();
        if !self.effort.spend(steps as u64) || self.found.len() >= MAX_FOUND {
            return;
        }
        let path = &self.path;
        property::differences(old_words, new_words, self.effort, &mut |difference| {
            self.found.push(FieldDifference { path: text::path(path), difference });
        });
        for (name, child) in members(old).into_iter().flatten() {
            self.step(name, child, members(new).and_then(|members| members.get(name)));
        }
        for name in ["items", "additionalProperties"] {
            if let Some(child) = subschema(old, name) {
                self.step(name, child, subschema(new, name));
            }
        }
    }

    fn step(&mut self, name: &'a str, old: &'a Value, new: Option<&'a Value>) {
        self.path.push(name);
        match (new, &self.absent) {
            (Some(new), _) => self.visit(old, new),
            (None, Absent::Removed) => {
                let rule = Rule::ExistingFieldRemoval;
                let difference = Difference::new(rule, Some(old), None, String::new());
                self.found.push(FieldDifference { path: text::path(&self.path), difference });
            }
            (None, Absent::Untyped) => self.visit(old, &Value::Null),
        }
        self.path.pop();
    }
}

fn members(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn subschema<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|schema| schema.is_object())
}

impl FieldDifference {
    fn key(&self) -> (String, Rule, String) {
        (self.path.clone(), self.difference.rule, self.difference.message.clone())
    }

    fn at(self, crd: &str, place: Location, severity: Severity) -> UnsafeChange {
        let Difference { rule, was, now, message } = self.difference;
        UnsafeChange { crd: crd.to_owned(), place, path: self.path, rule, severity, was, now, message }
    }
}
