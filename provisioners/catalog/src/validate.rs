//! Everything that `opm validate` checks, all findings at once. Pure.
//!
//! Upstream's command has two stages and stops at the first finding of the first one. Here all findings come out, each with
//! upstream's words; those of the second stage stand behind the path that upstream prints as a tree:
//! `invalid package "p": invalid channel "c": no channel head found in graph`.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{BundleDocument, Deprecation, Document};
use crate::{Bundle, Channel};

mod bundles;
mod deprecations;
mod packages;
#[cfg(test)]
mod tests;

/// Something wrong with a catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The package it is about, if it is about one.
    pub package: Option<String>,
    /// What is wrong, in the words of `opm validate`.
    pub message: String,
}

/// All findings, sorted by package and message, each once. The order of the documents does not count, but for the numbers of
/// deprecations that name no package.
pub fn validate(documents: &[Document]) -> Vec<Finding> {
    let catalog = Index::of(documents);
    let mut findings = Findings::default();
    templates(documents, &catalog, &mut findings);
    packages::check(&catalog, &mut findings);
    bundles::check(&catalog, &mut findings);
    deprecations::check(&catalog, &mut findings);
    findings.found.into_iter().collect()
}

/// All documents by package.
#[derive(Debug, Default)]
struct Index<'a> {
    packages: BTreeMap<&'a str, Package<'a>>,
    /// In the order of the documents.
    deprecations: Vec<(&'a str, &'a [Deprecation])>,
}

/// What stands under the name of one package.
#[derive(Debug, Default)]
struct Package<'a> {
    /// Default channels of all its `olm.package` documents; empty if there is none.
    declared: Vec<Option<&'a str>>,
    channels: Vec<&'a Channel>,
    bundles: Vec<&'a BundleDocument>,
    channel_names: BTreeSet<&'a str>,
    bundle_names: BTreeSet<&'a str>,
}

impl<'a> Index<'a> {
    fn of(documents: &'a [Document]) -> Self {
        let mut index = Self::default();
        for document in documents {
            match document {
                Document::Package { name, default_channel } => {
                    index.package(name).declared.push(default_channel.as_deref());
                }
                Document::Channel { package, channel } => {
                    let package = index.package(package);
                    package.channels.push(channel);
                    package.channel_names.insert(&channel.name);
                }
                Document::Bundle(document) => {
                    let package = index.package(&document.package);
                    package.bundles.push(document);
                    package.bundle_names.insert(&document.bundle.name);
                }
                Document::Deprecations { package, entries } => index.deprecations.push((package, entries)),
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
        self.channels.iter().flat_map(|channel| channel.entries.iter().map(|entry| entry.name.as_str())).collect()
    }
}

#[derive(Debug, Default)]
struct Findings {
    found: BTreeSet<Finding>,
}

impl Findings {
    /// Adds a finding about a package; about none if its name is empty.
    fn add(&mut self, package: &str, message: String) {
        let package = Some(package.to_owned()).filter(|package| !package.is_empty());
        self.found.insert(Finding { package, message });
    }
}

/// A name of a bundle, with the package and channel that upstream's tree has above it.
fn in_bundle(package: &str, bundle: &Bundle) -> String {
    format!("invalid package {package:?}: invalid bundle {:?}", bundle.name)
}

fn in_channel(package: &str, channel: &str) -> String {
    format!("invalid package {package:?}: invalid channel {channel:?}")
}

/// The items that come more than once, each once.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    names.filter(|name| !known.insert(*name)).collect()
}

/// Templates are no findings beside a catalog: upstream passes them over like any other schema.
fn templates(documents: &[Document], catalog: &Index<'_>, findings: &mut Findings) {
    if !catalog.packages.is_empty() {
        return;
    }
    for document in documents.iter().filter(|document| document.is_template()) {
        if let Document::Other { schema, .. } = document {
            findings.add("", format!("{schema} is a template and no catalog: render it first"));
        }
    }
}
