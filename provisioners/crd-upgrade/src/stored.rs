//! Objects that are stored in a version which a new CRD drops: in which version they are stored instead, and what the CRD is until
//! then.
//!
//! ```text
//! storage: old, storedVersions: [old]       ->  prove that every object can be stored as `to`; move `storage` to it
//! storage: to,  storedVersions: [old, to]   ->  rewrite every object; storedVersions: [to]
//! storage: to,  storedVersions: [to]        ->  nothing is left to do: the new CRD may drop the old version
//! ```
//!
//! What comes next follows from the CRD in the cluster alone, so a migration that was interrupted goes on where it was.

use serde_json::{Value, json};

use super::definition::{Definition, Error};
use super::{Location, Rule, Severity, UnsafeChange, text, versions};

/// What has to happen before stored versions can leave a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The name of the CRD.
    pub crd: String,
    /// Its API group.
    pub group: String,
    /// The plural name of its objects.
    pub plural: String,
    /// Their kind.
    pub kind: String,
    /// The stored versions that the new CRD drops, oldest first.
    pub from: Vec<String>,
    /// The version that objects are stored in instead: both CRDs serve it.
    pub to: String,
    /// Whether the CRD in the cluster stores objects in that version already.
    pub is_stored: bool,
    /// The served versions through which objects are read to prove that they can be stored as `to`.
    pub views: Vec<String>,
    /// Whether nothing but `apiVersion` is changed between versions: fields that `to` lacks are lost then.
    pub is_relabelling: bool,
}

/// Returns the migration that it takes to replace `existing` by `new`. `None` where no stored version is dropped, or where it cannot
/// be done: no version is served by both, or objects are stored in a version that neither has.
///
/// # Errors
/// One of them cannot be read.
pub fn migration(existing: &Value, new: &Value) -> Result<Option<Migration>, Error> {
    let (old, new) = (Definition::read(existing)?, Definition::read(new)?);
    let mut from: Vec<&str> = old.stored.iter().copied().filter(|stored| new.version(stored).is_none()).collect();
    from.sort_unstable_by(|left, right| versions::rank(left).cmp(&versions::rank(right)));
    from.dedup();
    let is_known = from.iter().all(|name| old.version(name).is_some());
    if from.is_empty() || !is_known {
        return Ok(None);
    }
    let is_served_before = |name: &str| old.version(name).is_some_and(|version| version.served);
    let both = new.versions.iter().filter(|version| version.served && is_served_before(version.name));
    // What the new CRD stores is what objects end up in anyway.
    let to = both.max_by(|left, right| {
        (left.storage.cmp(&right.storage)).then_with(|| versions::rank(left.name).cmp(&versions::rank(right.name)))
    });
    let Some(to) = to.map(|version| version.name) else { return Ok(None) };

    let is_relabelling = !old.webhook_converts;
    // A version that is not served shows nothing that `to` does not show. Where a webhook converts, one way to read every object is
    // enough; where nothing does, each version may have fields of its own.
    let mut views: Vec<String> = old
        .stored
        .iter()
        .filter(|name| **name != to && is_served_before(name))
        .map(|name| (*name).to_owned())
        .collect();
    if !is_relabelling {
        views.truncate(1);
    }
    if views.is_empty() {
        views.push(to.to_owned());
    }
    Ok(Some(Migration {
        crd: new.name.to_owned(),
        group: old.group.to_owned(),
        plural: old.plural.to_owned(),
        kind: old.kind.to_owned(),
        from: from.into_iter().map(str::to_owned).collect(),
        to: to.to_owned(),
        is_stored: old.version(to).is_some_and(|version| version.storage),
        views,
        is_relabelling,
    }))
}

impl Migration {
    /// Returns `new` with the versions and the conversion of `existing`, of which `to` is the one that is stored: until all objects
    /// are migrated, whoever uses the CRD sees the versions that it had.
    pub fn switched(&self, existing: &Value, new: &Value) -> Value {
        let mut body = new.clone();
        let mut versions = existing["spec"]["versions"].clone();
        for version in versions.as_array_mut().into_iter().flatten() {
            version["storage"] = json!(version["name"] == self.to);
        }
        body["spec"]["versions"] = versions;
        match existing["spec"].get("conversion") {
            Some(conversion) => body["spec"]["conversion"] = conversion.clone(),
            None => {
                body["spec"].as_object_mut().map(|spec| spec.remove("conversion"));
            }
        }
        body
    }

    /// Says of an object why it cannot be stored as `to`.
    pub fn refused_by(&self, object: &Value, why: &str) -> UnsafeChange {
        let field = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (field("namespace"), field("name"));
        let object = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        UnsafeChange {
            crd: self.crd.clone(),
            place: Location::Version(self.to.clone()),
            path: String::new(),
            rule: Rule::ExistingObject,
            severity: Severity::Error,
            was: None,
            now: None,
            message: text::cut(
                format!("existing custom object {object} cannot be stored as version {}: {why}", self.to),
                text::MAX_PATH_BYTES,
            ),
        }
    }
}

/// Returns the first field of `before`, an object as one version shows it, that `after`, the same object in another version, does not
/// have with the same value. Fields that only `after` has were added by defaults. Metadata is the same in all versions.
pub fn lost_field(before: &Value, after: &Value) -> Option<String> {
    let mut path = Vec::new();
    let members = before.as_object()?.iter();
    let mut members = members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    let is_lost = members.any(|(name, before)| {
        path.push(name.clone());
        let is_lost = is_lost(before, after.get(name), &mut path);
        if !is_lost {
            path.pop();
        }
        is_lost
    });
    is_lost.then(|| path.concat())
}

fn is_lost(before: &Value, after: Option<&Value>, path: &mut Vec<String>) -> bool {
    let mut inner = |step: String, before: &Value, after: Option<&Value>| {
        path.push(step);
        let is_lost = is_lost(before, after, path);
        if !is_lost {
            path.pop();
        }
        is_lost
    };
    match (before, after) {
        (Value::Object(before), Some(Value::Object(after))) => {
            before.iter().any(|(name, value)| inner(format!(".{name}"), value, after.get(name)))
        }
        (Value::Array(before), Some(Value::Array(after))) if before.len() == after.len() => {
            before.iter().enumerate().any(|(index, value)| inner(format!("[{index}]"), value, after.get(index)))
        }
        (Value::Null, None) => false,
        (before, after) => after != Some(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    /// A CRD of versions, each as name, whether it is served, and whether it is stored.
    fn crd(versions: &[(&str, bool, bool)], stored: &[&str]) -> Value {
        let versions: Vec<Value> = versions
            .iter()
            .map(|(name, served, storage)| json!({"name": name, "served": served, "storage": storage}))
            .collect();
        json!({"metadata": {"name": "dogs.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Dog", "plural": "dogs"},
                "versions": versions, "conversion": {"strategy": "None"}},
            "status": {"storedVersions": stored}})
    }

    fn webhook(mut crd: Value) -> Value {
        crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
        crd
    }

    fn of(existing: &Value, new: &Value) -> Option<Migration> {
        migration(existing, new).expect("both can be read")
    }

    #[test]
    fn nothing_is_migrated_where_no_stored_version_is_dropped() {
        let both = crd(&[("v1", true, false), ("v2", true, true)], &["v2"]);
        assert_eq!(of(&both, &crd(&[("v2", true, true)], &[])), None);
        assert_eq!(of(&both, &both), None);
    }

    #[test]
    fn stored_version_of_new_crd_is_chosen_where_both_serve_it() {
        let old = crd(&[("v1", true, true), ("v2", true, false), ("v3", true, false)], &["v1"]);
        let new = crd(&[("v2", true, true), ("v3", true, false)], &[]);
        let found = of(&old, &new).expect("v1 is stored");
        assert_eq!((found.from.as_slice(), found.to.as_str(), found.is_stored), (&["v1".to_owned()][..], "v2", false));
    }

    #[test]
    fn newest_common_version_is_chosen_where_new_crd_stores_another_one() {
        let old = crd(&[("v1alpha1", true, true), ("v1beta1", true, false), ("v1", true, false)], &["v1alpha1"]);
        let new = crd(&[("v1beta1", true, false), ("v1", true, false), ("v2", true, true)], &[]);
        assert_eq!(of(&old, &new).expect("v1alpha1 is stored").to, "v1");
    }

    #[test]
    fn nothing_can_be_migrated_without_a_common_served_version() {
        let old = crd(&[("v1", true, true)], &["v1"]);
        assert_eq!(of(&old, &crd(&[("v2", true, true)], &[])), None);
        let unserved = crd(&[("v1", true, true), ("v2", false, false)], &["v1"]);
        assert_eq!(of(&unserved, &crd(&[("v2", true, true)], &[])), None);
        let lost = crd(&[("v1", true, true), ("v2", true, false)], &["v0", "v1"]);
        assert_eq!(of(&lost, &crd(&[("v2", true, true)], &[])), None, "nobody knows what is stored as v0");
    }

    #[test]
    fn objects_are_read_in_each_stored_version_where_nothing_converts() {
        let versions = [("v1", true, false), ("v2", true, false), ("v3", true, true), ("v4", false, false)];
        let old = crd(&versions, &["v4", "v1", "v2", "v3"]);
        let new = crd(&[("v2", true, false), ("v3", true, true)], &[]);
        let found = of(&old, &new).expect("v1 and v4 are stored");
        assert_eq!((found.from.join(" "), found.views.join(" ")), ("v1 v4".to_owned(), "v1 v2".to_owned()));
        assert!(found.is_stored && found.is_relabelling);
        let found = of(&webhook(old), &new).expect("v1 and v4 are stored");
        assert_eq!((found.views.join(" "), found.is_relabelling), ("v1".to_owned(), false));
    }

    #[test]
    fn objects_are_read_in_kept_version_where_no_other_is_served() {
        let old = crd(&[("v1", false, false), ("v2", true, true)], &["v1", "v2"]);
        assert_eq!(of(&old, &crd(&[("v2", true, true)], &[])).expect("v1 is stored").views, ["v2"]);
    }

    #[test]
    fn each_step_leads_to_the_next_and_ends() {
        let old = webhook(crd(&[("v1", true, true), ("v2", true, false)], &["v1"]));
        let mut new = crd(&[("v2", true, true)], &[]);
        new["spec"]["names"]["shortNames"] = json!(["d"]);
        let mut live = old.clone();
        let found = of(&live, &new).expect("v1 is stored");
        assert!(!found.is_stored);

        live["spec"] = found.switched(&live, &new)["spec"].clone();
        live["status"]["storedVersions"] = json!(["v1", "v2"]);
        assert_eq!(
            live["spec"]["versions"],
            webhook(crd(&[("v1", true, false), ("v2", true, true)], &[]))["spec"]["versions"]
        );
        assert_eq!(live["spec"]["conversion"], old["spec"]["conversion"], "objects are converted as before");
        assert_eq!(check(&old, &live, crate::Options::default()).expect("both can be read").errors().count(), 0);

        let found = of(&live, &new).expect("v1 is stored");
        assert!(found.is_stored);
        live["status"]["storedVersions"] = json!([found.to]);
        assert_eq!(of(&live, &new), None);
    }

    #[test]
    fn field_that_other_version_lacks_is_lost() {
        let before =
            json!({"apiVersion": "a/v1", "metadata": {"x": 1}, "spec": {"size": 1, "tags": [{"a": 1}], "none": null}});
        let after = |spec: Value| json!({"apiVersion": "a/v2", "metadata": {}, "spec": spec});
        let same = after(json!({"size": 1, "tags": [{"a": 1, "b": 2}], "new": true}));
        assert_eq!(lost_field(&before, &same), None);
        for (spec, lost) in [
            (json!({"tags": [{"a": 1}]}), "spec.size"),
            (json!({"size": 2, "tags": [{"a": 1}]}), "spec.size"),
            (json!({"size": 1, "tags": [{"b": 1}]}), "spec.tags[0].a"),
            (json!({"size": 1, "tags": []}), "spec.tags"),
            (Value::Null, "spec"),
        ] {
            assert_eq!(lost_field(&before, &after(spec)).as_deref(), Some(lost));
        }
    }

    #[test]
    fn object_that_cannot_be_stored_is_named() {
        let old = crd(&[("v1", true, true), ("v2", true, false)], &["v1"]);
        let found = of(&old, &crd(&[("v2", true, true)], &[])).expect("v1 is stored");
        let said = |metadata: Value| found.refused_by(&json!({"metadata": metadata}), "no").to_string();
        let end = "cannot be stored as version v2: no";
        assert_eq!(said(json!({"namespace": "ns", "name": "a"})), format!("existing custom object ns/a {end}"));
        assert_eq!(said(json!({"name": "a"})), format!("existing custom object a {end}"));
    }
}
