//! BundleDeployment: a bundle, installed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BundleSpec, Condition};

/// BundleDeploymentSpec defines the desired state of BundleDeployment.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "BundleDeployment",
    plural = "bundledeployments",
    singular = "bundledeployment",
    shortname = "bd",
    shortname = "bds",
    status = "BundleDeploymentStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Active Bundle","type":"string","jsonPath":".status.activeBundle"}"#,
    printcolumn = r#"{"name":"Install State","type":"string","jsonPath":".status.conditions[?(.type==\"Installed\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Provisioner","type":"string","jsonPath":".spec.provisionerClassName","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct BundleDeploymentSpec {
    /// ProvisionerClassName sets the name of the provisioner that should reconcile this BundleDeployment.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub provisioner_class_name: String,
    /// Template describes the Bundle that should be installed.
    pub template: BundleTemplate,
    /// Config is provisioner specific configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Map<String, Value>>,
}

/// BundleTemplate describes a Bundle that is generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleTemplate {
    /// Metadata of the generated Bundle. Only labels and annotations are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Specification of the generated Bundle.
    pub spec: BundleSpec,
}

/// The embedded metadata that the API keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Name: part of the template hash, otherwise unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace: part of the template hash, otherwise unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels of the generated Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the generated Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Finalizers: part of the template hash, otherwise unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizers: Option<Vec<String>>,
}

/// BundleDeploymentStatus defines the observed state of BundleDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleDeploymentStatus {
    /// Conditions: HasValidBundle, Installed, Healthy; beside them Ready, Reconciling and Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// ActiveBundle is the name of the Bundle that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_bundle: Option<String>,
    /// ObservedGeneration is the generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Inventory is what this deployment has put into the cluster. (Additive to RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
}

/// What a deployment has put into the cluster: enough to find every object of it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// Every kind of which an object was ever applied, written before the first object of the kind. Pruning lists
    /// these kinds by owner label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<InventoryKind>,
    /// Digest of the content that is installed, as the store names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_digest: Option<String>,
    /// Format of the installed content where it is not plain+v0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The spec.config that the installed objects were rendered with, if their format has a use for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Map<String, Value>>,
    /// Digest of a content whose installation was begun and has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_digest: Option<String>,
    /// Digest over the content, the renderer, and UID and owned fields of every object, taken when the last pass
    /// ended. A restart that computes the same has nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_digest: Option<String>,
    /// Number of objects installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// When the certificates that the bundle's webhooks serve with are renewed, if they are made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub certificates_renewal: Option<Timestamp>,
    /// Objects that left the bundle but were not deleted because data hangs on them; they are not owned any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
}

/// A kind of the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct InventoryKind {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version the objects were applied in.
    pub version: String,
    /// Kind.
    pub kind: String,
}
