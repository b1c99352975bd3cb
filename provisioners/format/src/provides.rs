//! What a bundle provides and requires, as the status of its BundleDeployment says it. Pure.

use rukpak_crds::BundleProperty;
use rukpak_plain::Object;
use rukpak_registry::metadata::Property;
use serde_json::{Value, json};

/// The type of a kind that is provided.
const PROVIDES_KIND: &str = "olm.gvk";
/// Every write of a status has it, and every cache.
const MAX_BYTES: usize = 16 << 10;

/// What a bundle `states` of itself, and the kinds that the CRDs among its objects serve: as many as fit.
pub(super) fn properties(states: Vec<Property>, objects: &[Object]) -> Vec<BundleProperty> {
    let own = states.into_iter().map(|Property { kind, value }| BundleProperty { type_: kind, value });
    let provided = objects.iter().filter(|object| object.kind() == "CustomResourceDefinition").flat_map(kinds);
    let provided = provided.map(|value| BundleProperty { type_: PROVIDES_KIND.to_owned(), value });
    let mut room = MAX_BYTES;
    let fits = |property: &BundleProperty| {
        let size = property.type_.len() + property.value.to_string().len();
        room.checked_sub(size).inspect(|left| room = *left).is_some()
    };
    // What it needs comes first: who provides it must know.
    own.chain(provided).filter(fits).collect()
}

/// The kinds that a CRD serves.
fn kinds(definition: &Object) -> Vec<Value> {
    let (group, kind) = (definition.field(&["spec", "group"]), definition.field(&["spec", "names", "kind"]));
    let versions = definition.field(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    served.map(|version| json!({"group": group, "version": version["name"], "kind": kind})).collect()
}

#[cfg(test)]
mod tests {
    use rukpak_plain::Origin;

    use super::*;

    fn definition(versions: usize) -> Object {
        let version = |number| json!({"name": format!("v{number}"), "served": number != 2});
        let versions: Vec<Value> = (1..=versions).map(version).collect();
        let spec = json!({"group": "g.io", "names": {"kind": "K"}, "versions": versions});
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                          "metadata": {"name": "ks.g.io"}, "spec": spec});
        Object::new(body, Origin::made_from("test")).unwrap()
    }

    #[test]
    fn served_kinds_are_provided_and_what_does_not_fit_is_left_out() {
        let needed = Property { kind: "olm.package.required".to_owned(), value: json!({"packageName": "p"}) };
        let found = properties(vec![needed.clone()], &[definition(3)]);
        let named: Vec<&Value> = found.iter().map(|property| &property.value["version"]).collect();
        assert_eq!(named, [&Value::Null, &json!("v1"), &json!("v3")]);

        let found = properties(vec![needed], &[definition(1000)]);
        assert_eq!(found[0].type_, "olm.package.required");
        let size: usize = found.iter().map(|one| one.type_.len() + one.value.to_string().len()).sum();
        assert!(found.len() > 200 && size <= MAX_BYTES, "{} of {size} bytes", found.len());
    }
}
