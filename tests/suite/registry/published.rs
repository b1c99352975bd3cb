//! Published bundles. The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rukpak_content::{BundleTree, Limits, RelativePath};
use rukpak_registry::install_mode::{ALL, MULTI, OWN, supports};
use rukpak_registry::{Bundle, Certificates, RenderOptions, load, render};
use serde_json::{Value, json};

/// Base64 of anything.
const PLACEHOLDER: &str = "eA==";

/// One version of a package.
pub struct Published {
    /// `<package>/<version>`.
    pub name: String,
    /// The folder with `manifests` and `metadata`.
    pub folder: PathBuf,
    /// What its install modes ask to be configured; null if nothing.
    pub config: Value,
    /// Its objects, rendered.
    pub objects: Vec<Value>,
}

/// The bundle `<package>/<version>`; what is wrong with it, where it is refused.
pub fn read(corpus: &Path, name: &str) -> Result<Published, String> {
    let folder = corpus.join("registry-v1").join(name);
    let tree = tree(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let bundle = load(&tree, &Limits::default()).map_err(|error| error.to_string())?;
    let namespace = bundle.suggested_namespace();
    let config = config(&bundle, &namespace);
    let targets = match &config {
        Value::Null => None,
        config => Some(vec![config["watchNamespace"].as_str().unwrap_or("default").to_owned()]),
    };
    let options = RenderOptions {
        target_namespaces: targets,
        ..RenderOptions::v1alpha1(&bundle, Certificates::SelfManaged { placeholder: PLACEHOLDER.to_owned() })
    };
    let objects = render(&bundle, &options).map_err(|error| error.to_string())?;
    Ok(Published {
        name: name.to_owned(),
        folder,
        config,
        objects: objects.into_iter().map(rukpak_plain::Object::into_value).collect(),
    })
}

fn config(bundle: &Bundle, namespace: &str) -> Value {
    if supports(&bundle.csv, ALL) {
        Value::Null
    } else if supports(&bundle.csv, OWN) {
        json!({ "watchNamespace": namespace })
    } else if supports(&bundle.csv, MULTI) {
        json!({"watchNamespaces": ["default"]})
    } else {
        json!({"watchNamespace": "default"})
    }
}

/// Every `<package>/<version>` with a rendering of the reference.
pub fn with_golden(corpus: &Path) -> Vec<String> {
    let folder = corpus.join("golden/registry-v1");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = files
        .map(|file| {
            let path = file.expect("the folder can be listed").path();
            let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let golden: Value = serde_json::from_slice(&text).expect("a golden is JSON");
            golden["bundle"].as_str().expect("a golden names its bundle").to_owned()
        })
        .collect();
    names.sort();
    names
}

impl Published {
    /// The package's name.
    pub fn package(&self) -> &str {
        self.name.split_once('/').map_or("", |(package, _)| package)
    }

    /// The version's name.
    pub fn version(&self) -> &str {
        self.name.split_once('/').map_or("", |(_, version)| version)
    }

    /// API versions and kinds of its objects.
    pub fn kinds(&self) -> BTreeSet<(&str, &str)> {
        self.objects
            .iter()
            .filter_map(|object| Some((object["apiVersion"].as_str()?, object["kind"].as_str()?)))
            .collect()
    }

    /// Paths and bytes of its files.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        for part in ["manifests", "metadata"] {
            for entry in std::fs::read_dir(self.folder.join(part)).into_iter().flatten() {
                let path = entry.expect("the folder can be listed").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.push((format!("{part}/{name}"), std::fs::read(&path).expect("the file can be read")));
            }
        }
        files
    }

    /// What no two installed bundles can both have: cluster-scoped names.
    pub fn claims(&self) -> BTreeSet<String> {
        let of = |object: &Value| {
            let (kind, name) = (object["kind"].as_str()?, object["metadata"]["name"].as_str()?);
            let is_cluster = object["metadata"]["namespace"].is_null();
            is_cluster.then(|| format!("{kind} {name}"))
        };
        self.objects.iter().filter_map(of).collect()
    }

    /// Whether, without a backend, it would stop requests for objects of the core.
    pub fn stops_others(&self) -> bool {
        let webhooks = self.objects.iter().filter_map(|object| object["webhooks"].as_array()).flatten();
        let mut rules = webhooks.filter_map(|webhook| webhook["rules"].as_array()).flatten();
        rules.any(|rule| {
            rule["apiGroups"].as_array().into_iter().flatten().any(|group| {
                let group = group.as_str().unwrap_or_default();
                !group.contains('.') || group.ends_with(".k8s.io")
            })
        })
    }
}

/// The files of a bundle.
pub fn tree(folder: &Path) -> io::Result<BundleTree> {
    let mut tree = BundleTree::new();
    for part in ["manifests", "metadata"] {
        for entry in std::fs::read_dir(folder.join(part)).into_iter().flatten() {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let relative = RelativePath::new(&format!("{part}/{name}")).map_err(io::Error::other)?;
            if path.is_dir() {
                tree.add_directory(relative);
            } else {
                tree.add_file(relative, false, std::fs::read(&path)?.into());
            }
        }
    }
    Ok(tree)
}
