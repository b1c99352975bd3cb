//! BundleDeployment: a bundle, installed.

mod rules;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{CustomResource, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::rules::{HealthCheck, HealthProbe, IgnoredDifference, ObjectSelector};
use crate::{BundleSource, BundleSpec, Condition, Pin};

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
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Provisioner","type":"string","jsonPath":".spec.provisionerClassName","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].message","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct BundleDeploymentSpec {
    /// ProvisionerClassName sets who installs the bundle: core-rukpak-io-plain, or core-rukpak-io-registry, which means the
    /// same. Other values are for other provisioners.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub provisioner_class_name: String,
    /// Template describes the Bundle that should be installed.
    pub template: BundleTemplate,
    /// Config has the settings of a registry+v1 bundle: watchNamespace, watchNamespaces, deploymentConfig. A plain+v0 bundle has
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Map<String, Value>>,
    /// Suspend stops every write for this BundleDeployment: nothing is installed, upgraded or repaired. Its status is still
    /// reported. (Not in RukPak v0.16, as all fields below.)
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// RollbackTo names a revision of status.history. As long as it is set, that revision is installed in place of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rollback_to: Option<i64>,
    /// ProgressDeadline is how long an upgrade may take until it is applied and healthy, for example 10m. When it is over, the
    /// last healthy revision is installed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))]
    pub progress_deadline: Option<String>,
    /// DeletionPolicy says what becomes of the objects when the BundleDeployment is deleted. Delete (the default) deletes them,
    /// Orphan leaves them all in the cluster, KeepCRDs leaves the CustomResourceDefinitions and with them their instances, InOrder
    /// deletes them in the reverse order of applying, each phase when the one before is gone, once no BundleDeployment depends on this
    /// one any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// DependsOn names BundleDeployments that must be Ready before this one is installed or upgraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// RevisionHistoryLimit is the number of revisions that status.history lists and whose content is kept. Default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub revision_history_limit: Option<i64>,
    /// ServiceAccount is whose rights every write of the bundle's objects is made with. Without one they are the controller's, which
    /// may do anything. Whoever sets it, or changes a spec that has it, must be allowed to impersonate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,
    /// IgnoreDifferences names fields of objects that are left to others: they are written when the object is created, and never
    /// again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ignore_differences: Vec<IgnoredDifference>,
    /// HealthChecks say when objects are healthy whose kind does not tell by the usual conditions. The first that names an object counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub health_checks: Vec<HealthCheck>,
}

/// A ServiceAccount. BundleDeployments are in no namespace, so that its own is part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ServiceAccountReference {
    /// Name of the ServiceAccount.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    /// Namespace of the ServiceAccount.
    #[schemars(length(max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: String,
}

impl BundleDeployment {
    /// Whether an owner reference says that a BundleDeployment controls the object. Of other kinds the webhook lets anybody write
    /// them.
    pub fn is_controller(reference: &OwnerReference) -> bool {
        let group = reference.api_version.split_once('/').map(|(group, _)| group);
        reference.controller == Some(true) && reference.kind == Self::kind(&()) && group == Some(&Self::group(&()))
    }

    /// Kind and name of the object that controls this one: it writes the spec, and makes the BundleDeployment anew when it is
    /// deleted.
    pub fn keeper(&self) -> Option<(&str, &str)> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let keeper = owners.find(|owner| owner.controller == Some(true))?;
        Some((&keeper.kind, &keeper.name))
    }
}

impl ServiceAccountReference {
    /// As the API server names it: `system:serviceaccount:NAMESPACE:NAME`.
    pub fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl fmt::Display for ServiceAccountReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServiceAccount {:?} in namespace {:?}", self.name, self.namespace)
    }
}

/// What becomes of the objects of a BundleDeployment that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Garbage collection deletes them.
    #[default]
    Delete,
    /// They stay, without an owner.
    Orphan,
    /// CustomResourceDefinitions stay, and so do their instances; all else is deleted.
    KeepCRDs,
    /// The controller deletes them in the reverse order of applying, and waits for each phase. A finalizer keeps the BundleDeployment
    /// until then.
    InOrder,
}

/// A BundleDeployment that another one needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// Name of the BundleDeployment.
    #[schemars(length(min = 1))]
    pub name: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_false(value: &bool) -> bool {
    !value
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
    /// Inventory is what this deployment has put into the cluster. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
    /// History lists the revisions that were installed or tried, the newest first. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Revision>,
    /// Progress is the progress deadline that counts. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// LastHandledReconcileAt echoes the annotation core.rukpak.io/reconcile-requested-at. (Not in RukPak v0.16.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// A progress deadline that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The spec.progressDeadline that it is.
    pub deadline: String,
    /// When it was set, or the BundleDeployment resumed. What was begun before counts from here; an upgrade that begins later, from its
    /// beginning.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
}

/// A content and how its objects are made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRecord {
    /// Digest of the content, as the store names it.
    pub content_digest: String,
    /// Format of the content: plain+v0 (also where it is absent) or registry+v1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The spec.config that the objects are rendered with, if their format has a use for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Map<String, Value>>,
}

/// One revision of a BundleDeployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Number of the revision. A content that is installed again gets a new one, unless a rollback asks for it by its number.
    pub revision: i64,
    /// Name of the Bundle that it was installed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Hash of the template that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    /// What the template asked for, so that lost content can be fetched again by the pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BundleSource>,
    /// Annotations of that template, unless they are larger than 16 KiB together. They tell what the bundle is to whoever wrote
    /// them, also when the Bundle is gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What the Bundle resolved to. A new Bundle of the same template gets the same content by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// The content and its settings.
    #[serde(flatten)]
    pub release: ReleaseRecord,
    /// What came of it.
    pub result: RevisionResult,
    /// When the installation began; an upgrade's progress deadline counts from here.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: Timestamp,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What came of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RevisionResult {
    /// Its objects are applied, and were not all healthy yet.
    Installed,
    /// Its objects were applied, and all of them healthy.
    Healthy,
    /// It could not be applied; the revision before stays, or came back.
    Failed,
    /// It was not healthy within the progress deadline; the last healthy revision came back.
    DeadlineExceeded,
}

impl RevisionResult {
    /// Whether another revision was installed in its place.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::DeadlineExceeded)
    }
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
    /// What was begun to be installed in place of it and has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Digest over the content, the renderer, and UID and owned fields of every object, taken when the last reconcile
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
    pub released: Vec<ReleasedObject>,
    /// Fields of objects that others keep changing and that are left to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contested: Vec<ContestedField>,
    /// Kinds that could not be listed when objects that left the bundle were deleted: some may be left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<InventoryKind>,
    /// Objects that the installed bundle declares and that are not applied, because no API server serves their kind in that version;
    /// the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingObject>,
    /// Objects that the installed bundle declares and that are left as they are, because their annotation core.rukpak.io/reconcile says
    /// "disabled"; the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<PausedObject>,
}

/// An object that is left as it is on request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PausedObject {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// An object that cannot be applied, because its kind is not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MissingObject {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version in which the bundle declares it.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, as the bundle declares it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Whether the installation is whole without it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// An installation that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The content and its settings.
    #[serde(flatten)]
    pub release: ReleaseRecord,
    /// When it was begun.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
}

/// A field that another manager keeps changing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ContestedField {
    /// API group of the object; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Which field, as managedFields writes it: the keys from the root to the leaf.
    pub path: Vec<String>,
    /// Who keeps changing it.
    pub manager: String,
}

/// An object that was left in the cluster and is not owned any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ReleasedObject {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Why it was not deleted.
    pub reason: String,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_controls_only_by_its_kind_its_group_and_as_the_controller() {
        let owns = |api_version: &str, kind: &str, controller: bool| {
            let reference =
                json!({"apiVersion": api_version, "kind": kind, "name": "d", "uid": "u", "controller": controller});
            BundleDeployment::is_controller(&serde_json::from_value(reference).unwrap())
        };
        assert!(owns("core.rukpak.io/v1alpha1", "BundleDeployment", true));
        for (api_version, kind, controller) in [
            ("core.rukpak.io/v1alpha1", "X", true),
            ("example.com/v1", "BundleDeployment", true),
            ("v1", "BundleDeployment", true),
            ("core.rukpak.io/v1alpha1", "BundleDeployment", false),
        ] {
            assert!(
                !owns(api_version, kind, controller),
                "{api_version} {kind} {controller}: the webhook lets anybody write it"
            );
        }
    }
}
