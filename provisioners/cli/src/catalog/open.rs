//! A place becomes a catalog.

use std::env;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use rukpak_catalog::model::Facts;
use rukpak_catalog::origin::{self, Loaded, Loader, Origin, Revision};
use rukpak_catalog::{Bundle, Catalog, Package, read, registry};
use rukpak_crds::olm::ClusterCatalog;
use rukpak_source::Egress;
use rukpak_source::http::FetcherOptions;

use super::location::CatalogLocation;
use super::served;
use crate::args::CatalogArgs;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::chain;
use crate::registries::Registries;

/// How long a running catalog may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions that a running catalog is asked at the same time.
const AT_ONCE: usize = 8;

/// A catalog and where it came from.
pub(super) struct Opened {
    pub(super) catalog: Catalog,
    pub(super) from: String,
    /// A running catalog knows more than it lists.
    client: Option<registry::Client>,
}

impl Opened {
    /// Loads the catalog that the flags name. A running catalog is asked for each package, or for `wanted` alone.
    ///
    /// # Errors
    /// The catalog is not to be had. Nothing is known of its packages then, also where a server or the cluster refuses.
    pub(super) async fn new(arguments: &CatalogArgs, wanted: Option<&str>) -> Result<Self, Failure> {
        let place = CatalogLocation::new(&arguments.catalog).map_err(Failure::unknown)?;
        let mut from = place.to_string();
        let (catalog, client) = match &place {
            CatalogLocation::Origin(origin) => {
                let (catalog, name) = load(origin, arguments).await?;
                from = name;
                (catalog, None)
            }
            CatalogLocation::File(path) => {
                let opened = File::open(path);
                let opened = opened.map_err(|error| Failure::during(format!("read {}", path.display()), &error))?;
                (of_documents(&from, opened)?, None)
            }
            CatalogLocation::Cluster(name) => {
                let documents = of_cluster(name, arguments).await.map_err(Failure::undecided)?;
                (of_documents(&from, documents)?, None)
            }
            CatalogLocation::Grpc(address) => {
                let client = registry::Client::connect(address, PATIENCE).await.map_err(|error| unanswered(&error))?;
                (ask(&client, wanted).await.map_err(|error| unanswered(&error))?, Some(client))
            }
        };
        Ok(Self { catalog, from, client })
    }

    /// What the catalog states about a bundle, as the manager asks for it.
    pub(super) async fn facts(
        &self,
        package: &Package,
        bundle: &Bundle,
        channel: Option<&str>,
    ) -> Result<Facts, registry::Error> {
        match (&self.client, channel) {
            (Some(client), Some(channel)) => client.facts(package, channel, &bundle.name).await,
            _ => Ok(bundle.facts.clone()),
        }
    }
}

fn unanswered(error: &registry::Error) -> Failure {
    Failure::unknown(chain(error))
}

fn of_documents(from: &str, mut documents: File) -> Result<Catalog, Failure> {
    read::catalog_of_stream(from, &mut documents, &origin::limits()).map_err(|error| Failure::unknown(chain(&error)))
}

/// The documents of a ClusterCatalog.
async fn of_cluster(name: &str, arguments: &CatalogArgs) -> Result<File, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let catalog: ClusterCatalog = cluster.get(name).await?;
    served::fetch(&cluster, &catalog, &arguments.server.system_namespace).await
}

async fn load(origin: &Origin, arguments: &CatalogArgs) -> Result<(Catalog, String), Failure> {
    let mut registries = Registries::new(&arguments.trust, origin::limits())?;
    if let Origin::Image(image) = origin {
        registries.log_in_for(image).await;
    }
    let loader = loader(origin, &registries)?;
    match answered(origin, &registries, loader.load_with(origin, None, registries.credentials()).await)? {
        Loaded::New(catalog, revision) => Ok((catalog, named(origin, &revision))),
        // Nothing was known before.
        Loaded::Unchanged => Ok((Catalog::default(), origin.to_string())),
    }
}

fn loader(origin: &Origin, registries: &Registries) -> Result<Loader, Failure> {
    let mut options = FetcherOptions::new(env::temp_dir(), origin::limits());
    options.egress = Egress::anywhere();
    options.extra_ca_pem.clone_from(&registries.extra_ca_pem);
    Loader::new(Arc::clone(&registries.puller), options).map_err(|error| Failure::during(origin, &error))
}

fn answered<T>(origin: &Origin, registries: &Registries, answer: Result<T, origin::Error>) -> Result<T, Failure> {
    if answer.is_err() && matches!(origin, Origin::Image(_)) {
        registries.note_helpers();
    }
    answer.map_err(|error| Failure::during(origin, &error))
}

/// What was pulled is named by its digest.
fn named(origin: &Origin, revision: &Revision) -> String {
    match origin {
        Origin::Image(_) => format!("{origin} ({})", revision.0),
        Origin::Folder(path) => path.display().to_string(),
        Origin::Http(_) => origin.to_string(),
    }
}

async fn ask(client: &registry::Client, wanted: Option<&str>) -> Result<Catalog, registry::Error> {
    let mut catalog = client.catalog().await?;
    let is_wanted = |name: &&String| wanted.is_none_or(|wanted| name.as_str() == wanted);
    let names: Vec<String> = catalog.packages.keys().filter(is_wanted).cloned().collect();
    let asked =
        stream::iter(names).map(async |name| Ok::<_, registry::Error>((client.package_details(&name).await?, name)));
    let details: Vec<_> = asked.buffer_unordered(AT_ONCE).try_collect().await?;
    for (details, name) in details {
        if let Some(package) = catalog.packages.get_mut(&name) {
            details.apply(package);
        }
    }
    Ok(catalog)
}
