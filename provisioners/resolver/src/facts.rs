//! What the properties of a bundle say: what it is, provides and requires.

use std::collections::BTreeSet;

use rukpak_catalog::model::Gvk;
use rukpak_catalog::{Range, Version};
use serde_json::Value;

use crate::constraint::{Constraint, Unreadable};
use crate::property::{PACKAGE, Property, field};

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

    /// Whether a bundle of these facts meets the constraint. An error of a rule counts as *no*.
    pub(crate) fn meets(&self, constraint: &Constraint) -> bool {
        match constraint {
            Constraint::Package { name, range } => {
                let versions = self.packages.iter().map(|(_, version)| version).chain([&self.version]);
                self.packages.iter().any(|(package, _)| package == name)
                    && versions.flatten().any(|version| range.contains(version))
            }
            Constraint::Gvk(gvk) => self.provides.contains(gvk),
            Constraint::Label(label) => self.labels.contains(label),
            Constraint::Cel { rule, .. } => rule.holds(&self.properties),
            Constraint::All(members) => members.iter().all(|member| self.meets(member)),
            Constraint::Any(members) => members.iter().any(|member| self.meets(member)),
            Constraint::Not(members) => !members.iter().any(|member| self.meets(member)),
        }
    }

    /// What it requires and none of `others` has, in upstream's words.
    pub fn unmet_by<'a>(&self, others: &(impl Iterator<Item = &'a Self> + Clone)) -> Vec<String> {
        let unmet = self.requires.iter().filter(|constraint| !others.clone().any(|other| other.meets(constraint)));
        unmet.map(ToString::to_string).collect()
    }

    /// The others that meet something of what it requires, by their position.
    pub fn met_by<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Vec<usize> {
        let is_used = |other: &Self| self.requires.iter().any(|constraint| other.meets(constraint));
        others.enumerate().filter(|(_, other)| is_used(other)).map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stating(properties: &[(&str, Value)]) -> Facts {
        Facts::stated(properties.iter().map(|(kind, value)| (*kind, value))).expect("they can be read")
    }

    #[test]
    fn each_requirement_is_met_by_who_states_it_and_told_in_words() {
        let gvk = || json!({"group": "g", "version": "v1", "kind": "K"});
        let package = |range: &str| json!({"packageName": "p", "versionRange": range});
        let others = [
            stating(&[]),
            stating(&[("olm.label", json!({"label": "ssl"}))]),
            stating(&[("olm.gvk", gvk()), (PACKAGE, json!({"packageName": "p", "version": "1.2.0"}))]),
        ];
        let both = json!({"constraints": [{"gvk": gvk()}, {"package": package(">=1.0.0")}]});
        let (api, range) = (
            "providing an API with group: g, version: v1, kind: K",
            "with package: p and with version in range: >=1.0.0",
        );
        for (kind, value, meets, words) in [
            ("olm.label.required", json!({"label": "ssl"}), 1, "with label: ssl".to_owned()),
            ("olm.gvk.required", gvk(), 2, api.to_owned()),
            ("olm.package.required", package(">=1.0.0"), 2, range.to_owned()),
            ("olm.constraint", json!({"all": both}), 2, format!("{api} and {range}")),
        ] {
            let needy = stating(&[(kind, value)]);
            assert_eq!(needy.met_by(others.iter()), [meets], "{kind}");
            assert!(needy.unmet_by(&others.iter()).is_empty(), "{kind}");
            assert_eq!(needy.unmet_by(&others[..1].iter()), [words]);
        }
    }
}
