//! The graph of upgrades: heads, successors, what is wrong with it. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{Channel, Entry, Version};

mod faults;
mod steps;
#[cfg(test)]
mod tests;

pub use faults::faults;
pub use steps::{followed, successor, upgrade_path};

/// What is installed, and is to be upgraded.
#[derive(Clone, Copy, Debug)]
pub struct Installed<'a> {
    /// Name of the bundle; it may be gone from the catalog.
    pub name: &'a str,
    /// Its version.
    pub version: Option<&'a Version>,
}

/// Why a channel's chain of `replaces` is broken; the words are those of `opm validate`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing is without an incoming edge.
    #[error("no channel head found in graph")]
    NoHead,
    /// Several are. Sorted.
    #[error("multiple channel heads found in graph: {}", .0.join(", "))]
    Heads(Vec<String>),
    /// The walk came back to where it was.
    #[error("detected cycle in replaces chain of upgrade graph: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// Entries that are neither reached nor skipped. Sorted.
    #[error("channel contains one or more stranded bundles: {}", .0.join(", "))]
    Stranded(Vec<String>),
}

/// The head of the channel: the entry that no entry replaces or skips. `skipRange` does not count; an entry that replaces
/// or skips itself does.
pub fn head(channel: &Channel) -> Result<&str, Error> {
    let replaced = channel.entries.iter().filter_map(|entry| entry.replaces.as_deref());
    let covered: HashSet<&str> = replaced.chain(skipped(channel)).collect();
    let names = channel.entries.iter().map(|entry| entry.name.as_str());
    let heads: BTreeSet<&str> = names.filter(|name| !covered.contains(name)).collect();
    match (heads.len(), heads.first()) {
        (1, Some(head)) => Ok(head),
        (0, _) => Err(Error::NoHead),
        _ => Err(Error::Heads(owned(heads))),
    }
}

/// Checks the channel as `opm validate` does: it has one head, and following `replaces` from there reaches every entry that
/// is not skipped, none twice. The walk ends at an entry that is skipped, and the last one may replace a bundle that is not
/// in the channel. Not checked: whether the channel has any entry at all (then there is no head), and what edges lead to.
pub fn check(channel: &Channel) -> Result<(), Error> {
    let skipped: HashSet<&str> = skipped(channel).collect();
    let entries: HashMap<&str, &Entry> = channel.entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let mut chain = vec![head(channel)?];
    let mut places = HashMap::from([(chain[0], 0)]);
    let mut current = entries.get(chain[0]);
    while let Some(next) = current.and_then(|entry| entry.replaces.as_deref()).filter(|next| !skipped.contains(next)) {
        chain.push(next);
        if let Some(start) = places.insert(next, chain.len() - 1) {
            return Err(Error::Cycle(owned(chain.drain(start..))));
        }
        current = entries.get(next);
    }
    let is_stranded = |name: &&str| !places.contains_key(name) && !skipped.contains(name);
    let stranded: BTreeSet<&str> = entries.keys().copied().filter(is_stranded).collect();
    if stranded.is_empty() { Ok(()) } else { Err(Error::Stranded(owned(stranded))) }
}

/// Names that some entry skips. One may be named more than once.
fn skipped(channel: &Channel) -> impl Iterator<Item = &str> {
    channel.entries.iter().flat_map(|entry| entry.skips.iter().map(String::as_str))
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}
