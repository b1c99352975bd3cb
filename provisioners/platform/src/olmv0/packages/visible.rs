//! The packages that a namespace sees: those of its own CatalogSources and of the global ones. Memory, but that a server of a catalog is
//! asked what it does not list: once for each package until it lists something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use rukpak_catalog::{Catalog, Package, graph};
use rukpak_crds::olmv0::CatalogSource;
use tokio::sync::Notify;

use super::super::catalog_source::known::Content;
use super::super::context::Context;
use crate::catalogs::{Listed, Server};

/// Packages of one server that are asked about at once.
const QUESTIONS: usize = 8;

/// A package of a CatalogSource.
#[derive(Clone)]
pub(super) struct Item {
    pub source: Arc<CatalogSource>,
    held: Held,
}

/// What keeps a package in memory.
#[derive(Clone)]
enum Held {
    /// By the catalog that it is a part of, which is shared.
    Catalog(Arc<Catalog>, String),
    Package(Arc<Package>),
}

impl Item {
    pub fn package(&self) -> Option<&Package> {
        match &self.held {
            Held::Catalog(catalog, name) => catalog.packages.get(name),
            Held::Package(package) => Some(package),
        }
    }

    #[cfg(test)]
    pub fn of(source: CatalogSource, package: Package) -> Self {
        Self { source: Arc::new(source), held: Held::Package(Arc::new(package)) }
    }
}

/// All that `namespace` sees, or all there is without one; only those that are `named` so, if it is said.
pub(super) async fn all(context: &Context, namespace: Option<&str>, named: Option<&str>) -> Vec<Item> {
    let mut items = Vec::new();
    for source in sources(context, namespace) {
        match content(context, &source) {
            None => {}
            Some(Content::Image { catalog, .. }) => {
                let wanted = catalog.packages.keys().filter(|name| named.is_none_or(|named| named == *name));
                let held = |name: &String| Held::Catalog(catalog.clone(), name.clone());
                items.extend(wanted.map(|name| Item { source: source.clone(), held: held(name) }));
            }
            Some(Content::Server { listed, server }) => {
                let packages = listed_by_server((&*listed, &server), named, &context.catalogs.news).await;
                let held = |package| Item { source: source.clone(), held: Held::Package(package) };
                items.extend(packages.into_iter().map(held));
            }
        }
    }
    items
}

/// The first of that name that `namespace` sees, of its own CatalogSources before the global ones.
pub(super) async fn one(context: &Context, namespace: &str, name: &str) -> Option<Item> {
    for source in sources(context, Some(namespace)) {
        let held = match content(context, &source) {
            Some(Content::Image { catalog, .. }) if catalog.packages.contains_key(name) => {
                Held::Catalog(catalog, name.to_owned())
            }
            Some(Content::Server { listed, server }) if listed.catalog.packages.contains_key(name) => {
                Held::Package(Arc::new(whole(&listed, &server, name, &context.catalogs.news).await?))
            }
            _ => continue,
        };
        return Some(Item { source, held });
    }
    None
}

/// By name, those of the namespace itself first.
fn sources(context: &Context, namespace: Option<&str>) -> Vec<Arc<CatalogSource>> {
    let mut sources = context.sources.state();
    let key = |source: &CatalogSource| (source.namespace().unwrap_or_default(), source.name_any());
    if let Some(asked) = namespace {
        sources.retain(|source| {
            let (own, _) = key(source);
            own == asked || own == context.global
        });
    }
    sources.sort_by_cached_key(|source| {
        let key = key(source);
        (namespace.is_some_and(|asked| asked != key.0), key)
    });
    sources
}

fn content(context: &Context, source: &CatalogSource) -> Option<Content> {
    context.catalogs.known.content(&(source.namespace().unwrap_or_default(), source.name_any()))
}

/// The packages with their default channels and deprecations, which a server says of one package at a time. Once it does not answer, the
/// others are as they are listed.
async fn listed_by_server(
    (listed, server): (&Listed, &Server),
    named: Option<&str>,
    news: &Arc<Notify>,
) -> Vec<Arc<Package>> {
    let wanted = listed.catalog.packages.keys().filter(|name| named.is_none_or(|named| named == *name));
    let wanted: Vec<String> = wanted.cloned().collect();
    let answers = &AtomicBool::new(true);
    let ask = |name: String| async move {
        if answers.load(Ordering::Relaxed) {
            match listed.package(&name, server, news).await {
                Ok(found) => return found,
                Err(_) => answers.store(false, Ordering::Relaxed),
            }
        }
        listed.catalog.packages.get(&name).cloned().map(Arc::new)
    };
    let found: Vec<Option<Arc<Package>>> = stream::iter(wanted).map(ask).buffered(QUESTIONS).collect().await;
    found.into_iter().flatten().collect()
}

/// The package with all that its server says of it and of the heads of its channels; what it does not say is left out.
async fn whole(listed: &Listed, server: &Server, name: &str, news: &Arc<Notify>) -> Option<Package> {
    let mut package = match listed.package(name, server, news).await {
        Ok(found) => (*found?).clone(),
        Err(_) => listed.catalog.packages.get(name)?.clone(),
    };
    let heads: Vec<(String, String)> = package
        .channels
        .values()
        .filter_map(|channel| Some((channel.name.clone(), graph::head(channel).ok()?.to_owned())))
        .collect();
    for (channel, head) in heads {
        let is_known = package.bundles.get(&head).is_none_or(|bundle| bundle.facts.install_modes.is_some());
        if is_known {
            continue;
        }
        let Ok(facts) = server.facts(&package, &channel, &head).await else { break };
        if let Some(bundle) = package.bundles.get_mut(&head) {
            bundle.facts = facts;
        }
    }
    Some(package)
}
