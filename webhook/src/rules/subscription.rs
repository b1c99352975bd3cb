//! What makes a BundleDeployment one of a Subscription: a label and annotations. `rukpak-platform` goes by them where it makes, replaces
//! and deletes ClusterServiceVersions, so whoever writes them needs the right to create these in the namespace that they name.

use std::collections::{BTreeMap, BTreeSet};

use rukpak_crds::olmv0::NAMESPACE_LABEL;
use serde_json::Value;

/// How the annotations begin that say what is installed for which package.
const MARKS: [&str; 2] = ["core.rukpak.io/subscription-", "olm.operatorframework.io/bundle-"];

/// Returns the namespaces in which whoever makes `new` out of `old`, which is null where there is none yet, must be allowed to create
/// ClusterServiceVersions.
pub fn namespaces<'a>(old: &'a Value, new: &'a Value) -> BTreeSet<&'a str> {
    let namespace = |object: &'a Value| object["metadata"]["labels"][NAMESPACE_LABEL].as_str();
    let marks = |object: &'a Value| -> BTreeMap<&'a String, &'a Value> {
        let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
        annotations.filter(|(key, _)| MARKS.iter().any(|mark| key.starts_with(mark))).collect()
    };
    if namespace(old) == namespace(new) && marks(old) == marks(new) {
        return BTreeSet::new();
    }
    [namespace(old), namespace(new)].into_iter().flatten().collect()
}

/// The refusal, for the user `who`.
pub fn denial(who: &str, namespace: &str) -> String {
    format!(
        "bundledeployment.metadata.labels[{NAMESPACE_LABEL:?}] and the annotations beside it say what a Subscription in namespace \
         {namespace:?} has installed: user {who:?} may not, which takes verb create on clusterserviceversions.operators.coreos.com in \
         that namespace; create a Subscription, or a BundleDeployment without them"
    )
}

#[cfg(test)]
mod tests {
    use rukpak_crds::olmv0::PACKAGE;
    use serde_json::json;

    use super::*;

    fn deployment(namespace: Option<&str>, package: &str) -> Value {
        json!({"metadata": {"labels": {NAMESPACE_LABEL: namespace}, "annotations": {PACKAGE: package, "other": namespace}}})
    }

    #[test]
    fn marks_are_asked_about_where_they_change() {
        let of = deployment;
        for (old, new, expected) in [
            (Value::Null, of(None, "p"), vec![]),
            (Value::Null, of(Some("b"), "p"), vec!["b"]),
            (of(None, "p"), of(Some("b"), "p"), vec!["b"]),
            (of(Some("b"), "p"), of(Some("b"), "p"), vec![]),
            (of(Some("b"), "p"), of(Some("b"), "q"), vec!["b"]),
            (of(Some("b"), "p"), of(Some("c"), "p"), vec!["b", "c"]),
            (of(Some("b"), "p"), of(None, "p"), vec!["b"]),
            (of(None, "p"), of(None, "q"), vec![]),
        ] {
            assert_eq!(namespaces(&old, &new).into_iter().collect::<Vec<_>>(), expected, "{old} {new}");
        }
    }
}
