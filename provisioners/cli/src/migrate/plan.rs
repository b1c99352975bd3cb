//! Who has the BundleDeployment, who shall, and whether that changes nothing. Reads the cluster and its catalogs.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use rukpak_crds::olm::ClusterExtension;
use rukpak_crds::olm::cluster_extension::CatalogFilter;
use rukpak_crds::{BundleDeployment, PlatformOperator};
use rukpak_plan::owner::controller;
use serde_json::Value;

use super::objects::{self, Package};
use super::{Plan, made};
use crate::args::{Kind, MigrateArgs};
use crate::cluster::Cluster;
use crate::extension::{existing, installed, why};
use crate::failure::Failure;

/// Kinds of which a bundle has objects in no namespace but its own.
const INSTALLED_KINDS: [&str; 2] = ["ServiceAccount", "Deployment"];

pub(super) async fn plan(
    cluster: &Cluster,
    arguments: &MigrateArgs,
    (from, name): (Kind, &str),
) -> Result<Plan, Failure> {
    if arguments.to == Some(Kind::Subscription) {
        let text = "--to subscription is for what OLM has installed for that very subscription";
        return Err(Failure::no(text).hint("rukpakctl migrate subscription/NAME --to subscription"));
    }
    let (deployment, is_owned, package) = match from {
        Kind::Operator => {
            let operator: PlatformOperator = cluster.get(name).await?;
            let source = operator.status.as_ref().and_then(|status| status.source.as_ref());
            let package =
                source.map(|source| Package { name: source.package.clone(), version: source.version.clone() });
            (of_owner(cluster, name, operator.uid().as_deref()).await?, true, package)
        }
        Kind::Extension => {
            let extension = existing(cluster, name).await?;
            let catalog = extension.spec.source.catalog.as_ref();
            let package = installed(&extension).zip(catalog).map(|(installed, catalog)| Package {
                name: catalog.package_name.clone(),
                version: installed.version.to_owned(),
            });
            (of_owner(cluster, name, extension.uid().as_deref()).await?, true, package)
        }
        Kind::Deployment | Kind::Subscription => (cluster.existing(name).await?, false, None),
    };
    let left = controller(&deployment.metadata).cloned();
    if let Some(OwnerReference { kind, name, .. }) = left.as_ref().filter(|_| !is_owned) {
        let hint = format!("rukpakctl migrate {}/{name}", kind.to_lowercase());
        let text = format!("bundledeployment {:?} belongs to {kind} {name:?}", deployment.name_any());
        return Err(Failure::no(text).hint(hint));
    }
    let wanted = match arguments.to.unwrap_or(Kind::Extension) {
        to if to == from => {
            return Err(Failure::no(format!("{name:?} is what it shall be: name another kind by --to")));
        }
        Kind::Deployment | Kind::Subscription => None,
        Kind::Operator => {
            let package = package.ok_or_else(|| nothing_installed(name))?;
            Some(made(objects::operator(&deployment, &package)))
        }
        Kind::Extension => {
            let place = (arguments.namespace.as_deref(), arguments.server.system_namespace.as_str());
            Some(made(extension(cluster, place, &deployment, package).await?))
        }
    };
    Ok(Plan { deployment, made: wanted, left })
}

fn nothing_installed(name: &str) -> Failure {
    Failure::no(format!("nothing of {name:?} is installed, or it is not known what")).hint("rukpakctl status")
}

/// The BundleDeployment that was made for an object.
async fn of_owner(cluster: &Cluster, name: &str, uid: Option<&str>) -> Result<BundleDeployment, Failure> {
    let all: Vec<BundleDeployment> = cluster.list(None).await?;
    let is_of = |deployment: &BundleDeployment| {
        controller(&deployment.metadata).is_some_and(|owner| Some(owner.uid.as_str()) == uid)
    };
    all.into_iter().find(is_of).ok_or_else(|| nothing_installed(name))
}

/// The ClusterExtension, if it would have the very image that is installed. Catalogs are looked for in the system's namespace.
pub(super) async fn extension(
    cluster: &Cluster,
    (namespace, system_namespace): (Option<&str>, &str),
    deployment: &BundleDeployment,
    package: Option<Package>,
) -> Result<Value, Failure> {
    let image = deployment.spec.template.spec.source.image.as_ref().map(|image| image.reference.as_str());
    let image = image.ok_or_else(|| Failure::no(format!("{:?} is installed from no image", deployment.name_any())))?;
    let looked = why::look(cluster, &CatalogFilter::default(), system_namespace).await?;
    let package = package.or_else(|| package_of_image(&looked, image)).ok_or_else(|| {
        Failure::no(format!("no ClusterCatalog has a bundle whose image is {image}"))
            .hint("kubectl get clustercatalogs")
    })?;
    let namespace = match namespace {
        Some(namespace) => namespace.to_owned(),
        None => seen_namespace(cluster, deployment).await?,
    };
    let made = objects::extension(deployment, &package, &namespace);
    let typed: ClusterExtension =
        serde_json::from_value(made.clone()).map_err(|error| Failure::unknown(error.to_string()))?;
    let filter = typed.spec.catalog().map_err(|violation| Failure::no(violation.to_string()))?;
    match why::answer(&typed, filter, &looked)?.chosen_image() {
        Ok(chosen) if chosen == image => Ok(made),
        Ok(chosen) => Err(Failure::no(format!("the ClusterExtension would install {chosen} in place of {image}"))),
        Err(message) => Err(Failure::no(format!("the ClusterExtension would find no bundle: {message}"))),
    }
}

/// The package and the version of the bundle with this image, in the first catalog that has it.
fn package_of_image(looked: &[why::AskedCatalog], image: &str) -> Option<Package> {
    let catalogs = looked.iter().filter_map(why::AskedCatalog::catalog);
    let mut packages = catalogs.flat_map(|catalog| catalog.packages.values());
    packages.find_map(|package| {
        let bundle = package.bundle_of_image(image)?;
        Some(Package { name: package.name.clone(), version: bundle.version_text.clone() })
    })
}

/// The namespace that the operator is in.
async fn seen_namespace(cluster: &Cluster, deployment: &BundleDeployment) -> Result<String, Failure> {
    let inventory = deployment.status.as_ref().and_then(|status| status.inventory.as_ref());
    let kinds = inventory.iter().flat_map(|inventory| &inventory.kinds);
    let mut namespaces = BTreeSet::new();
    for kind in kinds.filter(|kind| INSTALLED_KINDS.contains(&kind.kind.as_str())) {
        let owned = cluster.owned(deployment, kind).await?.unwrap_or_default();
        namespaces.extend(owned.iter().filter_map(kube::ResourceExt::namespace));
    }
    match (namespaces.pop_first(), namespaces.is_empty()) {
        (Some(namespace), true) => Ok(namespace),
        _ => Err(Failure::no("it cannot be seen which namespace the operator is in").hint("name it by --namespace")),
    }
}
