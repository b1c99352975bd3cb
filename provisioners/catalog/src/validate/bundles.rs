//! Bundles: what they are, their versions and images.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Index, Package, in_bundle, several};
use crate::Version;
use crate::document::{BundleDocument, Identity};
use crate::read::Position;

pub(super) fn check(catalog: &Index<'_>, findings: &mut Findings) {
    for (&name, package) in &catalog.packages {
        let named = package.bundles.iter().map(|(document, place)| (document.bundle.name.as_str(), *place));
        for (bundle, places) in several(named) {
            findings.add_at(name, format!("package {name:?} has duplicate bundle {bundle:?}"), &places);
        }
        let entries = package.entries();
        for (document, place) in &package.bundles {
            let bundle = &document.bundle.name;
            if name.is_empty() {
                findings.add_at(name, format!("package name must be set for bundle {bundle:?}"), &[place]);
            } else if !package.is_declared() {
                findings.add(name, format!("unknown package {name:?} for bundle {bundle:?}"));
            }
            if !entries.contains(bundle.as_str()) {
                findings.add(name, format!("package {name:?}, bundle {bundle:?} not found in any channel entries"));
            }
            check_bundle(document, place, findings);
        }
        check_versions(name, package, findings);
    }
}

fn check_bundle(document: &BundleDocument, place: &Position, findings: &mut Findings) {
    let BundleDocument { package, bundle, identities, is_inline, faults, image_faults } = document;
    let name = &bundle.name;
    for fault in faults {
        findings.add(package, format!("parse properties for bundle {name:?}: {fault}"));
    }
    for fault in image_faults {
        findings.add(package, format!("package {package:?}, bundle {name:?}: {fault}"));
    }
    if name.is_empty() {
        findings.add_at(package, format!("{}: name must be set", in_bundle(package, bundle)), &[place]);
    }
    if bundle.image.is_none() && !is_inline {
        findings.add(package, format!("{}: bundle image must be set", in_bundle(package, bundle)));
    }
    if identities.len() != 1 {
        let count = identities.len();
        let expected = "must have exactly 1 \"olm.package\" property";
        findings.add(package, format!("package {package:?} bundle {name:?} {expected}, found {count}"));
    }
    for identity in identities {
        check_identity(document, identity, findings);
    }
}

fn check_identity(document: &BundleDocument, identity: &Identity, findings: &mut Findings) {
    let (package, bundle) = (&document.package, &document.bundle);
    let Identity { package: other, version, release } = identity;
    if other != package {
        let text = format!("package {package:?} does not match \"olm.package\" property {other:?}");
        findings.add(package, format!("bundle {:?}: {text}", bundle.name));
    }
    let parsed = match Version::parse(version) {
        Err(error) => {
            let text = format!("error parsing bundle {:?} version {version:?}: {error}", bundle.name);
            findings.add(package, text);
            return;
        }
        Ok(parsed) => parsed,
    };
    if release.is_empty() {
        return;
    }
    if let Err(error) = Version::with_release(version, release) {
        findings.add(package, format!("error parsing bundle {:?} release {release:?}: {error}", bundle.name));
        return;
    }
    let normalized = format!("{package}-v{version}-{release}");
    if bundle.name != normalized {
        let problem = format!("name {:?} does not match normalized name {normalized:?}", bundle.name);
        findings.add(package, format!("{}: {problem}", in_bundle(package, bundle)));
    }
    if !parsed.semver().build.is_empty() {
        let problem = "cannot use build metadata in version with a release version";
        findings.add(package, format!("{}: {problem}", in_bundle(package, bundle)));
    }
}

/// Build metadata and release are part of a version here, and are not when versions are ordered.
fn check_versions(name: &str, package: &Package<'_>, findings: &mut Findings) {
    let mut versions: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (document, _) in &package.bundles {
        let bundle = &document.bundle;
        let Some(version) = &bundle.version else { continue };
        let release = version.release().map_or_else(String::new, |release| format!("-{release}"));
        versions.entry(format!("{version}{release}")).or_default().insert(&bundle.name);
    }
    let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let duplicates = versions.into_iter().filter(|(_, names)| names.len() > 1);
    let duplicates: Vec<String> =
        duplicates.map(|(version, names)| format!("{{{version}: [{}]}}", list(names))).collect();
    if !duplicates.is_empty() {
        let found = format!("duplicate versions found in bundles: [{}]", duplicates.join(", "));
        findings.add(name, format!("invalid package {name:?}: {found}"));
    }
}
