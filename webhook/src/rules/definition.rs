//! Definitions that a bundle brought: a new version loses no stored data and breaks no object.
//!
//! The rules are `rukpak_plan::crd_upgrade`'s, those that the controller asks before it applies a bundle.

use rukpak_crds::names::{OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME};
use rukpak_plan::crd_upgrade::{self, Options, Report, UnsafeChange};
use serde_json::Value;

pub use rukpak_plan::crd_upgrade::Error;

/// What the two definitions alone say.
#[derive(Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Nothing can break.
    Settled,
    /// Something breaks, or objects must be looked at.
    Open {
        /// The definition's name.
        name: &'a str,
        /// The BundleDeployment that owns it, by its labels: its annotation can switch the check off.
        owner: Option<&'a str>,
        /// What changes.
        report: Report,
    },
}

/// Compares a definition to the one that it replaces.
///
/// # Errors
/// One of them cannot be read.
pub fn compare<'a>(old: &'a Value, new: &'a Value) -> Result<Question<'a>, Error> {
    // Who changes metadata only, such as finalizers of a definition that is being deleted, changes nothing that is checked.
    if crd_upgrade::is_switched_off(new) || (!new["spec"].is_null() && old["spec"] == new["spec"]) {
        return Ok(Question::Settled);
    }
    let report = crd_upgrade::check(old, new, Options::default())?;
    if report.errors().next().is_none() && report.object_checks.is_empty() {
        return Ok(Question::Settled);
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    Ok(Question::Open { name, owner: owner(new).or_else(|| owner(old)), report })
}

fn owner(definition: &Value) -> Option<&str> {
    let labels = &definition["metadata"]["labels"];
    let is_owned = labels[OWNER_KIND] == OWNER_KIND_VALUE;
    labels[OWNER_NAME].as_str().filter(|name| is_owned && !name.is_empty())
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

    #[test]
    fn what_changes_no_schema_is_settled() {
        let old = definition(&json!([version("v1", &[])]));
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        new["status"]["storedVersions"] = json!(["v0"]);
        assert_eq!(compare(&old, &new), Ok(Question::Settled));
        new["spec"]["names"]["shortNames"] = json!(["a"]);
        assert_eq!(compare(&old, &new), Ok(Question::Settled));
    }

    #[test]
    fn the_annotation_that_comes_in_switches_it_off() {
        let old = definition(&json!([version("v1", &[])]));
        let mut new = definition(&json!([version("v2", &[])]));
        let open = |old: &Value, new: &Value| matches!(compare(old, new), Ok(Question::Open { .. }));
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
            Ok(Question::Open { owner, .. }) => owner.map(str::to_owned),
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
        let Ok(Question::Open { name, report, .. }) = compare(&old, &new) else { panic!("v1 is stored") };
        let start = "failed to validate safety of UPDATE for CRD \"as.example.com\" (NOTE: to disable this validation, set the \
                     \"core.rukpak.io/safe-crd-upgrade-validation\" annotation to \"false\"): ";
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
}
