//! Operator: what belongs to a package in a namespace. Nobody says anything by it; it is told.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::install_plan::InstallPlanCondition;

/// OperatorSpec is empty.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "Operator",
    plural = "operators",
    singular = "operator",
    category = "olm",
    status = "OperatorStatus",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct OperatorSpec {}

/// OperatorStatus says what belongs to the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorStatus {
    /// Components of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Components>,
}

/// The objects of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Components {
    /// LabelSelector selects the components.
    pub label_selector: LabelSelector,
    /// Refs are the components: Subscription, ClusterServiceVersions, InstallPlan, Deployments, CustomResourceDefinitions, then others.
    /// At most 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Component>,
}

/// An object of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Conditions of a Subscription, an InstallPlan and a Deployment; of a ClusterServiceVersion its phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<InstallPlanCondition>,
}
