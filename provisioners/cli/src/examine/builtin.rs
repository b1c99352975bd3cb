//! What is known without a cluster: the names of Kubernetes' own kinds, and that the data of ConfigMaps and Secrets is text.

use rukpak_plain::{Few, Object, shortened};
use rukpak_plan::builtin::{Builtin, builtin};
use serde_json::Value;

/// How many bytes of a key are shown.
const KEY_BYTES: usize = 64;

/// What no cluster will take of these objects, or not as it was meant.
pub(super) fn warnings(objects: &[Object]) -> Few<String> {
    let mut warnings = Few::default();
    for object in objects {
        if let Some(warning) = unknown_kind(object) {
            warnings.push_with(|| warning);
        }
        not_text(object, &mut warnings);
    }
    warnings
}

fn unknown_kind(object: &Object) -> Option<String> {
    let kind = object.kind();
    let like = match builtin(object.group(), kind) {
        Builtin::Kind | Builtin::OtherGroup => return None,
        Builtin::Like(known) => format!(": is {known} meant?"),
        Builtin::Unknown => String::new(),
    };
    Some(format!("{}: Kubernetes has no kind {kind} in {}{like}", object.origin(), object.api_version()))
}

/// Values of ConfigMaps and Secrets that the API server refuses: YAML makes numbers and booleans of what has no quotes. A
/// Secret's `stringData` was looked at before.
fn not_text(object: &Object, warnings: &mut Few<String>) {
    if !object.group().is_empty() || !["ConfigMap", "Secret"].contains(&object.kind()) {
        return;
    }
    for field in ["data", "binaryData"] {
        let Some(Value::Object(values)) = object.as_map().get(field) else { continue };
        for (key, value) in values {
            let what = match value {
                Value::String(_) | Value::Null => continue,
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::Array(_) => "a list",
                Value::Object(_) => "a mapping",
            };
            let key = shortened(key, KEY_BYTES);
            warnings.push_with(|| {
                format!("{}, {field}[{key:?}] is {what}, not a string: quote the value", object.origin())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use rukpak_plain::Origin;
    use serde_json::json;

    use super::*;

    fn of(object: Value) -> Vec<String> {
        warnings(&[Object::new(object, Origin::made_from("a test")).unwrap()]).lines()
    }

    #[test]
    fn kinds_of_kubernetes_are_known_and_others_nobodys_business() {
        let object =
            |version: &str, kind: &str| of(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}));
        for (version, kind) in [
            ("v1", "Secret"),
            ("apps/v1", "Deployment"),
            ("policy/v1beta1", "PodDisruptionBudget"),
            ("example.com/v1", "Deploymnt"),
            ("apps.example.com/v1", "Deploymnt"),
            ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
        ] {
            assert!(object(version, kind).is_empty(), "{version} {kind}");
        }
        let told = object("apps/v1", "Deploymnt");
        assert!(told[0].ends_with("Kubernetes has no kind Deploymnt in apps/v1: is Deployment meant?"), "{told:?}");
        assert!(object("v1", "configmap")[0].ends_with("is ConfigMap meant?"));
        assert!(object("v1", "Deployment")[0].ends_with("Kubernetes has no kind Deployment in v1"));
    }

    #[test]
    fn data_is_text() {
        let data = json!({"n": 1, "b": true, "l": [], "m": {}, "s": "1", "z": null});
        for (kind, field, count) in [
            ("ConfigMap", "data", 4),
            ("ConfigMap", "binaryData", 4),
            ("Secret", "data", 4),
            ("ConfigMap", "more", 0),
            ("Pod", "data", 0),
        ] {
            let told = of(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, field: data}));
            assert_eq!(told.len(), count, "{kind} {field}: {told:?}");
        }
        let told = of(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"n": 1}}));
        assert!(told[0].ends_with(", data[\"n\"] is a number, not a string: quote the value"), "{told:?}");
    }
}
