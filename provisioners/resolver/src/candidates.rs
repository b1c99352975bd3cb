//! The nodes that meet a request or a constraint, the preferred one first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::answer::Missing;
use crate::world::{CatalogName, Node, Nodes, Place};
use crate::{Constraint, Request};

/// A channel of a package of a catalog, in the order in which they are looked at.
type Group<'w> = (usize, &'w str, &'w str);

/// The nodes that meet a request, without what is installed: an edge from it leads to each, if there is something installed.
///
/// A channel without an order is left out, with its problem in `remarks`, unless it is the one that is asked for or the last.
pub(crate) fn of_request(
    nodes: &Nodes<'_>,
    request: &Request,
    remarks: &mut BTreeSet<String>,
) -> Result<Vec<usize>, Missing> {
    let catalogs: Vec<usize> = by_preference(nodes, None)
        .into_iter()
        .filter(|index| request.catalog.as_ref().is_none_or(|name| *name == nodes.world.catalogs[*index].name))
        .collect();
    if catalogs.iter().all(|index| nodes.world.catalogs[*index].packages.is_empty()) {
        return Err(Missing::Catalog);
    }
    let offered: Vec<(usize, &crate::Package)> = catalogs
        .iter()
        .filter_map(|index| Some((*index, nodes.world.catalogs[*index].packages.get(&request.package)?)))
        .collect();
    if offered.is_empty() {
        return Err(Missing::Package);
    }

    let installed = request.installed.as_deref().and_then(|name| nodes.installed(name));
    let starting = request.starting.as_deref().filter(|_| installed.is_none());
    let (mut found, mut has_channel, mut last_problem) = (Vec::new(), false, None);
    for (catalog, package) in offered {
        let mut channels: Vec<&String> = package.channels.keys().collect();
        channels.sort_by_key(|name| (Some(*name) != package.default_channel.as_ref(), *name));
        for channel in channels.into_iter().filter(|name| request.channel.as_ref().is_none_or(|asked| asked == *name)) {
            has_channel = true;
            let group = (catalog, request.package.as_str(), channel.as_str());
            // A bundle that is named needs no order, and may be one that the channel skips.
            if let Some(starting) = starting {
                found.extend(members(nodes, group).filter(|index| nodes.all[*index].name == starting));
                continue;
            }
            match ordered(nodes, group) {
                Ok(order) => found.extend(order),
                Err(problem) if request.channel.is_some() => return Err(Missing::Order(problem)),
                Err(problem) => last_problem = Some(problem),
            }
        }
    }
    match last_problem {
        Some(problem) if found.is_empty() => return Err(Missing::Order(problem)),
        problem => remarks.extend(problem),
    }
    if !has_channel || found.is_empty() {
        return Err(if has_channel && starting.is_some() { Missing::Name } else { Missing::Channel });
    }

    if let Some(range) = &request.range {
        let is_in =
            |index: &usize| nodes.all[*index].facts.version.as_ref().is_some_and(|version| range.contains(version));
        found.retain(is_in);
        if found.is_empty() {
            return Err(Missing::Version);
        }
    }
    if let Some(installed) = installed {
        let Node { name, facts, .. } = nodes.all[installed];
        found.retain(|index| nodes.all[*index].replaces(name, facts.version.as_ref()));
    }
    Ok(deprecated_last(nodes, found))
}

/// The nodes that meet a constraint of a bundle from `own`: what is installed, then the own catalog, then the others.
///
/// Channels are ordered as a whole before the constraint is applied, so an entry that its channel skips is never taken. A channel
/// without an order has no candidates; the caller finds its problem in `remarks`.
pub(crate) fn of_constraint(
    nodes: &Nodes<'_>,
    constraint: &Constraint,
    own: Option<&CatalogName>,
    remarks: &mut BTreeSet<String>,
) -> Vec<usize> {
    let meeting = matches(nodes, constraint);
    let mut groups: BTreeMap<Group<'_>, bool> = BTreeMap::new();
    let mut found: Vec<usize> = Vec::new();
    for index in &meeting {
        match nodes.all[*index].place {
            Place::Installed => found.push(*index),
            Place::Offered { catalog, package, channel, is_default, .. } => {
                groups.insert((catalog, package, channel), is_default);
            }
        }
    }
    for catalog in by_preference(nodes, own) {
        let mut of: Vec<(Group<'_>, bool)> = groups
            .iter()
            .filter(|(group, _)| group.0 == catalog)
            .map(|(group, is_default)| (*group, *is_default))
            .collect();
        of.sort_by_key(|(group, is_default)| (!is_default, *group));
        for (group, _) in of {
            match ordered(nodes, group) {
                Ok(sorted) => found.extend(sorted.iter().filter(|index| meeting.binary_search(index).is_ok())),
                Err(problem) => {
                    remarks.insert(problem);
                }
            }
        }
    }
    deprecated_last(nodes, found)
}

fn deprecated_last(nodes: &Nodes<'_>, mut found: Vec<usize>) -> Vec<usize> {
    found.sort_by_key(|index| matches!(nodes.all[*index].place, Place::Offered { entry, .. } if entry.is_deprecated));
    found
}

/// All nodes that meet a constraint, by their number.
fn matches(nodes: &Nodes<'_>, constraint: &Constraint) -> Vec<usize> {
    let fits = |index: &usize| nodes.all[*index].facts.meets(constraint);
    match narrowest(nodes, constraint) {
        Some(few) => few.iter().copied().filter(fits).collect(),
        None => (0..nodes.all.len()).filter(fits).collect(),
    }
}

/// An index that holds every node which meets the constraint, if there is one.
fn narrowest<'a>(nodes: &'a Nodes<'_>, constraint: &Constraint) -> Option<&'a [usize]> {
    match constraint {
        Constraint::Package { name, .. } => Some(nodes.by_package.get(name.as_str()).map_or(&[], Vec::as_slice)),
        Constraint::Gvk(gvk) => Some(nodes.by_gvk.get(gvk).map_or(&[], Vec::as_slice)),
        Constraint::All(members) => {
            members.iter().filter_map(|member| narrowest(nodes, member)).min_by_key(|few| few.len())
        }
        Constraint::Label(_) | Constraint::Cel { .. } | Constraint::Any(_) | Constraint::Not(_) => None,
    }
}

/// The nodes of a channel, in no order.
fn members(nodes: &Nodes<'_>, (catalog, package, channel): Group<'_>) -> impl Iterator<Item = usize> {
    let is_member = move |index: &usize| {
        matches!(nodes.all[*index].place, Place::Offered { catalog: other, package: of, channel: in_channel, .. }
            if (other, of, in_channel) == (catalog, package, channel))
    };
    (0..nodes.all.len()).filter(is_member)
}

/// The nodes of a channel, newest first.
fn ordered<'a>(nodes: &'a Nodes<'a>, group: Group<'a>) -> Result<&'a [usize], String> {
    match nodes.channels.get(&group) {
        Some(Ok(order)) => Ok(order),
        Some(Err(problem)) => Err(problem.clone()),
        None => Ok(&[]),
    }
}

/// All catalogs: the own one, then by priority, then those of the namespace, then by name.
fn by_preference(nodes: &Nodes<'_>, own: Option<&CatalogName>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.world.catalogs.len()).collect();
    order.sort_by_key(|index| {
        let catalog = &nodes.world.catalogs[*index];
        let is_near = catalog.name.namespace == nodes.world.namespace;
        (own != Some(&catalog.name), Reverse(catalog.priority), !is_near, &catalog.name)
    });
    order
}
