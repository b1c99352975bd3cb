//! What makes a Bundle a BundleDeployment's: its owner reference and its labels. What a deployment owns it installs, as cluster
//! administrator, so nobody but the controller says so.
//!
//! Taking a mark away is free: garbage collection does it (`--cascade=orphan`), and a Bundle without is nobody's.

use std::collections::BTreeSet;

use rukpak_crds::names::{OWNER_KIND, OWNER_KIND_VALUE, OWNER_NAME, TEMPLATE_HASH};
use serde_json::Value;

/// The refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bundle.{field} says that a BundleDeployment made this Bundle, which only the controller may say (user {controller:?}, flag \
     --controller-username): create a BundleDeployment, or a Bundle without it"
)]
pub struct Denial {
    /// The field that says so.
    field: String,
    /// Who may.
    controller: String,
}

/// Decides whether somebody else than the controller may make `new` out of `old`, which is null where there is none yet. What `old`
/// says already may stay.
pub fn check(old: &Value, new: &Value, controller: &str) -> Result<(), Denial> {
    let refused = |field: &str| Err(Denial { field: field.to_owned(), controller: controller.to_owned() });
    if owners(new).difference(&owners(old)).next().is_some() {
        return refused("metadata.ownerReferences");
    }
    let label = |bundle: &Value, name: &str| text(&bundle["metadata"]["labels"][name]);
    let is_new = |name: &str| {
        let value = label(new, name);
        value.is_some() && value != label(old, name)
    };
    let is_owned = label(new, OWNER_KIND).as_deref() == Some(OWNER_KIND_VALUE);
    for (name, counts) in [(OWNER_KIND, is_owned), (OWNER_NAME, is_owned), (TEMPLATE_HASH, true)] {
        if counts && is_new(name) {
            return refused(&format!("metadata.labels[{name:?}]"));
        }
    }
    Ok(())
}

/// The BundleDeployments that are the Bundle's controlling owner.
fn owners(bundle: &Value) -> BTreeSet<(Option<String>, Option<String>)> {
    let references = bundle["metadata"]["ownerReferences"].as_array();
    let references = references.into_iter().flatten().filter(|reference| {
        let group = reference["apiVersion"].as_str().and_then(|version| version.split('/').next());
        reference["kind"] == "BundleDeployment" && group == Some("core.rukpak.io") && reference["controller"] == true
    });
    references.map(|reference| (text(&reference["uid"]), text(&reference["name"]))).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONTROLLER: &str = "system:serviceaccount:ns:core-admin";

    fn bundle(metadata: &Value) -> Value {
        json!({"metadata": metadata})
    }

    fn refused(old: &Value, new: &Value) -> Option<String> {
        check(old, new, CONTROLLER).err().map(|denial| denial.field)
    }

    fn owner(controller: &Value) -> Value {
        json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "d", "uid": "u", "controller": controller})
    }

    #[test]
    fn marks_are_not_made_by_others() {
        let plain = bundle(&json!({"name": "b", "labels": {"app": "x"}}));
        for (metadata, field) in [
            (json!({"ownerReferences": [owner(&json!(true))]}), "metadata.ownerReferences"),
            (json!({"labels": {OWNER_KIND: "BundleDeployment"}}), "metadata.labels[\"core.rukpak.io/owner-kind\"]"),
            (json!({"labels": {TEMPLATE_HASH: "x"}}), "metadata.labels[\"core.rukpak.io/bundle-template-hash\"]"),
        ] {
            for old in [&Value::Null, &plain] {
                assert_eq!(refused(old, &bundle(&metadata)).as_deref(), Some(field), "{metadata}");
            }
        }
        for metadata in [
            json!({"labels": {OWNER_NAME: "x", OWNER_KIND: "Team"}}),
            json!({"ownerReferences": [owner(&json!(false)), owner(&Value::Null)]}),
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u", "controller": true}]}),
            json!({}),
        ] {
            assert_eq!(refused(&Value::Null, &bundle(&metadata)), None, "{metadata}");
        }
        let denial =
            check(&plain, &bundle(&json!({"labels": {TEMPLATE_HASH: "x"}})), CONTROLLER).unwrap_err().to_string();
        assert!(denial.contains("--controller-username") && denial.contains(CONTROLLER), "{denial}");
    }

    #[test]
    fn what_is_there_stays_or_goes_and_does_not_change() {
        let labels = json!({OWNER_KIND: "BundleDeployment", OWNER_NAME: "d", TEMPLATE_HASH: "h"});
        let old = bundle(&json!({"labels": labels, "ownerReferences": [owner(&json!(true))]}));
        let mut new = old.clone();
        new["metadata"]["annotations"] = json!({"a": "b"});
        new["metadata"]["labels"]["mine"] = json!("x");
        assert_eq!(refused(&old, &new), None);
        for (pointer, value) in [
            ("/metadata/labels/core.rukpak.io~1owner-name", json!("other")),
            ("/metadata/labels/core.rukpak.io~1bundle-template-hash", json!("other")),
            ("/metadata/ownerReferences/0/uid", json!("other")),
            ("/metadata/ownerReferences/0/name", json!("other")),
        ] {
            let mut changed = old.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert!(refused(&old, &changed).is_some(), "{pointer}");
        }
        new["metadata"]["labels"] = json!({});
        assert_eq!(refused(&old, &new), None);
        new["metadata"]["ownerReferences"] = json!([]);
        assert_eq!(refused(&old, &new), None);
        assert!(refused(&new, &old).is_some(), "and does not come back");
        // A reference that becomes the controlling one.
        let shared = bundle(&json!({"ownerReferences": [owner(&json!(false))]}));
        assert!(refused(&shared, &bundle(&json!({"ownerReferences": [owner(&json!(true))]}))).is_some());
    }
}
