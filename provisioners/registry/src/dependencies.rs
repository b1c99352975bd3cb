//! What a bundle needs of others: APIs that must be served, packages that must be installed.

use std::collections::BTreeSet;

use rukpak_plain::Gvk;
use serde_json::{Value, json};

use crate::Bundle;
use crate::metadata::{PACKAGE as PACKAGE_NAME, PROPERTIES, Property};

const PROVIDES_PACKAGE: &str = "olm.package";
const GVK: &str = "olm.gvk.required";
const PACKAGE: &str = "olm.package.required";
const CONSTRAINT: &str = "olm.constraint";
const NEWEST_OPENSHIFT: &str = "olm.maxOpenShiftVersion";

/// A dependency that only a catalog could resolve. `Display` is OLM v1's text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("bundle {bundle:?} has a dependency declared via property {kind:?} which is currently not supported ({what})")]
pub struct Unresolvable {
    /// The name of the ClusterServiceVersion.
    pub bundle: String,
    /// The type of the property.
    pub kind: String,
    /// What is asked for, such as `etcd >=0.9.0`.
    pub what: String,
}

impl Bundle {
    /// Kinds that somebody else has to bring: required CRDs and APIs of the CSV, and `olm.gvk` dependencies.
    /// What the bundle brings itself is not among them.
    pub fn required_apis(&self) -> BTreeSet<Gvk> {
        let of_definition = |reference: &crate::csv::CrdReference| {
            let (_, group) = reference.name.split_once('.')?;
            Some(gvk(group, &reference.version, &reference.kind))
        };
        let spec = &self.csv.spec;
        let definitions = spec.crds.required.iter().filter_map(of_definition);
        let apis = spec.api_services.required.iter();
        let apis = apis.map(|reference| gvk(&reference.group, &reference.version, &reference.kind));
        let declared = self.declared();
        let declared = declared.iter().filter(|(kind, _)| kind == GVK).filter_map(|(_, value)| {
            let text = |key: &str| value.get(key).and_then(Value::as_str);
            Some(gvk(text("group")?, text("version")?, text("kind")?))
        });
        let brought = self.brought();
        definitions.chain(apis).chain(declared).filter(|gvk| !gvk.kind.is_empty() && !brought.contains(gvk)).collect()
    }

    /// Dependencies on packages, and constraints: nothing but a catalog could say what meets them.
    pub fn unresolvable(&self) -> BTreeSet<Unresolvable> {
        let what = |value: &Value| match (value.get("packageName"), value.get("version").or(value.get("versionRange")))
        {
            (Some(Value::String(package)), Some(Value::String(version))) => format!("{package} {version}"),
            _ => value.to_string(),
        };
        let others = self.declared().into_iter().filter(|(kind, _)| matches!(kind.as_str(), PACKAGE | CONSTRAINT));
        others
            .map(|(kind, value)| Unresolvable { bundle: self.csv.metadata.name.clone(), kind, what: what(&value) })
            .collect()
    }

    /// What the bundle is, the newest OpenShift that it supports and what it needs of others, as properties of a catalog have it; a
    /// newest OpenShift, which is a text or a number there, in an object. What its CRDs provide is not among them.
    pub fn properties(&self) -> Vec<Property> {
        let package = self.metadata.annotations.get(PACKAGE_NAME);
        let is = package.map(|name| json!({"packageName": name, "version": self.csv.spec.version}));
        let is = is.into_iter().map(|value| (PROVIDES_PACKAGE.to_owned(), value));
        let apis = self.required_apis().into_iter();
        let apis = apis.map(|Gvk { group, version, kind }| json!({"group": group, "version": version, "kind": kind}));
        let apis = apis.map(|value| (GVK.to_owned(), value));
        let (newest, others): (Vec<_>, Vec<_>) =
            self.declared().into_iter().partition(|(kind, _)| kind == NEWEST_OPENSHIFT);
        let newest = newest.into_iter().map(|(kind, version)| (kind, json!({"version": version})));
        let others = others.into_iter().filter(|(kind, _)| matches!(kind.as_str(), PACKAGE | CONSTRAINT));
        // The file has a version where the property has a range.
        let others = others.map(|(kind, mut value)| {
            if let Some(map) = value.as_object_mut().filter(|map| kind == PACKAGE && !map.contains_key("versionRange"))
            {
                let range = map.remove("version");
                map.extend(range.map(|range| ("versionRange".to_owned(), range)));
            }
            (kind, value)
        });
        // Whatever an author writes there, the status takes objects alone.
        let all = is.chain(newest).chain(apis).chain(others).filter(|(_, value)| value.is_object());
        all.map(|(kind, value)| Property { kind, value }).collect()
    }

    /// Every dependency, by the type that it has as a property. `dependencies.yaml` has shorter names for two of them; as
    /// properties those say what a bundle brings. `load` has added `properties.yaml` to the annotation of the CSV; one that
    /// cannot be read is as good as none, as to the reference.
    fn declared(&self) -> Vec<(String, Value)> {
        let listed = self.metadata.dependencies.iter().map(|dependency| {
            let kind = match dependency.kind.as_str() {
                "olm.gvk" => GVK,
                "olm.package" => PACKAGE,
                other => other,
            };
            (kind.to_owned(), dependency.value.clone())
        });
        let annotation = self.csv.metadata.annotations.get(PROPERTIES);
        let annotated: Option<Vec<Property>> = annotation.and_then(|text| serde_json::from_str(text).ok());
        let properties = annotated.unwrap_or_else(|| self.metadata.properties.clone());
        listed.chain(properties.into_iter().map(|property| (property.kind, property.value))).collect()
    }

    /// Every kind that a CRD of the bundle brings.
    fn brought(&self) -> BTreeSet<Gvk> {
        let mut brought = BTreeSet::new();
        for crd in &self.crds {
            let text = |path: &[&str]| crd.object.field(path).and_then(Value::as_str).unwrap_or_default();
            let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
            let versions = crd.object.field(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
            let named = versions.filter_map(|version| version["name"].as_str()).chain([text(&["spec", "version"])]);
            brought.extend(named.map(|version| self::gvk(group, version, kind)));
        }
        brought
    }
}

fn gvk(group: &str, version: &str, kind: &str) -> Gvk {
    Gvk { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::{ApiReference, CrdReference, Csv};
    use crate::metadata::Metadata;

    fn bundle(dependencies: &[(&str, Value)], properties: &[(&str, Value)]) -> Bundle {
        let list = |items: &[(&str, Value)]| {
            items.iter().map(|(kind, value)| Property { kind: (*kind).to_owned(), value: value.clone() }).collect()
        };
        let (dependencies, properties) = (list(dependencies), list(properties));
        Bundle::made_of(Metadata { properties, dependencies, ..Metadata::default() }, Csv::default())
    }

    #[test]
    fn apis_are_required_by_the_csv_and_by_both_files() {
        let api = |kind: &str| json!({"group": "g.io", "version": "v1", "kind": kind});
        let mut bundle = bundle(
            &[("olm.gvk", api("A")), ("olm.label", json!({"label": "x"}))],
            &[("olm.gvk.required", api("B")), ("olm.gvk", api("Provided")), ("olm.gvk.required", json!("no object"))],
        );
        let definition = CrdReference { name: "cs.g.io".into(), version: "v1".into(), kind: "C".into() };
        bundle.csv.spec.crds.required =
            vec![definition, CrdReference { name: "unqualified".into(), ..Default::default() }];
        bundle.csv.spec.api_services.required = vec![ApiReference {
            group: "g.io".into(),
            version: "v1".into(),
            kind: "D".into(),
            ..ApiReference::default()
        }];
        let kinds: Vec<String> = bundle.required_apis().into_iter().map(|gvk| gvk.to_string()).collect();
        assert_eq!(kinds, ["A", "B", "C", "D"].map(|kind| format!("g.io/v1, Kind={kind}")));
        assert!(bundle.unresolvable().is_empty());
        let annotation = r#"[{"type": "olm.gvk.required", "value": {"group": "g.io", "version": "v1", "kind": "E"}}]"#;
        bundle.csv.metadata.annotations.insert(PROPERTIES.to_owned(), annotation.to_owned());
        let kinds: Vec<String> = bundle.required_apis().into_iter().map(|gvk| gvk.kind).collect();
        assert_eq!(kinds, ["A", "C", "D", "E"], "the annotation holds all properties once it is there");
    }

    #[test]
    fn packages_and_constraints_are_told_in_the_words_of_the_reference() {
        let package = json!({"packageName": "etcd", "version": ">=0.9.0"});
        let bundle =
            bundle(&[("olm.package", package)], &[("olm.package", json!({})), ("olm.constraint", json!({"a": 1}))]);
        let texts: Vec<String> = bundle.unresolvable().iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[1].contains(
            "declared via property \"olm.package.required\" which is currently not supported (etcd >=0.9.0)"
        ));
    }

    #[test]
    fn properties_have_the_form_of_catalogs_and_no_other() {
        let range = json!({"packageName": "wells", "version": ">=1.0.0"});
        let mut bundle = bundle(
            &[("olm.package", range), ("olm.constraint", json!("text"))],
            &[("olm.constraint", Value::Null), (NEWEST_OPENSHIFT, json!(4.9))],
        );
        bundle.csv.spec.version = "1.2.0".to_owned();
        bundle.metadata.annotations.insert(PACKAGE_NAME.to_owned(), "pump".to_owned());
        let shown: Vec<Value> =
            bundle.properties().iter().map(|property| json!([property.kind, property.value])).collect();
        let is = json!(["olm.package", {"packageName": "pump", "version": "1.2.0"}]);
        let needs = json!(["olm.package.required", {"packageName": "wells", "versionRange": ">=1.0.0"}]);
        let newest = json!([NEWEST_OPENSHIFT, {"version": 4.9}]);
        assert_eq!(shown, [is, newest, needs]);
    }
}
