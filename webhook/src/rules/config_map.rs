//! ConfigMaps of the system namespace: what a Bundle is made of stays as it was.

use serde_json::Value;

/// A Bundle that names a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The Bundle's name.
    pub bundle: String,
    /// Whether the Bundle is made of ConfigMaps. Otherwise it names some beside a source of another type.
    pub is_source: bool,
}

/// Why a ConfigMap is refused. The texts are RukPak v0.16's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// It could change under the Bundles that are made of it.
    #[error(
        "configmap {name:?} is referenced in .spec.source.configMaps[].configMap.name by bundles [{}]; \
         referenced configmaps must have .immutable == true",
        bundles.join(" ")
    )]
    Mutable {
        /// The ConfigMap.
        name: String,
        /// The Bundles, sorted.
        bundles: Vec<String>,
    },
    /// A Bundle names it.
    #[error("configmap {name:?} is in-use by bundle {bundle:?}")]
    InUse {
        /// The ConfigMap.
        name: String,
        /// The first such Bundle by name.
        bundle: String,
    },
}

/// Whether nothing can change the ConfigMap's data.
pub fn is_immutable(config_map: &Value) -> bool {
    config_map["immutable"] == true
}

/// The use that a Bundle makes of the ConfigMap `name`, if any. Reads the raw object: an odd Bundle hides no use.
pub fn use_of(bundle: &Value, name: &str) -> Option<Use> {
    let source = &bundle["spec"]["source"];
    let mut entries = source["configMaps"].as_array()?.iter();
    let bundle = bundle["metadata"]["name"].as_str()?.to_owned();
    entries
        .any(|entry| entry["configMap"]["name"] == name && entry["kind"] != "Secret")
        .then(|| Use { bundle, is_source: source["type"] == "configMaps" })
}

/// Decides on the creation of a ConfigMap that is not immutable.
pub fn check_creation(name: &str, uses: &[Use]) -> Result<(), Denial> {
    let mut bundles: Vec<_> = uses.iter().filter(|one| one.is_source).map(|one| one.bundle.clone()).collect();
    bundles.sort();
    if bundles.is_empty() { Ok(()) } else { Err(Denial::Mutable { name: name.to_owned(), bundles }) }
}

/// Decides on a deletion.
pub fn check_deletion(name: &str, uses: &[Use]) -> Result<(), Denial> {
    let first = uses.iter().map(|one| &one.bundle).min();
    first.map_or(Ok(()), |bundle| Err(Denial::InUse { name: name.to_owned(), bundle: bundle.clone() }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(name: &str, type_: &str, config_maps: &[&str]) -> Value {
        let entries: Vec<_> = config_maps.iter().map(|name| json!({"configMap": {"name": name}})).collect();
        json!({"metadata": {"name": name}, "spec": {"source": {"type": type_, "configMaps": entries}}})
    }

    fn uses(bundles: &[Value]) -> Vec<Use> {
        bundles.iter().filter_map(|bundle| use_of(bundle, "a")).collect()
    }

    #[test]
    fn only_true_is_immutable() {
        assert!(is_immutable(&json!({"immutable": true})));
        for mutable in
            [json!({}), json!({"immutable": false}), json!({"immutable": "true"}), json!({"immutable": null})]
        {
            assert!(!is_immutable(&mutable), "{mutable}");
        }
    }

    #[test]
    fn a_mutable_one_is_refused_with_all_the_bundles_made_of_it() {
        let nobody = uses(&[bundle("b", "configMaps", &["other"]), json!({"metadata": {"name": "c"}, "spec": {}})]);
        assert_eq!(check_creation("a", &nobody), Ok(()));
        // Named beside a source of another type: nothing is made of it.
        assert_eq!(check_creation("a", &uses(&[bundle("b", "image", &["a"])])), Ok(()));
        let two = uses(&[bundle("b2", "configMaps", &["x", "a"]), bundle("b1", "configMaps", &["a", "a"])]);
        assert_eq!(
            check_creation("a", &two).unwrap_err().to_string(),
            "configmap \"a\" is referenced in .spec.source.configMaps[].configMap.name by bundles [b1 b2]; \
             referenced configmaps must have .immutable == true"
        );
    }

    #[test]
    fn one_in_use_stays() {
        assert_eq!(check_deletion("a", &uses(&[bundle("b", "configMaps", &["other"])])), Ok(()));
        let two = uses(&[bundle("b2", "configMaps", &["a"]), bundle("b1", "image", &["a"])]);
        assert_eq!(check_deletion("a", &two).unwrap_err().to_string(), "configmap \"a\" is in-use by bundle \"b1\"");
    }
}
