//! What a message states about its bundle beside the ClusterServiceVersion.

use serde::Deserialize;
use serde_json::Value;

use super::message::{Bundle, GroupVersionKind, Property};
use crate::document;
use crate::model::{Facts, Gvk, RequiredPackage};

/// The longest property that is read, in bytes. Upstream's limit for constraints, which are the only long ones: manifests are no
/// properties here. A list of nothing has two bytes for an item as text, and 32 as a value.
const MAX_PROPERTY: usize = document::MAX_CONSTRAINT;

/// Faults that are told of one bundle. A message may hold thousands.
const MAX_FAULTS: usize = 20;

/// What a bundle says of itself.
#[derive(Debug, Default)]
pub(super) struct BundleClaims {
    pub(super) facts: Facts,
    /// The release of its packaging, or empty.
    pub(super) release: String,
    /// What cannot be read, for people.
    pub(super) faults: Vec<String>,
}

/// Properties, dependencies and the fields of servers that know neither: they say the same thing up to three times.
///
/// What cannot be read is told. A constraint that cannot be read is kept all the same: a bundle that asks for something unknown
/// must not pass for one that asks for nothing.
pub(super) fn read(message: &Bundle) -> BundleClaims {
    let mut told = BundleClaims::default();
    for property in &message.properties {
        told.add(property, &property.r#type);
    }
    for dependency in &message.dependencies {
        // A dependency is something required, whatever its type says.
        let kind = match dependency.r#type.as_str() {
            "olm.gvk" => "olm.gvk.required",
            "olm.package" => "olm.package.required",
            "olm.constraint" => "olm.constraint",
            _ => continue,
        };
        told.add(dependency, kind);
    }
    let gvk =
        |api: &GroupVersionKind| Gvk { group: api.group.clone(), version: api.version.clone(), kind: api.kind.clone() };
    let facts = &mut told.facts;
    facts.provides.extend(message.provided_apis.iter().map(gvk));
    facts.requires.extend(message.required_apis.iter().map(gvk));
    unique(&mut facts.provides, Clone::clone);
    unique(&mut facts.requires, Clone::clone);
    unique(&mut facts.requires_packages, |package| (package.name.clone(), package.range.clone()));
    unique(&mut facts.constraints, Clone::clone);
    told
}

/// In order of `key`, each once.
fn unique<T: PartialEq, K: Ord>(list: &mut Vec<T>, key: impl FnMut(&T) -> K) {
    list.sort_by_cached_key(key);
    list.dedup();
    list.shrink_to_fit();
}

#[derive(Deserialize)]
struct Api {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Required {
    package_name: String,
    /// A property has this,
    #[serde(default)]
    version_range: String,
    /// a dependency this: the same.
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct Identity {
    #[serde(default)]
    release: String,
}

/// The newest OpenShift: a string, or by mistake a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Newest {
    Text(String),
    Number(serde_json::Number),
}

impl From<Api> for Gvk {
    fn from(Api { group, version, kind }: Api) -> Self {
        Self { group, version, kind }
    }
}

impl From<Required> for RequiredPackage {
    fn from(Required { package_name: name, version_range, version }: Required) -> Self {
        Self { name, range: if version_range.is_empty() { version } else { version_range } }
    }
}

impl BundleClaims {
    fn add(&mut self, Property { r#type: _, value }: &Property, kind: &str) {
        let facts = &mut self.facts;
        let added = match kind {
            "olm.package" => read_value(value).map(|Identity { release }| self.release = release),
            "olm.gvk" => read_value::<Api>(value).map(|api| facts.provides.push(api.into())),
            "olm.gvk.required" => read_value::<Api>(value).map(|api| facts.requires.push(api.into())),
            "olm.package.required" => {
                read_value::<Required>(value).map(|required| facts.requires_packages.push(required.into()))
            }
            "olm.constraint" => {
                let read = read_value::<Value>(value);
                facts.constraints.push(read.as_ref().map_or_else(|_| value.clone(), Value::to_string));
                read.map(drop)
            }
            "olm.maxOpenShiftVersion" => read_value(value).map(|newest| {
                facts.max_openshift_version = Some(match newest {
                    Newest::Text(text) => text,
                    Newest::Number(number) => number.to_string(),
                });
            }),
            _ => Ok(()),
        };
        if let Err(problem) = added
            && self.faults.len() < MAX_FAULTS
        {
            self.faults.push(format!("property {kind}: {}", document::excerpt(&problem)));
        }
    }
}

fn read_value<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    if json.len() > MAX_PROPERTY {
        return Err(format!("{} bytes, and at most {MAX_PROPERTY} are allowed", json.len()));
    }
    serde_json::from_str(json).map_err(|error| error.to_string())
}
