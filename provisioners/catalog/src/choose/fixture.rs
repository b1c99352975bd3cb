//! Packages for tests, written as text.

use crate::{Bundle, Channel, Entry, Package, Version};

/// A package `p`. Channels are written one a line, `name: entry; entry`; the first is the default one. An entry is
/// `1.1.0 replaces 1.0.0 skips 0.9.0 skips 0.8.0 range >=0.1.0 <1.1.0`, and its bundle `p.v1.1.0` has an image.
pub(crate) fn package(text: &str) -> Package {
    let mut package = Package { name: "p".to_owned(), ..Package::default() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let channel = channel(line);
        for entry in &channel.entries {
            package.bundles.entry(entry.name.clone()).or_insert_with(|| bundle(entry.name.trim_start_matches("p.v")));
        }
        package.default_channel.get_or_insert_with(|| channel.name.clone());
        package.channels.insert(channel.name.clone(), channel);
    }
    package
}

pub(crate) fn channel(line: &str) -> Channel {
    let (channel_name, entries) = line.split_once(':').unwrap();
    let entries = entries.split(';').filter(|text| !text.trim().is_empty()).map(entry).collect();
    Channel { name: channel_name.to_owned(), entries, deprecation: None }
}

fn entry(text: &str) -> Entry {
    let (text, range) = text.split_once(" range ").map_or((text, None), |(text, range)| (text, Some(range)));
    let mut words = text.split_whitespace();
    let mut entry = Entry { name: name(words.next().unwrap()), ..Entry::default() };
    while let Some(word) = words.next() {
        let target = name(words.next().unwrap());
        match word {
            "replaces" => entry.replaces = Some(target),
            "skips" => entry.skips.push(target),
            other => panic!("{other}"),
        }
    }
    entry.skip_range = range.map(|range| range.trim().to_owned());
    entry
}

pub(crate) fn bundle(version: &str) -> Bundle {
    Bundle {
        name: name(version),
        image: Some(format!("example.org/p:{version}")),
        version: Version::parse(version).ok(),
        version_text: version.to_owned(),
        ..Bundle::default()
    }
}

pub(crate) fn name(version: &str) -> String {
    format!("p.v{version}")
}

/// The bundle of that version, to be changed.
pub(crate) fn of<'a>(package: &'a mut Package, version: &str) -> &'a mut Bundle {
    package.bundles.get_mut(&name(version)).unwrap()
}
