//! Everything that `opm validate` checks, all findings at once. Pure.
//!
//! Upstream's command has two stages and stops at the first finding of the first one. Here all findings come out, each with
//! upstream's words; those of the second stage stand behind the path that upstream prints as a tree:
//! `invalid package "p": invalid channel "c": no channel head found in graph`.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{BundleDocument, Deprecation, Document};
use crate::read::{Located, Position};
use crate::{Bundle, Channel};

mod bundles;
mod deprecations;
mod packages;
#[cfg(test)]
mod tests;

/// Something wrong with a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The package it is about, if it is about one.
    pub package: Option<String>,
    /// What is wrong, in the words of `opm validate`.
    pub message: String,
    /// The documents it is about, where their names do not tell: those of one name, of none, and templates. Sorted.
    pub places: Vec<Position>,
}

/// All findings, sorted by package and message, each once. The order of the documents does not count, but for the numbers of
/// deprecations that name no package.
pub fn validate(documents: &[Located]) -> Vec<Finding> {
    let catalog = Index::of(documents);
    let mut findings = Findings::default();
    templates(documents, &catalog, &mut findings);
    packages::check(&catalog, &mut findings);
    bundles::check(&catalog, &mut findings);
    deprecations::check(&catalog, &mut findings);
    findings.finish()
}

/// What is wrong with the graph of a package, in the words of [`validate`]: its channels, their entries, the default channel.
///
/// For those who have a catalog and not its documents. What the catalog contradicts itself about is left out of the package, so
/// that is missing here, and [`crate::Package::remarks`] tells why.
pub fn graph(package: &crate::Package) -> Vec<Finding> {
    let mut findings = Findings::default();
    packages::check_graph(package, &mut findings);
    findings.finish()
}

/// As [`graph`], of one channel.
pub fn channel(package: &str, channel: &Channel) -> Vec<Finding> {
    let mut findings = Findings::default();
    packages::check_channel(package, channel, &mut findings);
    findings.finish()
}

/// All documents by package.
#[derive(Debug, Default)]
struct Index<'a> {
    packages: BTreeMap<&'a str, Package<'a>>,
    /// In the order of the documents.
    deprecations: Vec<(&'a str, &'a [Deprecation], &'a Position)>,
}

/// What stands under the name of one package.
#[derive(Debug, Default)]
struct Package<'a> {
    /// Default channels of all its `olm.package` documents; empty if there is none.
    declared: Vec<(Option<&'a str>, &'a Position)>,
    channels: Vec<(&'a Channel, &'a Position)>,
    bundles: Vec<(&'a BundleDocument, &'a Position)>,
    channel_names: BTreeSet<&'a str>,
    bundle_names: BTreeSet<&'a str>,
}

impl<'a> Index<'a> {
    fn of(documents: &'a [Located]) -> Self {
        let mut index = Self::default();
        for Located { place, document } in documents {
            match document {
                Document::Package { name, default_channel, .. } => {
                    index.package(name).declared.push((default_channel.as_deref(), place));
                }
                Document::Channel { package, channel } => {
                    let package = index.package(package);
                    package.channels.push((channel, place));
                    package.channel_names.insert(&channel.name);
                }
                Document::Bundle(document) => {
                    let package = index.package(&document.package);
                    package.bundles.push((document, place));
                    package.bundle_names.insert(&document.bundle.name);
                }
                Document::Deprecations { package, entries } => index.deprecations.push((package, entries, place)),
                Document::Other { .. } => {}
            }
        }
        index
    }

    fn package(&mut self, name: &'a str) -> &mut Package<'a> {
        self.packages.entry(name).or_default()
    }
}

impl<'a> Package<'a> {
    fn is_declared(&self) -> bool {
        !self.declared.is_empty()
    }

    /// Names of bundles that channels name.
    fn entries(&self) -> BTreeSet<&'a str> {
        entries(self.channels.iter().map(|(channel, _)| *channel))
    }
}

/// By package and message, with the places.
#[derive(Debug, Default)]
struct Findings {
    found: BTreeMap<(Option<String>, String), Vec<Position>>,
}

impl Findings {
    /// Adds a finding about a package; about none if its name is empty.
    fn add(&mut self, package: &str, message: String) {
        self.add_at(package, message, &[]);
    }

    /// The same, with the documents it is about.
    fn add_at(&mut self, package: &str, message: String, places: &[&Position]) {
        let package = Some(package.to_owned()).filter(|package| !package.is_empty());
        self.found.entry((package, message)).or_default().extend(places.iter().map(|&place| place.clone()));
    }

    fn finish(self) -> Vec<Finding> {
        let finding = |((package, message), mut places): (_, Vec<Position>)| {
            places.sort_by(|one, other| (&one.file, one.document).cmp(&(&other.file, other.document)));
            places.dedup();
            Finding { package, message, places }
        };
        self.found.into_iter().map(finding).collect()
    }
}

/// A name of a bundle, with the package and channel that upstream's tree has above it.
fn in_bundle(package: &str, bundle: &Bundle) -> String {
    format!("invalid package {package:?}: invalid bundle {:?}", bundle.name)
}

fn in_channel(package: &str, channel: &str) -> String {
    format!("invalid package {package:?}: invalid channel {channel:?}")
}

/// Names of bundles that channels name.
fn entries<'a>(channels: impl Iterator<Item = &'a Channel>) -> BTreeSet<&'a str> {
    channels.flat_map(|channel| channel.entries.iter().map(|entry| entry.name.as_str())).collect()
}

/// The names that several documents have, and where these are.
fn several<'a>(named: impl Iterator<Item = (&'a str, &'a Position)>) -> BTreeMap<&'a str, Vec<&'a Position>> {
    let mut places: BTreeMap<&str, Vec<&Position>> = BTreeMap::new();
    for (name, place) in named {
        places.entry(name).or_default().push(place);
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// The items that come more than once, each once.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    names.filter(|name| !known.insert(*name)).collect()
}

/// Templates are no findings beside a catalog: upstream passes them over like any other schema.
fn templates(documents: &[Located], catalog: &Index<'_>, findings: &mut Findings) {
    if !catalog.packages.is_empty() {
        return;
    }
    for Located { place, document } in documents.iter().filter(|located| located.document.is_template()) {
        if let Document::Other { schema, .. } = document {
            findings.add_at("", format!("{schema} is a template and no catalog: render it first"), &[place]);
        }
    }
}
