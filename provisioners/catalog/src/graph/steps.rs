//! The next step of an upgrade, and all of them.

use std::collections::HashSet;

use super::{Installed, head, skipped};
use crate::choose::{Choice, Request, choice, home, is_in, order};
use crate::{Bundle, Channel, Entry, Package, Version};

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
    let channel = match &request.channel {
        Some(name) => package.channels.get(name)?,
        None => home(package, installed.name).or_else(|| package.channels.get(package.default_channel.as_ref()?))?,
    };
    let installed = Installed { version: known_version(package, installed), ..installed };
    let skipped: HashSet<&str> = skipped(channel).collect();
    let head = head(channel).ok();
    let preference = |bundle: &Bundle| {
        (!skipped.contains(bundle.name.as_str()), bundle.deprecation.is_none(), head == Some(bundle.name.as_str()))
    };
    let best = steps(package, channel, installed)
        .filter(|bundle| is_in(bundle, request.range.as_ref()))
        .max_by(|one, other| preference(one).cmp(&preference(other)).then_with(|| order(one, other)))?;
    Some(choice(package, best, Some(channel)))
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
    let mut request = request.clone();
    let mut path = Vec::new();
    let mut step = successor(package, installed, &request);
    while let Some(Choice { bundle, channel, .. }) = step {
        path.push(bundle.name.clone());
        request.channel = channel.map(str::to_owned);
        let at = Installed { name: &bundle.name, version: bundle.version.as_ref() };
        step = successor(package, at, &request);
    }
    path
}

/// Newer bundles with an image that one edge of the channel leads to.
fn steps<'a>(package: &'a Package, channel: &'a Channel, installed: Installed<'_>) -> impl Iterator<Item = &'a Bundle> {
    let reached = channel.entries.iter().filter(move |entry| leads_from(entry, installed));
    let bundles = reached.filter_map(|entry| package.bundles.get(&entry.name));
    bundles.filter(move |bundle| bundle.name != installed.name && bundle.image.is_some()).filter(move |bundle| {
        match (&bundle.version, installed.version) {
            (Some(version), Some(installed)) => version > installed,
            (version, None) => version.is_some(),
            (None, _) => false,
        }
    })
}

fn leads_from(entry: &Entry, installed: Installed<'_>) -> bool {
    let in_range = || match (installed.version, entry.skipped_versions()) {
        (Some(version), Some(range)) => range.contains(version),
        _ => false,
    };
    let replaces = entry.replaces.as_deref() == Some(installed.name);
    replaces || entry.skips.iter().any(|skipped| skipped == installed.name) || in_range()
}
