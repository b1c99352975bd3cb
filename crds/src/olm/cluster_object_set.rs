//! ClusterObjectSet: objects, applied phase by phase, each once all objects of the phase before are as their probes ask.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Condition;
use crate::names::SHOWN_RELEASE;

/// ClusterObjectSetSpec defines the desired state of ClusterObjectSet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterObjectSet",
    plural = "clusterobjectsets",
    singular = "clusterobjectset",
    status = "ClusterObjectSetStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Available","type":"string","jsonPath":".status.conditions[?(@.type=='Available')].status"}"#,
    printcolumn = r#"{"name":"Progressing","type":"string","jsonPath":".status.conditions[?(@.type=='Progressing')].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetSpec {
    /// LifecycleState is Active, or Archived: the objects are deleted, and the set is not looked at any more. It cannot be taken back.
    pub lifecycle_state: LifecycleState,
    /// Revision is the number of the set among those of one owner. It never changes.
    #[schemars(range(min = 1))]
    pub revision: i64,
    /// Phases are the objects, in the order in which they are applied. Once there are some, they never change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub phases: Vec<ObjectSetPhase>,
    /// ProgressDeadlineMinutes is how long it may take until all objects are there and as their probes ask. When it is over, the set says
    /// so, and goes on. Without it, it may take any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 720))]
    pub progress_deadline_minutes: Option<i32>,
    /// ProgressionProbes say what must hold for objects, where the usual rules of their kinds do not tell. Without any that selects an object,
    /// those decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub progression_probes: Vec<ProgressionProbe>,
    /// CollisionProtection says what becomes of objects that exist already; a phase or an object may say something else. It never changes.
    pub collision_protection: CollisionProtection,
}

/// Whether a set is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LifecycleState {
    /// Its objects are applied, and kept as they are declared.
    #[default]
    Active,
    /// Its objects are deleted.
    Archived,
}

/// What becomes of an object that exists already. Prevent: it is in the way. IfNoController: it is taken over if nothing controls it. None:
/// it is taken over whatever controls it, which may go on to write it. Namespaces are used as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CollisionProtection {
    /// It is left alone, and is in the way.
    #[default]
    Prevent,
    /// It is taken over if nothing controls it.
    IfNoController,
    /// It is taken over, whosever it is.
    None,
}

/// ObjectSetPhase are objects that are applied together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetPhase {
    /// Name of the phase.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Objects of the phase.
    #[schemars(length(max = 50))]
    pub objects: Vec<ObjectSetObject>,
    /// CollisionProtection of its objects, in place of that of the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// ObjectSetObject is an object, or where it is: exactly one of object and ref.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetObject {
    /// Object is the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-embedded-resource" = true, "x-kubernetes-preserve-unknown-fields" = true))]
    pub object: Option<Map<String, Value>>,
    /// Ref names a key of an immutable Secret that holds the manifest, in JSON, and perhaps compressed with gzip.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ObjectReference>,
    /// CollisionProtection of the object, in place of that of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_protection: Option<CollisionProtection>,
}

/// ObjectReference is a key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObjectReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Secret. Without it, the system namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Key of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// ProgressionProbe says what must hold for the objects that it selects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressionProbe {
    /// Selector says which objects.
    pub selector: ProbeSelector,
    /// Assertions must all hold.
    #[schemars(length(min = 1, max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub assertions: Vec<Assertion>,
}

/// ProbeSelector is a union: the member that the type names is set, and no other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeSelector {
    /// Type names the member.
    #[serde(rename = "type")]
    pub type_: ProbeSelectorType,
    /// GroupKind is set if the type is GroupKind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_kind: Option<GroupKind>,
    /// Label is set if the type is Label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label: Option<LabelSelector>,
}

/// How objects are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProbeSelectorType {
    /// By their kind.
    #[default]
    GroupKind,
    /// By their labels, as they are declared.
    Label,
}

/// GroupKind is a kind of any version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupKind {
    /// Group is the API group; empty for the core group.
    pub group: String,
    /// Kind is the kind.
    pub kind: String,
}

/// Assertion is a union: the member that the type names is set, and no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    /// Type names the member.
    #[serde(rename = "type")]
    pub type_: AssertionType,
    /// ConditionEqual is set if the type is ConditionEqual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_equal: Option<ConditionEqual>,
    /// FieldsEqual is set if the type is FieldsEqual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields_equal: Option<FieldsEqual>,
    /// FieldValue is set if the type is FieldValue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_value: Option<FieldValue>,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AssertionType {
    /// The status of a condition.
    #[default]
    ConditionEqual,
    /// Two fields.
    FieldsEqual,
    /// A field.
    FieldValue,
}

/// ConditionEqual is a condition and the status that it must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionEqual {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 200))]
    pub type_: String,
    /// Status that it must have.
    pub status: EqualStatus,
}

/// Statuses that a condition can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EqualStatus {
    /// True.
    #[default]
    True,
    /// False.
    False,
}

/// FieldsEqual are two fields that must have the same value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldsEqual {
    /// FieldA is the path of the one: spec.replicas.
    #[schemars(length(min = 1, max = 200))]
    pub field_a: String,
    /// FieldB is the path of the other: status.readyReplicas.
    #[schemars(length(min = 1, max = 200))]
    pub field_b: String,
}

/// FieldValue is a field and the value that it must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// FieldPath is the path of the field: status.phase.
    #[schemars(length(min = 1, max = 200))]
    pub field_path: String,
    /// Value that it must have.
    #[schemars(length(min = 1, max = 200))]
    pub value: String,
}

/// ClusterObjectSetStatus defines the observed state of ClusterObjectSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSetStatus {
    /// Conditions: Progressing, Available, Succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// ObservedPhases are the digests of what the phases held at first. They never change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub observed_phases: Vec<ObservedPhase>,
}

/// ObservedPhase is what a phase held at first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedPhase {
    /// Name of the phase.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Digest of its objects: sha256 and the hexadecimal digits.
    #[schemars(length(min = 1, max = 256))]
    pub digest: String,
}

impl ClusterObjectSet {
    /// Whether nothing is installed by it: something controls it, or it shows a revision of a ClusterExtension. That holds too once the
    /// extension is gone, and has left it behind.
    pub fn is_left_alone(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let annotations = self.metadata.annotations.as_ref();
        owners.any(|owner| owner.controller == Some(true))
            || annotations.is_some_and(|annotations| annotations.contains_key(SHOWN_RELEASE))
    }
}

impl ClusterObjectSetSpec {
    /// What becomes of an object of a phase that exists already.
    pub fn protection(&self, phase: &ObjectSetPhase, object: &ObjectSetObject) -> CollisionProtection {
        object.collision_protection.or(phase.collision_protection).unwrap_or(self.collision_protection)
    }
}
