//! Whether a new version of a custom resource CRD may replace the one in the cluster.
//!
//! ```text
//! switched_off?  ->  check(existing, new)  ->  changes        refused (errors) or told (warnings)
//!                                          ->  object_checks  list these objects, ObjectValidator them: more changes
//! migration(existing, new)                 ->  what has to happen to stored objects before a stored version can go
//! share(existing, new), union              ->  whether several bundles can have it, and what it is for all of them
//! ```
//!
//! Two sets of rules, all applied, all findings given at once. Those of RukPak's CRD validator refuse what loses stored
//! data or makes an existing object invalid. Those of OLM v1 (`crdify`), which look at schemas only and so refuse
//! more, are warnings unless [`Options::strict`] is set. The README of this crate lists where both are read differently.
//!
//! Nothing is copied from the CRDs, which may have megabytes, but the values that a finding names.

use serde_json::Value;

mod compare;
mod definition;
mod effort;
mod pattern;
mod property;
mod same;
mod sharing;
mod stored;
mod text;
pub mod validator;
mod versions;

pub use definition::Error;
pub use effort::{Effort, MAX_STEPS};
pub use sharing::{Sharing, kept_versions, share, union};
pub use stored::{Migration, lost_field, migration};
pub use text::{denial, denial_for_extension, refusal};
pub use validator::{ObjectValidator, Violation, validate_object};

use definition::Definition;

/// The annotation on the new CRD that switches the check off, if its value is the text `false`.
pub const SAFE_UPGRADE_ANNOTATION: &str = rukpak_crds::names::SAFE_CRD_UPGRADE;

/// How strictly CRDs are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The rules of OLM v1 refuse as well; otherwise what they find is a warning.
    pub strict: bool,
}

/// What a CRD would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every unsafe change that the two CRDs show, in a fixed order: errors of RukPak's rules, then the others by
    /// version and path.
    pub changes: Vec<UnsafeChange>,
    /// What only the existing objects can tell, by the version through which they are listed.
    pub object_checks: Vec<ObjectCheck>,
}

/// One change that can break something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeChange {
    /// The name of the CRD.
    pub crd: String,
    /// The version or versions it concerns.
    pub place: Location,
    /// The field: in a schema `^.spec.replicas` (`^` is the root; `.items` and `.additionalProperties` are what is in
    /// lists and maps), for [`Rule::ExistingObject`] the path in the object. Empty for the whole CRD.
    pub path: String,
    /// The rule.
    pub rule: Rule,
    /// Whether it refuses the change.
    pub severity: Severity,
    /// What was: JSON, shortened to 200 characters. `None` if there was nothing.
    pub was: Option<String>,
    /// What is to be, likewise.
    pub now: Option<String>,
    /// What happened, in the words of the reference and without the place.
    pub message: String,
}

/// Where a change is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// The CRD as a whole.
    Definition,
    /// One version, before and after.
    Version(String),
    /// Two versions that are both served and between which nothing converts.
    Versions {
        /// The older one, by the order that Kubernetes gives versions.
        from: String,
        /// The newer one.
        to: String,
    },
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A version in which objects are stored leaves the CRD (RukPak).
    StoredVersionRemoval,
    /// The status lists a stored version that neither CRD knows (RukPak).
    DataLoss,
    /// An object in the cluster is invalid under the new schema (RukPak).
    ExistingObject,
    /// A version is served no more. Neither reference refuses it, so it is a warning always.
    ServedVersionRemoval,
    /// Namespaced became cluster-scoped, or the reverse. The API server refuses it.
    Scope,
    /// A field left a version.
    ExistingFieldRemoval,
    /// `default` came, went or changed.
    Default,
    /// `enum` came, or values left it.
    Enum,
    /// `maximum` came or was lowered.
    Maximum,
    /// `maxItems` came or was lowered.
    MaxItems,
    /// `maxLength` came or was lowered.
    MaxLength,
    /// `maxProperties` came or was lowered.
    MaxProperties,
    /// `minimum` came or was raised.
    Minimum,
    /// `minItems` came or was raised.
    MinItems,
    /// `minLength` came or was raised.
    MinLength,
    /// `minProperties` came or was raised.
    MinProperties,
    /// `nullable` changed.
    Nullable,
    /// `oneOf` came, or its alternatives changed.
    OneOf,
    /// `pattern` came, went or changed.
    Pattern,
    /// A field became required.
    Required,
    /// `type` changed.
    Type,
    /// Anything else that a schema says changed, descriptions apart.
    Unhandled,
}

/// What a finding does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The change is refused.
    Error,
    /// The change is told.
    Warning,
}

/// Objects that must be valid under a schema of the new CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCheck {
    /// The name of the CRD.
    pub crd: String,
    /// The API group to list.
    pub group: String,
    /// The version to list: the existing CRD serves it.
    pub list_version: String,
    /// The plural name to list.
    pub plural: String,
    /// The kind of the objects.
    pub kind: String,
    /// The version of the new CRD whose schema the objects must satisfy; [`schema_of`] finds it.
    pub schema_version: String,
    /// Why.
    pub reason: CheckReason,
}

/// Why objects are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckReason {
    /// The schema of the version they are served in says something else now.
    SchemaChanged,
    /// The version is new and no webhook converts objects to it.
    VersionAdded,
}

/// Whether the author of the new CRD switched the check off.
///
/// What counts is the CRD that comes in, and only the text `false`: not the boolean, not `False`.
pub fn is_switched_off(new: &Value) -> bool {
    new.pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(SAFE_UPGRADE_ANNOTATION))
        .is_some_and(|value| value == "false")
}

/// Compares the CRD in the cluster, with its status, to the one that is to replace it.
///
/// Does not look at [`SAFE_UPGRADE_ANNOTATION`]: see [`is_switched_off`]. A CRD that is not in the cluster
/// yet needs no check. Takes time linear in both CRDs, and quadratic in the number of served versions and of
/// alternatives (`oneOf`); past [`MAX_STEPS`] it is an error.
pub fn check(existing: &Value, new: &Value, options: Options) -> Result<Report, Error> {
    check_within(existing, new, options, &Effort::default())
}

/// Like [`check`]; an error as well where `effort` is stopped.
pub fn check_within(existing: &Value, new: &Value, options: Options, effort: &Effort<'_>) -> Result<Report, Error> {
    let (old, new) = (Definition::read(existing)?, Definition::read(new)?);
    let mut changes = versions::stored(&old, &new);
    let severity = if options.strict { Severity::Error } else { Severity::Warning };
    let mut others = versions::no_longer_served(&old, &new);
    others.extend(versions::scope(&old, &new, severity));
    others.extend(compare::same_versions(&old, &new, severity, effort));
    others.extend(compare::served_versions(&old, &new, severity, effort));
    others.sort_by(|left, right| (&left.place, &left.path, left.rule).cmp(&(&right.place, &right.path, right.rule)));
    changes.append(&mut others);
    let object_checks = versions::object_checks(&old, &new, effort);
    if effort.is_spent() {
        return Err(new.too_complex());
    }
    Ok(Report { changes, object_checks })
}

/// The schema of a version of a CRD, if it has both.
pub fn schema_of<'a>(crd: &'a Value, version: &str) -> Option<&'a Value> {
    Definition::read(crd).ok()?.version(version)?.schema
}

impl Report {
    /// What refuses the change.
    pub fn errors(&self) -> impl Iterator<Item = &UnsafeChange> {
        self.changes.iter().filter(|change| change.severity == Severity::Error)
    }

    /// What is only told.
    pub fn warnings(&self) -> impl Iterator<Item = &UnsafeChange> {
        self.changes.iter().filter(|change| change.severity == Severity::Warning)
    }
}

impl ObjectCheck {
    /// What it means that `object` has these violations; `None` if it has none.
    pub fn change(&self, object: &Value, violations: &[Violation]) -> Option<UnsafeChange> {
        let first = violations.first()?;
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Some(UnsafeChange {
            crd: self.crd.clone(),
            place: Location::Version(self.schema_version.clone()),
            path: first.path.clone(),
            rule: Rule::ExistingObject,
            severity: Severity::Error,
            was: None,
            now: None,
            message: format!(
                "existing custom object {}/{} failed validation for new schema version {}: {}",
                text("/metadata/namespace"),
                text("/metadata/name"),
                self.schema_version,
                text::aggregate(violations.iter().map(ToString::to_string)),
            ),
        })
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
