//! OLM packages, installed by their names: PlatformOperators, OLM v1's ClusterExtensions and ClusterCatalogs, OLM v0's Subscriptions. The
//! program `rukpak-platform`.
//!
//! ```text
//! ClusterExtension   observe -> resolve -> decide -> apply -> report                   a BundleDeployment each
//! ClusterObjectSet   resolve -> apply -> report                                        a BundleDeployment for each phase
//! ClusterCatalog     observe -> decide -> resolve, unpack -> report                    content -> HTTP
//! Subscription       observe -> resolve -> apply -> report                             a BundleDeployment each
//! PlatformOperator   observe -> bundle deployment -> (catalog -> choose -> check -> create | follow the graph) -> report
//! ClusterOperator    all PlatformOperators -> aggregate -> report
//! ```
//!
//! A program of its own, because it needs few rights: it writes BundleDeployments and statuses, and never the objects of a
//! bundle. Source of what is visible: OpenShift's platform operators of the 4.12 line.

pub mod args;
mod catalog_server;
mod catalogs;
mod cluster_catalog;
mod cluster_extension;
mod cluster_object_set;
mod cluster_operator;
mod context;
mod dependencies;
mod events;
#[cfg(test)]
mod fixtures;
mod follow;
mod foreign;
mod image;
mod installed;
mod logins;
mod metrics;
mod olm;
mod olmv0;
mod operator;
mod outcome;
mod owned;
mod policies;
mod run;
mod single_flight;
mod spool;

pub use cluster_catalog::{Images, Pulled};
pub use run::{Error, lead, run};
