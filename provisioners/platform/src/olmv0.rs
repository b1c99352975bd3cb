//! OLM v0's API, on the same BundleDeployments: Subscriptions with their CatalogSources, OperatorGroups, InstallPlans and
//! ClusterServiceVersions.
//!
//! ```text
//! gate             whether OLM itself runs                                               API server
//! catalog_source   CatalogSource    observe -> read -> report                            network
//! operator_group   OperatorGroup    observe -> targets (pure) -> report
//! membership       the OperatorGroups of a namespace -> which namespaces are watched     pure
//! subscription     Subscription     observe -> choose (rukpak-resolver) -> its BundleDeployment -> report
//! packages         CatalogSources   memory -> PackageManifests, over HTTPS
//! registry         CatalogSources   memory and disk -> the registry's API, over gRPC
//! neighbours       BundleDeployments of a package in other namespaces -> whether it may be there          memory
//! stage            how far a BundleDeployment is, in the words that the kinds need       pure
//! service_version  BundleDeployment observe -> InstallPlan -> ClusterServiceVersion -> report; deleted with the latter
//! bundles          the ClusterServiceVersion that is in a bundle's image                 network
//! components       BundleDeployment list by label -> Operator                             API server
//! told             what Operators were told                                              memory
//! unit             a package in a namespace <-> its BundleDeployment                     pure
//! wake             passes that are asked for                                             queues
//! olm_config       OLMConfig        report
//! ```
//!
//! A BundleDeployment has no owner here: Subscriptions are in namespaces. It lives as long as its ClusterServiceVersion.

mod bundles;
mod catalog_source;
mod components;
mod context;
mod deployment;
mod gate;
mod membership;
mod neighbours;
mod olm_config;
mod operator_group;
pub(crate) mod packages;
mod registry;
mod service_version;
mod stage;
mod start;
mod subscription;
mod told;
mod unit;
mod wake;

use rukpak_crds::BundleDeployment;
pub(crate) use rukpak_crds::olmv0::installation::deployment_name;

pub(crate) use registry::Endpoint;
pub(crate) use start::{Facade, Parts};
pub(crate) use wake::Wake;

/// The namespace and the package of the Subscription that a BundleDeployment was made for, if it was.
pub(crate) fn subscribed(deployment: &BundleDeployment) -> Option<(String, String)> {
    unit::Unit::of(deployment).map(|unit| (unit.namespace, unit.package))
}
