//! Who may depend on whom, and what a crate may touch.

use std::collections::BTreeMap;

use rukpak_tests::tools::workspace_folder;
use serde_json::Value;

use super::workspace::{built_with, code, folder, list, members, metadata, rust_files, text};

/// Which crates of the workspace a crate may use. A new crate gets a line here, and in the README of its folder.
const ARROWS: &[(&str, &[&str])] = &[
    ("rukpak-catalog", &["rukpak-content", "rukpak-plain", "rukpak-source"]),
    ("rukpak-content", &[]),
    ("rukpak-format", &["rukpak-content", "rukpak-crds", "rukpak-plain", "rukpak-plan", "rukpak-registry"]),
    ("rukpak-helm", &["rukpak-content", "rukpak-sandbox"]),
    ("rukpak-crds", &[]),
    ("rukpak-crd-upgrade", &["rukpak-crds"]),
    ("rukpak-plain", &["rukpak-content"]),
    ("rukpak-registry", &["rukpak-content", "rukpak-plain"]),
    ("rukpak-resolver", &["rukpak-catalog", "rukpak-content", "rukpak-crds", "rukpak-plain"]),
    ("rukpak-plan", &["rukpak-content", "rukpak-crd-upgrade", "rukpak-crds", "rukpak-plain"]),
    ("rukpak-store", &["rukpak-content"]),
    ("rukpak-runtime", &["rukpak-crds", "rukpak-sandbox"]),
    ("rukpak-sandbox", &[]),
    ("rukpak-source", &["rukpak-content", "rukpak-sandbox"]),
    ("rukpak-trust", &["rukpak-content", "rukpak-crds"]),
    ("rukpak-webhook", &["rukpak-crd-upgrade", "rukpak-crds", "rukpak-runtime"]),
    // Neither of the two reconcilers may know the other.
    (
        "rukpak-unpack",
        &[
            "rukpak-content",
            "rukpak-crds",
            "rukpak-format",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-runtime",
            "rukpak-sandbox",
            "rukpak-source",
            "rukpak-store",
            "rukpak-trust",
        ],
    ),
    (
        "rukpak-install",
        &[
            "rukpak-content",
            "rukpak-crd-upgrade",
            "rukpak-crds",
            "rukpak-format",
            "rukpak-helm",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-registry",
            "rukpak-runtime",
            "rukpak-store",
        ],
    ),
    (
        "rukpak-controller",
        &[
            "rukpak-content",
            "rukpak-crd-upgrade",
            "rukpak-crds",
            "rukpak-format",
            "rukpak-helm",
            "rukpak-install",
            "rukpak-runtime",
            "rukpak-source",
            "rukpak-store",
            "rukpak-unpack",
        ],
    ),
    (
        "rukpak-platform",
        &[
            "rukpak-catalog",
            "rukpak-content",
            "rukpak-crds",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-resolver",
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
            "rukpak-crd-upgrade",
            "rukpak-crds",
            "rukpak-format",
            "rukpak-helm",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-registry",
            "rukpak-resolver",
            "rukpak-runtime",
            "rukpak-source",
            "rukpak-store",
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
            "rukpak-crd-upgrade",
            "rukpak-crds",
            "rukpak-plain",
            "rukpak-plan",
            "rukpak-registry",
            "rukpak-source",
            "rukpak-store",
            "rukpak-trust",
            "rukpak-webhook",
        ],
    ),
];

/// Crates that compute and do nothing else.
const PURE: &[&str] = &[
    "rukpak-content",
    "rukpak-plain",
    "rukpak-registry",
    "rukpak-crd-upgrade",
    "rukpak-plan",
    "rukpak-format",
    "rukpak-trust",
];
/// What a pure crate has no use for, however indirectly.
const IMPURE_DEPENDENCIES: &[&str] =
    &["kube-client", "kube-runtime", "tokio", "hyper", "reqwest", "rustls", "axum", "git2", "tempfile"];
/// What the program that installs packages by name has no use for, however indirectly: it writes BundleDeployments and statuses. What
/// holds bundles, reads them or writes their objects is another program's.
const NOT_OF_PLATFORM: &[&str] =
    &["rukpak-controller", "rukpak-install", "rukpak-unpack", "rukpak-store", "rukpak-registry"];
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
/// Gzip members are made by a few threads; what they make does not depend on these.
const EXCEPTED: &[(&str, &str)] = &[("content/src/pack.rs", "std::thread")];
/// Crates that know nothing of Kubernetes.
const WITHOUT_KUBERNETES: &[&str] = &[
    "rukpak-catalog",
    "rukpak-content",
    "rukpak-helm",
    "rukpak-plain",
    "rukpak-sandbox",
    "rukpak-source",
    "rukpak-store",
];

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
    assert_eq!(own, ["rukpak-crds", "rukpak-runtime", "rukpak-sandbox"]);
}

#[test]
fn pure_crates_touch_nothing_outside() {
    let metadata = metadata();
    let members = members(&metadata);
    for name in PURE {
        for path in rust_files(&folder(members[name]).join("src")) {
            let code = code(&path);
            let is_excepted = |call: &str| EXCEPTED.iter().any(|(file, known)| path.ends_with(file) && *known == call);
            let touched: Vec<_> =
                IMPURE_CALLS.iter().filter(|call| code.contains(**call) && !is_excepted(call)).collect();
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
fn every_crate_has_lints_a_licence_and_a_description() {
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
