//! OLM v0's API, on the same BundleDeployments: Subscriptions with their CatalogSources, OperatorGroups, InstallPlans and
//! ClusterServiceVersions.
//!
//! ```text
//! gate             whether OLM itself runs                                               API server
//! catalog_source   CatalogSource    observe -> read -> report                            network
//! operator_group   OperatorGroup    observe -> targets (pure) -> report
//! subscription     Subscription     observe -> choose (rukpak-resolver) -> its BundleDeployment -> report
//! stage            how far a BundleDeployment is, in the words that the kinds need       pure
//! service_version  BundleDeployment observe -> InstallPlan -> ClusterServiceVersion -> report; deleted with the latter
//! ```
//!
//! A BundleDeployment has no owner here: Subscriptions are in namespaces. It lives as long as its ClusterServiceVersion.

mod catalog_source;
mod context;
mod deployment;
mod gate;
mod operator_group;
mod service_version;
mod stage;
mod start;
mod subscription;

use rukpak_crds::BundleDeployment;

pub(crate) use start::{Facade, Parts, Wake};

/// Whether a BundleDeployment was made for a Subscription.
pub(crate) fn is_of_subscription(deployment: &BundleDeployment) -> bool {
    deployment::Unit::of(deployment).is_some()
}
