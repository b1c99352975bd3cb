//! ClusterServiceVersion: a version of an operator in a namespace. Its spec is the bundle's own; here is of it what is looked at.

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// So many conditions are kept.
pub const HISTORY_MAX: usize = 20;

/// ClusterServiceVersionSpec is what the bundle says of the operator.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "ClusterServiceVersion",
    plural = "clusterserviceversions",
    singular = "clusterserviceversion",
    shortname = "csv",
    shortname = "csvs",
    category = "olm",
    namespaced,
    status = "ClusterServiceVersionStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Display","type":"string","description":"The name of the CSV","jsonPath":".spec.displayName"}"#,
    printcolumn = r#"{"name":"Version","type":"string","description":"The version of the CSV","jsonPath":".spec.version"}"#,
    printcolumn = r#"{"name":"Release","type":"string","description":"The release of the CSV","jsonPath":".spec.release"}"#,
    printcolumn = r#"{"name":"Replaces","type":"string","description":"The name of a CSV that this one replaces","jsonPath":".spec.replaces"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterServiceVersionSpec {
    /// DisplayName of the operator.
    pub display_name: String,
    /// Version of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Release of the packaging of that version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// Replaces is the ClusterServiceVersion in whose place it was installed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    /// MinKubeVersion is the oldest version of Kubernetes that it runs on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// InstallModes say what the operator can watch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<InstallMode>,
    /// Customresourcedefinitions of the operator, and those that it needs.
    #[serde(default, rename = "customresourcedefinitions", skip_serializing_if = "Definitions::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub definitions: Definitions,
    /// Apiservicedefinitions of the operator, and those that it needs.
    #[serde(default, rename = "apiservicedefinitions", deserialize_with = "lenient", skip_serializing)]
    #[schemars(skip)]
    pub api_services: ApiServices,
    /// NativeAPIs that have to be served.
    #[serde(default, rename = "nativeAPIs", deserialize_with = "lenient", skip_serializing)]
    #[schemars(skip)]
    pub native_apis: Vec<Api>,
    /// Install says what is installed: here, the rights.
    #[serde(default, deserialize_with = "lenient", skip_serializing)]
    #[schemars(skip)]
    pub install: Install,
}

/// Reads what it can. The schema does not say what these fields hold, and one that cannot be read would hide every object from the watch.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

/// Aggregated APIs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ApiServices {
    /// Those that the operator serves.
    #[serde(default)]
    pub owned: Vec<Api>,
    /// Those that have to be there.
    #[serde(default)]
    pub required: Vec<Api>,
}

/// A kind in a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Api {
    /// Its group; empty for the core.
    #[serde(default)]
    pub group: String,
    /// Its version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// What is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Install {
    /// What the strategy says.
    #[serde(default)]
    pub spec: InstallSpec,
}

/// Rights of the operator's ServiceAccounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallSpec {
    /// Permissions in the namespaces that are watched.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// ClusterPermissions hold everywhere.
    #[serde(default)]
    pub cluster_permissions: Vec<Permission>,
}

/// Rights of a ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// ServiceAccountName is whose they are.
    pub service_account_name: String,
    /// Rules as OLM writes them into a status: each as JSON.
    #[serde(default, deserialize_with = "texts")]
    pub rules: Vec<String>,
}

/// A rule, with the fields in Go's order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    api_groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    non_resource_urls: Vec<String>,
}

fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let rules: Vec<Rule> = Vec::deserialize(from)?;
    rules.iter().map(|rule| serde_json::to_string(rule).map_err(serde::de::Error::custom)).collect()
}

/// What an operator can watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallMode {
    /// OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it can.
    pub supported: bool,
}

/// CustomResourceDefinitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Definitions {
    /// Those that the operator brings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<Definition>,
    /// Those that have to be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Definition>,
}

/// A CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The version that is meant.
    pub version: String,
    /// The kind that it defines.
    pub kind: String,
}

/// ClusterServiceVersionStatus says how far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServiceVersionStatus {
    /// Phase: Pending, InstallReady, Installing, Succeeded, Failed, Replacing or Deleting.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Reason of the phase in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// LastUpdateTime is when the status was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_update_time: Option<Timestamp>,
    /// LastTransitionTime is when the phase was last another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
    /// Conditions are the phases that it was in, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PhaseRecord>,
    /// RequirementStatus lists what has to be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirement_status: Vec<Requirement>,
    /// Cleanup is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub cleanup: Option<Map<String, Value>>,
}

/// A phase that a ClusterServiceVersion was in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseRecord {
    /// The phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Reason in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// LastUpdateTime is when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_update_time: Option<Timestamp>,
    /// LastTransitionTime is when the phase began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
}

/// Something that has to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Requirement {
    /// Group of its kind.
    pub group: String,
    /// Version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Status: Present, NotPresent or PresentNotSatisfied.
    pub status: String,
    /// Message in words.
    pub message: String,
    /// Dependents of a ServiceAccount: its rights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub dependents: Vec<Dependent>,
}

/// What something that has to be there needs itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependent {
    /// Group of its kind.
    pub group: String,
    /// Version of its kind.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Status: Satisfied or NotSatisfied.
    pub status: String,
    /// Message in words.
    #[serde(default)]
    pub message: String,
}

impl Definitions {
    fn is_empty(&self) -> bool {
        self.owned.is_empty() && self.required.is_empty()
    }
}
