//! The namespace that a bundle asks for: its name, and the labels and annotations that its author wants on it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha224};

use crate::decode::{decode, drop_nulls};
use crate::load::TEMPLATE;
use crate::validate::is_label;
use crate::{Bundle, FieldError};

/// The CSV annotation with the name of the namespace that an operator would like to live in.
const SUGGESTED: &str = "operatorframework.io/suggested-namespace";
/// The longest name of a namespace, in bytes.
const NAME_BYTES: usize = 63;
/// How much of a package's name is kept in front of a digest and `-system`.
const START_BYTES: usize = NAME_BYTES - "-01234567-system".len();

/// A Namespace, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Namespace {
    metadata: NamespaceTemplate,
}

/// What a bundle wants of its Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamespaceTemplate {
    /// Its name; may be empty.
    pub name: String,
    /// Its labels, such as those of Pod security.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Bundle {
    /// Where a v1alpha1 BundleDeployment installs it: the namespace the CSV suggests, else `<package>-system`.
    pub fn suggested_namespace(&self) -> String {
        self.annotation(SUGGESTED).map_or_else(|| default_name(self.package()), str::to_owned)
    }

    /// What [`Bundle::managed_namespace`] gives.
    pub(crate) fn managed_name(&self) -> Result<String, FieldError> {
        let template = self.namespace_template()?;
        let (name, annotation) =
            if template.name.is_empty() { (self.suggested_namespace(), SUGGESTED) } else { (template.name, TEMPLATE) };
        if is_label(&name) && name.len() <= NAME_BYTES {
            return Ok(name);
        }

        // The beginning is the reference's.
        let problem =
            format!("resolved namespace name {name:?} is not a valid DNS1123 label of at most {NAME_BYTES} characters");
        Err(FieldError { field: place(annotation), problem })
    }

    /// What the CSV wants of the Namespace; nothing if it does not say.
    ///
    /// # Errors
    /// It cannot be read, or has an annotation that tells controllers how to treat the Namespace.
    pub fn namespace_template(&self) -> Result<NamespaceTemplate, FieldError> {
        let Some(text) = self.annotation(TEMPLATE) else { return Ok(NamespaceTemplate::default()) };
        let read = serde_json::from_str(text).map_err(|error| error.to_string()).and_then(|mut value: Value| {
            drop_nulls(&mut value);
            decode::<Namespace>(&value, "Namespace").map_err(|error| error.to_string())
        });
        let failed = |problem| FieldError {
            field: place(TEMPLATE),
            // The beginning is the reference's.
            problem: format!("failed to parse namespace template: {problem}"),
        };
        let template = read.map_err(failed)?.metadata;
        let is_reserved = |name: &&String| name.starts_with("core.rukpak.io/") || *name == "helm.sh/resource-policy";
        match template.annotations.keys().find(is_reserved) {
            Some(name) => Err(failed(format!("annotation {name:?} is not for bundles to set"))),
            None => Ok(template),
        }
    }

    /// The text of an annotation of the CSV that is not empty.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.csv.metadata.annotations.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

fn place(annotation: &str) -> String {
    format!("metadata.annotations[{annotation:?}]")
}

/// `<package>-system`. A package whose name does not fit gets one of what fits and a digest, so that no two packages share it.
fn default_name(package: &str) -> String {
    let name = format!("{package}-system");
    if is_label(&name) && name.len() <= NAME_BYTES {
        return name;
    }
    let lower = package.to_lowercase();
    let words = lower.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut start = words.collect::<Vec<_>>().join("-");
    // It is ASCII by now.
    start.truncate(START_BYTES);

    let digest = Sha224::digest(package.as_bytes());
    let number = digest.iter().take(4).fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    match start.trim_end_matches('-') {
        "" => format!("{number:08x}-system"),
        start => format!("{start}-{number:08x}-system"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::csv::Csv;
    use crate::metadata::{Metadata, PACKAGE};
    use crate::render::Error;

    fn bundle(package: &str, annotations: &[(&str, &str)]) -> Bundle {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let mut csv = Csv::default();
        csv.metadata.annotations = texts(annotations);
        Bundle::made_of(Metadata { annotations: texts(&[(PACKAGE, package)]), ..Metadata::default() }, csv)
    }

    #[test]
    fn the_name_is_that_of_the_template_then_the_suggested_one_then_that_of_the_package() {
        let named = r#"{"metadata": {"name": "of-template"}}"#;
        for (annotations, suggested, managed) in [
            (vec![], "pump-system", "pump-system"),
            (vec![(SUGGESTED, "")], "pump-system", "pump-system"),
            (vec![(SUGGESTED, "suggested")], "suggested", "suggested"),
            (vec![(TEMPLATE, named)], "pump-system", "of-template"),
            (vec![(SUGGESTED, "suggested"), (TEMPLATE, named)], "suggested", "of-template"),
            (vec![(SUGGESTED, "suggested"), (TEMPLATE, "{}")], "suggested", "suggested"),
            (vec![(TEMPLATE, r#"{"metadata": {"name": null}}"#)], "pump-system", "pump-system"),
        ] {
            let bundle = bundle("pump", &annotations);
            assert_eq!(bundle.suggested_namespace(), suggested, "{annotations:?}");
            assert_eq!(bundle.managed_name().as_deref(), Ok(managed), "{annotations:?}");
        }
    }

    #[test]
    fn labels_and_annotations_are_read_of_a_template_and_nothing_else() {
        let text = json!({
            "kind": "Namespace", "spec": {"finalizers": 7}, "status": "x",
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "uid": 7, "ownerReferences": null},
        });
        let template = bundle("p", &[(TEMPLATE, &text.to_string())]).namespace_template().unwrap();
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert_eq!(
            template,
            NamespaceTemplate { name: String::new(), labels: map("a", "b"), annotations: map("c", "d") }
        );
        assert_eq!(bundle("p", &[(TEMPLATE, "")]).namespace_template(), Ok(NamespaceTemplate::default()));
    }

    #[test]
    fn a_template_that_cannot_be_read_is_told_with_its_place_and_remarked() {
        for (text, why) in [
            ("metadata: {}", "expected value at line 1"),
            ("\"text\"", "Namespace: invalid type: string"),
            (r#"{"metadata": {"labels": {"a": 1}}}"#, "Namespace.metadata.labels.a: invalid type: integer"),
            (
                r#"{"metadata": {"annotations": {"core.rukpak.io/allow-deletion": "true"}}}"#,
                "annotation \"core.rukpak.io/allow-deletion\" is not for bundles to set",
            ),
        ] {
            let bundle = bundle("p", &[(TEMPLATE, text)]);
            let error = bundle.managed_name().unwrap_err().to_string();
            let start = format!("metadata.annotations[{TEMPLATE:?}]: failed to parse namespace template: {why}");
            assert!(error.starts_with(&start), "{error}");
            let remarks = bundle.remarks();
            assert!(remarks.iter().any(|remark| remark.starts_with(&format!("csv.yaml: {error}"))), "{remarks:?}");
        }
    }

    #[test]
    fn a_name_that_is_no_label_is_refused() {
        let long = "a".repeat(64);
        for name in ["Upper", "my.namespace", "-a", long.as_str()] {
            let error = bundle("p", &[(SUGGESTED, name)]).managed_name().unwrap_err().to_string();
            assert!(
                error.contains(&format!("resolved namespace name {name:?} is not a valid DNS1123 label")),
                "{error}"
            );
        }
        let error = bundle("p", &[(TEMPLATE, r#"{"metadata": {"name": "A"}}"#)]).managed_namespace().unwrap_err();
        assert!(matches!(error, Error::Namespace { .. }), "{error}");
    }

    #[test]
    fn a_package_whose_name_is_no_label_gets_a_namespace_of_its_own() {
        assert_eq!(default_name(&"a".repeat(56)), format!("{}-system", "a".repeat(56)));
        let mut names = std::collections::BTreeSet::new();
        let (long, longer) = ("a".repeat(57), "a".repeat(200));
        for (package, start) in [
            ("foo.bar", "foo-bar-"),
            ("foo..bar", "foo-bar-"),
            ("Foo_bar", "foo-bar-"),
            (long.as_str(), "aaa"),
            (longer.as_str(), "aaa"),
            ("_", ""),
        ] {
            let name = default_name(package);
            assert!(is_label(&name) && name.len() <= NAME_BYTES, "{name}");
            assert!(name.starts_with(start) && name.ends_with("-system"), "{name}");
            assert!(names.insert(name), "{package}");
        }
    }
}
