//! Packages and their channels.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Index, Package, entries, in_channel, repeated};
use crate::read::Position;
use crate::{Channel, Entry, Range, graph};

/// Characters of a DNS label.
const MAX_LABEL: usize = 63;

pub(super) fn check(catalog: &Index<'_>, findings: &mut Findings) {
    for (&name, package) in &catalog.packages {
        check_name(name, package, findings);
        let mut by_name: BTreeMap<&str, (Vec<&Channel>, Vec<&Position>)> = BTreeMap::new();
        for (channel, place) in &package.channels {
            let (same, places) = by_name.entry(&channel.name).or_default();
            same.push(channel);
            places.push(place);
        }
        for (channel, (same, places)) in by_name {
            if !package.is_declared() {
                findings.add(name, format!("unknown package {name:?} for channel {channel:?}"));
            }
            if channel.is_empty() {
                findings.add_at(name, format!("package {name:?} contains channel with no name"), &places);
            }
            if same.len() > 1 {
                findings.add_at(name, format!("package {name:?} has duplicate channel {channel:?}"), &places);
            }
            for channel in same {
                check_channel(name, channel, findings);
            }
        }
        check_entries(name, &package.entries(), &package.bundle_names, findings);
        if package.is_declared() && !name.is_empty() {
            check_channels(name, package, findings);
        }
    }
}

pub(super) fn check_graph(package: &crate::Package, findings: &mut Findings) {
    let name = &package.name;
    for channel in package.channels.values() {
        check_channel(name, channel, findings);
    }
    let bundles = package.bundles.keys().map(String::as_str).collect();
    check_entries(name, &entries(package.channels.values()), &bundles, findings);
    if let Some(default) = package.default_channel.as_ref().filter(|name| !package.channels.contains_key(*name)) {
        no_default(name, default, findings);
    }
}

fn check_name(name: &str, package: &Package<'_>, findings: &mut Findings) {
    if !package.is_declared() {
        return;
    }
    let places: Vec<&Position> = package.declared.iter().map(|(_, place)| *place).collect();
    if name.is_empty() {
        findings.add_at("", "config contains package with no name".to_owned(), &places);
        return;
    }
    if places.len() > 1 {
        findings.add_at(name, format!("duplicate package {name:?}"), &places);
    }
    let mut problems = Vec::new();
    if name.len() > MAX_LABEL {
        problems.push(format!("must be no more than {MAX_LABEL} characters"));
    }
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(is_inner) || name.starts_with('-') || name.ends_with('-') {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character";
        problems.push(label.to_owned());
    }
    if !problems.is_empty() {
        findings.add(name, format!("invalid package name {name:?}: [{}]", problems.join(" ")));
    }
}

pub(super) fn check_channel(package: &str, channel: &Channel, findings: &mut Findings) {
    let place = in_channel(package, &channel.name);
    let duplicates = repeated(channel.entries.iter().map(|entry| entry.name.as_str()));
    for entry in &duplicates {
        let name = &channel.name;
        findings.add(package, format!("invalid package {package:?}, channel {name:?}: duplicate entry {entry:?}"));
    }
    if channel.entries.is_empty() {
        findings.add(package, format!("{place}: channel must contain at least one bundle"));
    } else if duplicates.is_empty()
        && let Err(error) = graph::check(channel)
    {
        findings.add(package, format!("{place}: {error}"));
    }
    for entry in &channel.entries {
        check_entry(package, &place, entry, findings);
    }
}

fn check_entry(package: &str, place: &str, entry: &Entry, findings: &mut Findings) {
    let place = format!("{place}: invalid bundle {:?}", entry.name);
    if entry.name.is_empty() {
        findings.add(package, format!("{place}: name must be set"));
    }
    for (index, _) in entry.skips.iter().enumerate().filter(|(_, skip)| skip.is_empty()) {
        findings.add(package, format!("{place}: skip[{index}] is empty"));
    }
    if let Some(range) = &entry.skip_range
        && let Err(error) = Range::parse(range)
    {
        findings.add(package, format!("{place}: invalid skipRange {range:?}: {error}"));
    }
}

/// Upstream keeps the entries of the last channel alone; here those of all count.
fn check_entries(name: &str, entries: &BTreeSet<&str>, bundles: &BTreeSet<&str>, findings: &mut Findings) {
    let missing: Vec<&str> = entries.difference(bundles).copied().collect();
    if !missing.is_empty() {
        let missing = missing.join(" ");
        findings
            .add(name, format!("no olm.bundle blobs found in package {name:?} for olm.channel entries [{missing}]"));
    }
}

/// The default channel, and whether there is any.
fn check_channels(name: &str, package: &Package<'_>, findings: &mut Findings) {
    let mut has_default = false;
    for (default, _) in &package.declared {
        let Some(default) = default else {
            findings.add(name, format!("invalid package {name:?}: default channel must be set"));
            continue;
        };
        has_default = true;
        if !package.channel_names.contains(default) {
            no_default(name, default, findings);
        }
    }
    if package.channels.is_empty() && !has_default {
        findings.add(name, format!("invalid package {name:?}: package must contain at least one channel"));
    }
}

/// Upstream makes an empty channel of it, and then finds that it is empty.
fn no_default(name: &str, default: &str, findings: &mut Findings) {
    let place = in_channel(name, default);
    let problem = "channel must contain at least one bundle: it is the default channel and is not in the catalog";
    findings.add(name, format!("{place}: {problem}"));
}
