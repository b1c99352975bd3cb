//! CatalogSource: an image with a catalog, or a server that has one.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// CatalogSourceSpec says where packages come from.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    plural = "catalogsources",
    singular = "catalogsource",
    shortname = "catsrc",
    category = "olm",
    namespaced,
    status = "CatalogSourceStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Display","type":"string","description":"The pretty name of the catalog","jsonPath":".spec.displayName"}"#,
    printcolumn = r#"{"name":"Type","type":"string","description":"The type of the catalog","jsonPath":".spec.sourceType"}"#,
    printcolumn = r#"{"name":"Publisher","type":"string","description":"The publisher of the catalog","jsonPath":".spec.publisher"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceSpec {
    /// SourceType: grpc. Others are refused in the status.
    pub source_type: String,
    /// Image with a file-based catalog. It is read without a Pod, and wins over the address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Address of a server of catalogs: host:port.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// ConfigMap of a source type that is refused.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config_map: String,
    /// Priority among catalogs; the highest is preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Secrets of this namespace with logins of registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// UpdateStrategy says when the image is looked at again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// GrpcPodConfig is for a Pod that is not made here. It has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub grpc_pod_config: Option<Map<String, Value>>,
    /// DisplayName of the catalog.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Description of the catalog.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Publisher of the catalog.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub publisher: String,
    /// Icon of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub icon: Option<Map<String, Value>>,
    /// RunAsRoot is for a Pod that is not made here. It has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_root: Option<bool>,
}

/// When a catalog is looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// RegistryPoll asks the registry what the tag names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
}

/// How often a registry is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryPoll {
    /// Interval as a duration, such as 10m.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interval: String,
}

/// CatalogSourceStatus says whether the catalog can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceStatus {
    /// ConnectionState: READY once the content can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,
    /// LatestImageRegistryPoll is when the image was last found to be another, or first read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub latest_image_registry_poll: Option<Timestamp>,
    /// Reason in one word, where something is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message in words, where something is wrong.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// RegistryService by which clients read the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub registry_service: Option<Map<String, Value>>,
}

/// A connection, in the words of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionState {
    /// Address of the server, if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// LastObservedState: READY, CONNECTING or TRANSIENT_FAILURE.
    pub last_observed_state: String,
    /// LastConnect is when it became what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_connect: Option<Timestamp>,
}
