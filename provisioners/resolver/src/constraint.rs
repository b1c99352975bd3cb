//! Constraints: what a bundle demands of another bundle.

use std::fmt;

use rukpak_catalog::Range;
use rukpak_catalog::model::Gvk;
use serde_json::{Map, Value};

use crate::cel::Rule;
use crate::property::field;

/// The longest `olm.constraint`, in bytes of JSON. Upstream's limit.
pub const MAX_CONSTRAINT_BYTES: usize = 131_072;

/// Why a value is no constraint. The words are upstream's, and Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More bytes than anybody needs.
    #[error("olm.constraint value is greater than max constraint size {MAX_CONSTRAINT_BYTES} bytes")]
    TooLarge,
    /// A key that no constraint has.
    #[error("json: unknown field {0:?}")]
    UnknownField(String),
    /// None of the keys that demand something.
    #[error("constraint is empty")]
    Empty,
    /// A value of another form, a range or a rule that cannot be read.
    #[error("{0}")]
    Value(String),
}

/// A property whose value cannot be read. The bundle cannot be chosen: what it requires is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A value of another form.
    #[error("property {kind}: {problem}")]
    Form {
        /// Type of the property.
        kind: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An `olm.constraint` that cannot be parsed. The beginning is upstream's.
    #[error("parse olm.constraint: {0}")]
    Constraint(#[source] Error),
    /// An `olm.constraint` with a range or a rule that cannot be read. The beginning is upstream's.
    #[error("convert olm.constraint to resolver predicate: {0}")]
    Predicate(#[source] Error),
}

/// What a bundle demands. One bundle has to meet all of it: a constraint never speaks of a set of bundles.
#[derive(Clone, Debug)]
pub enum Constraint {
    /// A package, in a range of versions.
    Package {
        /// Its name.
        name: String,
        /// Its versions.
        range: Range,
    },
    /// An API.
    Gvk(Gvk),
    /// A property `olm.label`.
    Label(String),
    /// A rule in CEL, and what its author says when it is not met.
    Cel {
        /// The rule.
        rule: Rule,
        /// What people shall read.
        message: String,
    },
    /// Every member.
    All(Vec<Self>),
    /// Some member.
    Any(Vec<Self>),
    /// No member.
    Not(Vec<Self>),
}

impl Constraint {
    /// Reads the value of a property `olm.constraint`.
    ///
    /// # Errors
    /// The value has another form, an unknown key, nothing in it, too many bytes; or a range or rule that cannot be read.
    pub fn read(value: &Value) -> Result<Self, Unreadable> {
        if value.to_string().len() > MAX_CONSTRAINT_BYTES {
            return Err(Unreadable::Constraint(Error::TooLarge));
        }
        check_fields(value).map_err(Unreadable::Constraint)?;
        Self::convert(value).map_err(Unreadable::Predicate)
    }

    fn convert(value: &Value) -> Result<Self, Error> {
        let get = |name: &str| value.get(name).filter(|part| !part.is_null());
        let text = |part: &Value, name: &str| field(part, name).map_err(|problem| Error::Value(problem.clone()));
        // Of several keys the first in upstream's order counts.
        if let Some(gvk) = get("gvk") {
            let (group, version, kind) = (text(gvk, "group")?, text(gvk, "version")?, text(gvk, "kind")?);
            return Ok(Self::Gvk(Gvk { group, version, kind }));
        }
        if let Some(package) = get("package") {
            let range = Range::parse(&text(package, "versionRange")?);
            let range = range.map_err(|error| Error::Value(error.to_string()))?;
            return Ok(Self::Package { name: text(package, "packageName")?, range });
        }
        let members = |part: &Value| {
            let members = part.get("constraints").and_then(Value::as_array);
            members.into_iter().flatten().map(Self::convert).collect::<Result<Vec<_>, _>>()
        };
        if let Some(part) = get("all") {
            return members(part).map(Self::All);
        }
        if let Some(part) = get("any") {
            return members(part).map(Self::Any);
        }
        if let Some(part) = get("not") {
            return members(part).map(Self::Not);
        }
        let Some(part) = get("cel") else { return Err(Error::Empty) };
        let rule = Rule::compile(&text(part, "rule")?).map_err(Error::Value)?;
        Ok(Self::Cel { rule, message: text(value, "failureMessage")? })
    }
}

/// Refuses keys that no constraint has, at any depth: a bundle that asks for something unknown must not pass for one that asks
/// for nothing.
fn check_fields(value: &Value) -> Result<(), Error> {
    let map = known(value, &["failureMessage", "gvk", "package", "all", "any", "not", "cel"])?;
    for (name, part) in map.iter().filter(|(name, part)| *name != "failureMessage" && !part.is_null()) {
        match name.as_str() {
            "gvk" => known(part, &["group", "version", "kind"]).map(|_| ())?,
            "package" => known(part, &["packageName", "versionRange"]).map(|_| ())?,
            "cel" => known(part, &["rule"]).map(|_| ())?,
            compound => {
                let members = match known(part, &["constraints"])?.get("constraints") {
                    None | Some(Value::Null) => continue,
                    Some(Value::Array(members)) => members,
                    Some(_) => return Err(Error::Value(format!("{compound}: constraints: expected a list"))),
                };
                members.iter().try_for_each(check_fields)?;
            }
        }
    }
    Ok(())
}

fn known<'a>(value: &'a Value, names: &[&str]) -> Result<&'a Map<String, Value>, Error> {
    let Value::Object(map) = value else { return Err(Error::Value("expected an object".to_owned())) };
    match map.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(Error::UnknownField(key.clone())),
        None => Ok(map),
    }
}

/// The words are upstream's, which show them in conditions.
impl fmt::Display for Constraint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package { name, range } => {
                write!(formatter, "with package: {name} and with version in range: {}", range.as_str())
            }
            Self::Gvk(Gvk { group, version, kind }) => {
                write!(formatter, "providing an API with group: {group}, version: {version}, kind: {kind}")
            }
            Self::Label(label) => write!(formatter, "with label: {label}"),
            Self::Cel { rule, message } => {
                write!(formatter, "with constraint: {:?} and message: {message:?}", rule.text())
            }
            Self::All(members) => joined(formatter, members, " and "),
            Self::Any(members) => joined(formatter, members, " or "),
            Self::Not(members) => joined(formatter, members, " and not "),
        }
    }
}

fn joined(formatter: &mut fmt::Formatter<'_>, members: &[Constraint], word: &str) -> fmt::Result {
    for (index, member) in members.iter().enumerate() {
        if index > 0 {
            formatter.write_str(word)?;
        }
        write!(formatter, "{member}")?;
    }
    Ok(())
}
