//! What the properties of a bundle say: what it is, provides and requires.

use std::collections::BTreeSet;

use rukpak_catalog::model::Gvk;
use rukpak_catalog::{Range, Version};
use serde_json::Value;

use crate::constraint::{self, Constraint};

/// The type of the property that says which package a bundle is of.
pub const PACKAGE: &str = "olm.package";

/// A property, as a catalog or the annotation of an installed bundle has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Property {
    /// Its type, such as `olm.gvk`.
    pub kind: String,
    /// Its value.
    pub value: Value,
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
    Constraint(#[source] constraint::Error),
    /// An `olm.constraint` with a range or a rule that cannot be read. The beginning is upstream's.
    #[error("convert olm.constraint to resolver predicate: {0}")]
    Predicate(#[source] constraint::Error),
}

/// Everything that a resolution reads of a bundle.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version of the bundle itself; `None` if it has none that can be read. Then it is in no range.
    pub(crate) version: Option<Version>,
    /// Packages by the properties `olm.package`, with the version that each states.
    pub(crate) packages: Vec<(String, Option<Version>)>,
    pub(crate) provides: BTreeSet<Gvk>,
    pub(crate) labels: BTreeSet<String>,
    /// Whether the property `olm.deprecated` prohibits the bundle. The schema `olm.deprecations` is another thing.
    pub(crate) is_prohibited: bool,
    /// Each may be met by another bundle.
    pub(crate) requires: Vec<Constraint>,
    /// As given: rules in CEL read them.
    pub(crate) properties: Vec<Property>,
}

impl Facts {
    /// Reads the properties of a bundle of `version`.
    ///
    /// # Errors
    /// The first property of a known type whose value is of another form, or has a range or rule that cannot be read.
    pub fn read(version: Option<Version>, properties: Vec<Property>) -> Result<Self, Unreadable> {
        let mut facts = Self { version, ..Self::default() };
        for property in &properties {
            facts.add(property)?;
        }
        facts.properties = properties;
        Ok(facts)
    }

    /// Reads the properties that an installed bundle states, as type and value, its version from `olm.package`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn stated<'a>(properties: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Result<Self, Unreadable> {
        let property = |(kind, value): (&str, &Value)| Property { kind: kind.to_owned(), value: value.clone() };
        let properties: Vec<Property> = properties.into_iter().map(property).collect();
        let package = properties.iter().find(|property| property.kind == PACKAGE);
        let version = package.and_then(|package| Version::parse(package.value["version"].as_str()?).ok());
        Self::read(version, properties)
    }

    fn add(&mut self, Property { kind, value }: &Property) -> Result<(), Unreadable> {
        let fault = |problem: String| Unreadable::Form { kind: kind.clone(), problem };
        let text = |name: &str| field(value, name).map_err(fault);
        let gvk = || Ok(Gvk { group: text("group")?, version: text("version")?, kind: text("kind")? });
        match kind.as_str() {
            PACKAGE => {
                let version = Version::parse(&text("version")?).ok();
                self.packages.push((text("packageName")?, version));
            }
            "olm.gvk" => {
                self.provides.insert(gvk()?);
            }
            "olm.label" => {
                self.labels.insert(text("label")?);
            }
            "olm.deprecated" => self.is_prohibited = true,
            "olm.package.required" => {
                let range = Range::parse(&text("versionRange")?).map_err(|error| fault(error.to_string()))?;
                self.requires.push(Constraint::Package { name: text("packageName")?, range });
            }
            "olm.gvk.required" => self.requires.push(Constraint::Gvk(gvk()?)),
            "olm.label.required" => self.requires.push(Constraint::Label(text("label")?)),
            "olm.constraint" => self.requires.push(Constraint::read(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl Facts {
    /// Whether it requires anything.
    pub fn is_demanding(&self) -> bool {
        !self.requires.is_empty()
    }

    /// What it requires and none of `others` has, in upstream's words.
    pub fn unmet_by<'a>(&self, others: &(impl Iterator<Item = &'a Self> + Clone)) -> Vec<String> {
        let unmet = self.requires.iter().filter(|constraint| !others.clone().any(|other| constraint.is_met_by(other)));
        unmet.map(ToString::to_string).collect()
    }

    /// The others that meet something of what it requires, by their position.
    pub fn met_by<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Vec<usize> {
        let is_used = |other: &Self| self.requires.iter().any(|constraint| constraint.is_met_by(other));
        others.enumerate().filter(|(_, other)| is_used(other)).map(|(index, _)| index).collect()
    }
}

/// A text in an object; empty if it is absent, as Go reads it.
pub(crate) fn field(value: &Value, name: &str) -> Result<String, String> {
    let Value::Object(map) = value else { return Err("expected an object".to_owned()) };
    match map.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{name}: expected a text")),
    }
}
