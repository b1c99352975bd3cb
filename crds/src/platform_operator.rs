//! PlatformOperator: an OLM package, installed by its name.
//!
//! Source of the shape: OpenShift's `platform.openshift.io/v1alpha1` of the 4.12 line. Everything that it does not have is
//! optional and says so.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::API_ROLES;
use crate::names::CLASS_REGISTRY;
use crate::plan::{ApprovalPolicy, DependencyPolicy};
use crate::{BundleDeploymentSpec, Condition, UpgradeWindow};

mod summary;

pub use summary::{DEPRECATED, INSTALL_PENDING, Summary, UPGRADE_AVAILABLE};

/// PlatformOperatorSpec defines the desired state of PlatformOperator.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "platform.openshift.io",
    version = "v1alpha1",
    kind = "PlatformOperator",
    plural = "platformoperators",
    singular = "platformoperator",
    status = "PlatformOperatorStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Package","type":"string","jsonPath":".spec.package.name"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.source.version"}"#,
    printcolumn = r#"{"name":"Installed","type":"string","jsonPath":".status.conditions[?(.type==\"Installed\")].status"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(.type==\"Ready\")].message","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PlatformOperatorSpec {
    /// Package contains the desired package and its configuration for this PlatformOperator.
    pub package: PlatformPackage,
    /// UpgradePolicy says what happens when the catalog offers a newer version: nothing (Manual, the default), or one step after
    /// the other along the channel's graph (Automatic). (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<UpgradePolicy>,
    /// Approval says when a Plan of the BundleDeployment has to be approved: Automatic (never), Upgrades, Escalations or Always. Without
    /// it the BundleDeployment's own spec.approval counts. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// Windows say when an upgrade of the BundleDeployment may begin; with an empty list, at any time. Without it the BundleDeployment's
    /// own spec.windows count. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10))]
    pub windows: Option<Vec<UpgradeWindow>>,
    /// Dependencies says what becomes of packages that the bundle depends on and that are not installed: the bundle is not installed
    /// (Refuse, the default), a Plan asks whether they may be (Propose), or they are installed first (Install). (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<DependencyPolicy>,
    /// ApiRoles says whether whoever has admin, edit or view in a namespace may use the operator's APIs there. Without it, the
    /// BundleDeployment's own spec.config.apiRoles counts; where that says nothing either it is true, unless the BundleDeployment has a
    /// ServiceAccount. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_roles: Option<bool>,
}

impl PlatformOperatorSpec {
    /// Returns what `spec.config.apiRoles` has to become of the BundleDeployment `live`, or of one that is yet to be made; `None` where
    /// nothing has to.
    pub fn changed_api_roles(&self, live: Option<&BundleDeploymentSpec>) -> Option<bool> {
        let said = live.and_then(|live| live.config.as_ref()?.get(API_ROLES)).filter(|said| !said.is_null());
        // An account need not have the rights that the roles grant, without which nothing would be installed.
        let is_bound = live.is_some_and(|live| live.service_account.is_some());
        let wanted = self.api_roles.or((said.is_none() && !is_bound).then_some(true))?;

        // Bundles of other formats have other settings.
        let has_roles = live.is_none_or(|live| live.template.spec.provisioner_class_name == CLASS_REGISTRY);
        (has_roles && said != Some(&Value::Bool(wanted))).then_some(wanted)
    }
}

/// Package contains fields to configure which OLM package this PlatformOperator will install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlatformPackage {
    /// Name contains the desired OLM-based Operator package name that is defined in an existing CatalogSource resource in the
    /// cluster, or in a catalog that the manager is configured with.
    // Not anchored, as in OpenShift's CRD: what that accepts must be accepted. The manager reports what is no name.
    #[schemars(length(max = 56), regex(pattern = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"))]
    pub name: String,
    /// Channel is the channel of the package to install from; without it the highest version of all channels is
    /// installed. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub channel: Option<String>,
    /// Version is a version, or a range of versions as OLM catalogs write them: "1.x", ">=1.2.0 <2.0.0". (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub version: Option<String>,
    /// Catalog is the name of the catalog to install from, of a CatalogSource also as namespace/name, of a ClusterCatalog also as
    /// ClusterCatalog/name; without it the one of the highest priority that has the package. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub catalog: Option<String>,
}

/// What happens when the catalog offers a newer version: Manual (the default) reports it in the condition UpgradeAvailable, Automatic
/// installs it, one step of the channel's graph after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradePolicy {
    /// Nothing; it is reported.
    #[default]
    Manual,
    /// It is installed in place of the old one.
    Automatic,
}

/// PlatformOperatorStatus defines the observed state of PlatformOperator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformOperatorStatus {
    /// Conditions: Installed, as OpenShift has it; beside it Ready, Reconciling, Stalled, and Deprecated, UpgradeAvailable and
    /// Verified (of the image of the catalog) where there is something to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// ActiveBundleDeployment is the reference to the BundleDeployment resource that's being managed by this
    /// PlatformOperator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_bundle_deployment: Option<ActiveBundleDeployment>,
    /// ObservedGeneration is the generation of the spec that this status speaks of. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Source is what was chosen from which catalog, and is installed unless it is the first. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ChosenSource>,
    /// Upgrade is the version that the BundleDeployment is pointed at, from before that is done until it is installed. (Not in OpenShift 4.12.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<ChosenSource>,
}

/// ActiveBundleDeployment references a BundleDeployment resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActiveBundleDeployment {
    /// Name is the metadata.name of the referenced BundleDeployment object.
    pub name: String,
}

/// What was chosen for a PlatformOperator, written before the BundleDeployment is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenSource {
    /// Name of the catalog.
    pub catalog: String,
    /// Name of the package.
    pub package: String,
    /// The channel, where the bundle is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Name of the bundle.
    pub bundle: String,
    /// Version of the bundle.
    pub version: String,
    /// Image of the bundle. As long as the BundleDeployment has it, it is as it was made.
    pub image: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(config: &Value, has_account: bool, class: &str) -> BundleDeploymentSpec {
        let mut spec = json!({"provisionerClassName": "c", "config": config,
            "template": {"spec": {"provisionerClassName": class, "source": {"type": "image"}}}});
        if has_account {
            spec["serviceAccount"] = json!({"name": "a", "namespace": "b"});
        }
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn roles_are_made_unless_somebody_says_no_or_an_account_installs() {
        let of = |asked: Option<bool>, live: Option<&BundleDeploymentSpec>| {
            let spec = PlatformOperatorSpec { api_roles: asked, ..PlatformOperatorSpec::default() };
            spec.changed_api_roles(live)
        };
        for asked in [true, false] {
            assert_eq!(of(Some(asked), None), Some(asked));
        }
        assert_eq!(of(None, None), Some(true));

        let live = |config: Value, has_account: bool| deployment(&config, has_account, CLASS_REGISTRY);
        let silent = json!({"watchNamespace": "a"});
        assert_eq!(
            of(None, Some(&live(silent.clone(), false))),
            Some(true),
            "it was made before there was such a default"
        );
        assert_eq!(of(None, Some(&live(silent.clone(), true))), None);
        assert_eq!(of(Some(true), Some(&live(silent, true))), Some(true));
        for said in [true, false] {
            let live = live(json!({"apiRoles": said}), false);
            assert_eq!(of(None, Some(&live)), None, "the BundleDeployment's own counts");
            assert_eq!(of(Some(said), Some(&live)), None);
            assert_eq!(of(Some(!said), Some(&live)), Some(!said));
        }
        assert_eq!(of(Some(true), Some(&deployment(&Value::Null, false, "core-rukpak-io-helm"))), None);
    }
}
