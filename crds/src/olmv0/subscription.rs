//! Subscription: a package of a catalog, which is installed and followed.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ConditionStatus;

/// Value of `spec.installPlanApproval` that has an effect: everything else is automatic.
pub const MANUAL: &str = "Manual";

/// SubscriptionSpec says which package is followed, and where.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    plural = "subscriptions",
    singular = "subscription",
    shortname = "sub",
    shortname = "subs",
    category = "olm",
    namespaced,
    status = "SubscriptionStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Package","type":"string","description":"The package subscribed to","jsonPath":".spec.name"}"#,
    printcolumn = r#"{"name":"Source","type":"string","description":"The catalog source for the specified package","jsonPath":".spec.source"}"#,
    printcolumn = r#"{"name":"Channel","type":"string","description":"The channel of updates to subscribe to","jsonPath":".spec.channel"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// Name of the package.
    pub name: String,
    /// Source is the name of the CatalogSource.
    pub source: String,
    /// SourceNamespace is its namespace: that of the Subscription, or that of global catalogs.
    pub source_namespace: String,
    /// Channel of the package. Empty: any, the default channel first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// StartingCSV is the bundle that the first installation begins with.
    #[serde(default, rename = "startingCSV", skip_serializing_if = "String::is_empty")]
    pub starting_csv: String,
    /// InstallPlanApproval: Manual asks before each installation and upgrade, everything else does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub install_plan_approval: String,
    /// Config has changes to the Deployments of the operator: env, envFrom, resources, nodeSelector, tolerations, affinity, volumes,
    /// volumeMounts, annotations. ApiRoles: whether whoever has admin, edit or view in a namespace may use the operator's APIs there; true
    /// by default, unless the OperatorGroup names a ServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Map<String, Value>>,
}

/// SubscriptionStatus says how far the package is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// CurrentCSV is the ClusterServiceVersion that the Subscription moves to.
    #[serde(default, rename = "currentCSV", skip_serializing_if = "String::is_empty")]
    pub current_csv: String,
    /// InstalledCSV is the last one that was there.
    #[serde(default, rename = "installedCSV", skip_serializing_if = "String::is_empty")]
    pub installed_csv: String,
    /// InstallPlanRef is the latest InstallPlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_ref: Option<Reference>,
    /// Installplan is the same, as older clients read it.
    #[serde(default, rename = "installplan", skip_serializing_if = "Option::is_none")]
    pub install_plan: Option<OldReference>,
    /// InstallPlanGeneration is the number of that InstallPlan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_generation: Option<i64>,
    /// State in one word: UpgradePending or AtLatestKnown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Reason is never set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// CatalogHealth lists all CatalogSources that the Subscription could name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalog_health: Vec<CatalogHealth>,
    /// Conditions are there where something is not as it should be; but for CatalogSourcesUnhealthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SubscriptionCondition>,
    /// LastUpdated is when the status was last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_updated: Timestamp,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Reference {
    /// Its API version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its UID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// An InstallPlan, as older clients read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OldReference {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uuid: String,
}

/// How a CatalogSource is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogHealth {
    /// The CatalogSource.
    pub catalog_source_ref: Reference,
    /// Whether it can be read.
    pub healthy: bool,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_updated: Timestamp,
}

/// A condition of a Subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// LastHeartbeatTime is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_heartbeat_time: Option<Timestamp>,
    /// LastTransitionTime is when the status was last another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
}

/// Names of Secrets with logins for the images of the operator, in `spec.config` (additive).
pub const IMAGE_PULL_SECRETS: &str = "imagePullSecrets";
/// Fields of `spec.config` that a BundleDeployment has in its `deploymentConfig`, with the same meaning.
pub const CARRIED_SETTINGS: [&str; 10] = [
    "env",
    "envFrom",
    "volumes",
    "volumeMounts",
    "tolerations",
    "resources",
    "nodeSelector",
    "affinity",
    "annotations",
    IMAGE_PULL_SECRETS,
];

impl SubscriptionSpec {
    /// Whether somebody has to agree before anything is installed.
    pub fn is_manual(&self) -> bool {
        self.install_plan_approval == MANUAL
    }
}
