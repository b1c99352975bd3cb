//! Bundles: the spec never changes, and the source is whole.

use rukpak_crds::BundleSpec;
use rukpak_crds::validate::{self, Finding, Findings};
use serde_json::Value;

use super::spec;

/// What happens to the Bundle, with the raw objects.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// It is made.
    Create {
        /// As it shall be.
        new: &'a Value,
    },
    /// It is changed.
    Update {
        /// As it is.
        old: &'a Value,
        /// As it shall be.
        new: &'a Value,
    },
}

/// Why a Bundle is refused. The text reaches the user as it is.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The spec differs from the one that was admitted.
    #[error("bundle.spec is immutable")]
    Immutable,
    /// A field has the wrong type, or is missing.
    #[error("{field}: {problem}")]
    Malformed {
        /// Where, from `bundle` on.
        field: String,
        /// What is wrong there.
        problem: String,
    },
    /// The source is not whole.
    #[error("{0}")]
    Source(Findings),
}

/// Decides.
///
/// On an update immutability is checked first. A Bundle that is being deleted may carry a source that is not admitted
/// today: it may be older than this webhook, and its finalizers must go.
///
/// # Errors
/// The refusal.
pub fn check(change: Change<'_>) -> Result<(), Denial> {
    match change {
        Change::Create { new } => check_source(new),
        Change::Update { old, new } => {
            if !spec::same(&old["spec"], &new["spec"]) {
                return Err(Denial::Immutable);
            }
            let deleted = !new["metadata"]["deletionTimestamp"].is_null();
            if deleted { Ok(()) } else { check_source(new) }
        }
    }
}

fn check_source(bundle: &Value) -> Result<(), Denial> {
    let raw = &bundle["spec"];
    if raw.is_null() {
        return Err(Denial::Malformed { field: "bundle.spec".to_owned(), problem: "must be set".to_owned() });
    }
    let spec: BundleSpec = serde_path_to_error::deserialize(raw).map_err(|error| malformed(&error))?;
    match validate::source(&spec.source) {
        Ok(_) => Ok(()),
        // Upstream admits what it does not know, and reports it when the Bundle is unpacked.
        Err(findings) => match findings.0.as_slice() {
            [Finding::UnsupportedType(_)] => Ok(()),
            _ => Err(Denial::Source(findings)),
        },
    }
}

fn malformed(error: &serde_path_to_error::Error<serde_json::Error>) -> Denial {
    let path = error.path().to_string();
    let field = if path == "." { "bundle.spec".to_owned() } else { format!("bundle.spec.{path}") };
    Denial::Malformed { field, problem: error.inner().to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(source: &Value) -> Value {
        json!({"metadata": {"name": "b"}, "spec": {"provisionerClassName": "p", "source": source}})
    }

    fn image(reference: &str) -> Value {
        bundle(&json!({"type": "image", "image": {"ref": reference}}))
    }

    fn create(new: &Value) -> Result<(), String> {
        check(Change::Create { new }).map_err(|denial| denial.to_string())
    }

    fn update(old: &Value, new: &Value) -> Result<(), String> {
        check(Change::Update { old, new }).map_err(|denial| denial.to_string())
    }

    #[test]
    fn the_spec_is_immutable_and_that_is_said_first() {
        assert_eq!(update(&image("a"), &image("b")), Err("bundle.spec is immutable".to_owned()));
        let broken = bundle(&json!({"type": "git"}));
        assert_eq!(update(&image("a"), &broken), Err("bundle.spec is immutable".to_owned()));
        let mut unknown = image("a");
        unknown["spec"]["added"] = json!({"later": 1});
        assert_eq!(update(&image("a"), &unknown), Err("bundle.spec is immutable".to_owned()));
        let mut class = image("a");
        class["spec"]["provisionerClassName"] = json!("q");
        assert_eq!(update(&image("a"), &class), Err("bundle.spec is immutable".to_owned()));
    }

    #[test]
    fn metadata_and_status_are_free() {
        let mut new = image("a");
        new["metadata"]["labels"] = json!({"a": "b"});
        new["metadata"]["finalizers"] = json!(["core.rukpak.io/delete-cached-bundle"]);
        new["status"] = json!({"phase": "Unpacked"});
        assert_eq!(update(&image("a"), &new), Ok(()));
        assert_eq!(update(&new, &image("a")), Ok(()));
    }

    #[test]
    fn an_older_bundle_with_a_bad_source_can_go() {
        let mut old =
            bundle(&json!({"type": "git", "git": {"repository": "r", "directory": "..", "ref": {"tag": "t"}}}));
        assert!(update(&old, &old).unwrap_err().contains("directory"));
        old["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        old["metadata"]["finalizers"] = json!(["a"]);
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        assert_eq!(update(&old, &new), Ok(()));
        new["spec"]["source"]["git"]["directory"] = json!("a");
        assert_eq!(update(&old, &new), Err("bundle.spec is immutable".to_owned()));
    }

    #[test]
    fn sources_are_whole() {
        for good in [
            json!({"type": "image", "image": {"ref": "r"}}),
            json!({"type": "git", "git": {"repository": "r", "directory": "./a", "ref": {"branch": "b"}}}),
            json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}, "path": "manifests"}]}),
            json!({"type": "http", "http": {"url": "u"}}),
            json!({"type": "upload", "upload": {}}),
            json!({"type": "tomorrow", "upload": {}}),
        ] {
            assert_eq!(create(&bundle(&good)), Ok(()), "{good}");
        }
        for (bad, text) in [
            (json!({"type": "image", "upload": {}}), r#"bundle.spec.source.image must be set for source type "image""#),
            (json!({"type": "http", "upload": {}}), r#"bundle.spec.source.http must be set for source type "http""#),
            (
                json!({"type": "git", "git": {"repository": "r", "directory": "..", "ref": {"tag": "t"}}}),
                r#"bundle.spec.source.git.directory begins with "../": directory must define path within the repository"#,
            ),
            (
                json!({"type": "git", "git": {"repository": "r", "directory": "/a", "ref": {"tag": "t"}}}),
                r#"bundle.spec.source.git.directory "/a" is absolute: directory must define path within the repository"#,
            ),
            (
                json!({"type": "configMaps", "configMaps": []}),
                r#"bundle.spec.source.configmaps must be set for source type "configmaps""#,
            ),
        ] {
            assert_eq!(create(&bundle(&bad)), Err(text.to_owned()), "{bad}");
        }
    }

    #[test]
    fn a_wrong_type_names_its_field() {
        for (bad, start) in [
            (json!({"type": 1}), "bundle.spec.source.type: invalid type: integer"),
            (
                json!({"type": "git", "git": {"repository": "r", "ref": "v1"}}),
                "bundle.spec.source.git.ref: invalid type: string",
            ),
            (
                json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}}, {"configMap": true}]}),
                "bundle.spec.source.configMaps[1].configMap: invalid type: boolean",
            ),
            (json!({"image": {"ref": "r"}}), "bundle.spec.source: missing field `type`"),
        ] {
            let text = create(&bundle(&bad)).unwrap_err();
            assert!(text.starts_with(start), "{text}");
        }
        assert_eq!(create(&json!({})), Err("bundle.spec: must be set".to_owned()));
        assert!(create(&json!({"spec": "x"})).unwrap_err().starts_with("bundle.spec: invalid type: string"));
    }
}
