//! What may be deleted when it leaves a bundle.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rukpak_crds::names;

/// What hangs on an object of some kind, so that deleting it may lose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: the manifest can bring it back.
    None,
    /// A CustomResourceDefinition takes its instances with it. Guarded while there are any.
    Instances,
    /// A Namespace takes everything in it along. Guarded unless empty.
    Contents,
    /// A PersistentVolumeClaim takes its volume along. Always guarded.
    Data,
}

/// What happens to an object that left the bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Delete it.
    Delete,
    /// Look for what hangs on it first: delete if there is nothing, release otherwise.
    DeleteUnless(Guard),
    /// Take our marks off and leave it.
    Release,
}

/// The guard of a kind.
pub fn guard(group: &str, kind: &str) -> Guard {
    match (group, kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Guard::Instances,
        ("", "Namespace") => Guard::Contents,
        ("", "PersistentVolumeClaim") => Guard::Data,
        _ => Guard::None,
    }
}

/// Decides about an object of ours that the new content does not have.
pub fn decide(group: &str, kind: &str, meta: &ObjectMeta) -> Decision {
    let annotation = |key: &str| meta.annotations.as_ref().and_then(|map| map.get(key)).map(String::as_str);
    if annotation(names::RESOURCE_POLICY) == Some("keep") {
        return Decision::Release;
    }
    if annotation(names::ALLOW_DELETION) == Some("true") {
        return Decision::Delete;
    }
    match guard(group, kind) {
        Guard::None => Decision::Delete,
        Guard::Data => Decision::Release,
        other => Decision::DeleteUnless(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_kept_unless_an_administrator_says_otherwise() {
        let plain = ObjectMeta::default();
        let allowed: ObjectMeta =
            serde_json::from_value(json!({"annotations": {"core.rukpak.io/allow-deletion": "true"}})).unwrap();
        let kept: ObjectMeta =
            serde_json::from_value(json!({"annotations": {"helm.sh/resource-policy": "keep"}})).unwrap();
        let crd = ("apiextensions.k8s.io", "CustomResourceDefinition");
        assert_eq!(decide(crd.0, crd.1, &plain), Decision::DeleteUnless(Guard::Instances));
        assert_eq!(decide(crd.0, crd.1, &allowed), Decision::Delete);
        assert_eq!(decide("", "Namespace", &plain), Decision::DeleteUnless(Guard::Contents));
        assert_eq!(decide("", "PersistentVolumeClaim", &plain), Decision::Release);
        assert_eq!(decide("", "ConfigMap", &plain), Decision::Delete);
        assert_eq!(decide("", "ConfigMap", &kept), Decision::Release);
    }
}
