//! InstallPlan: what is to be installed for a Subscription, and whether somebody agreed.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::subscription::Reference;
use crate::ConditionStatus;

/// InstallPlanSpec is what is asked, and the answer.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "InstallPlan",
    plural = "installplans",
    singular = "installplan",
    shortname = "ip",
    category = "olm",
    namespaced,
    status = "InstallPlanStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"CSV","type":"string","description":"The first CSV in the list of clusterServiceVersionNames","jsonPath":".spec.clusterServiceVersionNames[0]"}"#,
    printcolumn = r#"{"name":"Approval","type":"string","description":"The approval mode","jsonPath":".spec.approval"}"#,
    printcolumn = r#"{"name":"Approved","type":"boolean","jsonPath":".spec.approved"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanSpec {
    /// ClusterServiceVersionNames are the versions that are to be installed.
    pub cluster_service_version_names: Vec<String>,
    /// Approval: Automatic or Manual.
    pub approval: String,
    /// Approved is the answer, and the only field that others change.
    pub approved: bool,
    /// Generation counts the InstallPlans of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Source has no effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// SourceNamespace has no effect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source_namespace: String,
}

/// InstallPlanStatus says how far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanStatus {
    /// Phase: RequiresApproval, Installing, Complete or Failed.
    pub phase: String,
    /// CatalogSources are the names of those that it is of.
    #[serde(default)]
    pub catalog_sources: Vec<String>,
    /// Plan lists what is installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// BundleLookups are not set: bundles are read before there is a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true), with = "Option<Vec<Map<String, Value>>>")]
    pub bundle_lookups: Option<Vec<Value>>,
    /// Conditions: Installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<InstallPlanCondition>,
    /// AttenuatedServiceAccountRef is the ServiceAccount of the OperatorGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<Reference>,
    /// StartTime is when it was first carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub start_time: Option<Timestamp>,
    /// Message in words, where something keeps it from going on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An object that is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Resolving is the ClusterServiceVersion that it is installed for.
    pub resolving: String,
    /// Resource is the object.
    pub resource: StepResource,
    /// Status: Unknown, NotPresent, Created or Present.
    pub status: String,
    /// Optional: whether the installation is whole without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// An object of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepResource {
    /// Group of its kind.
    pub group: String,
    /// Version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// SourceName is the CatalogSource.
    pub source_name: String,
    /// SourceNamespace is the namespace of that.
    pub source_namespace: String,
    /// Manifest is not set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manifest: String,
}

/// A condition of an InstallPlan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanCondition {
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
    /// LastUpdateTime is when it was last written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_update_time: Option<Timestamp>,
    /// LastTransitionTime is when the status was last another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
}
