//! The architecture, as rules that fail: who may depend on whom, what a crate may touch, what a file may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;
use rukpak_tests::tools::workspace_folder;
use serde_json::Value;

/// Which crates of the workspace a crate may use. A new crate gets a line here, and in the README of its folder.
const ARROWS: &[(&str, &[&str])] = &[
    ("rukpak-catalog", &["rukpak-content", "rukpak-plain", "rukpak-source"]),
    ("rukpak-certificates", &[]),
    ("rukpak-content", &[]),
    ("rukpak-format", &["rukpak-content", "rukpak-crds", "rukpak-plain", "rukpak-plan", "rukpak-registry"]),
    ("rukpak-crds", &[]),
    ("rukpak-pack", &[]),
    ("rukpak-plain", &["rukpak-content"]),
    ("rukpak-registry", &["rukpak-content", "rukpak-plain"]),
    ("rukpak-plan", &["rukpak-content", "rukpak-crds", "rukpak-plain"]),
    ("rukpak-store", &["rukpak-content", "rukpak-pack"]),
    ("rukpak-runtime", &["rukpak-certificates", "rukpak-crds", "rukpak-sandbox"]),
    ("rukpak-sandbox", &[]),
    ("rukpak-source", &["rukpak-content", "rukpak-pack", "rukpak-sandbox"]),
    ("rukpak-trust", &["rukpak-content", "rukpak-crds"]),
    ("rukpak-webhook", &["rukpak-certificates", "rukpak-crds", "rukpak-plan", "rukpak-runtime"]),
    (
        "rukpak-controller",
        &[
            "rukpak-certificates",
            "rukpak-content",
            "rukpak-crds",
            "rukpak-format",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-registry",
            "rukpak-runtime",
            "rukpak-sandbox",
            "rukpak-source",
            "rukpak-store",
            "rukpak-trust",
        ],
    ),
    (
        "rukpak-platform",
        &[
            "rukpak-catalog",
            "rukpak-certificates",
            "rukpak-content",
            "rukpak-crds",
            "rukpak-plan",
            "rukpak-runtime",
            "rukpak-source",
            "rukpak-trust",
        ],
    ),
    (
        "rukpakctl",
        &[
            "rukpak-catalog",
            "rukpak-content",
            "rukpak-crds",
            "rukpak-format",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-registry",
            "rukpak-source",
        ],
    ),
    // Measures and drives the parts; nothing depends on it.
    (
        "rukpak-tests",
        &[
            "rukpak-catalog",
            "rukpak-content",
            "rukpak-plain",
            "rukpak-registry",
            "rukpak-sandbox",
            "rukpak-source",
            "rukpak-store",
        ],
    ),
    // Asks the programs for their flags, and the types for their schemas.
    ("rukpak-docs", &["rukpak-controller", "rukpak-crds", "rukpak-platform", "rukpak-webhook", "rukpakctl"]),
    // Drives the readers, and so does the webhook.
    (
        "rukpak-fuzz",
        &[
            "rukpak-catalog",
            "rukpak-content",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-registry",
            "rukpak-source",
            "rukpak-store",
            "rukpak-webhook",
        ],
    ),
];

/// Crates that compute and do nothing else.
const PURE: &[&str] =
    &["rukpak-content", "rukpak-plain", "rukpak-registry", "rukpak-plan", "rukpak-format", "rukpak-trust"];
/// What a pure crate has no use for, however indirectly.
const IMPURE_DEPENDENCIES: &[&str] =
    &["kube-client", "kube-runtime", "tokio", "hyper", "reqwest", "rustls", "axum", "git2", "tempfile"];
/// What the program that installs packages by name has no use for, however indirectly: it writes BundleDeployments and statuses. What
/// holds bundles, reads them or writes their objects is another program's.
const NOT_OF_PLATFORM: &[&str] = &["rukpak-controller", "rukpak-store", "rukpak-registry"];
/// The file system, the clock, the environment, the network, other processes.
const IMPURE_CALLS: &[&str] = &[
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
    "std::thread",
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
];
/// Crates that know nothing of Kubernetes.
const WITHOUT_KUBERNETES: &[&str] = &[
    "rukpak-catalog",
    "rukpak-content",
    "rukpak-pack",
    "rukpak-plain",
    "rukpak-sandbox",
    "rukpak-source",
    "rukpak-store",
];
/// A file of more lines mixes two things.
const FILE_LINES: usize = 500;
/// And one of more lines is looked at.
const FILE_LINES_NOTED: usize = 400;

/// Without `--offline`: a crate that no build has fetched yet, because it is for tests of another crate, is fetched then.
fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).arg("--locked").current_dir(workspace_folder());
    let output = command.output().unwrap_or_else(|error| panic!("cargo {arguments:?}: {error}"));
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// What is built here. Of crates that only other platforms have, a fresh machine has no copy.
fn metadata() -> Value {
    serde_json::from_str(&cargo(&["metadata", "--format-version=1", "--filter-platform", host()]))
        .expect("cargo prints JSON")
}

/// The platform of the toolchain, such as `x86_64-unknown-linux-gnu`.
fn host() -> &'static str {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(program).arg("-vV").output().expect("rustc runs");
        let text = String::from_utf8(output.stdout).expect("rustc prints UTF-8");
        text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
    });
    &HOST
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// The packages of the workspace, by name.
fn members(metadata: &Value) -> BTreeMap<&str, &Value> {
    let ids: BTreeSet<&str> = list(metadata, "workspace_members").filter_map(Value::as_str).collect();
    let own = list(metadata, "packages").filter(|package| ids.contains(text(package, "id")));
    own.map(|package| (text(package, "name"), package)).collect()
}

fn folder(package: &Value) -> &Path {
    Path::new(text(package, "manifest_path")).parent().expect("a manifest is in a folder")
}

/// Everything that a crate is built with when it is built alone: no features that other crates ask for.
fn built_with(name: &str) -> BTreeSet<String> {
    let tree = cargo(&["tree", "--package", name, "--edges=normal", "--prefix=none", "--format={p}"]);
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
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
fn code(path: &Path) -> String {
    let of_tests = |name: Option<&std::ffi::OsStr>| name.is_some_and(|name| name == "tests");
    let is_test = of_tests(path.file_stem()) || of_tests(path.parent().and_then(Path::file_name));
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    if is_test { String::new() } else { code.to_owned() }
}

/// Tracked files that are text, by their path in the repository.
fn tracked() -> Vec<(String, String)> {
    let output =
        Command::new("git").args(["ls-files", "-z"]).current_dir(workspace_folder()).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(workspace_folder().join(name)).ok()?));
    names.split_terminator('\0').filter_map(read).collect()
}

#[test]
fn arrows_point_one_way() {
    let metadata = metadata();
    let members = members(&metadata);
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for (name, package) in &members {
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the table of this test"));
        for dependency in list(package, "dependencies").filter(|dependency| dependency["kind"] != "dev") {
            let used = text(dependency, "name");
            assert!(!members.contains_key(used) || allowed.contains(&used), "{name} must not use {used}");
        }
    }
    let gone: Vec<_> = allowed.keys().filter(|name| !members.contains_key(*name)).collect();
    assert!(gone.is_empty(), "no longer in the workspace: {gone:?}");
}

#[test]
fn pure_crates_have_no_client_no_runtime_no_network() {
    for name in PURE {
        let built = built_with(name);
        assert!(built.contains(*name), "cargo tree says something else: {built:?}");
        let impure: Vec<_> = IMPURE_DEPENDENCIES.iter().filter(|other| built.contains(**other)).collect();
        assert!(impure.is_empty(), "{name} is built with {impure:?}");
    }
    for name in WITHOUT_KUBERNETES {
        let built = built_with(name);
        let known: Vec<_> = built.iter().filter(|other| other.starts_with("kube") || *other == "k8s-openapi").collect();
        assert!(known.is_empty(), "{name} is built with {known:?}");
    }
    // The types reach the plan through the API types: kube's core, never its client.
    assert!(built_with("rukpak-crds").contains("kube-core"));
    assert!(!built_with("rukpak-crds").contains("kube-client"));
}

#[test]
fn the_program_that_installs_packages_by_name_cannot_write_the_objects_of_bundles() {
    let built = built_with("rukpak-platform");
    assert!(built.contains("rukpak-catalog"), "cargo tree says something else: {built:?}");
    let of_others: Vec<_> = NOT_OF_PLATFORM.iter().filter(|other| built.contains(**other)).collect();
    assert!(of_others.is_empty(), "rukpak-platform is built with {of_others:?}");
    // And what all programs share knows no bundle.
    let shared = built_with("rukpak-runtime");
    let own: Vec<_> = shared.iter().filter(|name| name.starts_with("rukpak-")).collect();
    assert_eq!(own, ["rukpak-certificates", "rukpak-crds", "rukpak-runtime", "rukpak-sandbox"]);
}

#[test]
fn pure_crates_touch_nothing_outside() {
    let metadata = metadata();
    let members = members(&metadata);
    for name in PURE {
        for path in rust_files(&folder(members[name]).join("src")) {
            let code = code(&path);
            let touched: Vec<_> = IMPURE_CALLS.iter().filter(|call| code.contains(**call)).collect();
            assert!(touched.is_empty(), "{}: {touched:?}", path.display());
        }
    }
}

/// Other providers are banned in deny.toml; this one must be switched on.
#[test]
fn one_provider_of_cryptography_for_tls() {
    let metadata = metadata();
    let nodes = list(&metadata["resolve"], "nodes");
    let rustls: Vec<&Value> = nodes.filter(|node| text(node, "id").contains("#rustls@")).collect();
    assert_eq!(rustls.len(), 1, "one rustls");
    let features: Vec<&str> = list(rustls[0], "features").filter_map(Value::as_str).collect();
    assert!(features.contains(&"ring") && !features.contains(&"aws_lc_rs"), "{features:?}");
}

#[test]
fn every_crate_keeps_the_habits_of_the_house() {
    let metadata = metadata();
    for (name, package) in members(&metadata) {
        let folder = folder(package);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true\n"), "{name}: the lints of the workspace");
        assert_eq!(text(package, "license"), "Apache-2.0", "{name}");
        assert!(!text(package, "description").is_empty(), "{name}: what is it?");
        assert_eq!(package["publish"], serde_json::json!([]), "{name} is not published");
        let root = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)).into_iter().find(|file| file.is_file());
        let says = root.and_then(|file| std::fs::read_to_string(file).ok()).is_some_and(|text| text.starts_with("//!"));
        assert!(says || folder.join("README.md").is_file(), "{name}: neither a README nor module documentation");
        for path in rust_files(&folder.join("src")).into_iter().filter(|_| name != "rukpak-tests") {
            let is_main = path.file_name().is_some_and(|file| file == "main.rs")
                || path.parent().is_some_and(|folder| folder.ends_with("bin"));
            assert!(is_main || !code(&path).contains("anyhow"), "{}: anyhow is for main and tests", path.display());
        }
    }
    let licence = std::fs::read_to_string(workspace_folder().join("LICENSE")).expect("there is a LICENSE");
    assert!(licence.contains("Apache License"));
    let lock = std::fs::read_to_string(workspace_folder().join("Cargo.lock")).expect("Cargo.lock is kept");
    assert!(lock.contains("name = \"rukpak-content\""));
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Spelled in parts: this file is searched too.
    let forbidden = [
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["/wo", "rk/"],
        ["crates", ".io"],
        ["pypi", ".org"],
        ["npmjs", ".org"],
        ["npmjs", ".com"],
        ["proxy.golang", ".org"],
        ["rubygems", ".org"],
        ["deb.debian", ".org"],
        ["security.debian", ".org"],
    ]
    .map(|parts| parts.concat());
    // What cargo writes; and a script that runs everything as root in a root file system of its own.
    let excepted = [("Cargo.lock", forbidden[3].as_str()), ("tests/tools/clean-room.sh", forbidden[0].as_str())];
    let files = tracked();
    assert!(files.len() > 100, "git lists the files");
    for (name, text) in &files {
        for word in forbidden.iter().filter(|word| text.contains(word.as_str())) {
            assert!(excepted.contains(&(name.as_str(), word.as_str())), "{name} contains {word}");
        }
    }
}

/// Types of a file that derive `Debug` and hold a secret as text or bytes: whoever logs one of them logs the secret.
fn talkative(code: &str) -> Vec<String> {
    let name = r"(?:[a-z_]*_)?(?:password|passphrase|token|private_key|key_pem|bearer)";
    let field = format!(
        r"(?m)^\s*(?:pub(?:\([a-z: ]+\))? )?{name}: (?:Option<)?(?:String|Vec<u8>|Bytes|Arc<str>|Box<str>|HeaderValue)\b"
    );
    let field = Regex::new(&field).expect("a pattern");
    let kind = Regex::new(r"(?:struct|enum) (\w+)").expect("a pattern");
    let blocks = code.split("#[derive(").skip(1).filter(|block| {
        let derived = block.split(")]").next().unwrap_or_default();
        let body = block.split("\n}").next().unwrap_or_default();
        derived.split(',').any(|derived| derived.trim() == "Debug") && field.is_match(body)
    });
    blocks.filter_map(|block| Some(kind.captures(block)?[1].to_owned())).collect()
}

#[test]
fn no_type_shows_its_secret_by_a_derived_debug() {
    let talking = "#[derive(Clone, Debug)]\npub struct Login {\n    username: String,\n    password: String,\n}\n";
    assert_eq!(talkative(talking), ["Login"]);
    assert_eq!(talkative(&talking.replace(", Debug", "")), Vec::<String>::new());
    let metadata = metadata();
    for (name, package) in members(&metadata).into_iter().filter(|(name, _)| *name != "rukpak-tests") {
        for path in rust_files(&folder(package).join("src")) {
            let mut found = talkative(&code(&path));
            found.retain(|name| name != "Next"); // the continue token of a list, which is no secret
            assert!(found.is_empty(), "{name}, {}: {found:?}: write Debug by hand, or wrap the secret", path.display());
        }
    }
}

/// With `-p`, cargo chooses features for that package alone, and builds hundreds of crates a second time.
#[test]
fn every_build_of_the_makefile_chooses_the_same_features() {
    let makefile = std::fs::read_to_string(workspace_folder().join("Makefile")).expect("there is a Makefile");
    let mut builds = 0;
    for line in makefile.lines().filter(|line| line.starts_with('\t') && line.contains("cargo ")) {
        assert!(!line.contains("cargo run"), "start the program itself: {line}");
        if ["build", "test", "clippy"].iter().any(|verb| line.contains(&format!("cargo {verb} "))) {
            assert!(line.contains("--workspace") && !line.contains(" -p "), "{line}");
            builds += 1;
        }
    }
    assert!(builds >= 6, "{builds}");
}

#[test]
fn files_are_short() {
    let mut long: Vec<(usize, String)> = Vec::new();
    for (name, text) in
        tracked().into_iter().filter(|(name, _)| Path::new(name).extension().is_some_and(|extension| extension == "rs"))
    {
        let lines = text.lines().count();
        if lines > FILE_LINES_NOTED {
            eprintln!("{name}: {lines} lines");
            long.push((lines, name));
        }
    }
    long.retain(|(lines, _)| *lines > FILE_LINES);
    assert!(long.is_empty(), "split these: {long:?}");
}
