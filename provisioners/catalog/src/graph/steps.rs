//! The next step of an upgrade, and all of them.

use std::collections::{HashMap, HashSet};

use super::{Installed, head, skipped};
use crate::choose::{Choice, Request, choice, home, is_in, order};
use crate::{Bundle, Channel, Entry, Package, Range, Version};

/// The next safe step from what is installed, or `None` if there is none: one edge of one channel.
///
/// The channel is the one asked for; without one the default channel if that holds the installed bundle, else the first that
/// does, else (the bundle is gone from the catalog) the default one. The caller knows better, and should say, which channel
/// the installed bundle was chosen from.
///
/// A step leads to an entry that `replaces` or `skips` the installed bundle by name or whose `skipRange` holds its version,
/// so it is found even if the installed bundle is gone. Its bundle has an image, a version in the range asked for, and is
/// newer than the installed one: a step never goes down. Only if nobody knows the version of the installed bundle, neither
/// the caller nor the catalog, its edges by name are trusted as they are.
///
/// Of several steps, one to an entry that the channel skips comes last: the catalog asks to leave it out. Then come deprecated
/// bundles, then the head of the channel goes before the others, then the highest version.
pub fn successor<'a>(package: &'a Package, installed: Installed<'_>, request: &Request) -> Option<Choice<'a>> {
    let channel = followed(package, installed.name, request)?;
    let installed = Installed { version: known_version(package, installed), ..installed };
    let best = Edges::of(channel).best(package, installed, request.range.as_ref())?;
    Some(choice(package, best, Some(channel)))
}

/// The channel that upgrades of the bundle `installed` are looked for in; see [`successor`]. `None` if the catalog has none.
pub fn followed<'a>(package: &'a Package, installed: &str, request: &Request) -> Option<&'a Channel> {
    match &request.channel {
        Some(name) => package.channels.get(name),
        None => home(package, installed).or_else(|| package.channels.get(package.default_channel.as_ref()?)),
    }
}

/// The caller's word, and the catalog's where the caller has none, or has noted the same version without its release.
fn known_version<'a>(package: &'a Package, installed: Installed<'a>) -> Option<&'a Version> {
    let listed = package.bundles.get(installed.name).and_then(|bundle| bundle.version.as_ref());
    match (installed.version, listed) {
        (Some(given), Some(listed)) if given.release().is_none() && given.semver() == listed.semver() => Some(listed),
        (given, listed) => given.or(listed),
    }
}

/// The names of the bundles on the way from what is installed, one [`successor`] after the other, within one channel. It ends:
/// every step but the first is to a higher version than the one before, and the first leads to a known one.
pub fn upgrade_path(package: &Package, installed: Installed<'_>, request: &Request) -> Vec<String> {
    let Some(channel) = followed(package, installed.name, request) else { return Vec::new() };
    let edges = Edges::of(channel);
    let next = |installed| edges.best(package, installed, request.range.as_ref());
    let mut path = Vec::new();
    let mut step = next(Installed { version: known_version(package, installed), ..installed });
    while let Some(bundle) = step {
        path.push(bundle.name.clone());
        step = next(Installed { name: &bundle.name, version: bundle.version.as_ref() });
    }
    path
}

/// The edges of a channel. Looked up, since a path may be as long as the channel.
struct Edges<'a> {
    head: Option<&'a str>,
    skipped: HashSet<&'a str>,
    /// Entries that replace or skip the bundle of that name.
    by_name: HashMap<&'a str, Vec<&'a Entry>>,
    by_version: Vec<(Range, &'a Entry)>,
}

impl<'a> Edges<'a> {
    fn of(channel: &'a Channel) -> Self {
        let mut by_name: HashMap<&str, Vec<&Entry>> = HashMap::new();
        for entry in &channel.entries {
            for name in entry.replaces.iter().chain(&entry.skips) {
                by_name.entry(name).or_default().push(entry);
            }
        }
        let by_version = channel.entries.iter().filter_map(|entry| Some((entry.skipped_versions()?, entry)));
        Self {
            head: head(channel).ok(),
            skipped: skipped(channel).collect(),
            by_name,
            by_version: by_version.collect(),
        }
    }

    /// The best step within the range; see [`successor`].
    fn best<'p>(&self, package: &'p Package, installed: Installed<'_>, range: Option<&Range>) -> Option<&'p Bundle> {
        let preference = |bundle: &Bundle| {
            let name = bundle.name.as_str();
            (!self.skipped.contains(name), bundle.deprecation.is_none(), self.head == Some(name))
        };
        let bundles = self.entries(installed).filter_map(|entry| package.bundles.get(&entry.name));
        bundles
            .filter(|bundle| is_step(bundle, installed) && is_in(bundle, range))
            .max_by(|one, other| preference(one).cmp(&preference(other)).then_with(|| order(one, other)))
    }

    /// The entries that one edge leads to. One may come more than once.
    fn entries(&self, installed: Installed<'_>) -> impl Iterator<Item = &'a Entry> {
        let by_name = self.by_name.get(installed.name).into_iter().flatten().copied();
        let holds = move |range: &Range| installed.version.is_some_and(|version| range.contains(version));
        by_name.chain(self.by_version.iter().filter(move |(range, _)| holds(range)).map(|(_, entry)| *entry))
    }
}

/// Whether the bundle has an image, and is newer.
fn is_step(bundle: &Bundle, installed: Installed<'_>) -> bool {
    let is_newer = match (&bundle.version, installed.version) {
        (Some(version), Some(installed)) => version > installed,
        (version, None) => version.is_some(),
        (None, _) => false,
    };
    bundle.name != installed.name && bundle.image.is_some() && is_newer
}
