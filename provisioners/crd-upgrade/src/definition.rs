//! What is read of a CRD, borrowed from it.

use serde_json::Value;

/// The most versions that a CRD has, and that its status lists. Each is compared with each.
const MAX_VERSIONS: usize = 100;

/// A CRD, of version v1 or (with one schema for all versions) v1beta1.
pub(super) struct Definition<'a> {
    pub name: &'a str,
    pub group: &'a str,
    pub plural: &'a str,
    pub kind: &'a str,
    pub scope: &'a str,
    pub versions: Vec<Version<'a>>,
    /// The versions in which objects may be stored: what the status says.
    pub stored: Vec<&'a str>,
    /// Whether a webhook converts between versions.
    pub webhook_converts: bool,
}

pub(super) struct Version<'a> {
    pub name: &'a str,
    pub served: bool,
    /// Whether objects are stored in it when they are written.
    pub storage: bool,
    pub schema: Option<&'a Value>,
}

/// A CRD that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("failed to decode CRD {name:?}: {field} is not {expected}")]
pub struct Error {
    /// The name of the CRD, as far as it has one.
    pub name: String,
    /// The path of the field.
    pub field: String,
    /// What it should be.
    pub expected: &'static str,
}

/// The fields of a value, with the name of the CRD and the path for errors.
struct Reader<'a> {
    name: &'a str,
    value: &'a Value,
    path: String,
}

impl<'a> Definition<'a> {
    pub fn read(crd: &'a Value) -> Result<Self, Error> {
        let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let top = Reader { name, value: crd, path: String::new() };
        if !matches!(top.text("kind")?, "" | "CustomResourceDefinition") {
            return Err(top.error("kind", "CustomResourceDefinition"));
        }
        let spec = top.object("spec")?.ok_or_else(|| top.error("spec", "an object"))?;
        let names = spec.object("names")?;
        let status = top.object("status")?;
        let conversion = spec.object("conversion")?;
        let name_of = |field| names.as_ref().map_or(Ok(""), |names| names.text(field));
        Ok(Self {
            name,
            group: spec.text("group")?,
            plural: name_of("plural")?,
            kind: name_of("kind")?,
            scope: spec.text("scope")?,
            versions: spec.versions()?,
            stored: status.map_or(Ok(Vec::new()), |status| status.texts("storedVersions"))?,
            webhook_converts: conversion.map_or(Ok(""), |conversion| conversion.text("strategy"))? == "Webhook",
        })
    }

    /// It takes more steps to compare than there are.
    pub fn too_complex(&self) -> Error {
        let expected = "simple enough to be compared within 20,000,000 steps, and the time that there is";
        Error { name: self.name.to_owned(), field: "spec.versions".to_owned(), expected }
    }

    pub fn version(&self, name: &str) -> Option<&Version<'a>> {
        self.versions.iter().find(|version| version.name == name)
    }
}

impl<'a> Reader<'a> {
    fn field(&self, field: &str) -> Option<&'a Value> {
        self.value.get(field).filter(|value| !value.is_null())
    }

    fn object(&self, field: &str) -> Result<Option<Self>, Error> {
        let Some(value) = self.field(field) else { return Ok(None) };
        if !value.is_object() {
            return Err(self.error(field, "an object"));
        }
        Ok(Some(Self { name: self.name, value, path: self.path_of(field) }))
    }

    fn text(&self, field: &str) -> Result<&'a str, Error> {
        self.field(field).map_or(Ok(""), |value| value.as_str().ok_or_else(|| self.error(field, "a string")))
    }

    fn boolean(&self, field: &str) -> Result<bool, Error> {
        self.field(field).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| self.error(field, "a boolean")))
    }

    fn list(&self, field: &str) -> Result<&'a [Value], Error> {
        let Some(value) = self.field(field) else { return Ok(&[]) };
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.error(field, "a list"))
    }

    /// A list that has an entry a version.
    fn few(&self, field: &str) -> Result<&'a [Value], Error> {
        let list = self.list(field)?;
        if list.len() > MAX_VERSIONS { Err(self.error(field, "a list of at most 100 versions")) } else { Ok(list) }
    }

    fn texts(&self, field: &str) -> Result<Vec<&'a str>, Error> {
        let texts =
            self.few(field)?.iter().map(|item| item.as_str().ok_or_else(|| self.error(field, "a list of strings")));
        texts.collect()
    }

    fn versions(&self) -> Result<Vec<Version<'a>>, Error> {
        let shared = self.schema("validation")?;
        let mut versions = Vec::new();
        for (index, value) in self.few("versions")?.iter().enumerate() {
            let version = Self { name: self.name, value, path: self.path_of(&format!("versions[{index}]")) };
            let name = version.text("name")?;
            if name.is_empty() {
                return Err(version.error("name", "a non-empty string"));
            }
            let (served, storage) = (version.boolean("served")?, version.boolean("storage")?);
            versions.push(Version { name, served, storage, schema: version.schema("schema")?.or(shared) });
        }
        let only = self.text("version")?;
        if versions.is_empty() && !only.is_empty() {
            versions.push(Version { name: only, served: true, storage: true, schema: shared });
        }
        Ok(versions)
    }

    fn schema(&self, field: &str) -> Result<Option<&'a Value>, Error> {
        let Some(around) = self.object(field)? else { return Ok(None) };
        Ok(around.object("openAPIV3Schema")?.map(|schema| schema.value))
    }

    fn path_of(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    fn error(&self, field: &str, expected: &'static str) -> Error {
        Error { name: self.name.to_owned(), field: self.path_of(field), expected }
    }
}
