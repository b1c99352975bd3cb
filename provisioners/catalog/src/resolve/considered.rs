//! Which bundles of one package will do.

use std::collections::HashSet;

use super::{Installed, Reason, Request};
use crate::version::Constraint;
use crate::{Bundle, Channel, Entry, Package, Version};

/// A package as far as a request looks at it.
pub(super) struct Considered<'a> {
    request: Request<'a>,
    /// Bundles of the channels that are asked for; `None`: all.
    in_channels: Option<HashSet<&'a str>>,
    /// Bundles that may take the place of what is installed; `None`: all.
    successors: Option<HashSet<&'a str>>,
    /// Its version, if it can be parsed.
    installed: Option<Version>,
}

impl<'a> Considered<'a> {
    pub(super) fn new(package: &'a Package, request: Request<'a>) -> Self {
        // Edges of other channels are not seen either.
        let is_asked = |channel: &&Channel| request.channels.is_empty() || request.channels.contains(&channel.name);
        let channels: Vec<&Channel> = package.channels.values().filter(is_asked).collect();
        let entries = || channels.iter().flat_map(|channel| &channel.entries);
        let in_channels = (!request.channels.is_empty()).then(|| entries().map(|entry| entry.name.as_str()).collect());
        let installed = request.installed.and_then(|installed| Version::parse(installed.version).ok());
        let successors = request.installed.filter(|_| !request.is_self_certified).map(|from| {
            let follows = |entry: &&Entry| replaces(entry, from, installed.as_ref());
            entries().filter(follows).map(|entry| entry.name.as_str()).collect()
        });
        Self { request, in_channels, successors, installed }
    }

    /// Why the bundle will not do, if it will not. It will if it has an image, is in a channel and in the range that are asked for, and an
    /// edge leads to it from what is installed, unless it is that already.
    pub(super) fn obstacle(&self, bundle: &Bundle) -> Option<Reason> {
        let name = bundle.name.as_str();
        let in_range = |range: &Constraint| bundle.version.as_ref().is_some_and(|version| range.contains(version));
        if bundle.image.is_none() {
            return Some(Reason::NoImage);
        }
        if self.in_channels.as_ref().is_some_and(|names| !names.contains(name)) {
            return Some(Reason::Channel);
        }
        if !self.request.version.is_none_or(in_range) {
            return Some(Reason::Range);
        }
        let from = self.request.installed?;
        let is_successor = self.successors.as_ref().is_none_or(|names| names.contains(name));
        (!is_successor && !self.is_same(bundle, from)).then(|| Reason::NoUpgrade { from: from.name.to_owned() })
    }

    /// The same version is no upgrade, whatever its name; in another release it is one. Which release is installed may not be known.
    fn is_same(&self, bundle: &Bundle, from: Installed<'_>) -> bool {
        let (Some(version), Some(installed)) = (&bundle.version, &self.installed) else { return false };
        let is_release = from.release.is_none_or(|release| version.release() == Some(release));
        is_release && (bundle.version_text == from.version || version.semver() == installed.semver())
    }
}

/// Whether an edge leads to the entry from what is installed.
fn replaces(entry: &Entry, from: Installed<'_>, version: Option<&Version>) -> bool {
    entry.replaces.as_deref() == Some(from.name)
        || entry.skips.iter().any(|skipped| skipped == from.name)
        || entry.skipped_versions().zip(version).is_some_and(|(range, from)| range.contains(from))
}
