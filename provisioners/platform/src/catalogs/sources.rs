//! CatalogSources of OLM, whose catalogs come over gRPC.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use rukpak_catalog::model::Facts;
use rukpak_catalog::registry::{Client, Options};
use rukpak_catalog::{Catalog, Package};
use rukpak_runtime::lock::lock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::cached::Cached;
use crate::args::CatalogSourceName;
use crate::foreign::CatalogSource;

/// How long a catalog server may take to come up, and to say nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The state of a connection that can be used.
const READY: &str = "READY";

/// Why a CatalogSource cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotReady {
    /// The cluster has no OLM.
    #[error("catalogsources.operators.coreos.com {0:?} not found: the cluster does not serve CatalogSources")]
    NoOlm(String),
    /// It is not there.
    #[error("catalogsources.operators.coreos.com {name:?} not found in namespace {namespace:?}")]
    Missing { namespace: String, name: String },
    #[error("the CatalogSource {namespace}/{name} cannot be looked at: {trouble}")]
    Unwatched {
        namespace: String,
        name: String,
        /// What the API server says.
        trouble: String,
    },
    /// OLM has no connection to it.
    #[error("the CatalogSource {namespace}/{name} is not ready: {state}; waiting until its connection is {READY}")]
    Connection {
        namespace: String,
        name: String,
        /// What it says instead.
        state: String,
    },
}

/// The CatalogSources that are asked.
pub(crate) struct Sources {
    /// In the order of the flags.
    pub names: Vec<CatalogSourceName>,
    authorities: Authorities,
    store: Store<CatalogSource>,
    served: AtomicBool,
    /// Cancelled when it is known whether they are served, and which there are, or why that cannot be known.
    pub known: CancellationToken,
    cached: HashMap<(String, String), Cached<Listed, Revision, Error>>,
    /// Why the watch over them does not work, if it does not.
    trouble: Mutex<Option<String>>,
    /// Told when one of them, or a package of one, can be had again.
    news: Arc<Notify>,
}

/// A catalog as a server lists it, and packages with what it says of them beside their bundles: asked for once each.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// What the server lists, without what it says of packages beside their bundles.
    pub catalog: Catalog,
    packages: Mutex<HashMap<String, Arc<Details>>>,
}

/// A package with all that its server says of it, which has no revision of its own.
type Details = Cached<Package, (), Error>;

/// The server of a CatalogSource. Connections live as long as a question: one that idles would be lost with the catalog's next
/// Pod.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// `name/namespace`, as OpenShift's manager writes it.
    name: String,
    /// `host:port`.
    address: String,
    /// Set where it is asked over TLS.
    authorities_pem: Option<Arc<[u8]>>,
}

/// PEM certificates of the authorities of those CatalogSources that are asked over TLS.
pub(crate) type Authorities = Vec<(CatalogSourceName, Arc<[u8]>)>;

/// What tells one state of a catalog server from the next. The server itself names none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Revision {
    uid: Option<String>,
    address: String,
    image: Option<String>,
    last_connect: Option<String>,
    service_created_at: Option<String>,
}

impl Sources {
    /// Asks nobody yet. `news` is told when one of them can be had again.
    pub fn new(
        names: Vec<CatalogSourceName>,
        authorities: Authorities,
        store: Store<CatalogSource>,
        news: &Arc<Notify>,
    ) -> Self {
        let key = |source: &CatalogSourceName| (source.namespace.clone(), source.name.clone());
        let cached = names.iter().map(|source| (key(source), Cached::new(news.clone()))).collect();
        Self {
            names,
            authorities,
            store,
            served: AtomicBool::new(false),
            known: CancellationToken::new(),
            cached,
            trouble: Mutex::default(),
            news: news.clone(),
        }
    }

    /// Of each that is not ready, or whose catalog was asked for, whether it can be had.
    pub fn are_loaded(&self) -> impl Iterator<Item = bool> {
        self.names.iter().filter(|_| self.are_served()).filter_map(|source| match self.revision(source) {
            Ok(_) => self.cached.get(&(source.namespace.clone(), source.name.clone())).and_then(Cached::is_loaded),
            Err(_) => Some(false),
        })
    }

    /// In the order in which they are asked: by `spec.priority`, the highest first, as OLM prefers them; those of one priority, and those
    /// that are not there (0), in the order of the flags.
    pub fn by_priority(&self) -> Vec<&CatalogSourceName> {
        let priority = |source: &CatalogSourceName| {
            let found = self.store.get(&ObjectRef::new(&source.name).within(&source.namespace));
            found.map_or(0, |found| found.spec.priority)
        };
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_cached_key(|source| Reverse(priority(source)));
        names
    }

    /// `object` is another than before. Returns whether it is one of them.
    pub fn changed(&self, object: &CatalogSource) -> bool {
        let cached = self.cached.get(&(object.namespace().unwrap_or_default(), object.name_any()));
        cached.map(Cached::changed).is_some()
    }

    /// Any of them may be another than before.
    pub fn all_changed(&self) {
        self.cached.values().for_each(Cached::changed);
    }

    /// Moves whenever `source`, or what its server says, may be another than before.
    pub fn changes(&self, source: &CatalogSourceName) -> u64 {
        self.cached.get(&(source.namespace.clone(), source.name.clone())).map_or(0, Cached::changes)
    }

    /// Whether the cluster has OLM.
    pub fn are_served(&self) -> bool {
        self.served.load(Ordering::Relaxed)
    }

    /// Whether the cluster has OLM, as far as is known.
    pub fn may_be_served(&self) -> bool {
        self.are_served() || self.trouble().is_some()
    }

    /// What was found out of that.
    pub fn set_served(&self, served: bool) {
        self.served.store(served, Ordering::Relaxed);
    }

    /// Why they cannot be looked at, if they cannot: then nobody knows whether the cluster has OLM.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// They cannot be watched. What is known stays known: a watch that goes on where it was does not say that it does.
    pub fn in_trouble(&self, why: String) {
        let mut trouble = lock(&self.trouble);
        if !self.known.is_cancelled() || trouble.is_some() {
            *trouble = Some(why);
            self.known.cancel();
        }
    }

    /// It is known by now whether the cluster has OLM, and which CatalogSources there are.
    pub fn set_seen(&self) {
        *lock(&self.trouble) = None;
        self.known.cancel();
    }

    /// A package of a CatalogSource, and whom to ask for more. The list is loaded anew when its revision is another.
    pub async fn package(
        &self,
        source: &CatalogSourceName,
        package: &str,
    ) -> Result<Option<(Arc<Package>, Server)>, Error> {
        let CatalogSourceName { namespace, name } = source.clone();
        let revision = self.revision(source)?;
        let authorities = self.authorities.iter().find(|(named, _)| named == source);
        let server = Server {
            name: format!("{name}/{namespace}"),
            address: revision.address.clone(),
            authorities_pem: authorities.map(|(_, pem)| Arc::clone(pem)),
        };
        let Some(cached) = self.cached.get(&(namespace.clone(), name.clone())) else {
            return Err(NotReady::Missing { namespace, name }.into());
        };
        let load = async || Ok((server.list().await?, revision.clone()));
        let listed = cached.get(Some(&revision), load).await?;
        let found = listed.package(package, &server, &self.news).await?;
        Ok(found.map(|whole| (whole, server)))
    }

    fn revision(&self, source: &CatalogSourceName) -> Result<Revision, NotReady> {
        let CatalogSourceName { namespace, name } = source.clone();
        let key = ObjectRef::new(&name).within(&namespace);
        let Some(object) = self.store.get(&key).filter(|_| self.are_served()) else {
            return Err(match self.trouble() {
                Some(trouble) => NotReady::Unwatched { namespace, name, trouble },
                None if self.are_served() => NotReady::Missing { namespace, name },
                None => NotReady::NoOlm(name),
            });
        };
        revision(&object).map_err(|state| NotReady::Connection { namespace, name, state })
    }
}

/// The revision of a CatalogSource that is ready; else what its connection is.
fn revision(object: &CatalogSource) -> Result<Revision, String> {
    let status = object.status.clone().unwrap_or_default();
    let connection = status.connection_state.ok_or("it has no connection yet")?;
    match connection.last_observed_state.as_str() {
        READY => {}
        "" => return Err("the state of its connection is not known".to_owned()),
        state => return Err(format!("its connection is {state}")),
    }
    if connection.address.is_empty() {
        return Err("its connection has no address".to_owned());
    }
    Ok(Revision {
        uid: object.uid(),
        address: connection.address,
        image: object.spec.image.clone(),
        last_connect: connection.last_connect,
        service_created_at: status.registry_service.and_then(|service| service.created_at),
    })
}

impl Listed {
    /// A package with all that its server says of it; `None` if it has none of that name. `news` is told when it can be had again.
    pub async fn package(
        &self,
        package: &str,
        server: &Server,
        news: &Arc<Notify>,
    ) -> Result<Option<Arc<Package>>, Error> {
        let Some(known) = self.catalog.packages.get(package) else { return Ok(None) };
        // One that is not answered holds up nobody who asks for another.
        let details = self.details(package, news);
        details.get(None, async || Ok((server.detailed(known.clone()).await?, ()))).await.map(Some)
    }

    /// Whether both list the same.
    pub fn is_same(&self, other: &Self) -> bool {
        self.catalog == other.catalog
    }

    fn details(&self, package: &str, news: &Arc<Notify>) -> Arc<Details> {
        let mut packages = lock(&self.packages);
        packages.entry(package.to_owned()).or_insert_with(|| Arc::new(Cached::new(news.clone()))).clone()
    }
}

impl Server {
    /// The server at `address` (`host:port`), asked without TLS; `name` is for messages.
    pub fn at(name: String, address: String) -> Self {
        Self { name, address, authorities_pem: None }
    }

    /// What the catalog states about a bundle.
    pub async fn facts(&self, package: &Package, channel: &str, bundle: &str) -> Result<Facts, Error> {
        Ok(self.connect().await?.facts(package, channel, bundle).await.map_err(Arc::new)?)
    }

    /// All packages, as it lists them.
    pub async fn list(&self) -> Result<Listed, Error> {
        let catalog = self.connect().await?.catalog().await.map_err(Arc::new)?;
        tracing::info!(
            catalog = self.name,
            packages = catalog.packages.len(),
            address = self.address,
            "catalog loaded"
        );
        Ok(Listed { catalog, packages: Mutex::default() })
    }

    async fn detailed(&self, mut package: Package) -> Result<Package, Error> {
        let details = self.connect().await?.package_details(&package.name).await.map_err(Arc::new)?;
        details.apply(&mut package);
        Ok(package)
    }

    async fn connect(&self) -> Result<Client, Error> {
        let authorities_pem = self.authorities_pem.as_ref().map(|pem| pem.to_vec());
        let options = Options { authorities_pem, ..Options::new(&self.name, TIMEOUT) };
        Ok(Client::connect_with(&self.address, options).await.map_err(Arc::new)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn source(status: &serde_json::Value) -> CatalogSource {
        serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "redhat-operators", "namespace": "openshift-marketplace", "uid": "u"},
            "spec": {"sourceType": "grpc", "image": "registry.example.com/index:v4.12"}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_a_ready_connection_with_an_address_is_used() {
        let state = |connection: serde_json::Value| revision(&source(&json!({"connectionState": connection})));
        assert!(state(json!({"address": "a:50051", "lastObservedState": "READY"})).is_ok());
        assert_eq!(state(json!({"lastObservedState": "READY"})).unwrap_err(), "its connection has no address");
        let error = state(json!({"address": "a:1", "lastObservedState": "ready"})).unwrap_err();
        assert_eq!(error, "its connection is ready");
        assert_eq!(revision(&source(&json!({}))).unwrap_err(), "it has no connection yet");
    }

    #[test]
    fn a_new_connection_is_a_new_revision() {
        let at = |time: &str, message: &str| {
            let connection = json!({"address": "a:1", "lastObservedState": "READY", "lastConnect": time});
            revision(&source(&json!({"connectionState": connection, "message": message}))).unwrap()
        };
        assert_eq!(at("2026-01-01T00:00:00Z", "x"), at("2026-01-01T00:00:00Z", "y"));
        assert_ne!(at("2026-01-01T00:00:00Z", ""), at("2026-01-01T00:00:01Z", ""));
        // OLM looks for a new image every few minutes: that it looked is no news.
        let polled = |time: &str| {
            let connection = json!({"address": "a:1", "lastObservedState": "READY"});
            revision(&source(&json!({"connectionState": connection, "latestImageRegistryPoll": time}))).unwrap()
        };
        assert_eq!(polled("2026-01-01T00:00:00Z"), polled("2026-01-01T00:10:00Z"));
    }
}
