//! Whether an object whose update is refused is deleted and created again.

use kube::core::Status;
use rukpak_crds::names;
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::prune::{Guard, guard};
use crate::resolve::{Basis, Live};

/// What is done about an object whose update was refused as invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Nothing: it stays as it is, and the refusal is told.
    No,
    /// It is deleted and created again.
    Replace,
    /// The same, although its manifest asks for a replacement.
    Never {
        /// What would be lost.
        why: &'static str,
    },
}

/// What is done about the object `key`, whose update to `body` was refused.
///
/// A ConfigMap or Secret that became immutable gives way to what was in the cluster before. Of other objects a manifest has to say it:
/// that of the release, or of the one that it takes back, else there would be no way back from a replacement.
pub fn replacement(key: &ObjectKey, body: &Value, live: Live<'_>, basis: &Basis<'_>, refusal: &Status) -> Replacement {
    if is_sealed(key, live) && basis.why.policy().replaces_immutable {
        return Replacement::Replace;
    }
    if !is_forced(body, basis) || !is_about_immutable(refusal) {
        return Replacement::No;
    }
    match guard(&key.group, &key.kind) {
        Guard::None => Replacement::Replace,
        Guard::Instances => Replacement::Never { why: "its instances would be lost" },
        Guard::Contents => Replacement::Never { why: "what is in it would be lost" },
        Guard::Data => Replacement::Never { why: "its data would be lost" },
    }
}

/// Whether an object may be replaced, if its update is refused.
pub fn may_be_replaced(body: &Value, basis: &Basis<'_>) -> bool {
    basis.why.policy().replaces_immutable || is_forced(body, basis)
}

/// Whether other objects may hang on objects of a kind, so that they have to go before it is created again.
pub fn has_dependents(key: &ObjectKey) -> bool {
    !is_data(key)
}

fn is_data(key: &ObjectKey) -> bool {
    key.group.is_empty() && matches!(key.kind.as_str(), "ConfigMap" | "Secret")
}

fn is_sealed(key: &ObjectKey, live: Live<'_>) -> bool {
    is_data(key) && live.body["immutable"] == true
}

fn is_forced(body: &Value, basis: &Basis<'_>) -> bool {
    basis.is_forced || body["metadata"]["annotations"][names::FORCE] == names::ENABLED
}

/// What the API server and rules of CRDs say of a field that cannot be changed. Another complaint would be one of the new object, too.
const WORDS: [&str; 8] = [
    "immutable",
    "updates to ",
    "updates may not change",
    "may not change once set",
    "may not be changed",
    "cannot change",
    "cannot be changed",
    "self == oldSelf",
];

/// Whether a refusal is about nothing but fields that cannot be changed.
fn is_about_immutable(refusal: &Status) -> bool {
    let causes = refusal.details.iter().flat_map(|details| &details.causes);
    let complaints: Vec<&str> = causes.map(|cause| complaint(&cause.message)).collect();
    let is_immutable = |text: &&str| WORDS.iter().any(|word| text.contains(word));
    refusal.code == 422 && !complaints.is_empty() && complaints.iter().all(is_immutable)
}

/// The complaint itself, without the value that it is about: `Invalid value: VALUE: COMPLAINT`, `Forbidden: COMPLAINT`.
fn complaint(message: &str) -> &str {
    match message.strip_prefix("Forbidden: ") {
        Some(rest) => rest.lines().next().unwrap_or_default(),
        None => message.rsplit(": ").next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(causes: &[&str]) -> Status {
        let causes: Vec<Value> = causes.iter().map(|message| json!({"message": message})).collect();
        serde_json::from_value(json!({"code": 422, "details": {"causes": causes}})).unwrap()
    }

    #[test]
    fn only_what_holds_nothing_but_data_has_no_dependents() {
        let has = |group: &str, kind: &str| {
            let [group, kind, name] = [group, kind, "a"].map(str::to_owned);
            has_dependents(&ObjectKey { group, kind, namespace: None, name })
        };
        assert!(!has("", "ConfigMap") && !has("", "Secret"));
        assert!(has("", "Service") && has("apps", "Deployment") && has("example.com", "ConfigMap"));
    }

    /// In the words of Kubernetes 1.36.
    #[test]
    fn a_field_that_cannot_be_changed_is_known_by_the_words_of_the_api_server() {
        for text in [
            "Invalid value: {\"matchLabels\":{\"app\":\"w\"}}: field is immutable",
            "Invalid value: {\"kind\":\"Role\",\"name\":\"b\"}: cannot change roleRef",
            "Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
            "Forbidden: field is immutable when `immutable` is set",
            "Forbidden: may not be changed in an update.",
            "Invalid value: [\"10.0.0.1\"]: may not change once set",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`\n  core.PodSpec{\n: wrong: x",
            "Invalid value: Value is immutable",
        ] {
            assert!(is_about_immutable(&refusal(&[text])), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_the_new_object_too_is_no_reason_to_delete_the_old_one() {
        let immutable = "Invalid value: {}: field is immutable";
        assert!(!is_about_immutable(&refusal(&[immutable, "Invalid value: \"x\": must be a number"])));
        assert!(!is_about_immutable(&refusal(&["Invalid value: \"field is immutable: x\": must be a number"])));
        assert!(!is_about_immutable(&refusal(&["Required value"])));
        assert!(!is_about_immutable(&refusal(&[])));
    }
}
