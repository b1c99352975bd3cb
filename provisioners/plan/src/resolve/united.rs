//! A CRD that several BundleDeployments declare: whoever leads it applies the union of its versions, and so does who inherits it.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crd_upgrade as crd_upgrade;
use rukpak_crds::names;
use serde_json::{Value, json};

use super::{Basis, Live};
use crate::owner;
use crate::owner_metadata::keep_for;

/// Adds to a CRD what others have in it, and says so. Nothing is added where nobody else has it, unless the same was declared before.
pub(super) fn keep_united(body: &mut Value, live: Live<'_>, basis: &Basis<'_>) -> Option<String> {
    // The versions are left to somebody else.
    body.pointer("/spec/versions")?;
    let (ours, others) = (own_uid(body), sharers(body, live.metadata));
    let is_inherited = owner::sharers(live.metadata).any(|sharer| Some(&sharer.uid) == ours.as_ref());
    let is_marked = live.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(names::UNITED_VERSIONS));
    // Nobody knows when the last of those who use it in common is gone.
    let is_declared_anew = !owner::is_used_in_common(live.metadata)
        && !basis.why.policy().keeps_stored_versions
        && basis.installed.as_ref().is_none_or(|installed| installed["spec"]["versions"] != body["spec"]["versions"]);
    if others.is_empty() && !is_inherited && (!is_marked || is_declared_anew) {
        return None;
    }

    let versions = crd_upgrade::union(&json!({"spec": live.body["spec"]}), body)?;
    let kept = crd_upgrade::kept_versions(&versions, body);
    body["spec"]["versions"] = versions;
    body["metadata"]["annotations"][names::UNITED_VERSIONS] = json!("true");
    Some(if kept.is_empty() {
        "stores objects in the version in which other BundleDeployments declare or declared it".to_owned()
    } else {
        format!("has the versions {} as other BundleDeployments declare or declared them", kept.join(", "))
    })
}

/// Leaves a CRD in common that others use so, whatever the bundle says of it by now: with an owner it would go with that, and they lose all
/// of their objects.
pub(super) fn keep_common(body: &mut Value, live: &ObjectMeta) -> Option<String> {
    let package = owner::in_common(live).filter(|_| owner::is_used_in_common(live))?;
    if body["metadata"]["annotations"][names::IN_COMMON] == package {
        return None;
    }
    let uid = own_uid(body);
    let metadata = body["metadata"].as_object_mut()?;
    if let (Some(owners), Some(uid)) = (metadata.remove("ownerReferences"), uid) {
        keep_for(metadata, owners[0]["name"].as_str().unwrap_or_default(), &uid);
    }
    body["metadata"]["annotations"][names::IN_COMMON] = json!(package);
    let mark = names::UNITED_VERSIONS;
    Some(format!(
        "is kept, as installations of package {package} use it in common, until its annotation {mark} is taken off"
    ))
}

/// The names of the other BundleDeployments that own the object.
pub fn sharers(body: &Value, live: &ObjectMeta) -> BTreeSet<String> {
    let ours = own_uid(body);
    owner::owners(live).filter(|owner| Some(&owner.uid) != ours.as_ref()).map(|owner| owner.name.clone()).collect()
}

/// The UID of the BundleDeployment that applies the body.
fn own_uid(body: &Value) -> Option<String> {
    let metadata = &body["metadata"];
    let uid = metadata["ownerReferences"][0]["uid"].as_str().or(metadata["annotations"][names::OWNER_UID].as_str());
    uid.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rukpak_plain::ObjectKey;

    use super::super::{Why, resolve};
    use super::*;

    fn version(name: &str, fields: &[&str], storage: bool) -> Value {
        let properties: serde_json::Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}})
    }

    fn crd(versions: &[Value]) -> Value {
        json!({"kind": "CustomResourceDefinition", "metadata": {"name": "dogs.example.com",
            "ownerReferences": [{"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "a", "uid": "1", "controller": true}]},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Dog", "plural": "dogs"}, "versions": versions}})
    }

    /// Metadata with these owners: name, UID, whether it leads.
    fn owned_by(owners: &[(&str, &str, bool)]) -> ObjectMeta {
        let owner = |(name, uid, controller): &(&str, &str, bool)| {
            json!({"apiVersion": "core.rukpak.io/v1alpha1",
            "kind": "BundleDeployment", "name": name, "uid": uid, "controller": controller})
        };
        serde_json::from_value(json!({"ownerReferences": owners.iter().map(owner).collect::<Vec<_>>()})).unwrap()
    }

    fn resolved(
        why: Why,
        body: &Value,
        live: &Value,
        metadata: &ObjectMeta,
        installed: Option<&Value>,
    ) -> (Value, Option<String>) {
        let key = ObjectKey {
            group: "apiextensions.k8s.io".into(),
            kind: "CustomResourceDefinition".into(),
            namespace: None,
            name: "dogs.example.com".into(),
        };
        let basis = Basis::plain(why, installed.cloned());
        let resolved = resolve(&key, body, Some(Live { metadata, body: live }), &basis);
        (resolved.body, resolved.kept)
    }

    #[test]
    fn leader_applies_what_others_added_whatever_it_is_asked_for() {
        let (one, both) = (
            crd(&[version("v1", &["a"], true)]),
            crd(&[version("v1", &["a", "b"], true), version("v2", &["a"], false)]),
        );
        let shared = owned_by(&[("a", "1", true), ("b", "2", false)]);
        for why in [Why::Upgrade, Why::Resync, Why::Repair, Why::WayBack] {
            let (body, kept) = resolved(why, &one, &both, &shared, None);
            assert_eq!(body["spec"]["versions"], both["spec"]["versions"], "{why:?}");
            assert_eq!(body["metadata"]["annotations"][names::UNITED_VERSIONS], "true");
            assert!(kept.unwrap().contains("the versions v1, v2"), "{why:?}");
        }
        let (body, kept) = resolved(Why::Repair, &both, &both, &shared, None);
        assert_eq!((body, kept), (both, None));
    }

    /// Without it, objects would be relabelled.
    #[test]
    fn stored_version_of_others_keeps_its_conversion() {
        let one = crd(&[version("v1", &["a"], true)]);
        let mut live = crd(&[version("v1", &["a"], false), version("v2", &["a", "b"], true)]);
        live["spec"]["conversion"] = json!({"strategy": "Webhook"});
        live["status"] = json!({"storedVersions": ["v1", "v2"]});
        let shared = owned_by(&[("a", "1", true), ("b", "2", false)]);
        let heir = owned_by(&[("a", "1", false)]);
        let mut marked = owned_by(&[("a", "1", true)]);
        marked.annotations = Some([(names::UNITED_VERSIONS.to_owned(), "true".to_owned())].into());
        for (why, metadata) in
            [(Why::WayBack, &shared), (Why::Upgrade, &shared), (Why::Repair, &heir), (Why::Repair, &marked)]
        {
            let (body, _) = resolved(why, &one, &live, metadata, Some(&one));
            assert_eq!(body["spec"]["versions"], live["spec"]["versions"], "{why:?}");
            assert_eq!(body["spec"]["conversion"], live["spec"]["conversion"], "{why:?}");
        }
    }

    #[test]
    fn versions_that_are_left_to_others_are_not_put_back() {
        let mut left = crd(&[]);
        left["spec"].as_object_mut().unwrap().remove("versions");
        let shared = owned_by(&[("a", "1", true), ("b", "2", false)]);
        let live = crd(&[version("v1", &["a"], true)]);
        assert_eq!(resolved(Why::Repair, &left, &live, &shared, None), (left.clone(), None));
    }

    #[test]
    fn what_is_used_in_common_loses_nothing_whatever_is_declared_anew() {
        let (one, both) = (crd(&[version("v1", &["a"], true)]), crd(&[version("v1", &["a", "b"], true)]));
        let versions = |annotations: &[&str]| {
            let said = annotations.iter().map(|key| ((*key).to_owned(), "true".to_owned()));
            let metadata = ObjectMeta { annotations: Some(said.collect()), ..ObjectMeta::default() };
            resolved(Why::Upgrade, &one, &both, &metadata, Some(&both)).0["spec"]["versions"].clone()
        };
        assert_eq!(versions(&[names::IN_COMMON, names::UNITED_VERSIONS]), both["spec"]["versions"]);
        assert_eq!(versions(&[names::IN_COMMON]), one["spec"]["versions"], "nobody else has used it");
    }

    #[test]
    fn what_is_used_in_common_gets_no_owner_whatever_the_bundle_says_by_now() {
        let one = crd(&[version("v1", &["a"], true)]);
        let said = |annotations: &[&str]| {
            let said = annotations.iter().map(|key| ((*key).to_owned(), "pump".to_owned()));
            let metadata = ObjectMeta { annotations: Some(said.collect()), ..ObjectMeta::default() };
            let (body, kept) = resolved(Why::Upgrade, &one, &one, &metadata, Some(&one));
            (body["metadata"].clone(), kept)
        };
        assert_eq!(said(&[names::IN_COMMON]), (one["metadata"].clone(), None), "nobody else has used it");
        let (metadata, kept) = said(&[names::IN_COMMON, names::UNITED_VERSIONS]);
        assert!(metadata.get("ownerReferences").is_none(), "{metadata}");
        assert!(kept.unwrap().contains("installations of package pump use it in common"));
        let annotation = |key: &str| metadata["annotations"][key].clone();
        assert_eq!([annotation(names::IN_COMMON), annotation(names::OWNER_UID)], ["pump", "1"]);
        assert_eq!(annotation(names::PRIMARY_RESOURCE), "/a");
    }

    #[test]
    fn heir_keeps_what_is_newer_until_it_is_declared_anew() {
        let (one, both) = (crd(&[version("v1", &["a"], true)]), crd(&[version("v1", &["a", "b"], true)]));
        let heir = owned_by(&[("a", "1", false)]);
        let (body, _) = resolved(Why::Repair, &one, &both, &heir, None);
        assert_eq!(body["spec"]["versions"], both["spec"]["versions"], "field b may have values");

        let mut alone = owned_by(&[("a", "1", true)]);
        assert_eq!(resolved(Why::Repair, &one, &both, &alone, None).0["spec"], one["spec"], "drift is repaired");
        alone.annotations = Some([(names::UNITED_VERSIONS.to_owned(), "true".to_owned())].into());
        let versions = |why: Why, installed: Option<&Value>| {
            resolved(why, &one, &both, &alone, installed).0["spec"]["versions"].clone()
        };
        assert_eq!(versions(Why::Repair, None), both["spec"]["versions"]);
        assert_eq!(versions(Why::Upgrade, Some(&one)), both["spec"]["versions"], "the bundle declares the same");
        assert_eq!(versions(Why::Upgrade, Some(&both)), one["spec"]["versions"], "what was checked before");
    }
}
