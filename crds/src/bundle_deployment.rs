//! BundleDeployment: a bundle, installed.

mod rules;
mod status;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{CustomResource, Resource as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::rules::{HealthCheck, HealthProbe, IgnoredDifference, ObjectSelector, TakeOver, UpgradeWindow};
pub use self::status::{
    BundleDeploymentStatus, BundleProperty, ContestedField, HookRun, Inventory, InventoryKind, MissingObject,
    PausedObject, Pending, Progress, ReleaseRecord, ReleasedObject, Revision, RevisionResult, StoredMigration,
};
use crate::BundleSpec;
use crate::plan::ApprovalPolicy;

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
    /// ProvisionerClassName sets who installs the bundle: core-rukpak-io-plain, or core-rukpak-io-registry or
    /// core-rukpak-io-helm, which mean the same. Other values are for other provisioners.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub provisioner_class_name: String,
    /// Template describes the Bundle that should be installed.
    pub template: BundleTemplate,
    /// Config has the settings of a registry+v1 bundle: watchNamespace, watchNamespaces, installNamespace, createNamespace, objectLabels,
    /// apiRoles, operatorCondition, severalNamespaces, deploymentConfig. Of a helm+v3 bundle: values, as YAML in a string or as a mapping. A
    /// plain+v0 bundle has none.
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
    /// DeletionPolicy says what becomes of the objects when the BundleDeployment is deleted. The CRD has the words of its type.
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
    /// TakeOver names objects that are taken over where they exist already and nothing controls them: they are written as they are
    /// declared, and deleted with the others. Without it they are in the way, unless an administrator has annotated them
    /// (core.rukpak.io/adopt-by). The first that names an object counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub take_over: Vec<TakeOver>,
    /// HealthChecks say when objects are healthy whose kind does not tell by the usual conditions. The first that names an object counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub health_checks: Vec<HealthCheck>,
    /// Approval says when a Plan has to be approved before anything is written. Automatic (the default): never. Upgrades: before an
    /// installed release is replaced. Escalations: before a bundle grants rights that the installed one does not grant. Always: also
    /// before the first installation. Repairs, and revisions that were installed before, are never asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// ApprovedPlan is the digest of a Plan that counts as approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub approved_plan: Option<String>,
    /// Windows say when an upgrade may begin; without one, at any time. One that has begun goes on after the window. First installations,
    /// repairs and rollbacks wait for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub windows: Vec<UpgradeWindow>,
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

/// What user names of ServiceAccounts begin with.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

impl ServiceAccountReference {
    /// As the API server names it: `system:serviceaccount:NAMESPACE:NAME`.
    pub fn user_name(&self) -> String {
        format!("{ACCOUNT_PREFIX}{}:{}", self.namespace, self.name)
    }

    /// Returns the ServiceAccount that the API server gives this user name; `None` if it is that of another user.
    pub fn of_user(name: &str) -> Option<Self> {
        let (namespace, name) = name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
        Some(Self { name: name.to_owned(), namespace: namespace.to_owned() })
    }
}

impl fmt::Display for ServiceAccountReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServiceAccount {:?} in namespace {:?}", self.name, self.namespace)
    }
}

/// What becomes of the objects when the BundleDeployment is deleted. Delete (the default) deletes them, Orphan leaves them all in the
/// cluster, KeepCRDs leaves CustomResourceDefinitions and with them their instances, InOrder deletes them in the reverse order of
/// applying, each phase when the one before is gone, once no BundleDeployment depends on this one any more.
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
