//! Kinds of others: OLM's CatalogSource, and OpenShift's ClusterOperator and ClusterVersion, as far as they are read and written here.

use jiff::Timestamp;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use rukpak_crds::ConditionStatus;

/// Name of the CRD of [`CatalogSource`].
pub const CATALOG_SOURCES: &str = "catalogsources.operators.coreos.com";
/// Name of the CRD of [`ClusterOperator`].
pub const CLUSTER_OPERATORS: &str = "clusteroperators.config.openshift.io";
/// Name of the CRD of [`ClusterVersion`].
pub const CLUSTER_VERSIONS: &str = "clusterversions.config.openshift.io";

/// What a CatalogSource asks for, as far as it is read: what tells one revision from the next, and its place among the others.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    namespaced,
    schema = "disabled",
    status = "CatalogSourceStatus"
)]
pub struct CatalogSourceSpec {
    /// The image with the catalog.
    #[serde(default)]
    pub image: Option<String>,
    /// Which of several that have a package provides it: the highest.
    #[serde(default)]
    pub priority: i32,
}

/// What became of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceStatus {
    /// The connection that OLM has to it.
    #[serde(default)]
    pub connection_state: Option<ConnectionState>,
    /// The Service in front of it.
    #[serde(default)]
    pub registry_service: Option<RegistryService>,
}

/// A connection to a catalog server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionState {
    /// `host:port`.
    #[serde(default)]
    pub address: String,
    /// `READY`, or what gRPC calls the states of a connection besides.
    #[serde(default)]
    pub last_observed_state: String,
    #[serde(default)]
    pub last_connect: Option<String>,
}

/// The Service in front of a catalog Pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryService {
    /// When it was made.
    #[serde(default)]
    pub created_at: Option<String>,
}

/// A ClusterOperator has nothing to ask for.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    schema = "disabled",
    status = "ClusterOperatorStatus"
)]
pub struct ClusterOperatorSpec {}

/// How a part of the cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOperatorStatus {
    #[serde(default)]
    pub conditions: Vec<ClusterCondition>,
    #[serde(default)]
    pub versions: Vec<OperandVersion>,
    /// What to look at, for people and for `oc adm inspect`.
    #[serde(default)]
    pub related_objects: Vec<RelatedObject>,
}

/// A condition of a ClusterOperator. Unlike `metav1.Condition` it may have neither reason nor message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    pub last_transition_time: Timestamp,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A version of something that runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct OperandVersion {
    pub name: String,
    pub version: String,
}

/// An object, or all of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RelatedObject {
    /// API group; empty for the core group.
    pub group: String,
    pub resource: String,
    /// Empty for all of them.
    pub name: String,
}

/// What a ClusterVersion asks for is not read.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    schema = "disabled",
    status = "ClusterVersionStatus"
)]
pub struct ClusterVersionSpec {}

/// Which OpenShift the cluster is.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ClusterVersionStatus {
    /// What it is, or is being made.
    #[serde(default)]
    pub desired: ClusterRelease,
    /// What it has been made, the newest first.
    #[serde(default)]
    pub history: Vec<ClusterRelease>,
}

/// A release of OpenShift.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ClusterRelease {
    /// `Completed`, or `Partial`; only in the history.
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub version: String,
}
