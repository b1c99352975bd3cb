//! OLMConfig: settings of OLM. It is served for those who set it, and has no effect: nothing is copied here.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;

/// The only one that is looked at.
pub const NAME: &str = "cluster";

/// OLMConfigSpec has settings of OLM.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OLMConfig",
    plural = "olmconfigs",
    singular = "olmconfig",
    category = "olm",
    status = "OLMConfigStatus",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct OLMConfigSpec {
    /// Features of OLM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
}

/// Features of OLM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// DisableCopiedCSVs has no effect: ClusterServiceVersions are never copied.
    #[serde(default, rename = "disableCopiedCSVs", skip_serializing_if = "Option::is_none")]
    pub disable_copied_csvs: Option<bool>,
    /// PackageServerSyncInterval has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(s|m|h))+$"))]
    pub package_server_sync_interval: Option<String>,
}

/// OLMConfigStatus says what became of the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OLMConfigStatus {
    /// Conditions: DisabledCopiedCSVs, which is always True.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
