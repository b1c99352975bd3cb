//! The words of the system: the API types of `core.rukpak.io/v1alpha1`, `platform.openshift.io/v1alpha1`,
//! `olm.operatorframework.io/v1` and `operators.coreos.com`, their conditions, names and validation.
//!
//! Sources of the shapes: RukPak v0.16.0, the platform operators of OpenShift 4.12, OLM v1 and OLM v0. Fields that it does not have are optional and say so. No I/O here.

pub mod bundle;
pub mod bundle_deployment;
pub mod condition;
pub mod config;
pub mod content_policy;
pub mod definition;
pub mod names;
pub mod olm;
pub mod olmv0;
pub mod plan;
pub mod platform_operator;
pub mod source;
pub mod template_hash;
pub mod validate;

pub use bundle::{Bundle, BundlePhase, BundleSpec, BundleStatus, Pin};
pub use bundle_deployment::{
    BundleDeployment, BundleDeploymentSpec, BundleDeploymentStatus, BundleProperty, BundleTemplate, ContestedField,
    DeletionPolicy, Dependency, HealthCheck, HealthProbe, HookRun, IgnoredDifference, Inventory, InventoryKind,
    MissingObject, ObjectSelector, PausedObject, Pending, Progress, ReleaseRecord, ReleasedObject, Revision,
    RevisionResult, ServiceAccountReference, StoredMigration, TakeOver, TemplateMetadata, UpgradeWindow,
};
pub use condition::{Condition, ConditionStatus, Conditions};
pub use content_policy::{
    ContentPolicy, ContentPolicySpec, KeylessSigner, Pem, PolicyAction, PolicyRule, SecretKeyRef, Signer, SourceType,
    Verification,
};
pub use plan::{ApprovalPolicy, DependencyPolicy, Plan, PlanApproval, PlanBinding, PlanPhase, PlanSpec, PlanStatus};
pub use platform_operator::{
    ActiveBundleDeployment, ChosenSource, PlatformOperator, PlatformOperatorSpec, PlatformOperatorStatus,
    PlatformPackage, UpgradePolicy,
};
pub use source::{
    Authorization, BundleSource, ConfigMapSource, FilesKind, GitRef, GitSource, HttpSource, ImageSource,
    LocalObjectReference, UploadSource,
};
