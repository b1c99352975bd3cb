//! `rukpakctl extension why`: the resolution of a ClusterExtension once more, with what its catalogs hold now, step by step.

mod answer;

use kube::ResourceExt as _;
use rukpak_catalog::resolve::{Error, Installed, Offer, Request, explain};
use rukpak_catalog::version::Constraint;
use rukpak_catalog::{Catalog, origin, read};
use rukpak_crds::names;
use rukpak_crds::olm::cluster_catalog::AvailabilityMode;
use rukpak_crds::olm::cluster_extension::{CatalogFilter, UpgradeConstraintPolicy};
use rukpak_crds::olm::{ClusterCatalog, ClusterExtension};

pub(crate) use self::answer::Answer;
use super::{existing, installed};
use crate::args::WhyExtensionArgs;
use crate::catalog::served;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::chain;

/// A ClusterCatalog, and what of it was looked at.
pub(crate) struct AskedCatalog {
    name: String,
    priority: i32,
    /// What it holds; or why it was not asked.
    content: Result<Catalog, Unasked>,
}

impl AskedCatalog {
    /// What it holds, if it was asked.
    pub(crate) fn catalog(&self) -> Option<&Catalog> {
        self.content.as_ref().ok()
    }

    /// Why nothing is resolved yet: it is chosen, and not served.
    pub(crate) fn unserved(&self) -> Option<String> {
        match &self.content {
            Err(why @ Unasked::NotServed(_)) => Some(why.to_string()),
            _ => None,
        }
    }

    /// Its name, its priority, and what it holds, if it was asked.
    pub(crate) fn into_offer(self) -> Option<(String, i32, Catalog)> {
        Some((self.name, self.priority, self.content.ok()?))
    }
}

/// Why a catalog was not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unasked {
    /// The selector leaves it out.
    #[error("spec.source.catalog.selector does not choose this catalog")]
    NotSelected,
    /// Its own spec leaves it out.
    #[error("its spec.availabilityMode is Unavailable")]
    Unavailable,
    /// It is chosen and has nothing to show. Nothing is resolved while this is so.
    #[error("{0}; nothing is resolved before it is, as another bundle might be chosen then")]
    NotServed(String),
}

/// Asks the cluster and its catalogs. Yes if a bundle is chosen.
pub(super) async fn why(arguments: &WhyExtensionArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let extension = existing(&cluster, &arguments.name).await?;
    let filter = extension.spec.catalog().map_err(|violation| Failure::no(violation.to_string()))?;
    let looked = look(&cluster, filter, &arguments.server.system_namespace).await?;
    let answer = answer(&extension, filter, &looked)?;
    Ok(answer.print(arguments.output.form))
}

/// Fetches what the catalogs hold that `filter` selects.
pub(crate) async fn look(
    cluster: &Cluster,
    filter: &CatalogFilter,
    system_namespace: &str,
) -> Result<Vec<AskedCatalog>, Failure> {
    let selector = filter.selector().map_err(|error| Failure::no(error.to_string()))?;
    let mut looked = Vec::new();
    for catalog in cluster.list::<ClusterCatalog>(None).await? {
        let content = if !selector.chooses(&catalog) {
            Err(Unasked::NotSelected)
        } else if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
            Err(Unasked::Unavailable)
        } else {
            content(cluster, &catalog, system_namespace).await?
        };
        looked.push(AskedCatalog { name: catalog.name_any(), priority: catalog.spec.priority, content });
    }
    Ok(looked)
}

async fn content(
    cluster: &Cluster,
    catalog: &ClusterCatalog,
    system_namespace: &str,
) -> Result<Result<Catalog, Unasked>, Failure> {
    if let Err(why) = served::base_of(catalog) {
        return Ok(Err(Unasked::NotServed(why)));
    }
    let mut documents = served::fetch(cluster, catalog, system_namespace).await?;
    let read = read::catalog_of_stream(&catalog.name_any(), &mut documents, &origin::limits());
    read.map(Ok).map_err(|error| Failure::unknown(chain(&error)))
}

/// The range of versions that is asked for.
pub(crate) fn range(filter: &CatalogFilter) -> Result<Option<Constraint>, Failure> {
    let range = filter.version.as_deref().filter(|text| !text.is_empty()).map(Constraint::parse).transpose();
    range.map_err(|error| Failure::no(format!("desired version range is invalid: {error}")))
}

/// What the catalogs offer of the package.
pub(crate) fn offers<'a>(looked: &'a [AskedCatalog], filter: &CatalogFilter) -> Vec<Offer<'a>> {
    let offer = |looked: &'a AskedCatalog| {
        let package = looked.catalog()?.packages.get(&filter.package_name)?;
        Some(Offer { catalog: &looked.name, priority: looked.priority, package })
    };
    looked.iter().filter_map(offer).collect()
}

/// What is asked of the catalogs.
pub(crate) fn request<'a>(
    extension: &'a ClusterExtension,
    filter: &'a CatalogFilter,
    version: Option<&'a Constraint>,
) -> Request<'a> {
    let installed = installed(extension);
    let ignored = extension.annotations().get(names::IGNORE_DEPENDENCIES);
    Request {
        package: &filter.package_name,
        version,
        channels: &filter.channels,
        installed: installed.map(|it| Installed { name: it.bundle, version: it.version, release: it.release }),
        is_self_certified: filter.upgrade_constraint_policy == UpgradeConstraintPolicy::SelfCertified,
        ignores_dependencies: ignored.is_some_and(|said| said == "true"),
    }
}

/// What is printed. Pure.
pub(crate) fn answer(
    extension: &ClusterExtension,
    filter: &CatalogFilter,
    looked: &[AskedCatalog],
) -> Result<Answer, Failure> {
    let range = range(filter)?;
    let (offers, installed) = (offers(looked, filter), installed(extension));
    let request = request(extension, filter, range.as_ref());
    let explanation = explain(&offers, request);
    // The controller has seen what it depends on: PlatformOperators and other extensions may have installed that.
    let is_met = |bundle: &String| installed.is_some_and(|installed| installed.bundle == bundle);
    let explanation = match &explanation.outcome {
        Err(Error::Dependency { bundle, .. }) if is_met(bundle) => {
            explain(&offers, Request { ignores_dependencies: true, ..request })
        }
        _ => explanation,
    };
    Ok(Answer::of(filter, installed, looked, &explanation))
}

#[cfg(test)]
mod tests;
