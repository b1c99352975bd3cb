//! Where packages come from: catalogs that are configured here, then CatalogSources of OLM. Each is loaded when it is first
//! asked for, and again when its revision is another.

mod cached;
mod sources;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kube::runtime::reflector::Store;
use rukpak_catalog::model::Facts;
use rukpak_catalog::origin::{self, Loader};
use rukpak_catalog::{Bundle, Catalog, Package, registry};
use rukpak_plan::retry::Class;
use rukpak_source::image::Credentials;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use self::cached::Cached;
use self::sources::{NotReady, Server, Sources};
use super::args::{CatalogSourceName, ConfiguredCatalog};
use super::foreign::CatalogSource;

/// Why a package cannot be looked up. The words are those of OpenShift's manager where it has the case.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No catalog has the package.
    #[error("failed to find candidate olm.bundles from the {0} package")]
    NoPackage(String),
    /// There is nothing to look in.
    #[error("there is no catalog: name one with --catalog, or install OLM with the CatalogSource {0}")]
    NoCatalog(String),
    /// The PlatformOperator names a catalog that nobody knows.
    #[error("spec.package.catalog: there is no catalog {name:?}; there are {}", .known.join(", "))]
    UnknownCatalog {
        /// As given.
        name: String,
        /// The others.
        known: Vec<String>,
    },
    /// A configured catalog cannot be loaded.
    #[error("catalog {name} ({origin})")]
    Load {
        /// Its name.
        name: String,
        /// Where it is.
        origin: String,
        /// Why.
        #[source]
        source: Arc<origin::Error>,
    },
    /// A CatalogSource is not there, or not ready.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The server of a CatalogSource gives no catalog.
    #[error(transparent)]
    Registry(#[from] Arc<registry::Error>),
}

impl Error {
    /// When to try again, if nobody tells us.
    pub fn class(&self) -> Class {
        match self {
            Self::NotReady(NotReady::Connection { .. }) => Class::Transient,
            Self::Load { source, .. } if source.class() == origin::Class::Unavailable => Class::Transient,
            Self::Registry(error) if error.class() == registry::Class::Unavailable => Class::Transient,
            _ => Class::Invalid,
        }
    }

    /// Whether nobody tells us when it is mended.
    pub fn is_unwatched(&self) -> bool {
        matches!(self, Self::Load { .. } | Self::Registry(_))
    }
}

/// A package in the catalog that provides it.
#[derive(Clone)]
pub(crate) struct Found {
    /// Name of the catalog.
    pub catalog: String,
    /// The package.
    pub package: Arc<Package>,
    /// Whom to ask for more than that.
    server: Option<Server>,
}

/// All catalogs.
pub(crate) struct Catalogs {
    configured: Vec<Configured>,
    sources: Sources,
    loader: Loader,
    credentials: Credentials,
    /// Told when a catalog can be had again.
    news: Arc<Notify>,
    /// Counts what happened to catalogs, see [`Catalogs::epoch`].
    epoch: AtomicU64,
}

struct Configured {
    catalog: ConfiguredCatalog,
    cached: Cached<Catalog, origin::Revision, Error>,
}

impl Catalogs {
    /// Asks nobody yet.
    pub fn new(
        configured: Vec<ConfiguredCatalog>,
        sources: Vec<CatalogSourceName>,
        (loader, credentials): (Loader, Credentials),
        store: Store<CatalogSource>,
    ) -> Self {
        let news = Arc::new(Notify::new());
        let names: Vec<String> = configured.iter().map(|catalog| catalog.name.clone()).collect();
        let configured =
            configured.into_iter().map(|catalog| Configured { catalog, cached: Cached::new(news.clone()) }).collect();
        let sources = Sources::new(sources, &names, store, &news);
        Self { configured, sources, loader, credentials, news, epoch: AtomicU64::new(0) }
    }

    /// Changes whenever a catalog may say something else than before.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// A catalog may say something else than before.
    pub fn changed(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when a catalog can be had again that could not.
    pub async fn recovered(&self) {
        self.news.notified().await;
    }

    /// CatalogSources, and whether the cluster has any.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The package `name` of the catalog `wanted`, or of the first catalog that has it. One that cannot be asked is an error,
    /// not a reason to take the next: what is installed must not depend on who answers today.
    pub async fn find(&self, name: &str, wanted: Option<&str>) -> Result<Found, Error> {
        if let Some(wanted) = wanted.filter(|wanted| !self.knows(wanted)) {
            return Err(Error::UnknownCatalog { name: wanted.to_owned(), known: self.names() });
        }
        let mut asked = false;
        for configured in &self.configured {
            if wanted.is_some_and(|wanted| wanted != configured.catalog.name) {
                continue;
            }
            asked = true;
            let content = self.configured(configured).await?;
            if let Some(package) = content.packages.get(name) {
                let catalog = configured.catalog.name.clone();
                return Ok(Found { catalog, package: Arc::new(package.clone()), server: None });
            }
        }
        for source in self.sources.names() {
            if wanted.is_some_and(|wanted| !sources::is_called(source, wanted)) {
                continue;
            }
            if wanted.is_none() && !self.sources.are_served() {
                continue;
            }
            asked = true;
            if let Some((package, server)) = self.sources.package(source, name).await? {
                return Ok(Found { catalog: self.sources.label(source), package, server: Some(server) });
            }
        }
        match self.sources.names().first() {
            _ if asked => Err(Error::NoPackage(name.to_owned())),
            Some(source) => Err(Error::NoCatalog(format!("{}/{}", source.namespace, source.name))),
            None => Err(Error::NoCatalog("openshift-marketplace/redhat-operators".to_owned())),
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.configured.iter().any(|configured| configured.catalog.name == name)
            || self.sources.names().iter().any(|source| sources::is_called(source, name))
    }

    fn names(&self) -> Vec<String> {
        let configured = self.configured.iter().map(|configured| configured.catalog.name.clone());
        let sources = self.sources.names().iter().map(|source| format!("{}/{}", source.namespace, source.name));
        configured.chain(sources).collect()
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
                self.changed();
                news();
            }
        }
    }

    /// Whether there is a new revision. One that cannot be asked is kept as it is known: what it said is still true of what it
    /// held.
    async fn refresh(&self, configured: &Configured) -> bool {
        let load = async |known: Option<&origin::Revision>| self.load(configured, known).await;
        configured.cached.refresh(load).await.unwrap_or_else(|error| {
            let error = crate::error::Chain(&error).to_string();
            tracing::warn!(catalog = configured.catalog.name, error, "cannot look for a new revision");
            false
        })
    }

    async fn load(
        &self,
        configured: &Configured,
        known: Option<&origin::Revision>,
    ) -> Result<Option<(Catalog, origin::Revision)>, Error> {
        let ConfiguredCatalog { name, origin } = &configured.catalog;
        let loaded = self.loader.load_with(origin, known, &self.credentials).await.map_err(|source| Error::Load {
            name: name.clone(),
            origin: origin.to_string(),
            source: Arc::new(source),
        })?;
        Ok(match loaded {
            origin::Loaded::Unchanged => None,
            origin::Loaded::New(catalog, revision) => {
                tracing::info!(catalog = name, packages = catalog.packages.len(), revision = revision.0, "loaded");
                Some((catalog, revision))
            }
        })
    }
}

impl Found {
    /// What the catalog states about a bundle of the package.
    pub async fn facts(&self, bundle: &Bundle, channel: Option<&str>) -> Result<Facts, Error> {
        match (&self.server, channel) {
            (Some(server), Some(channel)) => server.facts(&self.package, channel, &bundle.name).await,
            _ => Ok(bundle.facts.clone()),
        }
    }
}
