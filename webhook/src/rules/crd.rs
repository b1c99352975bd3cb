//! CRDs that a bundle brought: a new version loses no stored data and breaks no object.
//!
//! The rules are `rukpak_crd_upgrade`'s, those that the controller asks before it applies a bundle.

use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crd_upgrade::{Effort, Location, ObjectCheck, Options, Report, Rule, Severity, UnsafeChange};
use rukpak_crds::names::{OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME};
use serde_json::Value;

pub use rukpak_crd_upgrade::Error;

/// What the two CRDs alone say.
#[derive(Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// Nothing can break.
    Settled,
    /// Something breaks, or objects must be looked at.
    Open {
        /// The BundleDeployment that owns it, by its labels: its annotation can switch the check off.
        owner: Option<String>,
        /// What changes.
        report: Report,
    },
}

/// Objects that would not be valid any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The first.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// Whether that is all of them.
    pub is_complete: bool,
}

impl Invalid {
    /// None yet, but this one.
    pub fn first(object: &Value) -> Self {
        let [namespace, name] = ["namespace", "name"].map(|field| text(object, field).to_owned());
        Self { namespace, name, count: 0, is_complete: true }
    }
}

/// A text of an object's metadata.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Whether nothing that is checked changes, as far as the review says.
pub fn is_settled(old: &Value, new: &Value) -> bool {
    // Who changes metadata only, such as finalizers of a CRD that is being deleted, changes nothing that is checked.
    crd_upgrade::is_switched_off(new) || (!new["spec"].is_null() && old["spec"] == new["spec"])
}

/// Compares a CRD to the one in the cluster that it replaces.
///
/// The objects of one that is nobody's yet are not looked at: this process may not list them. The controller has looked at
/// them where it takes the CRD over, and by hand the schema can be changed before the label as well.
pub fn compare(live: &Value, new: &Value, effort: &Effort<'_>) -> Result<SchemaChange, Error> {
    let mut report = crd_upgrade::check_within(live, new, Options::default(), effort)?;
    if live["metadata"]["labels"][OWNER_KIND] != OWNER_KIND_VALUE {
        report.object_checks.clear();
    }
    if report.errors().next().is_none() && report.object_checks.is_empty() {
        return Ok(SchemaChange::Settled);
    }
    Ok(SchemaChange::Open { owner: owner(new).or_else(|| owner(live)).map(str::to_owned), report })
}

fn owner(definition: &Value) -> Option<&str> {
    let labels = &definition["metadata"]["labels"];
    let is_owned = labels[OWNER_KIND] == OWNER_KIND_VALUE;
    labels[OWNER_NAME].as_str().filter(|name| is_owned && !name.is_empty())
}

/// What invalid objects say against the update. Not why they are invalid: whoever asks may not be allowed to read them.
pub fn invalid(check: &ObjectCheck, invalid: &Invalid) -> UnsafeChange {
    let Invalid { namespace, name, count, is_complete } = invalid;
    let others = match (count - 1, is_complete) {
        (0, true) => String::new(),
        (others, true) => format!(", and so did {others} more"),
        (others, false) => format!(", and so did at least {others} more"),
    };
    let version = &check.schema_version;
    UnsafeChange {
        crd: check.crd.clone(),
        place: Location::Version(version.clone()),
        path: String::new(),
        rule: Rule::ExistingObject,
        severity: Severity::Error,
        was: None,
        now: None,
        message: format!(
            "existing custom object {namespace}/{name} failed validation for new schema version {version}{others} \
             (the log of rukpak-webhook says why)"
        ),
    }
}

/// What is said when the review is not about the CRD in the cluster. It says nothing of that one.
pub fn outdated(name: &str) -> String {
    let why = "the CRD in the cluster is not the one that this update begins with: try again";
    crd_upgrade::denial("UPDATE", name, why)
}

/// The refusal of an update; `None` if nothing refuses it.
pub fn denial<'a>(name: &str, changes: impl IntoIterator<Item = &'a UnsafeChange>) -> Option<String> {
    let reason = crd_upgrade::refusal(name, changes);
    (!reason.is_empty()).then(|| crd_upgrade::denial("UPDATE", name, &reason))
}

/// What is said when the objects could not be looked at, because of `why`.
pub fn not_known(name: &str, why: &str) -> String {
    let heading = "error validating existing CRs against new CRD's schema for";
    crd_upgrade::denial("UPDATE", name, &format!("{heading} {name:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(versions: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "as.example.com", "labels": {OWNER_KIND: OWNER_KIND_VALUE, OWNER_NAME: "d"}},
            "spec": {"group": "example.com", "names": {"plural": "as", "kind": "A"}, "scope": "Namespaced", "versions": versions},
            "status": {"storedVersions": ["v1"]},
        })
    }

    fn version(name: &str, required: &[&str]) -> Value {
        let spec = json!({"type": "object", "required": required, "properties": {"size": {"type": "integer"}}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}})
    }

    fn compare(live: &Value, new: &Value) -> Result<SchemaChange, Error> {
        super::compare(live, new, &Effort::default())
    }

    #[test]
    fn what_changes_no_schema_is_settled() {
        let old = definition(&json!([version("v1", &[])]));
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        new["status"]["storedVersions"] = json!(["v0"]);
        assert!(is_settled(&old, &new));
        assert!(!is_settled(&json!({}), &json!({})), "nothing is no definition");
        new["spec"]["names"]["shortNames"] = json!(["a"]);
        assert_eq!(compare(&old, &new), Ok(SchemaChange::Settled));
    }

    #[test]
    fn the_annotation_that_comes_in_switches_it_off() {
        let old = definition(&json!([version("v1", &[])]));
        let mut new = definition(&json!([version("v2", &[])]));
        let open = |old: &Value, new: &Value| !is_settled(old, new);
        let mut annotated = old.clone();
        annotated["metadata"]["annotations"] = json!({crd_upgrade::SAFE_UPGRADE_ANNOTATION: "false"});
        assert!(open(&annotated, &new), "the old one's says nothing");
        new["metadata"]["annotations"] = json!({crd_upgrade::SAFE_UPGRADE_ANNOTATION: "False"});
        assert!(open(&old, &new));
        new["metadata"]["annotations"] = json!({crd_upgrade::SAFE_UPGRADE_ANNOTATION: "false"});
        assert!(!open(&old, &new));
    }

    #[test]
    fn the_owner_is_named_by_either_label() {
        let old = definition(&json!([version("v1", &[])]));
        let mut new = definition(&json!([version("v1", &["size"])]));
        let owner = |new: &Value| match compare(&old, new) {
            Ok(SchemaChange::Open { owner, .. }) => owner,
            other => panic!("{other:?}"),
        };
        new["metadata"]["labels"][OWNER_NAME] = json!("e");
        assert_eq!(owner(&new).as_deref(), Some("e"));
        new["metadata"]["labels"] = json!(null);
        assert_eq!(owner(&new).as_deref(), Some("d"));
        let bare = json!({OWNER_NAME: "e"});
        new["metadata"]["labels"] = bare;
        assert_eq!(owner(&new).as_deref(), Some("d"), "a name without the kind is nobody's");
    }

    #[test]
    fn texts_are_the_references() {
        let (old, new) = (definition(&json!([version("v1", &[])])), definition(&json!([version("v2", &[])])));
        let name = "as.example.com";
        let Ok(SchemaChange::Open { report, .. }) = compare(&old, &new) else { panic!("v1 is stored") };
        let start = "failed to validate safety of UPDATE for CRD \"as.example.com\" (NOTE: to disable this validation, set the \
                     \"core.rukpak.io/safe-crd-upgrade-validation\" annotation to \"false\" on the CRD): ";
        let text = denial(name, report.errors()).unwrap();
        assert_eq!(
            text,
            format!(
                "{start}error validating existing CRs against new CRD's schema for \"as.example.com\": cannot remove stored versions [v1]"
            )
        );
        assert_eq!(denial(name, []), None);
        assert_eq!(
            not_known(name, "error listing objects for example.com/v1, Kind=A: no"),
            format!(
                "{start}error validating existing CRs against new CRD's schema for \"as.example.com\": \
                 error listing objects for example.com/v1, Kind=A: no"
            )
        );
        let error = compare(&old, &json!({"metadata": {"name": "x"}})).unwrap_err();
        assert!(error.to_string().starts_with("failed to decode CRD \"x\": "), "{error}");
    }

    #[test]
    fn objects_of_what_was_nobodys_are_not_looked_at() {
        let (mut old, new) = (definition(&json!([version("v1", &[])])), definition(&json!([version("v1", &["size"])])));
        assert!(
            matches!(compare(&old, &new), Ok(SchemaChange::Open { report, .. }) if report.object_checks.len() == 1)
        );
        for labels in [json!({}), json!({OWNER_KIND: "Team"}), json!({OWNER_NAME: "d"}), Value::Null] {
            old["metadata"]["labels"] = labels;
            assert_eq!(compare(&old, &new), Ok(SchemaChange::Settled));
        }
        let stored = definition(&json!([version("v2", &[])]));
        assert!(matches!(compare(&old, &stored), Ok(SchemaChange::Open { .. })), "what the definitions say is said");
    }

    #[test]
    fn of_invalid_objects_one_is_named() {
        let (old, new) = (definition(&json!([version("v1", &[])])), definition(&json!([version("v1", &["size"])])));
        let Ok(SchemaChange::Open { report, .. }) = compare(&old, &new) else { panic!("an object may lack it") };
        let first = Invalid::first(&json!({"metadata": {"namespace": "ns", "name": "n"}}));
        let said = |count, is_complete| {
            invalid(&report.object_checks[0], &Invalid { count, is_complete, ..first.clone() }).to_string()
        };
        let end = "(the log of rukpak-webhook says why)";
        let start = "existing custom object ns/n failed validation for new schema version v1";
        assert_eq!(said(1, true), format!("{start} {end}"));
        assert_eq!(said(3, true), format!("{start}, and so did 2 more {end}"));
        assert_eq!(said(20, false), format!("{start}, and so did at least 19 more {end}"));
    }
}
