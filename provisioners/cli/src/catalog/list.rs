//! `rukpakctl catalog list`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use rukpak_catalog::choose::{self, Request};
use rukpak_catalog::{Bundle, Channel, Entry, Package, Version, graph};
use serde::Serialize;

use super::open::Opened;
use super::{missing, package, warn_of_faults};
use crate::answer::print_either;
use crate::args::ListArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::to_stderr;
use crate::table::{self, count};

/// A package among others.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageLine<'a> {
    name: &'a str,
    /// What a PlatformOperator gets that names nothing but the package.
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_channel: Option<&'a str>,
    /// Of the default channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head_version: Option<&'a str>,
    channels: usize,
    bundles: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    /// Of package, channel and bundle, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deprecations: Vec<String>,
    /// What the table says of it.
    #[serde(skip)]
    deprecated: Vec<&'static str>,
}

/// One package, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inside<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    channels: Vec<ChannelLine<'a>>,
    /// Those that no channel has.
    loose_bundles: Vec<BundleLine<'a>>,
    remarks: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelLine<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    bundles: Vec<BundleLine<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleLine<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skips: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_range: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<&'a str>,
    /// What the table says of it.
    #[serde(skip)]
    notes: Vec<&'static str>,
    /// This too: its own, and that of the channel and the package.
    #[serde(skip)]
    deprecated: Vec<&'static str>,
    #[serde(skip)]
    order: Option<&'a Version>,
}

/// Prints the packages, or what is in one.
pub(super) async fn run(arguments: &ListArgs) -> Result<Exit, Failure> {
    let opened = Opened::new(&arguments.place, arguments.package.as_deref()).await?;
    let Some(name) = &arguments.package else {
        let packages: Vec<PackageLine<'_>> = opened.catalog.packages.values().map(package_line).collect();
        to_stderr(&format!("{}: {}", opened.from, count(packages.len(), "package")));
        let answer = BTreeMap::from([("packages", &packages)]);
        return Ok(print_either(arguments.output, &answer, |out| print_packages(out, &packages), Exit::Yes));
    };
    let package = package(&opened, name).map_err(|why| missing(&opened, &arguments.place, name, &why))?;
    warn_of_faults(package);
    let (channels, bundles) = (package.channels.len(), package.bundles.len());
    let (channels, bundles) = (count(channels, "channel"), count(bundles, "bundle"));
    to_stderr(&format!("{}: {channels} and {bundles} of package {name:?}", opened.from));
    let inside = inside(package);
    Ok(print_either(arguments.output, &inside, |out| print_inside(out, &inside), Exit::Yes))
}

fn package_line(package: &Package) -> PackageLine<'_> {
    let choice = choose::choose(package, &Request::default()).ok();
    let bundle = choice.as_ref().map(|choice| choice.bundle);
    let channel = choice.as_ref().and_then(|choice| package.channels.get(choice.channel?));
    let default = package.default_channel.as_deref();
    let head = default.and_then(|name| graph::head(package.channels.get(name)?).ok());
    PackageLine {
        name: &package.name,
        bundle: bundle.map(|bundle| bundle.name.as_str()),
        version: bundle.and_then(version),
        channel: channel.map(|channel| channel.name.as_str()),
        default_channel: default,
        head,
        head_version: head.and_then(|name| version(package.bundles.get(name)?)),
        channels: package.channels.len(),
        bundles: package.bundles.len(),
        deprecation: package.deprecation.as_deref(),
        deprecated: deprecated(package, channel, bundle),
        deprecations: choice.map(|choice| choice.deprecations).unwrap_or_default(),
    }
}

/// Which of them is deprecated. The messages are for `show` and JSON: they have many lines.
fn deprecated(package: &Package, channel: Option<&Channel>, bundle: Option<&Bundle>) -> Vec<&'static str> {
    let all = [
        ("package", package.deprecation.is_some()),
        ("channel", channel.is_some_and(|channel| channel.deprecation.is_some())),
        ("bundle", bundle.is_some_and(|bundle| bundle.deprecation.is_some())),
    ];
    all.into_iter().filter_map(|(what, is)| is.then_some(what)).collect()
}

fn version(bundle: &Bundle) -> Option<&str> {
    Some(bundle.version_text.as_str()).filter(|text| !text.is_empty())
}

fn inside(package: &Package) -> Inside<'_> {
    let mut in_channels = BTreeSet::new();
    let channels = package.channels.values().map(|channel| channel_line(package, channel, &mut in_channels)).collect();
    let loose = package.bundles.values().filter(|bundle| !in_channels.contains(bundle.name.as_str()));
    let loose = loose.map(|bundle| BundleLine {
        deprecated: deprecated(package, None, Some(bundle)),
        ..bundle_line(&bundle.name, Some(bundle), None, Vec::new())
    });
    Inside {
        name: &package.name,
        default_channel: package.default_channel.as_deref(),
        deprecation: package.deprecation.as_deref(),
        channels,
        loose_bundles: ordered(loose.collect()),
        remarks: &package.remarks,
    }
}

fn channel_line<'a>(
    package: &'a Package,
    channel: &'a Channel,
    in_channels: &mut BTreeSet<&'a str>,
) -> ChannelLine<'a> {
    let head = graph::head(channel).ok();
    let skipped: BTreeSet<&str> = channel.entries.iter().flat_map(|entry| &entry.skips).map(String::as_str).collect();
    in_channels.extend(channel.entries.iter().map(|entry| entry.name.as_str()));
    let bundles = channel.entries.iter().map(|entry| {
        let bundle = package.bundles.get(&entry.name);
        let notes = [
            ("head", head == Some(&entry.name)),
            ("skipped", skipped.contains(entry.name.as_str())),
            ("not in the catalog", bundle.is_none()),
        ];
        let notes = notes.into_iter().filter_map(|(note, holds)| holds.then_some(note)).collect();
        let deprecated = deprecated(package, Some(channel), bundle);
        BundleLine { deprecated, ..bundle_line(&entry.name, bundle, Some(entry), notes) }
    });
    let deprecation = channel.deprecation.as_deref();
    ChannelLine { name: &channel.name, head, deprecation, bundles: ordered(bundles.collect()) }
}

fn bundle_line<'a>(
    name: &'a str,
    bundle: Option<&'a Bundle>,
    entry: Option<&'a Entry>,
    notes: Vec<&'static str>,
) -> BundleLine<'a> {
    BundleLine {
        name,
        version: bundle.and_then(version),
        image: bundle.and_then(|bundle| bundle.image.as_deref()),
        replaces: entry.and_then(|entry| entry.replaces.as_deref()),
        skips: entry.map(|entry| entry.skips.iter().map(String::as_str).collect()).unwrap_or_default(),
        skip_range: entry.and_then(|entry| entry.skip_range.as_deref()),
        deprecation: bundle.and_then(|bundle| bundle.deprecation.as_deref()),
        notes,
        deprecated: Vec::new(),
        order: bundle.and_then(|bundle| bundle.version.as_ref()),
    }
}

/// By version, the highest last; before them those that have none.
fn ordered(mut bundles: Vec<BundleLine<'_>>) -> Vec<BundleLine<'_>> {
    bundles.sort_by(|one, other| one.order.cmp(&other.order).then_with(|| one.name.cmp(other.name)));
    bundles
}

fn print_packages(out: &mut dyn Write, packages: &[PackageLine<'_>]) -> io::Result<()> {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let row = |line: &PackageLine<'_>| {
        vec![
            line.name.to_owned(),
            text(line.version.or(line.bundle)),
            text(line.channel),
            text(line.default_channel),
            text(line.head_version.or(line.head)),
            line.bundles.to_string(),
            line.deprecated.join(", "),
        ]
    };
    let rows: Vec<_> = packages.iter().map(row).collect();
    table::write(out, &["PACKAGE", "VERSION", "CHANNEL", "DEFAULT CHANNEL", "HEAD", "BUNDLES", "DEPRECATED"], &rows)
}

fn print_inside(out: &mut dyn Write, inside: &Inside<'_>) -> io::Result<()> {
    let channels = inside.channels.iter().map(|channel| (channel.name, &channel.bundles));
    let rows: Vec<_> = std::iter::once(("", &inside.loose_bundles))
        .chain(channels)
        .flat_map(|(channel, bundles)| bundles.iter().map(move |bundle| row(channel, bundle)))
        .collect();
    table::write(out, &["CHANNEL", "BUNDLE", "VERSION", "NOTES", "DEPRECATED"], &rows)
}

fn row(channel: &str, bundle: &BundleLine<'_>) -> Vec<String> {
    let version = bundle.version.unwrap_or_default();
    let (notes, deprecated) = (bundle.notes.join(", "), bundle.deprecated.join(", "));
    vec![channel.to_owned(), bundle.name.to_owned(), version.to_owned(), notes, deprecated]
}
