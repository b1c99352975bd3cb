//! What a resolution is given: catalogs, what is installed, what is asked for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rukpak_catalog::model::Gvk;
use rukpak_catalog::{Range, Version};

use crate::{Facts, newest_first};

/// Everything that there is.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// All that may be chosen from.
    pub catalogs: Vec<Catalog>,
    /// All that is installed, whoever did it.
    pub installed: Vec<Installed>,
    /// The namespace of what is installed; part of identifiers only.
    pub namespace: String,
}

/// Name and namespace of a catalog. Catalogs of the cluster have no namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogName {
    /// Its namespace, or empty.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A catalog, as far as a resolution reads it.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Whose it is.
    pub name: CatalogName,
    /// The higher goes first.
    pub priority: i32,
    /// Packages by name.
    pub packages: BTreeMap<String, Package>,
}

/// A package of a catalog.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// The channel that goes before the others.
    pub default_channel: Option<String>,
    /// Entries of each channel, by its name. Their order has no meaning.
    pub channels: BTreeMap<String, Vec<Entry>>,
}

/// A bundle in a channel.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The bundle that it replaces.
    pub replaces: Option<String>,
    /// Bundles that it replaces as well.
    pub skips: Vec<String>,
    /// Versions that it replaces.
    pub skip_range: Option<Range>,
    /// Whether the catalog advises against it, its channel or its package: it is chosen last.
    pub is_deprecated: bool,
    /// Shared by the channels that have the bundle.
    pub facts: Arc<Facts>,
}

/// A bundle that is installed.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// Its name.
    pub name: String,
    /// What it is, provides and requires.
    pub facts: Arc<Facts>,
}

/// A package that somebody asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Who asks: names are unique, and decide where nothing else does.
    pub name: String,
    /// The package.
    pub package: String,
    /// Only this catalog.
    pub catalog: Option<CatalogName>,
    /// Only this channel.
    pub channel: Option<String>,
    /// Only versions in this range.
    pub range: Option<Range>,
    /// Only this bundle, as long as nothing is installed.
    pub starting: Option<String>,
    /// The bundle that was installed for the request. If it is gone, the request counts as new.
    pub installed: Option<String>,
}

/// Where a node comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'w> {
    Offered { catalog: usize, package: &'w str, channel: &'w str, is_default: bool, entry: &'w Entry },
    Installed,
}

/// A bundle in one channel of one catalog, or one that is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'w> {
    pub name: &'w str,
    pub facts: &'w Facts,
    pub place: Place<'w>,
}

/// All nodes, and where to find them.
pub(crate) struct Nodes<'w> {
    pub world: &'w World,
    pub all: Vec<Node<'w>>,
    pub by_package: HashMap<&'w str, Vec<usize>>,
    pub by_gvk: BTreeMap<&'w Gvk, Vec<usize>>,
    /// Nodes of a channel newest first, or why there is no order, by catalog, package and channel.
    pub channels: BTreeMap<(usize, &'w str, &'w str), Result<Vec<usize>, String>>,
}

impl<'w> Nodes<'w> {
    pub fn of(world: &'w World) -> Self {
        let mut nodes = Self {
            world,
            all: Vec::new(),
            by_package: HashMap::new(),
            by_gvk: BTreeMap::new(),
            channels: BTreeMap::new(),
        };
        for installed in &world.installed {
            nodes.add(Node { name: &installed.name, facts: &installed.facts, place: Place::Installed });
        }
        for (catalog, source) in world.catalogs.iter().enumerate() {
            for (package, offered) in &source.packages {
                for (channel, entries) in &offered.channels {
                    let is_default = offered.default_channel.as_ref() == Some(channel);
                    let first = nodes.all.len();
                    for entry in entries {
                        let place = Place::Offered { catalog, package, channel, is_default, entry };
                        nodes.add(Node { name: &entry.name, facts: &entry.facts, place });
                    }
                    let places: HashMap<&str, usize> =
                        entries.iter().zip(first..).map(|(entry, place)| (entry.name.as_str(), place)).collect();
                    let order = newest_first(package, channel, entries).map(|order| {
                        order.iter().filter_map(|entry| places.get(entry.name.as_str()).copied()).collect()
                    });
                    nodes.channels.insert((catalog, package, channel), order);
                }
            }
        }
        nodes
    }

    fn add(&mut self, node: Node<'w>) {
        let index = self.all.len();
        for (package, _) in &node.facts.packages {
            let of = self.by_package.entry(package).or_default();
            if of.last() != Some(&index) {
                of.push(index);
            }
        }
        for gvk in &node.facts.provides {
            self.by_gvk.entry(gvk).or_default().push(index);
        }
        self.all.push(node);
    }

    /// The installed bundle of that name.
    pub fn installed(&self, name: &str) -> Option<usize> {
        let installed = &self.all[..self.world.installed.len()];
        installed.iter().position(|node| node.name == name)
    }
}

impl Node<'_> {
    /// Whether the node may replace what is installed.
    pub fn replaces(&self, installed: &str, version: Option<&Version>) -> bool {
        let Place::Offered { entry, .. } = self.place else { return false };
        entry.replaces.as_deref() == Some(installed)
            || entry.skips.iter().any(|skipped| skipped == installed)
            || entry.skip_range.as_ref().zip(version).is_some_and(|(range, version)| range.contains(version))
    }
}
