//! OperatorGroup: what the operators of a namespace watch, and whose rights install them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::subscription::Reference;
use crate::Condition;

/// OperatorGroupSpec says which namespaces are targets.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OperatorGroup",
    plural = "operatorgroups",
    singular = "operatorgroup",
    shortname = "og",
    category = "olm",
    namespaced,
    status = "OperatorGroupStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupSpec {
    /// TargetNamespaces are watched. They win over the selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub target_namespaces: Vec<String>,
    /// Selector chooses namespaces by their labels. Without it, and without targets, all namespaces are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// ServiceAccountName is a ServiceAccount of this namespace. Whatever the operators of this namespace are made of is written with its
    /// rights. Without it, with those of the controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// StaticProvidedAPIs has no effect: the annotation olm.providedAPIs is not written here.
    #[serde(default, rename = "staticProvidedAPIs", skip_serializing_if = "Option::is_none")]
    pub static_provided_apis: Option<bool>,
    /// UpgradeStrategy: only Default has an effect.
    #[serde(default)]
    pub upgrade_strategy: UpgradeStrategy,
}

/// How upgrades go on after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeStrategy {
    /// From what succeeded.
    #[default]
    Default,
    /// From what failed. It is taken as Default.
    TechPreviewUnsafeFailForward,
}

/// OperatorGroupStatus says which namespaces the targets are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupStatus {
    /// Namespaces that are watched; one empty name stands for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
    /// ServiceAccountRef is the ServiceAccount of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<Reference>,
    /// LastUpdated is when the status was last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_updated: Timestamp,
    /// Conditions: MultipleOperatorGroup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
