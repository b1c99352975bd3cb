//! How much memory takes what is kept of a catalog, about: bytes of text, and what holds them. Short names have a weight of
//! their own. A list of empty texts, or a package for each bundle, takes many times the room that it has on the wire.

use std::mem::size_of;

use super::{Bundle, Channel, Entry, Facts, Gvk, Icon, Package, RequiredPackage};

/// The most that is kept of a catalog: 256 MiB, some eight times what the largest published ones take. One of 600 packages,
/// 12,000 bundles and 24,000 entries, 145 MiB of JSON, takes some 30 MiB.
pub const MAX_KEPT_BYTES: u64 = 256 * 1024 * 1024;

/// What an allocation takes beside its bytes.
const ALLOCATION: usize = 16;

/// Places in a node of a map. The first entry of a map takes a whole node, others take some two places each.
const PLACES: usize = 11;

pub(crate) fn text(text: &str) -> u64 {
    if text.is_empty() { 0 } else { (text.len() + ALLOCATION) as u64 }
}

/// The items of a list.
pub(crate) fn texts(list: &[String]) -> u64 {
    items::<String>(list.len()) + list.iter().map(|item| text(item)).sum::<u64>()
}

/// A package without anything in it, and its places for the first channel and the first bundle.
pub(crate) fn package(name: &str) -> u64 {
    let first = PLACES * (size_of::<(String, Channel)>() + size_of::<(String, Bundle)>());
    2 * (place::<Package>() + text(name)) + first as u64
}

/// The picture of a package.
pub(crate) fn icon(icon: &Icon) -> u64 {
    items::<Icon>(1) + text(&icon.media_type) + (icon.bytes.len() + ALLOCATION) as u64
}

/// A channel without its entries.
pub(crate) fn channel(name: &str) -> u64 {
    2 * (place::<Channel>() + text(name))
}

/// An entry, in a list that may have room for as many again.
pub(crate) fn entry(entry: &Entry) -> u64 {
    let Entry { name, replaces, skips, skip_range } = entry;
    items::<Entry>(2) + text(name) + optional(replaces.as_ref()) + texts(skips) + optional(skip_range.as_ref())
}

/// A bundle with its facts.
pub(crate) fn bundle(bundle: &Bundle) -> u64 {
    let Bundle { name, image, version: _, version_text, facts, deprecation } = bundle;
    let texts = [image, deprecation].map(|text| optional(text.as_ref())).iter().sum::<u64>();
    // The version is another copy of its text.
    2 * (place::<Bundle>() + text(name) + text(version_text)) + texts + facts_of(facts)
}

/// What is told of one deprecation, until the catalog is put together.
pub(crate) fn deprecation(schema: &str, name: &str, message: &str) -> u64 {
    2 * items::<[String; 3]>(1) + text(schema) + text(name) + text(message)
}

fn facts_of(facts: &Facts) -> u64 {
    let Facts { install_modes, owned_api_services, constraints, .. } = facts;
    let lists = texts(install_modes.as_deref().unwrap_or_default()) + texts(owned_api_services) + texts(constraints);
    let apis = facts.provides.iter().chain(&facts.requires);
    let apis: u64 = apis.map(|api| items::<Gvk>(1) + text(&api.group) + text(&api.version) + text(&api.kind)).sum();
    let packages = facts.requires_packages.iter();
    let packages: u64 = packages.map(|of| items::<RequiredPackage>(1) + text(&of.name) + text(&of.range)).sum();
    let Facts { min_kube_version, max_openshift_version, display_name, provider, provider_url, .. } = facts;
    let single = [min_kube_version, max_openshift_version, display_name, provider, provider_url];
    let known = facts.architectures.len() + facts.operating_systems.len() + facts.features.len();
    lists + apis + packages + items::<&str>(known) + single.iter().map(|text| optional(text.as_ref())).sum::<u64>()
}

fn optional(given: Option<&String>) -> u64 {
    given.map_or(0, |given| text(given))
}

fn place<T>() -> u64 {
    size_of::<(String, T)>() as u64
}

fn items<T>(count: usize) -> u64 {
    (count * size_of::<T>()) as u64
}
