//! Documents to a catalog. Lenient where `opm validate` is strict: what is wrong with one package leaves the others alone.
//!
//! The order of documents does not count, because files are read at the same time. So where two documents say different
//! things under one name, neither is taken: nobody could know which one is meant. [`Package::remarks`] says so.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use super::{Bundle, Catalog, Channel, Icon, MAX_KEPT_BYTES, Package, weight};
use crate::document::{BundleDocument, Deprecation, Document};

/// Collects documents, in any order.
#[derive(Debug)]
pub struct Builder {
    packages: BTreeMap<String, Parts>,
    /// Schema of a template; of several the first by alphabet.
    template: Option<String>,
    kept_bytes: u64,
    maximum_bytes: u64,
}

/// What a catalog was told about a package. `None` where it was told different things.
#[derive(Debug, Default)]
struct Parts {
    /// One for all `olm.package` documents.
    default_channel: Option<Once<Option<String>>>,
    /// Of several the first by type and bytes.
    icon: Option<Arc<Icon>>,
    channels: BTreeMap<String, Once<Channel>>,
    bundles: BTreeMap<String, Once<Bundle>>,
    /// By schema and name; of several messages the first by alphabet.
    deprecations: BTreeMap<(String, String), String>,
    remarks: Vec<String>,
}

/// What one name stands for.
#[derive(Debug)]
enum Once<T> {
    Known(T),
    Conflict,
}

impl<T: PartialEq> Once<T> {
    fn tell(slot: Slot<'_, String, Self>, value: T) {
        match slot {
            Slot::Vacant(vacant) => {
                vacant.insert(Self::Known(value));
            }
            Slot::Occupied(mut known) => known.get_mut().tell_again(&value),
        }
    }

    fn tell_again(&mut self, value: &T) {
        if matches!(self, Self::Known(known) if known != value) {
            *self = Self::Conflict;
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::with_maximum(MAX_KEPT_BYTES)
    }
}

impl Builder {
    /// Keeps at most so many bytes.
    pub(crate) fn with_maximum(maximum_bytes: u64) -> Self {
        Self { packages: BTreeMap::new(), template: None, kept_bytes: 0, maximum_bytes }
    }

    /// Whether there was more than [`MAX_KEPT_BYTES`] to keep. From then on nothing is kept, so [`Builder::finish`] gives a part
    /// of the catalog, which nobody should use.
    pub fn is_full(&self) -> bool {
        self.kept_bytes > self.maximum_bytes
    }

    /// Adds a document. One that names no package or has no name is left out.
    pub fn add(&mut self, document: Document) {
        if document.is_template() {
            self.add_template(document);
            return;
        }
        let Some(package) = document.package() else { return };
        if matches!(document, Document::Other { .. }) {
            return;
        }
        let is_new = !self.packages.contains_key(package);
        self.kept_bytes += weight_of(&document) + if is_new { weight::package(package) } else { 0 };
        if self.is_full() {
            return;
        }
        if is_new {
            self.packages.insert(package.to_owned(), Parts::default());
        }
        let Some(parts) = self.packages.get_mut(package) else { return };
        match document {
            Document::Package { default_channel, icon, .. } => {
                parts.icon = parts.icon.take().into_iter().chain(icon).min();
                match &mut parts.default_channel {
                    Some(known) => known.tell_again(&default_channel),
                    unknown => *unknown = Some(Once::Known(default_channel)),
                }
            }
            Document::Channel { channel, .. } => parts.add_channel(channel),
            Document::Bundle(document) => parts.add_bundle(*document),
            Document::Deprecations { entries, .. } => parts.add_deprecations(entries),
            Document::Other { .. } => {}
        }
    }

    /// The catalog, and the schema of a template if one was among the documents: input to a renderer.
    pub fn finish(self) -> (Catalog, Option<String>) {
        let packages = self.packages.into_iter().filter_map(|(name, parts)| {
            let package = parts.finish(&name)?;
            Some((name, package))
        });
        (Catalog { packages: packages.collect() }, self.template)
    }

    fn add_template(&mut self, document: Document) {
        let Document::Other { schema, .. } = document else { return };
        if self.template.as_ref().is_none_or(|known| *known > schema) {
            self.template = Some(schema);
        }
    }
}

impl Parts {
    fn add_channel(&mut self, mut channel: Channel) {
        if !channel.name.is_empty() {
            channel.entries.shrink_to_fit();
            Once::tell(self.channels.entry(channel.name.clone()), channel);
        }
    }

    fn add_bundle(&mut self, document: BundleDocument) {
        let BundleDocument { mut bundle, faults, package, identities, .. } = document;
        if bundle.name.is_empty() {
            return;
        }
        let of = |what: &str| format!("bundle {:?}: {what}", bundle.name);
        self.remarks.extend(faults.iter().map(|fault| of(fault)));
        if bundle.version.is_none() {
            self.remarks.push(of(&format!("{:?} is no version: it cannot be chosen by it", bundle.version_text)));
        }
        if let Some(other) = identities.iter().find(|identity| identity.package != package) {
            self.remarks.push(of(&format!("its property olm.package names the package {:?}", other.package)));
        }
        shrink(&mut bundle);
        Once::tell(self.bundles.entry(bundle.name.clone()), bundle);
    }

    fn add_deprecations(&mut self, entries: Vec<Deprecation>) {
        for Deprecation { schema, name, message } in entries {
            match self.deprecations.entry((schema, name)) {
                Slot::Vacant(vacant) => {
                    vacant.insert(message);
                }
                Slot::Occupied(mut known) if *known.get() > message => {
                    known.insert(message);
                }
                Slot::Occupied(_) => {}
            }
        }
    }

    /// `None` if nothing but deprecations was told: those of a package that was pruned.
    fn finish(mut self, name: &str) -> Option<Package> {
        if self.default_channel.is_none() && self.channels.is_empty() && self.bundles.is_empty() {
            return None;
        }
        let mut remarks = std::mem::take(&mut self.remarks);
        let default_channel = match self.default_channel {
            Some(Once::Conflict) => {
                remarks.push("it is declared several times with different default channels: none is used".to_owned());
                None
            }
            Some(Once::Known(channel)) => channel,
            None => None,
        };
        let mut package = Package {
            name: name.to_owned(),
            default_channel,
            channels: agreed("channel", self.channels, &mut remarks),
            bundles: agreed("bundle", self.bundles, &mut remarks),
            icon: self.icon,
            ..Package::default()
        };
        deprecate(&mut package, self.deprecations);
        remarks.sort();
        remarks.dedup();
        remarks.shrink_to_fit();
        package.remarks = remarks;
        Some(package)
    }
}

/// What the document may add to the catalog. Counted again where it is there already.
fn weight_of(document: &Document) -> u64 {
    match document {
        Document::Package { default_channel, icon, .. } => {
            default_channel.as_deref().map_or(0, weight::text) + icon.as_deref().map_or(0, weight::icon)
        }
        Document::Channel { channel, .. } => {
            weight::channel(&channel.name) + channel.entries.iter().map(weight::entry).sum::<u64>()
        }
        Document::Bundle(document) => weight::bundle(&document.bundle) + weight::texts(&document.faults),
        Document::Deprecations { entries, .. } => {
            let of = |entry: &Deprecation| weight::deprecation(&entry.schema, &entry.name, &entry.message);
            entries.iter().map(of).sum()
        }
        Document::Other { .. } => 0,
    }
}

fn agreed<T>(what: &str, all: BTreeMap<String, Once<T>>, remarks: &mut Vec<String>) -> BTreeMap<String, T> {
    let known = all.into_iter().filter_map(|(name, once)| match once {
        Once::Known(value) => Some((name, value)),
        Once::Conflict => {
            remarks.push(format!("{what} {name:?} is declared several times with different content: none is used"));
            None
        }
    });
    known.collect()
}

/// What is deprecated but not there is passed over: catalogs are pruned by tools that leave deprecations alone.
fn deprecate(package: &mut Package, deprecations: BTreeMap<(String, String), String>) {
    for ((schema, name), message) in deprecations {
        let slot = match schema.as_str() {
            "olm.package" => Some(&mut package.deprecation),
            "olm.channel" => package.channels.get_mut(&name).map(|channel| &mut channel.deprecation),
            "olm.bundle" => package.bundles.get_mut(&name).map(|bundle| &mut bundle.deprecation),
            _ => None,
        };
        if let Some(slot) = slot {
            *slot = Some(message);
        }
    }
}

/// Lists grew by doubling: there are tens of thousands of them.
fn shrink(bundle: &mut Bundle) {
    let facts = &mut bundle.facts;
    facts.provides.shrink_to_fit();
    facts.requires.shrink_to_fit();
    facts.requires_packages.shrink_to_fit();
    facts.constraints.shrink_to_fit();
    facts.owned_api_services.shrink_to_fit();
    if let Some(modes) = &mut facts.install_modes {
        modes.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "build/tests.rs"]
mod tests;
