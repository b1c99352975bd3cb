//! What the controller says of a BundleDeployment.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BundleSource, Condition, Pin};

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
    /// Format of the content: plain+v0 (also where it is absent), registry+v1 or helm+v3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The spec.config that the objects are rendered with, if their format has a use for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Option<Map<String, Value>>,
    /// Digest of what Helm rendered, as the store names it, if the content is a chart. It stays what it is while content and config do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<String>,
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
    /// Digest of what Helm rendered, as the store names it, if the content is a chart. It stays what it is while content and config do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<String>,
    /// What was begun to be installed in place of it and has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Digest over the content, the renderer, and UID and owned fields of every object, taken when the last reconcile
    /// ended; after a repair it follows within ten seconds. A restart that computes the same has nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_digest: Option<String>,
    /// Number of objects installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// When the certificates that the bundle's webhooks serve with are renewed, if they are made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub certificates_renewal: Option<Timestamp>,
    /// What the installed bundle provides and requires, as the properties of a catalog say it: olm.package, olm.maxOpenShiftVersion,
    /// olm.gvk, olm.package.required, olm.gvk.required, olm.constraint. Whoever installs packages reads it. As many as fit into 16 KiB, what
    /// it requires first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<BundleProperty>,
    /// Namespace of a registry+v1 bundle with createNamespace in spec.config. It stays the same when a later version asks for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Digest of the proxy of the cluster that the operators of a registry+v1 bundle were told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
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

/// A fact about a bundle that others count on, or what it needs of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleProperty {
    /// Type, such as olm.gvk.
    #[serde(rename = "type")]
    pub type_: String,
    /// What the type says that it holds: for olm.gvk group, version and kind; for olm.maxOpenShiftVersion version.
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true), with = "Map<String, Value>")]
    pub value: Value,
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
    #[serde(default, skip_serializing_if = "super::is_false")]
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
    /// CRDs whose stored objects are being migrated for it: a controller that is restarted goes on where it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<StoredMigration>,
    /// Hooks of a chart that were begun for it: a controller that is restarted runs none of them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRun>,
}

/// A hook of a chart that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookRun {
    /// The event that it is run at, and its object.
    pub hook: String,
    /// UID of the object that was made for it.
    pub uid: String,
    /// Whether it succeeded; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
}

/// How far the stored objects of a CRD are migrated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredMigration {
    /// Name of the CRD.
    pub crd: String,
    /// UID of the CRD.
    pub uid: String,
    /// Generation of the CRD that says which version is stored: under another one the migration begins anew.
    pub generation: i64,
    /// Resource version of the first list of the objects: newer ones are stored in that version.
    pub since: String,
    /// How many objects were migrated when this was written.
    pub migrated: i64,
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
