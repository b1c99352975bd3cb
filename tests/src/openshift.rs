//! OpenShift, as far as `rukpak-platform` looks at it: the kinds that OpenShift and OLM bring, the ClusterOperator, catalogs, and
//! the PlatformOperators that people write. Whatever goes wrong ends the test and says why.
//!
//! The programs of OpenShift and OLM do not run. What they would write is written here.

mod catalog_source;

use std::path::PathBuf;

use kube::Client;
use serde_json::{Value, json};

pub use self::catalog_source::CatalogSource;
use crate::verbs::{self, Target};
use crate::{InstallOptions, tools};

/// Namespace and name of the CatalogSource that OpenShift's manager reads, and no other.
pub const DEFAULT_CATALOG: (&str, &str) = ("openshift-marketplace", "redhat-operators");

/// Files with the definitions of CatalogSources, which are OLM's, and of ClusterOperators and ClusterVersions, which are OpenShift's.
pub fn definitions() -> [PathBuf; 3] {
    let folder = tools::crate_folder().join("fixtures/openshift");
    ["catalogsources.yaml", "clusteroperators.yaml", "clusterversions.yaml"].map(|file| folder.join(file))
}

/// All that is to be installed where there is an OpenShift: the manifests with `rukpak-platform`, and the [`definitions`].
pub fn manifests() -> InstallOptions {
    let mut options = InstallOptions::with_platform();
    options.files.extend(definitions());
    options
}

/// Makes what a plane with the [`definitions`] lacks of an OpenShift: the ClusterOperator, and its catalog with a connection.
///
/// # Panics
/// Where the API server refuses it.
pub async fn open(client: &Client, catalog: &CatalogSource) {
    // As the cluster-version operator makes it: the status is the manager's.
    let target = cluster_operator();
    let object =
        json!({"apiVersion": target.api_version, "kind": target.kind, "metadata": {"name": target.name}, "spec": {}});
    verbs::create(client, &object).await.unwrap_or_else(|error| panic!("{error:#}"));
    catalog.connect(client).await;
}

/// Names the ClusterOperator that sums up all PlatformOperators.
pub fn cluster_operator() -> Target {
    Target::cluster("config.openshift.io/v1", "ClusterOperator", "platform-operators-aggregated")
}

/// Names a PlatformOperator.
pub fn platform_operator(name: &str) -> Target {
    Target::cluster("platform.openshift.io/v1alpha1", "PlatformOperator", name)
}

/// A PlatformOperator.
#[expect(clippy::needless_pass_by_value, reason = "callers make the spec in place")]
pub fn operator(name: &str, spec: Value) -> Value {
    let target = platform_operator(name);
    json!({"apiVersion": target.api_version, "kind": target.kind, "metadata": {"name": name}, "spec": spec})
}
