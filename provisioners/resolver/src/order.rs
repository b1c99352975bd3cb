//! The order of a channel, by its edges. Versions play no part.

use std::collections::{HashMap, HashSet};

use crate::Entry;

/// The entries of a channel from its head along `replaces`, newest first. Those that another entry skips are left out, and so
/// is what the chain does not reach.
///
/// # Errors
/// There is no head, more than one chain, or a cycle: in upstream's words.
pub fn newest_first<'a>(package: &str, channel: &str, entries: &'a [Entry]) -> Result<Vec<&'a Entry>, String> {
    let by_name: HashMap<&str, &Entry> = entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let replaced: HashSet<&str> =
        entries.iter().flat_map(|entry| entry.replaces.iter().chain(&entry.skips)).map(String::as_str).collect();
    let skipped: HashSet<&str> = entries.iter().flat_map(|entry| &entry.skips).map(String::as_str).collect();

    let heads: Vec<&Entry> = entries.iter().filter(|entry| !replaced.contains(entry.name.as_str())).collect();
    if heads.is_empty() && !entries.is_empty() {
        return Err(format!(
            "no channel heads (entries not replaced by another entry) found in channel {channel:?} of package {package:?}"
        ));
    }
    let mut chains = Vec::new();
    for head in heads {
        let (mut chain, mut visited, mut next) = (Vec::new(), HashSet::new(), Some(head));
        while let Some(entry) = next {
            if !visited.insert(entry.name.as_str()) {
                return Err(format!(
                    "a cycle exists in the chain of replacement beginning with {:?} in channel {channel:?} of package {package:?}",
                    head.name
                ));
            }
            if !skipped.contains(entry.name.as_str()) {
                chain.push(entry);
            }
            next = entry.replaces.as_deref().and_then(|name| by_name.get(name).copied());
        }
        chains.push(chain);
    }
    if chains.len() > 1 {
        return Err(format!(
            "a unique replacement chain within a channel is required to determine the relative order between channel entries, but \
             {} replacement chains were found in channel {channel:?} of package {package:?}: {}",
            chains.len(),
            described(&chains)
        ));
    }
    Ok(chains.pop().unwrap_or_default())
}

fn described(chains: &[Vec<&Entry>]) -> String {
    let ends = |chain: &Vec<&Entry>| match chain.as_slice() {
        [] => String::new(),
        [only] => only.name.clone(),
        [first, .., last] => format!("{}...{}", first.name, last.name),
    };
    chains.iter().map(ends).collect::<Vec<_>>().join(", ")
}
