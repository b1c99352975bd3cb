//! Where a bundle is in the graph: an entry of a channel that has a bundle. Pure; refusals are upstream's.

use std::ops::Bound::{Included, Unbounded};

use tonic::Status;

use crate::model::{Bundle, Channel, Entry, Package};
use crate::{Catalog, graph};

/// The place of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) package: String,
    pub(super) channel: String,
    /// Its index in the channel.
    pub(super) entry: usize,
}

/// What is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'c> {
    pub(super) package: &'c Package,
    pub(super) channel: &'c Channel,
    pub(super) entry: &'c Entry,
    pub(super) bundle: &'c Bundle,
}

pub(super) fn find<'c>(catalog: &'c Catalog, place: &Place) -> Option<Spot<'c>> {
    let package = catalog.packages.get(&place.package)?;
    let channel = package.channels.get(&place.channel)?;
    let entry = channel.entries.get(place.entry)?;
    Some(Spot { package, channel, entry, bundle: package.bundles.get(&entry.name)? })
}

/// Everything that is somewhere.
pub(super) fn all(catalog: &Catalog) -> impl Iterator<Item = Spot<'_>> {
    let packages = catalog.packages.values();
    let channels = packages.flat_map(|package| package.channels.values().map(move |channel| (package, channel)));
    channels.flat_map(|(package, channel)| {
        channel
            .entries
            .iter()
            .filter_map(move |entry| Some(Spot { package, channel, entry, bundle: package.bundles.get(&entry.name)? }))
    })
}

/// The place after `last`, or the first one.
pub(super) fn after(catalog: &Catalog, last: Option<&Place>) -> Option<Place> {
    let from = last.map_or(Unbounded, |last| Included(last.package.as_str()));
    catalog.packages.range::<str, _>((from, Unbounded)).find_map(|(_, package)| {
        let last = last.filter(|last| last.package == package.name);
        let from = last.map_or(Unbounded, |last| Included(last.channel.as_str()));
        package.channels.range::<str, _>((from, Unbounded)).find_map(|(_, channel)| {
            let last = last.filter(|last| last.channel == channel.name);
            let first = last.map_or(0, |last| last.entry + 1);
            let mut left = channel.entries.iter().enumerate().skip(first);
            let (entry, _) = left.find(|(_, entry)| package.bundles.contains_key(&entry.name))?;
            Some(Place { package: package.name.clone(), channel: channel.name.clone(), entry })
        })
    })
}

pub(super) fn package<'c>(catalog: &'c Catalog, name: &str) -> Result<&'c Package, Status> {
    catalog.packages.get(name).ok_or_else(|| Status::unknown(format!("package {name:?} not found")))
}

/// A bundle by its name.
pub(super) fn named(catalog: &Catalog, package_name: &str, channel_name: &str, name: &str) -> Result<Place, Status> {
    let (package, channel) = channel(catalog, package_name, channel_name)?;
    let found = position(package, channel, |entry| entry.name == name);
    let missing = || format!("package {package_name:?}, channel {channel_name:?}, bundle {name:?} not found");
    found.ok_or_else(|| Status::unknown(missing()))
}

pub(super) fn head(catalog: &Catalog, package_name: &str, channel_name: &str) -> Result<Place, Status> {
    let (package, channel) = channel(catalog, package_name, channel_name)?;
    let name = graph::head(channel).map_err(|error| Status::unknown(error.to_string()))?;
    let found = position(package, channel, |entry| entry.name == name);
    found.ok_or_else(|| {
        Status::unknown(format!("no entry found for package {package_name:?}, channel {channel_name:?}"))
    })
}

/// What replaces or skips the bundle `name` in a channel.
pub(super) fn replacing(
    catalog: &Catalog,
    package_name: &str,
    channel_name: &str,
    name: &str,
) -> Result<Place, Status> {
    let (package, channel) = channel(catalog, package_name, channel_name)?;
    let found = position(package, channel, |entry| is_replacement(entry, name));
    found.ok_or_else(|| {
        Status::unknown(format!("no entry found for package {package_name:?}, channel {channel_name:?}"))
    })
}

/// Whether an entry replaces or skips the bundle `name`.
pub(super) fn is_replacement(entry: &Entry, name: &str) -> bool {
    entry.replaces.as_deref() == Some(name) || entry.skips.iter().any(|skip| skip == name)
}

/// The first entry of a channel that has a bundle and `is` the one.
pub(super) fn position(package: &Package, channel: &Channel, is: impl Fn(&Entry) -> bool) -> Option<Place> {
    let found = channel.entries.iter().position(|entry| is(entry) && package.bundles.contains_key(&entry.name));
    found.map(|entry| Place { package: package.name.clone(), channel: channel.name.clone(), entry })
}

fn channel<'c>(catalog: &'c Catalog, package_name: &str, name: &str) -> Result<(&'c Package, &'c Channel), Status> {
    let package = package(catalog, package_name)?;
    let missing = || Status::unknown(format!("package {package_name:?}, channel {name:?} not found"));
    Ok((package, package.channels.get(name).ok_or_else(missing)?))
}
