//! Deprecations: what they name must be there.

use std::collections::BTreeSet;

use super::{Findings, Index, Package, in_channel, several};
use crate::document::Deprecation;
use crate::read::Position;

pub(super) fn check(catalog: &Index<'_>, findings: &mut Findings) {
    let named = catalog.deprecations.iter().map(|(name, _, place)| (*name, *place));
    for (name, places) in several(named.filter(|(name, _)| !name.is_empty())) {
        findings.add_at(name, format!("expected a maximum of one deprecation per package: {name:?}"), &places);
    }
    for (index, (name, entries, place)) in catalog.deprecations.iter().enumerate() {
        if name.is_empty() {
            findings.add_at("", format!("package name must be set for deprecation item {index}"), &[place]);
            continue;
        }
        match catalog.packages.get(name).filter(|package| package.is_declared()) {
            None => findings.add(name, format!("cannot apply deprecations to an unknown package {name:?}")),
            Some(package) => check_entries(name, package, entries, place, findings),
        }
    }
}

fn check_entries(
    name: &str,
    package: &Package<'_>,
    entries: &[Deprecation],
    place: &Position,
    findings: &mut Findings,
) {
    let mut known = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        if !known.insert((&entry.schema, &entry.name)) {
            findings.add_at(name, format!("duplicate deprecation entry [{index}] for package {name:?}"), &[place]);
        }
        if let Some(message) = problem(name, package, entry, index) {
            findings.add(name, message);
        }
        if entry.message.is_empty() {
            let place = match entry.schema.as_str() {
                "olm.channel" => in_channel(name, &entry.name),
                "olm.bundle" => format!("invalid package {name:?}: invalid bundle {:?}", entry.name),
                _ => format!("invalid package {name:?}"),
            };
            findings.add(name, format!("{place}: invalid deprecation: message must be set"));
        }
    }
}

fn problem(name: &str, package: &Package<'_>, entry: &Deprecation, index: usize) -> Option<String> {
    let object = &entry.name;
    match entry.schema.as_str() {
        "" => Some(format!("schema must be set for deprecation entry [{index}] for package {name:?}")),
        "olm.package" => (!object.is_empty())
            .then(|| format!("package name must be empty for deprecated package {name:?} (specified {object:?})")),
        "olm.channel" => (!package.channel_names.contains(object.as_str()))
            .then(|| format!("cannot deprecate channel {object:?} for package {name:?}: channel not found")),
        "olm.bundle" => (!package.bundle_names.contains(object.as_str()))
            .then(|| format!("cannot deprecate bundle {object:?} for package {name:?}: bundle not found")),
        schema => Some(format!(
            "cannot deprecate object {schema:?} {object:?} referenced by entry [{index}] for package {name:?}: object \
             schema unknown"
        )),
    }
}
