//! Bundles: the spec never changes, and the source is whole.

use std::collections::BTreeSet;

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
    /// The source is not whole; everything that is wrong with it. Printed as Kubernetes prints aggregates.
    #[error("{}", aggregate(.0))]
    Source(Vec<String>),
}

/// The ConfigMaps that the decision depends on: those that the Bundle is made of, if its source is looked at.
///
/// # Errors
/// [`Denial::Immutable`]: it is refused whatever they are.
pub fn config_maps(change: Change<'_>) -> Result<BTreeSet<String>, Denial> {
    let Some(bundle) = looked_at(change)? else { return Ok(BTreeSet::new()) };
    let source = &bundle["spec"]["source"];
    let entries = source["configMaps"].as_array().filter(|_| source["type"] == "configMaps");
    let entries = entries.into_iter().flatten().filter(|entry| entry["kind"] != "Secret");
    let names = entries.filter_map(|entry| entry["configMap"]["name"].as_str());
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// Decides. Of the ConfigMaps that [`config_maps`] names, `mutable` are those that exist and can be changed.
///
/// On an update immutability is checked first. A Bundle that is being deleted may carry a source that is not admitted
/// today: it may be older than this webhook, and its finalizers must go.
pub fn check(change: Change<'_>, mutable: &BTreeSet<String>) -> Result<(), Denial> {
    looked_at(change)?.map_or(Ok(()), |bundle| check_source(bundle, mutable))
}

/// The Bundle whose source is looked at, if any is.
fn looked_at(change: Change<'_>) -> Result<Option<&Value>, Denial> {
    match change {
        Change::Create { new } => Ok(Some(new)),
        Change::Update { old, new } if spec::same(&old["spec"], &new["spec"]) => {
            Ok(new["metadata"]["deletionTimestamp"].is_null().then_some(new))
        }
        Change::Update { .. } => Err(Denial::Immutable),
    }
}

fn check_source(bundle: &Value, mutable: &BTreeSet<String>) -> Result<(), Denial> {
    let raw = &bundle["spec"];
    if raw.is_null() {
        return Err(Denial::Malformed { field: "bundle.spec".to_owned(), problem: "must be set".to_owned() });
    }
    let spec: BundleSpec = serde_path_to_error::deserialize(raw).map_err(|error| malformed(&error))?;
    let findings = match validate::source(&spec.source) {
        Ok(_) => Vec::new(),
        // Upstream admits what it does not know, and reports it when the Bundle is unpacked.
        Err(Findings(findings)) if matches!(findings[..], [Finding::UnsupportedType(_)]) => return Ok(()),
        Err(Findings(findings)) => findings,
    };
    let mut texts: Vec<_> = findings.iter().map(|finding| (place(finding), finding.to_string())).collect();
    if spec.source.type_ == "configMaps" {
        for (index, entry) in spec.source.config_maps.iter().flatten().enumerate() {
            let name = entry.config_map.name.as_ref().filter(|name| !entry.is_secret() && mutable.contains(*name));
            if let Some(name) = name {
                let field = format!("bundle.spec.source.configmaps[{index}].configmap.name");
                let way_out = format!("kubectl patch configmap {name} --type=merge -p '{{\"immutable\": true}}'");
                texts
                    .push(((index, 1), format!("{field} is invalid: configmap {name:?} is not immutable ({way_out})")));
            }
        }
    }
    texts.sort_by_key(|(place, _)| *place);
    let texts: Vec<_> = texts.into_iter().map(|(_, text)| text).collect();
    if texts.is_empty() { Ok(()) } else { Err(Denial::Source(texts)) }
}

/// Where a finding is told: entry by entry, of each first the path and then the name, as RukPak does; then the others.
fn place(finding: &Finding) -> (usize, u8) {
    match finding {
        Finding::ConfigMapPath(index, _) => (*index, 0),
        Finding::ConfigMapUnnamed(index) => (*index, 1),
        _ => (usize::MAX, 0),
    }
}

fn aggregate(texts: &[String]) -> String {
    match texts {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
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
        check(Change::Create { new }, &BTreeSet::new()).map_err(|denial| denial.to_string())
    }

    fn update(old: &Value, new: &Value) -> Result<(), String> {
        check(Change::Update { old, new }, &BTreeSet::new()).map_err(|denial| denial.to_string())
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
    fn config_maps_are_immutable() {
        let with = |entries: &[(&str, &str)]| {
            let entries: Vec<_> =
                entries.iter().map(|(name, path)| json!({"configMap": {"name": name}, "path": path})).collect();
            bundle(&json!({"type": "configMaps", "configMaps": entries}))
        };
        let mutable = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let create = |new: &Value| check(Change::Create { new }, &mutable).map_err(|denial| denial.to_string());
        let text = |index: usize, name: &str| {
            format!(
                r#"bundle.spec.source.configmaps[{index}].configmap.name is invalid: configmap "{name}" is not immutable (kubectl patch configmap {name} --type=merge -p '{{"immutable": true}}')"#
            )
        };
        let outside = r#"bundle.spec.source.configmaps[1].path is invalid: "../x" is outside bundle root"#;
        assert_eq!(create(&with(&[("c", "m")])), Ok(()));
        assert_eq!(create(&with(&[("c", "m"), ("a", "m")])), Err(text(1, "a")));
        let all = with(&[("a", "m"), ("b", "../x"), ("c", "m"), ("a", "n")]);
        assert_eq!(create(&all), Err(format!("[{}, {outside}, {}, {}]", text(0, "a"), text(1, "b"), text(3, "a"))));
        assert_eq!(config_maps(Change::Create { new: &all }), Ok(["a", "b", "c"].map(str::to_owned).into()));

        // On an update it is looked at again, unless the Bundle is on its way out or changes.
        let old = with(&[("a", "m")]);
        let update =
            |new: &Value| check(Change::Update { old: &old, new }, &mutable).map_err(|denial| denial.to_string());
        assert_eq!(update(&old), Err(text(0, "a")));
        assert_eq!(update(&all), Err("bundle.spec is immutable".to_owned()));
        assert_eq!(config_maps(Change::Update { old: &old, new: &all }), Err(Denial::Immutable));
        let mut gone = old.clone();
        gone["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        assert_eq!(update(&gone), Ok(()));
        assert_eq!(config_maps(Change::Update { old: &old, new: &gone }), Ok(BTreeSet::new()));

        // Named beside another source they are nothing of the Bundle.
        let mut image = image("r");
        image["spec"]["source"]["configMaps"] = json!([{"configMap": {"name": "a"}}]);
        assert_eq!(config_maps(Change::Create { new: &image }), Ok(BTreeSet::new()));
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
