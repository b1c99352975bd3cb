//! Reads manifests, and builds overlays with the real kustomize.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use clap::Parser as _;
use rukpak_webhook::options::Options;
use serde_json::Value;

/// Objects by kind and name.
pub type Objects = BTreeMap<(String, String), Value>;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests")
}

pub fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn keyed(objects: impl IntoIterator<Item = Value>) -> Objects {
    let mut keyed = Objects::new();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&object["kind"]), text(&object["metadata"]["name"]));
        assert!(keyed.insert(key.clone(), object).is_none(), "{key:?} is there twice");
    }
    keyed
}

/// What kustomize makes of a folder: the one in kubectl.
pub fn build(folder: &Path) -> Objects {
    static KUBECTL: LazyLock<PathBuf> = LazyLock::new(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tools/kubectl.sh");
        PathBuf::from(stdout(&mut Command::new(script)).trim())
    });
    let text = stdout(Command::new(&*KUBECTL).arg("kustomize").arg(folder));
    keyed(serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display())))
}

/// Every overlay's folder.
pub fn overlays() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder().join("overlays")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn get<'a>(objects: &'a Objects, kind: &str, name: &str) -> &'a Value {
    objects.get(&(kind.to_owned(), name.to_owned())).unwrap_or_else(|| panic!("no {kind} {name}"))
}

pub fn manager(deployment: &Value) -> &Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    containers.iter().find(|container| container["name"] == "manager").unwrap()
}

/// The webhook's own reading of the arguments in its Deployment.
pub fn options(deployment: &Value) -> Options {
    let arguments = manager(deployment)["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    Options::try_parse_from(std::iter::once("rukpak-webhook").chain(arguments))
        .unwrap_or_else(|error| panic!("{error}"))
}
