//! The bundle for a request. Pure.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::{Bundle, Channel, Package, Range, graph};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

/// What is asked of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Only bundles of this channel; without a range, its head.
    pub channel: Option<String>,
    /// Only versions in this range.
    pub range: Option<Range>,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// The channel it was chosen from, if one was asked for; else the default channel if that holds it, else the first
    /// by name that does.
    pub channel: Option<&'a str>,
    /// What is deprecated about it: package, channel, bundle; in words, with the catalog's message.
    pub deprecations: Vec<String>,
}

/// Why nothing was chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No bundle of the package fits. The words are upstream's where nothing but a package was asked for.
    #[error("failed to find candidate olm.bundles from the {package} package{asked}")]
    NoCandidate {
        /// The package.
        package: String,
        /// Empty, or what was asked for besides, and what there is instead.
        asked: String,
    },
    /// The graph of the channel has no single head.
    #[error("package {package:?}: {finding}")]
    Graph {
        /// The package.
        package: String,
        /// The channel, and what `opm validate` says of it.
        finding: String,
    },
}

/// How many versions or channels an error lists.
const MAX_LISTED: usize = 8;

/// Chooses a bundle to begin with.
///
/// Without a channel and a range: the highest version of all bundles (upstream's rule). With a channel alone: its head.
/// With a range: the highest version in it, bundles that are not deprecated first.
///
/// Bundles without an image are never chosen: there would be nothing to fetch. One whose version cannot be parsed loses
/// against any other, and is never in a range; upstream keeps it if it happens to come first. Equal versions are decided
/// by their release, their build metadata and at last their name, so that the order of a catalog does not matter.
pub fn choose<'a>(package: &'a Package, request: &Request) -> Result<Choice<'a>, Error> {
    let channel = request.channel.as_deref().map(|name| channel_named(package, name)).transpose()?;
    let bundle = match (channel, &request.range) {
        (Some(channel), None) => head(package, channel)?,
        (channel, range) => highest(package, channel, range.as_ref())?,
    };
    Ok(choice(package, bundle, channel))
}

/// The bundle `name` as if it had been chosen, from the channel `channel` if that holds it. `None` if the package has no such
/// bundle.
pub fn described<'a>(package: &'a Package, name: &str, channel: Option<&str>) -> Option<Choice<'a>> {
    let bundle = package.bundles.get(name)?;
    let asked = package.channels_of(name).find(|of| Some(of.name.as_str()) == channel);
    Some(choice(package, bundle, asked))
}

/// The choice of a bundle, with its channel and everything that is deprecated about it.
pub(crate) fn choice<'a>(package: &'a Package, bundle: &'a Bundle, asked: Option<&'a Channel>) -> Choice<'a> {
    let channel = asked.or_else(|| home(package, &bundle.name));
    Choice {
        bundle,
        channel: channel.map(|channel| channel.name.as_str()),
        deprecations: deprecations(package, bundle, channel),
    }
}

/// The channel that a bundle is thought to be from if nobody said: the default one if that holds it, else the first.
pub(crate) fn home<'a>(package: &'a Package, bundle: &str) -> Option<&'a Channel> {
    let is_default = |channel: &&Channel| Some(&channel.name) == package.default_channel.as_ref();
    package.channels_of(bundle).find(is_default).or_else(|| package.channels_of(bundle).next())
}

/// The order of candidates: any version before none, then that of versions, then the name.
pub(crate) fn order(one: &Bundle, other: &Bundle) -> Ordering {
    one.version.cmp(&other.version).then_with(|| one.name.cmp(&other.name))
}

fn channel_named<'a>(package: &'a Package, name: &str) -> Result<&'a Channel, Error> {
    package.channels.get(name).ok_or_else(|| {
        let there = listed(package.channels.keys().map(String::as_str), "there are no channels", "there are ");
        no_candidate(package, format!(": no channel {name:?}; {there}"))
    })
}

fn head<'a>(package: &'a Package, channel: &Channel) -> Result<&'a Bundle, Error> {
    let name = graph::head(channel).map_err(|error| Error::Graph {
        package: package.name.clone(),
        finding: format!(
            "channel {:?}: {error}; choose by a version range in place of the channel's head",
            channel.name
        ),
    })?;
    let fault =
        |problem: &str| no_candidate(package, format!(" in channel {:?}: its head {name:?} {problem}", channel.name));
    let bundle = package.bundles.get(name).ok_or_else(|| fault("is not in the catalog"))?;
    match bundle.image {
        Some(_) => Ok(bundle),
        None => Err(fault("has no image: its manifests lie in the catalog, and only images can be installed")),
    }
}

fn highest<'a>(package: &'a Package, channel: Option<&Channel>, range: Option<&Range>) -> Result<&'a Bundle, Error> {
    let entries: Option<HashSet<&str>> =
        channel.map(|channel| channel.entries.iter().map(|entry| entry.name.as_str()).collect());
    let is_asked = |bundle: &&Bundle| entries.as_ref().is_none_or(|names| names.contains(bundle.name.as_str()));
    let fits = |bundle: &&Bundle| is_in(bundle, range);
    let candidates = || package.bundles.values().filter(is_asked);
    let installable = candidates().filter(|bundle| bundle.image.is_some()).filter(fits);
    let preferred = |bundle: &Bundle| range.is_some() && bundle.deprecation.is_none();
    let chosen = installable.max_by(|one, other| preferred(one).cmp(&preferred(other)).then_with(|| order(one, other)));
    chosen.ok_or_else(|| no_candidate(package, nothing(&candidates().collect::<Vec<_>>(), channel, range)))
}

pub(crate) fn is_in(bundle: &Bundle, range: Option<&Range>) -> bool {
    range.is_none_or(|range| bundle.version.as_ref().is_some_and(|version| range.contains(version)))
}

/// What was asked for in vain, and what there is. Empty if there is nothing at all and nothing was asked for.
fn nothing(candidates: &[&Bundle], channel: Option<&Channel>, range: Option<&Range>) -> String {
    let range_asked = range.map_or(String::new(), |range| format!(" matching version {:?}", range.as_str()));
    let channel_asked = channel.map_or(String::new(), |channel| format!(" in channel {:?}", channel.name));
    let asked = range_asked + &channel_asked;
    let mut fitting = candidates.iter().filter(|bundle| is_in(bundle, range)).peekable();
    if fitting.peek().is_some() {
        let names = listed(fitting.map(|bundle| bundle.name.as_str()), "", "");
        return format!(
            "{asked}: no image is given for {names}: manifests that lie in the catalog cannot be installed"
        );
    }
    if asked.is_empty() {
        return asked;
    }
    let mut sorted = candidates.to_vec();
    sorted.sort_by(|one, other| order(one, other));
    sorted.dedup_by(|one, other| one.version_text == other.version_text);
    let versions =
        sorted.iter().map(|bundle| if bundle.version_text.is_empty() { &bundle.name } else { &bundle.version_text });
    format!("{asked}: {}", listed(versions.map(String::as_str), "the catalog has none", "the catalog has "))
}

/// The last few of a sorted list: the highest versions.
fn listed<'a>(names: impl Iterator<Item = &'a str>, none: &str, some: &str) -> String {
    let names: Vec<&str> = names.collect();
    match names.len().checked_sub(MAX_LISTED) {
        _ if names.is_empty() => none.to_owned(),
        None | Some(0) => format!("{some}{}", names.join(", ")),
        Some(more) => format!("{some}{} and {more} more", names[more..].join(", ")),
    }
}

fn no_candidate(package: &Package, asked: String) -> Error {
    Error::NoCandidate { package: package.name.clone(), asked }
}

fn deprecations(package: &Package, bundle: &Bundle, channel: Option<&Channel>) -> Vec<String> {
    let of = |kind: &str, name: &str, message: &Option<String>| {
        message.as_ref().map(|message| match message.trim() {
            "" => format!("{kind} {name:?} is deprecated"),
            message => format!("{kind} {name:?} is deprecated: {message}"),
        })
    };
    let channel = channel.and_then(|channel| of("channel", &channel.name, &channel.deprecation));
    let package = of("package", &package.name, &package.deprecation);
    [package, channel, of("bundle", &bundle.name, &bundle.deprecation)].into_iter().flatten().collect()
}
