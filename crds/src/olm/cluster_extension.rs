//! ClusterExtension: a package of the catalogs, installed and kept installed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::rules::{self, Violation};
use super::{OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use crate::{Condition, config};

/// ClusterExtensionSpec defines the desired state of ClusterExtension.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterExtension",
    plural = "clusterextensions",
    singular = "clusterextension",
    status = "ClusterExtensionStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Installed Bundle","type":"string","jsonPath":".status.install.bundle.name"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".status.install.bundle.version"}"#,
    printcolumn = r#"{"name":"Installed","type":"string","jsonPath":".status.conditions[?(@.type=='Installed')].status"}"#,
    printcolumn = r#"{"name":"Progressing","type":"string","jsonPath":".status.conditions[?(@.type=='Progressing')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionSpec {
    /// Namespace is where the namespaced objects of the bundle are installed. It has to exist. Without it a namespace is made that the
    /// bundle asks for, and deleted with the extension. Whether it is set, and to what, never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// ServiceAccount is deprecated and ignored: the controller installs with its own rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,
    /// Source is where the bundle comes from.
    pub source: ExtensionSource,
    /// Install says what is looked at before an installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<ExtensionInstall>,
    /// Config is the configuration of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ExtensionConfig>,
    /// ProgressDeadlineMinutes is how long a rollout may take until all objects are healthy. When it is over, the extension says so, and
    /// the last version that was healthy is installed again. Without it a rollout may take any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 720))]
    pub progress_deadline_minutes: Option<i32>,
}

/// The name of a ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceAccountReference {
    /// Name is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// ExtensionSource is a union: the member that the type names is set, and no other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionSource {
    /// SourceType names the member.
    pub source_type: ExtensionSourceType,
    /// Catalog is set if the type is Catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogFilter>,
}

/// Where extensions come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExtensionSourceType {
    /// The ClusterCatalogs.
    #[default]
    Catalog,
}

/// CatalogFilter says which bundles of the catalogs may be installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogFilter {
    /// PackageName is the package.
    #[schemars(length(max = 253))]
    pub package_name: String,
    /// Version is a version or a range: 1.2.3, 1.2.x, ">=1.2.0 <2.0.0", ^1.2. Without it, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// Channels are those that may be installed from. Without any, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub channels: Vec<String>,
    /// Selector chooses ClusterCatalogs by their labels. Without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub selector: Option<LabelSelector>,
    /// UpgradeConstraintPolicy says whether upgrades follow the catalog's graph (CatalogProvided), or go wherever the version leads
    /// (SelfCertified).
    #[serde(default)]
    pub upgrade_constraint_policy: UpgradeConstraintPolicy,
}

/// Which upgrades are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeConstraintPolicy {
    /// Those along an edge of the catalog's graph.
    #[default]
    CatalogProvided,
    /// All, downgrades too: whoever asks has made sure.
    SelfCertified,
}

/// What is looked at before an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtensionInstall {
    /// Preflight are checks of what is to be installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
}

/// Checks of what is to be installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// CrdUpgradeSafety is about upgrades of CustomResourceDefinitions.
    pub crd_upgrade_safety: Option<CrdUpgradeSafety>,
}

/// Whether an upgrade of a CustomResourceDefinition may endanger its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrdUpgradeSafety {
    /// Enforcement is Strict (also without this section): an unsafe upgrade is refused; or None.
    pub enforcement: CrdUpgradeSafetyEnforcement,
}

/// How strictly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CrdUpgradeSafetyEnforcement {
    /// The API server alone decides.
    None,
    /// An unsafe upgrade is refused.
    #[default]
    Strict,
}

/// ExtensionConfig is a union: the member that the type names is set, and no other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionConfig {
    /// ConfigType names the member.
    pub config_type: ExtensionConfigType,
    /// Inline is set if the type is Inline: watchNamespace and deploymentConfig, where the bundle knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "minProperties" = 1))]
    pub inline: Option<Map<String, Value>>,
}

/// Where the configuration stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExtensionConfigType {
    /// In the object itself.
    #[default]
    Inline,
}

/// ClusterExtensionStatus defines the observed state of ClusterExtension.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterExtensionStatus {
    /// Conditions: Installed, Progressing, Available, Deprecated, PackageDeprecated, ChannelDeprecated, BundleDeprecated; beside them
    /// UpgradeAvailable, where a newer version is left out. (Not in OLM v1.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Install is what is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<InstallStatus>,
    /// ActiveRevisions are the revisions whose objects are in the cluster, the newest last: the one that is installed and, as long as a
    /// rollout goes on, the one that was healthy last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub active_revisions: Vec<RevisionStatus>,
}

/// RevisionStatus defines the observed state of a revision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevisionStatus {
    /// Name of the revision: that of the extension, and the number of the revision in the history of its BundleDeployment.
    pub name: String,
    /// Conditions: Available and Progressing. A revision in whose place another one is rolled out has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstallStatus {
    /// Bundle is the installed bundle.
    pub bundle: BundleMetadata,
}

/// A bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleMetadata {
    /// Name of the bundle.
    pub name: String,
    /// Version of the bundle.
    pub version: String,
    /// Release of the packaging of that version, if the catalog tells one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20))]
    pub release: Option<String>,
}

impl ClusterExtension {
    /// The `spec.config` of the BundleDeployment that is made for it.
    pub fn deployment_config(&self) -> Map<String, Value> {
        let inline = self.spec.config.as_ref().and_then(|config| config.inline.clone());
        let labels = json!({OWNER_KIND_LABEL: "ClusterExtension", OWNER_NAME_LABEL: self.metadata.name});
        let place = match &self.spec.namespace {
            Some(namespace) => (config::INSTALL_NAMESPACE, json!(namespace)),
            None => (config::CREATE_NAMESPACE, json!(true)),
        };
        let own = [place, (config::OBJECT_LABELS, labels)];
        inline.into_iter().flatten().chain(own.map(|(key, value)| (key.to_owned(), value))).collect()
    }
}

impl ClusterExtensionSpec {
    /// What is asked of the catalogs.
    ///
    /// # Errors
    /// The first rule of the definition that the spec breaks, for specs that were stored before the rule was.
    pub fn catalog(&self) -> Result<&CatalogFilter, Violation> {
        if let Some(namespace) = &self.namespace {
            rules::check(&rules::NAMESPACE, namespace)?;
        }
        let catalog = self.source.catalog.as_ref().ok_or(Violation::of(rules::EXTENSION_SOURCE))?;
        rules::check(&rules::PACKAGE_NAME, &catalog.package_name)?;
        if let Some(version) = &catalog.version {
            rules::check(&rules::VERSION, version)?;
        }
        for channel in &catalog.channels {
            rules::check(&rules::CHANNEL, channel)?;
        }
        match &self.install {
            Some(ExtensionInstall { preflight: None }) => return Err(Violation::of(rules::INSTALL)),
            Some(ExtensionInstall { preflight: Some(Preflight { crd_upgrade_safety: None }) }) => {
                return Err(Violation::of(rules::PREFLIGHT));
            }
            _ => {}
        }
        match &self.config {
            Some(ExtensionConfig { inline: None, .. }) => Err(Violation::of(rules::CONFIG)),
            _ => Ok(catalog),
        }
    }

    /// How strictly upgrades of CustomResourceDefinitions are looked at.
    pub fn crd_upgrade_safety(&self) -> CrdUpgradeSafetyEnforcement {
        let preflight = self.install.as_ref().and_then(|install| install.preflight.as_ref());
        let safety = preflight.and_then(|preflight| preflight.crd_upgrade_safety.as_ref());
        safety.map_or(CrdUpgradeSafetyEnforcement::Strict, |safety| safety.enforcement)
    }
}
