//! Properties of a bundle: what it is, brings and needs.

use serde_json::Value;

use super::fields::Fields;
use super::sieve::Keep;
use super::{Identity, csv};
use crate::Version;
use crate::model::{Facts, Gvk, RequiredPackage};

/// The longest constraint, in bytes of JSON. Upstream's limit.
pub(crate) const MAX_CONSTRAINT: usize = 131_072;

/// What is kept of a property of some type. Types are compared exactly.
pub(super) fn keep(kind: &str) -> Keep {
    match kind {
        "olm.package"
        | "olm.package.required"
        | "olm.gvk"
        | "olm.gvk.required"
        | "olm.constraint"
        | "olm.maxOpenShiftVersion" => Keep::All,
        "olm.csv.metadata" => csv::METADATA,
        "olm.bundle.object" => Keep::Fields(&[("data", Keep::TEXT)]),
        _ => Keep::Nothing,
    }
}

/// What the properties of a bundle say, collected one by one in the order of the catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Properties {
    /// What the bundle needs, and how it can be installed.
    pub facts: Facts,
    /// The properties `olm.package`.
    pub identities: Vec<Identity>,
    /// What cannot be read. Such properties are left out otherwise.
    pub faults: Vec<String>,
}

impl Properties {
    /// Adds an item of `properties` that went through [`keep`].
    pub(super) fn add_item(&mut self, path: String, item: &Value) {
        let mut read = |path: String| {
            let fields = Fields::at(path.clone(), item)?;
            let kind = fields.text("type")?;
            if kind.is_empty() {
                return Err(format!("{path}: type must be set"));
            }
            self.read(format!("{path} ({kind})"), &kind, fields.get("value").unwrap_or(&Value::Null))
        };
        if let Err(problem) = read(path) {
            self.faults.push(problem);
        }
    }

    /// What the bundle is, if the properties agree on it.
    pub(super) fn identity(&self) -> Option<&Identity> {
        let (first, others) = self.identities.split_first()?;
        others.iter().all(|other| other == first).then_some(first)
    }

    /// Its version, if it is one.
    pub(super) fn version(&self) -> Option<Version> {
        let identity = self.identity()?;
        Version::with_release(&identity.version, &identity.release).ok()
    }

    fn read(&mut self, path: String, kind: &str, value: &Value) -> Result<(), String> {
        match kind {
            "olm.package" => {
                let fields = Fields::at(path, value)?;
                let identity = Identity {
                    package: fields.name("packageName")?,
                    version: number_or_text(&fields, "version", &mut self.faults)?,
                    release: number_or_text(&fields, "release", &mut self.faults)?,
                };
                self.identities.push(identity);
            }
            "olm.package.required" => {
                let fields = Fields::at(path, value)?;
                let required =
                    RequiredPackage { name: fields.text("packageName")?, range: fields.text("versionRange")? };
                self.facts.requires_packages.push(required);
            }
            "olm.gvk" => self.facts.provides.push(gvk(path, value)?),
            "olm.gvk.required" => self.facts.requires.push(gvk(path, value)?),
            "olm.constraint" => self.constraint(&path, value)?,
            "olm.maxOpenShiftVersion" => csv::max_openshift_version(&mut self.facts, value),
            "olm.csv.metadata" => csv::metadata(&mut self.facts, &Fields::at(path, value)?)?,
            "olm.bundle.object" => csv::object(&mut self.facts, &Fields::at(path, value)?.text("data")?)?,
            _ => {}
        }
        Ok(())
    }

    /// A constraint is kept even if it is none: a bundle that asks for something unknown must not pass for one that asks for
    /// nothing.
    fn constraint(&mut self, path: &str, value: &Value) -> Result<(), String> {
        const KINDS: [&str; 7] = ["failureMessage", "cel", "package", "gvk", "all", "any", "not"];
        let text = value.to_string();
        let length = text.len();
        self.facts.constraints.push(text);
        if length > MAX_CONSTRAINT {
            return Err(format!("{path}: {length} bytes, and at most {MAX_CONSTRAINT} are allowed"));
        }
        let Value::Object(map) = value else { return Err(format!("{path}: expected an object")) };
        match map.keys().find(|key| !KINDS.contains(&key.as_str())) {
            Some(key) => Err(format!("{path}: unknown field {key:?}")),
            None => Ok(()),
        }
    }
}

fn gvk(path: String, value: &Value) -> Result<Gvk, String> {
    let fields = Fields::at(path, value)?;
    Ok(Gvk { group: fields.text("group")?, version: fields.text("version")?, kind: fields.text("kind")? })
}

/// A number where text belongs is read, as far as it still says what was written, and noted.
fn number_or_text(fields: &Fields<'_>, name: &str, faults: &mut Vec<String>) -> Result<String, String> {
    let Some(Value::Number(number)) = fields.get(name) else { return fields.name(name) };
    let problem = fields.text(name).err().unwrap_or_default();
    faults.push(format!("{problem}: write it in quotes, a number loses its last zeros"));
    Ok(number.to_string())
}
