//! What cargo and the file system say of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use rukpak_tests::tools::workspace_folder;
use serde_json::Value;

/// Without `--offline`: a crate that no build has fetched yet, because it is for tests of another crate, is fetched then.
pub fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).arg("--locked").current_dir(workspace_folder());
    let output = command.output().unwrap_or_else(|error| panic!("cargo {arguments:?}: {error}"));
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// What is built here. Of crates that only other platforms have, a fresh machine has no copy.
pub fn metadata() -> Value {
    serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--filter-platform", host()]))
        .expect("cargo prints JSON")
}

/// The platform of the toolchain, such as `x86_64-unknown-linux-gnu`.
pub fn host() -> &'static str {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(program).arg("-vV").output().expect("rustc runs");
        let text = String::from_utf8(output.stdout).expect("rustc prints UTF-8");
        text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
    });
    &HOST
}

pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// The packages of the workspace, by name.
pub fn members(metadata: &Value) -> BTreeMap<&str, &Value> {
    let ids: BTreeSet<&str> = list(metadata, "workspace_members").filter_map(Value::as_str).collect();
    let own = list(metadata, "packages").filter(|package| ids.contains(text(package, "id")));
    own.map(|package| (text(package, "name"), package)).collect()
}

pub fn folder(package: &Value) -> &Path {
    Path::new(text(package, "manifest_path")).parent().expect("a manifest is in a folder")
}

/// Everything that a crate is built with when it is built alone: no features that other crates ask for.
pub fn built_with(name: &str) -> BTreeSet<String> {
    let tree = cargo(&["tree", "--package", name, "--edges=normal", "--prefix=none", "--format={p}"]);
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The code of a file, without its tests.
pub fn code(path: &Path) -> String {
    let of_tests = |name: Option<&std::ffi::OsStr>| name.is_some_and(|name| name == "tests");
    let is_test = of_tests(path.file_stem()) || of_tests(path.parent().and_then(Path::file_name));
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    if is_test { String::new() } else { code.to_owned() }
}
