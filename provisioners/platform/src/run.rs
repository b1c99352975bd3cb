//! The process: builds the context, runs [watches], the queue and probes until it is told to stop.

mod watches;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use kube::runtime::reflector::{self, ObjectRef, Store};
use rukpak_catalog::origin::{self, Loader, Origin};
use rukpak_crds::names::INSTALLED_FOR;
use rukpak_crds::{BundleDeployment, Plan, PlatformOperator};
use rukpak_runtime::failures::Failures;
use rukpak_runtime::metrics::router as metrics_router;
use rukpak_runtime::probes::{self, Readiness};
use rukpak_runtime::process::{self, Process};
use rukpak_runtime::queue::{Requests, drain};
use rukpak_runtime::watch::Streams;
use rukpak_source::Egress;
use rukpak_source::egress::IpNet;
use rukpak_source::http::FetcherOptions;
use rukpak_source::image::Puller;
use rukpak_source::registries;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::args::{CatalogAuthority, ConfiguredCatalog, LEASE, Options};
use super::catalogs::{Authorities, Catalogs};
use super::cluster_catalog::store::{self, CatalogStore};
use super::cluster_catalog::{CatalogLogins, Images, Mirror};
use super::cluster_operator::{self, About};
use super::context::{Backoffs, Context, Reservations, Unseen, Wake};
use super::dependencies::{Dependencies, Stores};
use super::events::Events;
use super::follow::Optional;
use super::logins::{self, Logins};
use super::olm::{Extensions, Parts};
use super::olmv0::packages::{self, Packages};
use super::olmv0::{self, Endpoint, Facade};
use super::policies::{ContentGate, Verdicts};
use super::single_flight::SingleFlight;
use super::spool::Spool;
use super::{catalog_server, cluster_catalog, metrics, operator};

/// The folder of [`Options::storage_dir`] with the content of ClusterCatalogs.
const CONTENT: &str = "clustercatalogs";
/// Passes at once. They wait for catalogs, if for anything: those of one that hangs must not keep others from being looked at.
const CONCURRENCY: u16 = 256;

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing of this program in particular.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// Images cannot be pulled.
    #[error(transparent)]
    Registries(#[from] registries::Error),
    /// The folder for what is fetched cannot be used.
    #[error("cannot use the folder {} (--storage-dir)", path.display())]
    Storage {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is stored of ClusterCatalogs cannot be used.
    #[error("the content of ClusterCatalogs (--storage-dir)")]
    Content(#[from] store::Error),
    /// There are no logins.
    #[error(transparent)]
    Logins(#[from] logins::Error),
    /// Two catalogs have one name.
    #[error("--catalog: {0:?} is the name of two catalogs; PlatformOperators could not tell them apart")]
    CatalogName(String),
    /// A CatalogSource has an authority, and is not asked.
    #[error("--catalog-ca: the CatalogSource {0} is not among those that are asked (--catalog-source)")]
    CatalogAuthority(String),
    /// Catalogs cannot be loaded at all.
    #[error("cannot set up the loading of catalogs (--source-ca-file)")]
    Loader(#[source] Box<rukpak_catalog::origin::Error>),
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut process = Process::start()?;
    check_names(&options.catalogs)?;
    let folder = &options.storage_dir;
    let spool = Spool::open(folder).map_err(|source| Error::Storage { path: folder.clone(), source })?;
    let config = process::config(options.shared.kubeconfig.as_deref()).await?;
    let egress = options.registries.egress(&config.cluster_url).await;
    let client = process::client(config)?;
    let mut prepared = Prepared::new(&options, (egress, spool.path()), &client)?;
    let readiness = Arc::new(Readiness::new());
    let health = probes::router(readiness.clone());
    process.serve_plainly("--health-probe-bind-address", &options.shared.probe_address, health).await?;
    process
        .serve_plainly("--metrics-bind-address", &options.metrics_address, metrics_router(metrics::registry()))
        .await?;
    process.spawn(watches::definitions(client.clone(), readiness.clone()));
    serve_catalogs(&mut process, &client, &options, prepared.unpacked.clone()).await?;
    prepared.packages = serve_packages(&mut process, &client, &options).await?;
    let stands_by = CancellationToken::new();
    let logins = CatalogLogins::new(client.clone(), &options.system_namespace, prepared.loading.logins.clone());
    let mirror = Mirror { content: prepared.unpacked.clone(), images: prepared.images.clone(), logins };
    let (followed, until) = (Optional::new(client.clone(), cluster_catalog::DEFINITION), stands_by.clone());
    process.spawn(async move {
        mirror.keep(followed, until).await;
        ""
    });
    let lease = (options.system_namespace.as_str(), LEASE);
    let election = options.leader_election;
    let Some(mut process) = process.lead(client.clone(), lease, election, &readiness).await? else { return Ok(()) };
    stands_by.cancel();
    // Who stands by has read no catalogs: clients find nobody there, and try again elsewhere.
    prepared.registry = process::listen("--registry-bind-address", &options.registry_address).await?;
    work(&mut process, client, prepared, &options, readiness);
    Ok(process.go_on().await?)
}

/// Has `process` do all that the replica with the Lease does, without servers, as a simulation needs it. `images`: where the content of
/// ClusterCatalogs comes from.
///
/// # Errors
/// As those of [`run`].
pub fn lead(process: &mut Process, client: Client, options: &Options, images: Arc<dyn Images>) -> Result<(), Error> {
    let prepared = Prepared::new(options, (Egress::default(), &options.storage_dir), &client)?;
    work(process, client, Prepared { images, ..prepared }, options, Arc::new(Readiness::new()));
    Ok(())
}

/// PlatformOperators ask for catalogs by name.
fn check_names(catalogs: &[ConfiguredCatalog]) -> Result<(), Error> {
    let mut names = HashSet::new();
    match catalogs.iter().find(|catalog| !names.insert(&catalog.name)) {
        Some(twice) => Err(Error::CatalogName(twice.name.clone())),
        None => Ok(()),
    }
}

/// Those of CatalogSources that are asked over TLS.
fn authorities(options: &Options) -> Result<Authorities, Error> {
    let read = |CatalogAuthority { source, file }: &CatalogAuthority| {
        if !options.catalog_sources.contains(source) {
            return Err(Error::CatalogAuthority(source.to_string()));
        }
        Ok((source.clone(), registries::read(file, "--catalog-ca")?.into()))
    };
    options.catalog_authorities.iter().map(read).collect()
}

/// What loads catalogs, its logins, what was said of their images, and what pulls other images.
struct Loading {
    loader: Arc<Loader>,
    logins: Arc<Logins>,
    verdicts: Arc<Verdicts>,
    puller: Arc<Puller>,
    /// Where what is fetched lies until it is read.
    spool: PathBuf,
}

impl Loading {
    fn new(options: &Options, egress: Egress, spool: &Path, gate: Arc<ContentGate>) -> Result<Self, Error> {
        let verdicts = gate.verdicts.clone();
        let (puller, pem) = options.registries.puller(&egress, spool.to_owned(), origin::limits())?;
        let puller = Arc::new(puller);
        let logins = Logins::open(options.registry_auth_file.clone())?;
        // What may be asked without TLS is this machine, and the administrator has named it.
        let is_here = options
            .catalogs
            .iter()
            .any(|catalog| matches!(&catalog.origin, Origin::Http(url) if url.starts_with("http://")));
        let here = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].map(IpNet::from);
        let egress = if is_here { egress.allowing(here) } else { egress };
        let spool = spool.to_owned();
        let mut options = FetcherOptions::new(spool.clone(), origin::limits());
        options.extra_ca_pem = pem;
        options.egress = egress;
        let loader =
            Loader::new(puller.clone(), options).map_err(|error| Error::Loader(Box::new(error)))?.with_gate(gate);
        Ok(Self { loader: Arc::new(loader), logins: Arc::new(logins), verdicts, puller, spool })
    }
}

/// What was made before this process works.
struct Prepared {
    loading: Loading,
    /// Where the content of ClusterCatalogs comes from.
    images: Arc<dyn Images>,
    authorities: Authorities,
    unpacked: Arc<CatalogStore>,
    packages: Arc<Packages>,
    registry: Option<TcpListener>,
}

impl Prepared {
    /// Without what serves. `spool`: the folder for what is fetched.
    fn new(options: &Options, (egress, spool): (Egress, &Path), client: &Client) -> Result<Self, Error> {
        let gate = ContentGate::new(client.clone(), options.require_content_policy);
        let loading = Loading::new(options, egress, spool, gate)?;
        let unpacked = Arc::new(CatalogStore::open(options.storage_dir.join(CONTENT))?);
        let (images, authorities) = (loading.loader.clone(), authorities(options)?);
        Ok(Self { loading, images, authorities, unpacked, packages: Arc::default(), registry: None })
    }
}

/// Starts the watches and the queue.
fn work(
    process: &mut Process,
    client: Client,
    Prepared { loading, images, authorities, unpacked, packages, registry }: Prepared,
    options: &Options,
    readiness: Arc<Readiness>,
) {
    let (operators, deployments) = (Streams::<PlatformOperator>::new(client.clone()), Streams::new(client.clone()));
    let (sources, source_writer) = reflector::store();
    let (sender, requests) = unbounded_channel();
    let olm = Extensions::new(client.clone());
    let facade = Facade::new(&client);
    let asked = (options.catalog_sources.clone(), authorities);
    let catalogs = Arc::new(Catalogs::new(
        options.catalogs.clone(),
        asked,
        options.require_digests,
        (loading.loader.clone(), loading.logins.clone(), loading.verdicts.clone()),
        sources,
        olm.catalogs(unpacked.clone()),
    ));
    let wake = Wake {
        operators: sender,
        cluster_operator: Arc::new(Notify::new()),
        counted: Arc::new(Notify::new()),
        extensions: olm.wake.clone(),
        sets: olm.sets.wake.clone(),
        subscribed: facade.wake.clone(),
    };
    let plans = Streams::<Plan>::selected(client.clone(), INSTALLED_FOR);
    let dependencies = dependencies((&deployments.store, &operators.store, &plans.store), &wake);
    let context = Arc::new(Context {
        operators: operators.store.clone(),
        deployments: deployments.store.clone(),
        seen: watch::Sender::default(),
        filled: CancellationToken::new(),
        catalogs: catalogs.clone(),
        wake,
        failures: Failures::default(),
        holds: Backoffs::default(),
        questions: SingleFlight::default(),
        dependencies,
        claims: Reservations::default(),
        unseen: Unseen::default(),
        written: Arc::default(),
        events: Arc::new(Events::new(client.clone())),
        client,
    });
    watches::start(process, (operators, deployments, source_writer), &context, options, readiness);
    let registry = registry.map(|listener| Endpoint::new(listener, &options.system_namespace, loading.spool.clone()));
    facade.start(process, subscribed(&context, &loading, options, (packages, registry)));
    watches::follow_dependencies(process, plans, &context, olm.known());
    let about = About { version: options.release_version.clone(), namespace: options.system_namespace.clone() };
    process.spawn(cluster_operator::keep(context.clone(), about, olm.known()));
    olm.start(process, extended(&context, loading, (unpacked, images), options));
    work_off(process, requests, context);
}

/// What ClusterExtensions stand on.
fn extended(
    context: &Arc<Context>,
    loading: Loading,
    (unpacked, images): (Arc<CatalogStore>, Arc<dyn Images>),
    options: &Options,
) -> Parts {
    let Loading { logins, verdicts, .. } = loading;
    let news = context.clone();
    Parts {
        client: context.client.clone(),
        system_namespace: options.system_namespace.clone(),
        images,
        logins: CatalogLogins::new(context.client.clone(), &options.system_namespace, logins),
        verdicts,
        content: unpacked,
        requires_digests: options.require_digests,
        revisions_in: options.shows_revisions.then(|| options.system_namespace.clone()),
        deployments: (context.deployments.clone(), context.filled.clone()),
        dependencies: context.dependencies.clone(),
        offered: context.catalogs.clone(),
        written: context.written.clone(),
        external: options.catalogs_url(),
        events: context.events.clone(),
        news: Box::new(move || news.wake.all(&news.operators)),
    }
}

/// What Subscriptions stand on.
fn subscribed(
    context: &Context,
    loading: &Loading,
    options: &Options,
    (packages, registry): (Arc<Packages>, Option<Endpoint>),
) -> olmv0::Parts {
    olmv0::Parts {
        client: context.client.clone(),
        mode: options.olmv0,
        global: options.olmv0_global_namespace.clone(),
        interval: options.catalog_poll_interval,
        loader: loading.loader.clone(),
        puller: loading.puller.clone(),
        logins: loading.logins.clone(),
        requires_digests: options.require_digests,
        deployments: (context.deployments.clone(), context.filled.clone()),
        dependencies: context.dependencies.clone(),
        written: context.written.clone(),
        packages,
        registry,
    }
}

/// What is known of dependencies, which wakes whoever waits for one.
fn dependencies(
    (deployments, operators, plans): (&Store<BundleDeployment>, &Store<PlatformOperator>, &Store<Plan>),
    wake: &Wake,
) -> Arc<Dependencies> {
    let stores = Stores {
        deployments: deployments.clone(),
        operators: operators.clone(),
        extensions: wake.extensions.extensions.clone(),
        plans: plans.clone(),
    };
    let wake = wake.clone();
    Arc::new(Dependencies::new(stores, move |dependent| wake.dependent(&dependent)))
}

/// Starts the queue of PlatformOperators.
fn work_off(process: &mut Process, objects: UnboundedReceiver<ObjectRef<PlatformOperator>>, context: Arc<Context>) {
    let requests = Requests { objects, filled: context.filled.clone(), tasks: process.reconciles() };
    let queue = drain(
        requests,
        context.operators.clone(),
        context,
        CONCURRENCY,
        operator::reconcile,
        |object, error, context| operator::error_policy(&object, error, &context),
    );
    process.spawn_endless("the queue of PlatformOperators", queue);
}

/// Answers clients of catalogs, whoever leads.
async fn serve_catalogs(
    process: &mut Process,
    client: &Client,
    options: &Options,
    content: Arc<CatalogStore>,
) -> Result<(), Error> {
    let address = &options.catalogs_address;
    let Some(listener) = process::listen("--catalogs-bind-address", address).await? else { return Ok(()) };
    let (client, namespace) = (client.clone(), &options.system_namespace);
    let (kept, served) = catalog_server::start(listener, client, namespace, content, process.stop());
    process.spawn_endless("the certificate of the catalog server", kept);
    process.spawn_server("the catalog server", served);
    Ok(())
}

/// Answers the API server for clients of PackageManifests, whoever leads. Returns what takes the packages.
async fn serve_packages(process: &mut Process, client: &Client, options: &Options) -> Result<Arc<Packages>, Error> {
    let packages = Arc::new(Packages::default());
    let address = &options.packages_address;
    let Some(listener) = process::listen("--packages-bind-address", address).await? else { return Ok(packages) };
    let (client, namespace) = (client.clone(), &options.system_namespace);
    let (kept, served) = packages::start(listener, client, namespace, packages.clone(), process.stop());
    process.spawn_endless("the certificate of the server of PackageManifests", Box::pin(kept));
    process.spawn_server("the server of PackageManifests", served);
    Ok(packages)
}
