//! Where packages come from: catalogs that are configured here, CatalogSources of OLM, and ClusterCatalogs. The first two are loaded
//! when they are first asked for, and again when their revision is another; ClusterCatalogs are stored here anyway.

mod cached;
mod cluster;
mod error;
mod sources;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::runtime::reflector::Store;
use rukpak_catalog::model::Facts;
use rukpak_catalog::origin::{self, Loader, Origin};
use rukpak_catalog::{Bundle, Catalog, Package};
use rukpak_resolver::set::Offered;
use rukpak_runtime::error::Chain;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use self::cached::Cached;
pub(crate) use self::cluster::{ClusterCatalogs, in_status, named};
pub(crate) use self::error::Error;
use self::sources::Sources;
pub(crate) use self::sources::{Authorities, Listed, Server};
use super::args::{CatalogSourceName, ConfiguredCatalog};
use super::foreign::CatalogSource;
use super::logins::Logins;
use super::metrics;
use super::policies::{Verdicts, Verified};

/// The priority of the catalogs that are asked in order, among ClusterCatalogs: that of one whose spec says nothing.
const LISTED: i32 = 0;

/// Which catalogs are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    Any,
    /// Those that a PlatformOperator means by this name.
    Named(&'a str),
    /// The one that a status calls so: no other that has come to be called alike.
    Origin(&'a str),
}

/// Which of the catalogs that lie here are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtHand {
    /// Those that are configured as well, which only PlatformOperators see.
    All,
    ClusterCatalogs,
}

/// A package in the catalog that provides it.
#[derive(Clone)]
pub(crate) struct Found {
    /// What a status calls the catalog: its name, that of a CatalogSource with its namespace, that of a ClusterCatalog with its kind.
    pub catalog: String,
    package: Held,
    /// Whom to ask for more than that.
    server: Option<Server>,
    /// Whether only images that are named by digest may be installed of it.
    pub requires_digest: bool,
}

/// A package is as large as its history is long: it is borrowed, never copied.
#[derive(Clone)]
enum Held {
    /// It is in this catalog, under this name.
    InCatalog(Arc<Catalog>, String),
    Alone(Arc<Package>),
}

pub(crate) struct Catalogs {
    configured: Vec<Configured>,
    /// CatalogSources, and whether the cluster has any.
    pub sources: Sources,
    pub cluster: ClusterCatalogs,
    require_digests: bool,
    loader: Arc<Loader>,
    logins: Arc<Logins>,
    verdicts: Arc<Verdicts>,
    /// Told when a catalog can be had again.
    news: Arc<Notify>,
}

struct Configured {
    catalog: ConfiguredCatalog,
    cached: Cached<Catalog, origin::Revision, Error>,
}

impl Catalogs {
    pub fn new(
        configured: Vec<ConfiguredCatalog>,
        (sources, authorities): (Vec<CatalogSourceName>, Authorities),
        require_digests: bool,
        (loader, logins, verdicts): (Arc<Loader>, Arc<Logins>, Arc<Verdicts>),
        store: Store<CatalogSource>,
        cluster: ClusterCatalogs,
    ) -> Self {
        let news = Arc::new(Notify::new());
        let configured =
            configured.into_iter().map(|catalog| Configured { catalog, cached: Cached::new(news.clone()) }).collect();
        let sources = Sources::new(sources, authorities, store, &news);
        Self { configured, sources, cluster, require_digests, loader, logins, verdicts, news }
    }

    /// Moves whenever one of the catalogs that are asked for `wanted` may say something else than before. That others come, go
    /// and fail is not its business.
    pub fn epoch(&self, wanted: Wanted<'_>) -> u64 {
        let configured = self.asked_configured(wanted).map(|configured| configured.cached.changes());
        let sources = self.asked_sources(wanted).map(|source| self.sources.changes(source));
        configured.chain(sources).fold(self.cluster.state(wanted), u64::wrapping_add)
    }

    /// What is said of the image of the catalog that a status calls `name`.
    pub fn verified(&self, name: &str) -> Verified {
        let Some(configured) = self.asked_configured(Wanted::Origin(name)).next() else {
            return self.cluster.verified(name);
        };
        match &configured.catalog.origin {
            Origin::Image(reference) => self.verdicts.of(reference),
            Origin::Folder(_) | Origin::Http(_) => Verified::Uncovered,
        }
    }

    /// Returns when a catalog can be had again that could not.
    pub async fn recovered(&self) {
        self.news.notified().await;
    }

    /// The package `name` of the catalog of the highest priority that is `wanted` and has it. One that cannot be asked is an error, not a
    /// reason to take the next: what is installed must not depend on who answers today.
    pub async fn find(&self, name: &str, wanted: Wanted<'_>) -> Result<Found, Error> {
        let found = self.search(name, wanted).await;
        self.count();
        found
    }

    async fn search(&self, name: &str, wanted: Wanted<'_>) -> Result<Found, Error> {
        let (mut asked, cluster) = (Vec::new(), self.cluster.asked(wanted));
        let priorities: BTreeSet<i32> = cluster.iter().map(|catalog| catalog.spec.priority).chain([LISTED]).collect();
        for priority in priorities.into_iter().rev() {
            let mut found = Vec::new();
            if priority == LISTED {
                found.extend(self.first_listed(name, wanted, &mut asked).await?);
            }
            for catalog in cluster.iter().filter(|catalog| catalog.spec.priority == priority) {
                let content = self.cluster.content(catalog).await?;
                let catalog = cluster::called(catalog);
                if content.packages.contains_key(name) {
                    found.push(self.in_catalog(catalog.clone(), content, name));
                }
                asked.push(catalog);
            }
            if found.len() > 1 {
                let catalogs = found.into_iter().map(|found| found.catalog).collect();
                return Err(Error::Tie { package: name.to_owned(), priority, catalogs });
            }
            if let Some(found) = found.pop() {
                return Ok(found);
            }
        }
        if asked.is_empty() {
            return Err(self.none(wanted));
        }
        Err(Error::NoPackage { package: name.to_owned(), asked })
    }

    /// The package of the first configured catalog or CatalogSource that is `wanted` and has it. `asked` gets those that were asked.
    async fn first_listed(
        &self,
        name: &str,
        wanted: Wanted<'_>,
        asked: &mut Vec<String>,
    ) -> Result<Option<Found>, Error> {
        for configured in self.asked_configured(wanted) {
            let catalog = &configured.catalog.name;
            let content = self.configured(configured).await?;
            if content.packages.contains_key(name) {
                return Ok(Some(self.in_catalog(catalog.clone(), content, name)));
            }
            asked.push(catalog.clone());
        }
        for source in self.asked_sources(wanted).filter(|_| wanted != Wanted::Any || self.sources.may_be_served()) {
            let catalog = source.to_string();
            if let Some((package, server)) = self.sources.package(source, name).await? {
                let (package, requires_digest) = (Held::Alone(package), self.require_digests);
                return Ok(Some(Found { catalog, package, server: Some(server), requires_digest }));
            }
            asked.push(catalog);
        }
        Ok(None)
    }

    /// The catalogs that lie here. Those that cannot be read are left out: whoever looks for help takes what there is.
    /// CatalogSources are not among them: they are asked for one package after the other.
    pub async fn contents(&self, at_hand: AtHand) -> Vec<Offered> {
        let mut contents = Vec::new();
        if at_hand == AtHand::All {
            for configured in &self.configured {
                if let Ok(content) = self.configured(configured).await {
                    contents.push(Offered { name: configured.catalog.name.clone(), priority: LISTED, content });
                }
            }
        }
        for catalog in self.cluster.asked(Wanted::Any) {
            if let Ok(content) = self.cluster.content(&catalog).await {
                contents.push(Offered { name: cluster::called(&catalog), priority: catalog.spec.priority, content });
            }
        }
        contents
    }

    /// A bundle as a ClusterCatalog that lies here describes it. An image names it as well as a catalog does.
    pub async fn bundle_at_hand(&self, package: &str, bundle: &str, image: &str) -> Option<Bundle> {
        for catalog in self.cluster.asked(Wanted::Any) {
            let Ok(content) = self.cluster.content(&catalog).await else { continue };
            let found = content.packages.get(package).and_then(|package| package.bundles.get(bundle));
            if let Some(found) = found.filter(|found| found.image.as_deref() == Some(image)) {
                return Some(found.clone());
            }
        }
        None
    }

    fn in_catalog(&self, catalog: String, content: Arc<Catalog>, package: &str) -> Found {
        let package = Held::InCatalog(content, package.to_owned());
        Found { catalog, package, server: None, requires_digest: self.require_digests }
    }

    pub fn count(&self) {
        let configured = self.configured.iter().filter_map(|configured| configured.cached.is_loaded());
        let (loaded, failing): (Vec<_>, Vec<_>) =
            configured.chain(self.sources.are_loaded()).partition(|loaded| *loaded);
        metrics::set_catalogs(loaded.len(), failing.len());
    }

    /// Why no catalog is asked for `wanted`.
    fn none(&self, wanted: Wanted<'_>) -> Error {
        match wanted {
            Wanted::Named(name) => Error::UnknownCatalog { name: name.to_owned(), known: self.names() },
            Wanted::Origin(name) => Error::Left { name: name.to_owned(), known: self.names() },
            Wanted::Any => Error::NoCatalog(match self.sources.names.first() {
                Some(source) => format!("install OLM with the CatalogSource {source}"),
                None => "a CatalogSource of OLM with --catalog-source".to_owned(),
            }),
        }
    }

    /// The configured catalogs that are `wanted`.
    fn asked_configured<'a>(&'a self, wanted: Wanted<'a>) -> impl Iterator<Item = &'a Configured> {
        self.configured.iter().filter(move |configured| match wanted {
            Wanted::Any => true,
            Wanted::Named(name) | Wanted::Origin(name) => configured.catalog.name == name,
        })
    }

    /// The CatalogSources that are `wanted`, in the order in which they are asked.
    fn asked_sources<'a>(&'a self, wanted: Wanted<'a>) -> impl Iterator<Item = &'a CatalogSourceName> {
        self.sources.by_priority().into_iter().filter(move |source| match wanted {
            Wanted::Any => true,
            Wanted::Named(name) => source.is_called(name),
            Wanted::Origin(name) => source.to_string() == name,
        })
    }

    fn names(&self) -> Vec<String> {
        let configured = self.configured.iter().map(|configured| configured.catalog.name.clone());
        configured.chain(self.sources.names.iter().map(ToString::to_string)).chain(self.cluster.names()).collect()
    }

    async fn configured(&self, configured: &Configured) -> Result<Arc<Catalog>, Error> {
        let load = async || {
            // Without a revision to compare with, nothing can be unchanged.
            let loaded = self.load(configured, None).await?;
            Ok(loaded.unwrap_or_else(|| (Catalog::default(), origin::Revision(String::new()))))
        };
        configured.cached.get(None, load).await
    }

    /// Looks for new revisions of configured catalogs, endlessly, and tells `news` of each. They are looked at side by side: one
    /// that hangs holds up no other. Returns at once where none is configured.
    pub async fn poll(&self, interval: Duration, news: impl Fn()) {
        join_all(self.configured.iter().map(|configured| self.poll_one(configured, interval, &news))).await;
    }

    async fn poll_one(&self, configured: &Configured, interval: Duration, news: impl Fn()) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if self.refresh(configured).await {
                news();
            }
            self.count();
        }
    }

    /// Whether there is a new revision. One that cannot be asked is kept as it is known: what it said is still true of what it
    /// held.
    async fn refresh(&self, configured: &Configured) -> bool {
        let load = async |known: Option<&origin::Revision>| self.load(configured, known).await;
        configured.cached.refresh(load).await.unwrap_or_else(|error| {
            let error = Chain(&error).to_string();
            tracing::warn!(catalog = configured.catalog.name, error, "cannot look for a new revision of a catalog");
            false
        })
    }

    async fn load(
        &self,
        configured: &Configured,
        known: Option<&origin::Revision>,
    ) -> Result<Option<(Catalog, origin::Revision)>, Error> {
        let ConfiguredCatalog { name, origin } = &configured.catalog;
        let credentials = self.logins.current().await;
        let loaded = self.loader.load_with(origin, known, &credentials).await.map_err(|source| Error::Load {
            name: name.clone(),
            origin: origin.to_string(),
            source: Arc::new(source),
        })?;
        Ok(match loaded {
            origin::Loaded::Unchanged => None,
            origin::Loaded::New(catalog, revision) => {
                let packages = catalog.packages.len();
                tracing::info!(catalog = name, packages, revision = revision.0, "catalog loaded");
                if packages == 0 {
                    tracing::warn!(catalog = name, %origin, "the catalog has no packages: is this the right place?");
                }
                Some((catalog, revision))
            }
        })
    }
}

impl Found {
    pub fn package(&self) -> &Package {
        match &self.package {
            Held::InCatalog(catalog, name) => &catalog.packages[name], // it was found there
            Held::Alone(package) => package,
        }
    }

    /// What the catalog states about a bundle of the package.
    pub async fn facts(&self, bundle: &Bundle, channel: Option<&str>) -> Result<Facts, Error> {
        match (&self.server, channel) {
            (Some(server), Some(channel)) => server.facts(self.package(), channel, &bundle.name).await,
            _ => Ok(bundle.facts.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
