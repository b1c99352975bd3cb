//! What is wrong with the graph of a package, in the words of `opm validate`.

use std::collections::BTreeSet;

use super::check;
use crate::{Channel, Entry, Package, Range};

/// Returns everything that is wrong with the channels of a package, with their entries and with the default channel.
///
/// What the catalog contradicts itself about is left out of the package, so that is missing here, and [`Package::remarks`] tells
/// why.
pub fn faults(package: &Package) -> BTreeSet<String> {
    let name = &package.name;
    let mut faults = BTreeSet::new();
    for channel in package.channels.values() {
        add_channel(name, channel, &mut faults);
    }

    let entries = package.channels.values().flat_map(|channel| &channel.entries);
    let named: BTreeSet<&str> = entries.map(|entry| entry.name.as_str()).collect();
    let missing: Vec<&str> = named.into_iter().filter(|name| !package.bundles.contains_key(*name)).collect();
    if !missing.is_empty() {
        let missing = missing.join(" ");
        faults.insert(format!("no olm.bundle blobs found in package {name:?} for olm.channel entries [{missing}]"));
    }

    // Upstream makes an empty channel of it, and then finds that it is empty.
    if let Some(default) = package.default_channel.as_ref().filter(|name| !package.channels.contains_key(*name)) {
        let problem = "channel must contain at least one bundle: it is the default channel and is not in the catalog";
        faults.insert(format!("{}: {problem}", in_channel(name, default)));
    }
    faults
}

fn add_channel(package: &str, channel: &Channel, faults: &mut BTreeSet<String>) {
    let place = in_channel(package, &channel.name);
    let mut known = BTreeSet::new();
    let entries = channel.entries.iter().map(|entry| entry.name.as_str());
    let duplicates: BTreeSet<&str> = entries.filter(|name| !known.insert(*name)).collect();
    for entry in &duplicates {
        let name = &channel.name;
        faults.insert(format!("invalid package {package:?}, channel {name:?}: duplicate entry {entry:?}"));
    }

    if channel.entries.is_empty() {
        faults.insert(format!("{place}: channel must contain at least one bundle"));
    } else if duplicates.is_empty()
        && let Err(error) = check(channel)
    {
        faults.insert(format!("{place}: {error}"));
    }
    for entry in &channel.entries {
        add_entry(&place, entry, faults);
    }
}

fn add_entry(place: &str, entry: &Entry, faults: &mut BTreeSet<String>) {
    let place = format!("{place}: invalid bundle {:?}", entry.name);
    if entry.name.is_empty() {
        faults.insert(format!("{place}: name must be set"));
    }
    for (index, _) in entry.skips.iter().enumerate().filter(|(_, skip)| skip.is_empty()) {
        faults.insert(format!("{place}: skip[{index}] is empty"));
    }
    if let Some(range) = &entry.skip_range
        && let Err(error) = Range::parse(range)
    {
        faults.insert(format!("{place}: invalid skipRange {range:?}: {error}"));
    }
}

fn in_channel(package: &str, channel: &str) -> String {
    format!("invalid package {package:?}: invalid channel {channel:?}")
}
