//! What is answered from memory: packages, and which entries replace a bundle or provide an API. Pure; refusals are upstream's.

use std::collections::HashSet;

use prost::Message;
use tonic::Status;

use super::place::{self, Place, Spot, is_replacement};
use crate::registry::message::{
    Channel, ChannelEntry, Deprecation, GetAllReplacementsRequest, GroupVersionKind, Package, PackageName,
};
use crate::{Catalog, graph};

/// What an answer takes in memory, at most: 4 MiB, which is 20,000 entries. An API of the largest published catalogs has some hundreds.
pub(super) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Every package, by its name.
pub(super) fn packages(catalog: &Catalog) -> Result<Vec<PackageName>, Status> {
    collect(catalog.packages.keys().map(|name| PackageName { name: name.clone() }))
}

/// A package, alone. A channel without a head is left out: upstream serves no catalog that has one.
pub(super) fn package(catalog: &Catalog, name: &str) -> Result<Vec<Package>, Status> {
    let package = place::package(catalog, name)?;
    let channels = package.channels.values().filter_map(|channel| {
        Some(Channel {
            name: channel.name.clone(),
            csv_name: graph::head(channel).ok()?.to_owned(),
            deprecation: deprecation(channel.deprecation.as_ref()),
        })
    });
    let package = Package {
        name: package.name.clone(),
        channels: collect(channels)?,
        default_channel_name: package.default_channel.clone().unwrap_or_default(),
        deprecation: deprecation(package.deprecation.as_ref()),
    };
    Ok(vec![package])
}

/// Says that something is deprecated, if it is.
pub(super) fn deprecation(message: Option<&String>) -> Option<Deprecation> {
    message.map(|message| Deprecation { message: message.clone() })
}

/// Entries that replace a bundle.
pub(super) fn that_replace(catalog: &Catalog, wanted: &GetAllReplacementsRequest) -> Result<Vec<ChannelEntry>, Status> {
    let name = wanted.csv_name.as_str();
    let found = place::all(catalog).filter(|spot| is_replacement(spot.entry, name));
    let entries = found.map(|spot| entry(spot, spot.entry.replaces.as_deref().unwrap_or_default()));
    some(entries, || format!("no channel entries found that replace {name}"))
}

/// Entries whose bundle provides an API, one for each edge.
pub(super) fn that_provide(catalog: &Catalog, api: &GroupVersionKind) -> Result<Vec<ChannelEntry>, Status> {
    let found = place::all(catalog).filter(|spot| is_provider(*spot, api));
    some(found.flat_map(|spot| edges(spot, |_| true)), || no_entries(api))
}

/// The same of the heads of channels, with edges within their channel.
pub(super) fn latest_that_provide(catalog: &Catalog, api: &GroupVersionKind) -> Result<Vec<ChannelEntry>, Status> {
    let found = heads(catalog).filter(|spot| is_provider(*spot, api));
    let entries = found.flat_map(|spot| {
        let members: HashSet<&str> = spot.channel.entries.iter().map(|entry| entry.name.as_str()).collect();
        edges(spot, move |skip| members.contains(skip))
    });
    some(entries, || no_entries(api))
}

/// The head of the default channel of the first package, by name, in which that one provides an API.
pub(super) fn default_provider(catalog: &Catalog, api: &GroupVersionKind) -> Result<Place, Status> {
    let is_default = |spot: &Spot<'_>| spot.package.default_channel.as_ref() == Some(&spot.channel.name);
    let found = heads(catalog).find(|spot| is_default(spot) && is_provider(*spot, api));
    let place =
        found.and_then(|spot| place::position(spot.package, spot.channel, |entry| entry.name == spot.entry.name));
    place.ok_or_else(|| Status::unknown(format!("no entry found that provides {}", shown(api))))
}

fn heads(catalog: &Catalog) -> impl Iterator<Item = Spot<'_>> {
    catalog.packages.values().flat_map(|package| {
        package.channels.values().filter_map(move |channel| {
            let head = graph::head(channel).ok()?;
            let entry = channel.entries.iter().find(|entry| entry.name == head)?;
            Some(Spot { package, channel, entry, bundle: package.bundles.get(head)? })
        })
    })
}

fn is_provider(spot: Spot<'_>, api: &GroupVersionKind) -> bool {
    let provides = &spot.bundle.facts.provides;
    provides.iter().any(|gvk| gvk.group == api.group && gvk.version == api.version && gvk.kind == api.kind)
}

/// What an entry replaces, and each that it skips and `is_told`.
fn edges<'c>(spot: Spot<'c>, is_told: impl Fn(&str) -> bool + 'c) -> impl Iterator<Item = ChannelEntry> + 'c {
    let replaces = spot.entry.replaces.as_deref().unwrap_or_default();
    let skips = spot.entry.skips.iter().map(String::as_str);
    let skipped = skips.filter(move |skip| *skip != replaces && is_told(skip));
    std::iter::once(replaces).chain(skipped).map(move |replaces| entry(spot, replaces))
}

fn entry(spot: Spot<'_>, replaces: &str) -> ChannelEntry {
    ChannelEntry {
        package_name: spot.package.name.clone(),
        channel_name: spot.channel.name.clone(),
        bundle_name: spot.bundle.name.clone(),
        replaces: replaces.to_owned(),
    }
}

/// Entries, of which there has to be one.
fn some(found: impl Iterator<Item = ChannelEntry>, none: impl FnOnce() -> String) -> Result<Vec<ChannelEntry>, Status> {
    let entries = collect(found)?;
    if entries.is_empty() { Err(Status::unknown(none())) } else { Ok(entries) }
}

/// What is found, unless it is too much.
fn collect<A: Message>(found: impl Iterator<Item = A>) -> Result<Vec<A>, Status> {
    let mut left = MAX_BYTES;
    let counted = found.map(|one| {
        let bytes = (one.encoded_len() + size_of::<A>()) as u64;
        left = left.checked_sub(bytes).ok_or_else(|| Status::resource_exhausted("the answer would be too long"))?;
        Ok::<_, Status>(one)
    });
    counted.collect()
}

fn no_entries(api: &GroupVersionKind) -> String {
    format!("no channel entries found that provide {}", shown(api))
}

fn shown(GroupVersionKind { group, version, kind, .. }: &GroupVersionKind) -> String {
    format!("group:{group:?} version:{version:?} kind:{kind:?}")
}
