//! Small bundles of our own, and the objects that each means: `goldens/NAME.yaml` is the bundle with its settings, `goldens/NAME.json`
//! what becomes of it.
//!
//! They hold the renderer to what it does where no published bundles are at hand. `RUKPAK_GOLDEN=write` writes the JSON. It is not a
//! reference: the renderer that wrote it makes of published bundles what the reference makes of them
//! (`provisioners/registry/tests/corpus.rs`). Read each change against the rules of OLM v1's renderer: names and scopes of roles, order
//! of objects, Services and certificates of webhooks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rukpak_content::{BundleTree, Limits, RelativePath};
use rukpak_format::{BundleFormat, Certificates, Format, Settings};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// With the value `write`, what is rendered is written into the files.
const SWITCH: &str = "RUKPAK_GOLDEN";
/// There are no fewer.
const LEAST: usize = 20;

/// A bundle and how it is to be rendered.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The rule that it shows.
    why: String,
    /// `plain+v0` or `registry+v1`.
    format: String,
    /// `spec.config` of the BundleDeployment.
    config: Option<Map<String, Value>>,
    /// The namespace of what is installed.
    namespace: Option<String>,
    /// A value of `--bundle-cert-provider`.
    certificates: Option<String>,
    #[serde(default)]
    ignores_dependencies: bool,
    /// Texts by their paths.
    files: BTreeMap<String, String>,
}

impl Case {
    fn rendered(&self) -> Value {
        let format = match self.format.as_str() {
            "plain+v0" => Format::Plain,
            "registry+v1" => Format::Registry,
            other => panic!("format {other:?}"),
        };
        let certificates = match self.certificates.as_deref() {
            None | Some("self") => Certificates::SelfManaged,
            Some("cert-manager") => Certificates::CertManager,
            Some("service-ca") => Certificates::ServiceCa,
            Some(other) => panic!("certificates {other:?}"),
        };
        let settings = Settings {
            config: self.config.clone(),
            namespace: self.namespace.clone(),
            certificates,
            ignores_dependencies: self.ignores_dependencies,
            ..Settings::default()
        };
        match format.render(&self.tree(), &Limits::default(), &settings) {
            Err(error) => json!({"error": chain(&error)}),
            Ok(rendered) => {
                let objects = rendered.objects.into_iter().map(|object| object.without_server_fields(&mut Vec::new()));
                let optional: Vec<_> = rendered.optional.iter().map(ToString::to_string).collect();
                let required: Vec<_> = rendered.required.iter().map(ToString::to_string).collect();
                let objects: Vec<Value> = objects.map(rukpak_plain::Object::into_value).collect();
                json!({"objects": objects, "optional": optional, "required": required})
            }
        }
    }

    fn tree(&self) -> BundleTree {
        let mut tree = BundleTree::new();
        for (path, text) in &self.files {
            let path = RelativePath::new(path).expect("a relative path");
            tree.add_file(path, false, Bytes::copy_from_slice(text.as_bytes()));
        }
        tree
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", chain(source)))
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut cases: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    cases.sort();
    cases
}

#[test]
fn every_bundle_means_what_its_golden_says() {
    let is_writing = std::env::var(SWITCH).is_ok_and(|value| value == "write");
    assert!(!is_writing || std::env::var_os("CI").is_none(), "{SWITCH} is set, and goldens are not written under CI");
    let cases = cases();
    assert!(cases.len() >= LEAST, "{} bundles", cases.len());
    let mut wrong = Vec::new();
    for path in cases {
        let text = std::fs::read_to_string(&path).expect("a file");
        let case: Case = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let golden = path.with_extension("json");
        let is = format!("{:#}\n", case.rendered());
        if is_writing {
            std::fs::write(&golden, &is).expect("written");
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != is {
            wrong.push(format!("{}: {}\nis: {is}", path.display(), case.why));
        }
    }
    assert!(!is_writing, "the goldens are written: read what changed, and run again without {SWITCH}");
    assert!(wrong.is_empty(), "{}\nWith {SWITCH}=write the files are changed. Read what changed.", wrong.join("\n"));
}
