//! The process: builds the context, runs watches, the queue and probes until it is told to stop.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::reflector;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector::store::Writer};
use kube::{Api, Client, ResourceExt};
use rukpak_catalog::origin::{self, Loader, LoaderOptions, Origin};
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_runtime::error::Chain;
use rukpak_runtime::failures::Failures;
use rukpak_runtime::metrics::router as metrics_router;
use rukpak_runtime::probes::{self, Readiness};
use rukpak_runtime::process::{self, Process};
use rukpak_runtime::queue::{Requests, drain};
use rukpak_runtime::status::WrittenVersions;
use rukpak_runtime::watch::{Change, Streams};
use rukpak_source::Egress;
use rukpak_source::egress::IpNet;
use rukpak_source::registries;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Mutex, Notify, watch};
use tokio_util::sync::CancellationToken;

use super::args::{CatalogAuthority, ConfiguredCatalog, Options};
use super::catalogs::{Authorities, Catalogs};
use super::cluster_catalog::Mirror;
use super::cluster_catalog::store::{self, CatalogStore};
use super::cluster_operator::{self, About};
use super::context::{Claims, Context, Holds, Wake};
use super::events::Events;
use super::follow::Optional;
use super::foreign::{CATALOG_SOURCES, CatalogSource};
use super::logins::{self, Logins};
use super::olm::{Extensions, Parts};
use super::questions::Questions;
use super::served::while_defined;
use super::spool::Spool;
use super::{catalog_server, cluster_catalog, metrics, operator};

/// Name of the Lease that whoever writes holds; that of OpenShift's manager.
pub(super) const LEASE: &str = "ffdf93bc.openshift.io";
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
        #[source]
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
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options) -> Result<(), Error> {
    let mut process = Process::start()?;
    check_names(&options.catalogs)?;
    let folder = &options.storage_dir;
    let spool = Spool::open(folder).map_err(|source| Error::Storage { path: folder.clone(), source })?;
    let config = process::config(options.shared.kubeconfig.as_deref()).await?;
    let egress = options.registries.egress(&config.cluster_url).await;
    let (loader, logins) = loader(&options, egress, spool.path())?;
    let authorities = authorities(&options)?;
    let client = process::client(config)?;
    let unpacked = Arc::new(CatalogStore::open(folder.join(CONTENT))?);
    let readiness = Arc::new(Readiness::new());
    let health = probes::router(readiness.clone());
    process.serve_plainly("--health-probe-bind-address", &options.shared.probe_address, health).await?;
    process
        .serve_plainly("--metrics-bind-address", &options.metrics_address, metrics_router(metrics::registry()))
        .await?;
    process.spawn(definitions(client.clone(), readiness.clone()));
    serve_catalogs(&mut process, &client, &options, unpacked.clone()).await?;
    let stands_by = CancellationToken::new();
    let mirror = Mirror { content: unpacked.clone(), loader: loader.clone(), logins: logins.clone() };
    let (followed, until) = (Optional::new(client.clone(), cluster_catalog::DEFINITION), stands_by.clone());
    process.spawn(async move {
        mirror.keep(followed, until).await;
        ""
    });
    let lease = (options.system_namespace.as_str(), LEASE);
    let election = options.leader_election;
    let Some(mut process) = process.lead(client.clone(), lease, election, &readiness).await? else { return Ok(()) };
    stands_by.cancel();
    work(&mut process, client, ((loader, logins), authorities, unpacked), &options, readiness);
    Ok(process.go_on().await?)
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

/// What loads catalogs, and its logins.
fn loader(options: &Options, egress: Egress, spool: &Path) -> Result<(Arc<Loader>, Arc<Logins>), Error> {
    let (puller, pem) = options.registries.puller(&egress, spool.to_owned(), origin::limits())?;
    let logins = Logins::open(options.registry_auth_file.clone())?;
    // What may be asked without TLS is this machine, and the administrator has named it.
    let is_here = options
        .catalogs
        .iter()
        .any(|catalog| matches!(&catalog.origin, Origin::Http(url) if url.starts_with("http://")));
    let here = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].map(IpNet::from);
    let egress = if is_here { egress.allowing(here) } else { egress };
    let mut options = LoaderOptions::new(Arc::new(puller), spool.to_owned());
    options.extra_ca_pem = pem;
    options.egress = egress;
    let loader = Loader::new(options).map_err(|error| Error::Loader(Box::new(error)))?;
    Ok((Arc::new(loader), Arc::new(logins)))
}

/// Starts the watches and the queue.
fn work(
    process: &mut Process,
    client: Client,
    ((loader, logins), authorities, unpacked): ((Arc<Loader>, Arc<Logins>), Authorities, Arc<CatalogStore>),
    options: &Options,
    readiness: Arc<Readiness>,
) {
    let (operators, deployments) = (Streams::<PlatformOperator>::new(client.clone()), Streams::new(client.clone()));
    let (sources, source_writer) = reflector::store();
    let (sender, requests) = unbounded_channel();
    let events = Arc::new(Events::new(client.clone()));
    let olm = Extensions::new(client.clone());
    let asked = (options.catalog_sources.clone(), authorities);
    let catalogs = Catalogs::new(
        options.catalogs.clone(),
        asked,
        options.require_digests,
        (loader.clone(), logins.clone()),
        sources,
    );
    let context = Arc::new(Context {
        operators: operators.store.clone(),
        deployments: deployments.store.clone(),
        seen: watch::Sender::default(),
        filled: CancellationToken::new(),
        catalogs: Arc::new(catalogs),
        wake: Wake {
            operators: sender,
            cluster_operator: Arc::new(Notify::new()),
            counted: Arc::new(Notify::new()),
            extensions: olm.wake(),
        },
        failures: Failures::default(),
        holds: Holds::default(),
        questions: Questions::default(),
        claims: Claims::default(),
        written: WrittenVersions::default(),
        events: events.clone(),
        client: client.clone(),
    });
    spawn_all(process, (operators, deployments, source_writer), &context, options, readiness);
    let parts = Parts {
        client,
        loader,
        logins,
        content: unpacked,
        deployments: (context.deployments.clone(), context.filled.clone()),
        external: options.catalogs_url(),
        events,
    };
    olm.start(process, parts);
    let about = About { version: options.release_version.clone(), namespace: options.system_namespace.clone() };
    process.spawn(cluster_operator::keep(context.clone(), about));
    let requests = Requests { objects: requests, filled: context.filled.clone(), tasks: process.reconciles() };
    let queue = drain(
        requests,
        context.operators.clone(),
        context,
        CONCURRENCY,
        operator::reconcile,
        |object, error, context| operator::error_policy(&object, error, &context),
    );
    process.spawn(async move {
        queue.await;
        "the queue of PlatformOperators"
    });
}

/// Starts the watches, and what looks after catalogs.
fn spawn_all(
    process: &mut Process,
    (operators, deployments, sources): (Streams<PlatformOperator>, Streams<BundleDeployment>, Writer<CatalogSource>),
    context: &Arc<Context>,
    options: &Options,
    readiness: Arc<Readiness>,
) {
    process.spawn(follow_operators(operators, context.clone()));
    process.spawn(follow_deployments(deployments, context.clone()));
    process.spawn(follow_sources(sources, context.clone()));
    process.spawn(poll(options.catalog_poll_interval, context.clone()));
    process.spawn(recovered(context.clone()));
    process.spawn(filled(context.clone(), readiness));
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
    process.spawn(async move {
        kept.await;
        "the certificate of the catalog server"
    });
    process.spawn_server(async move {
        served.await;
        "the catalog server"
    });
    Ok(())
}

/// A change is news for the object itself; its end for those that wait for its package.
async fn follow_operators(streams: Streams<PlatformOperator>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                context.wake.operator(&object.name_any());
                // It may have given up a package, or be on its way out.
                context.wake.duplicates(&context.operators);
            }
            Change::Gone(object) => {
                let uid = object.uid().unwrap_or_default();
                context.written.forget(&uid);
                context.failures.clear(&uid);
                context.holds.clear(&uid);
                context.questions.forget(&uid);
                context.claims.give_up(&uid);
                context.wake.all(&context.operators);
            }
            Change::Listed => context.wake.all(&context.operators),
        }
        context.seen.send_replace(());
        context.wake.aggregate();
    }
    "the watch over PlatformOperators"
}

/// A BundleDeployment is news for the PlatformOperator of its name: its owner, or one that it is in the way of.
async fn follow_deployments(streams: Streams<BundleDeployment>, context: Arc<Context>) -> &'static str {
    let mut changes = pin!(streams.changes());
    while let Some(change) = changes.next().await {
        match change {
            Change::Present(object) => {
                context.wake.operator(&object.name_any());
                context.wake.extensions.deployment(&object);
            }
            Change::Gone(object) => {
                context.wake.extensions.deployment(&object);
                context.written.forget(&object.uid().unwrap_or_default());
                context.wake.operator(&object.name_any());
                // Its owner may have been on its way out, with others waiting for the package.
                context.wake.duplicates(&context.operators);
            }
            Change::Listed => {
                context.wake.all(&context.operators);
                context.wake.extensions.all();
            }
        }
        context.seen.send_replace(());
    }
    "the watch over BundleDeployments"
}

/// Follows CatalogSources while the cluster has OLM.
async fn follow_sources(writer: Writer<CatalogSource>, context: Arc<Context>) -> &'static str {
    let sources = context.catalogs.sources();
    let writer = Mutex::new(writer);
    let work = || watch_sources(&writer, &context);
    let absent = || {
        sources.set_served(false);
        sources.set_seen();
        sources.all_changed();
        context.wake.all(&context.operators);
    };
    // Once they are served, it is the watch over themselves that counts.
    let trouble = |error: &watcher::Error| {
        if !sources.are_served() {
            in_trouble(&context, error);
        }
    };
    while_defined(context.client.clone(), CATALOG_SOURCES, work, absent, trouble).await;
    "the watch over CatalogSources"
}

/// Whatever keeps CatalogSources from being seen must not keep the rest from being done.
fn in_trouble(context: &Context, error: &watcher::Error) {
    let text = Chain(error).to_string();
    tracing::warn!(error = text, "cannot watch CatalogSources; trying again");
    context.catalogs.sources().in_trouble(text);
}

async fn watch_sources(writer: &Mutex<Writer<CatalogSource>>, context: &Context) {
    let mut writer = writer.lock().await;
    let sources = context.catalogs.sources();
    sources.set_served(true);
    let api: Api<CatalogSource> = Api::all(context.client.clone());
    let mut events = pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                in_trouble(context, &error);
                continue;
            }
        };
        writer.apply_watcher_event(&event);
        let is_news = match &event {
            Event::Apply(object) | Event::Delete(object) => sources.changed(object),
            Event::InitDone => {
                sources.set_seen();
                sources.all_changed();
                true
            }
            Event::Init | Event::InitApply(_) => false,
        };
        if is_news {
            context.catalogs.count();
            context.wake.all(&context.operators);
        }
    }
}

/// Tells all who wait when the stores are filled. They cannot each ask the stores: of several that wait for one store of
/// kube-runtime 5.0, only the last is woken.
async fn filled(context: Arc<Context>, readiness: Arc<Readiness>) -> &'static str {
    context.catalogs.sources().known().cancelled().await;
    if context.operators.wait_until_ready().await.is_ok() && context.deployments.wait_until_ready().await.is_ok() {
        context.filled.cancel();
        context.wake.aggregate();
        readiness.caches(Ok(()));
        tracing::info!("ready");
    }
    ""
}

/// Finds out whether the API types are served, for the readiness probe.
async fn definitions(client: Client, readiness: Arc<Readiness>) -> &'static str {
    const HINT: &str = "apply the CustomResourceDefinitions of manifests/base/crds";
    let ask = || async {
        let operators: Api<PlatformOperator> = Api::all(client.clone());
        let deployments: Api<BundleDeployment> = Api::all(client.clone());
        let one = ListParams::default().limit(1);
        operators.list_metadata(&one).await?;
        deployments.list_metadata(&one).await.map(|_| ())
    };
    probes::until_served(&readiness, HINT, ask).await;
    ""
}

/// Looks for new revisions of the catalogs that are read here.
async fn poll(interval: Duration, context: Arc<Context>) -> &'static str {
    context.catalogs.poll(interval, || context.wake.all(&context.operators)).await;
    ""
}

/// One who asked was answered: so can all be who asked in vain.
async fn recovered(context: Arc<Context>) -> &'static str {
    loop {
        context.catalogs.recovered().await;
        context.wake.all(&context.operators);
    }
}
