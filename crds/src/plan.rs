//! Plan: what an installation or upgrade would do, and the answer of whoever decides about it (not in RukPak v0.16).

use jiff::Timestamp;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// PlanSpec names what is to be approved. Nothing but the approval can be changed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "core.rukpak.io",
    version = "v1alpha1",
    kind = "Plan",
    plural = "plans",
    singular = "plan",
    status = "PlanStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Deployment","type":"string","jsonPath":".spec.deployment.name"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Summary","type":"string","jsonPath":".status.summary"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PlanSpec {
    /// Deployment is the BundleDeployment that the plan is for.
    pub deployment: PlannedDeployment,
    /// Digest stands for the plan. It is computed from the UID of the BundleDeployment and everything in binds, and may be named in
    /// spec.approvedPlan of the BundleDeployment.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Binds is what the approval is for. Whatever of it is otherwise when the plan is carried out, the plan expires.
    pub binds: PlanBinding,
    /// Rendering is the digest of what Helm rendered, if the content is a chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<String>,
    /// Approval is the answer: Approved, or Rejected. Without one the plan waits. Whoever may update Plans may give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PlanApproval>,
}

/// A BundleDeployment, and no other of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedDeployment {
    /// Name of the BundleDeployment.
    pub name: String,
    /// UID of the BundleDeployment. In a plan for dependencies that of the ClusterExtension or PlatformOperator.
    pub uid: String,
}

/// What an approval is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanBinding {
    /// Digest of the content of the bundle, and its format.
    pub content: String,
    /// Digest of spec.config, if it has an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The ServiceAccount whose rights are used, as the API server names it. The controller's, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Digest of all objects of the bundle as they are rendered, without the certificates that the controller makes for webhooks.
    pub objects: String,
    /// Digest of what is done to each object, with the UIDs of those that are orphaned or deleted.
    pub actions: String,
    /// The installed release that would be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReplacedRelease>,
    /// Packages that would be installed because the bundle depends on them, all of them or none. A plan that has some is about nothing
    /// else: content is the bundle that needs them, and objects and actions are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<PlannedDependency>,
}

/// A package that would be installed because others need it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedDependency {
    /// Name of the package.
    pub package: String,
    /// Version of the bundle.
    pub version: String,
    /// Name of the bundle.
    pub bundle: String,
    /// The channel that it is in.
    pub channel: String,
    /// Name of the catalog that has it.
    pub catalog: String,
    /// What needs it, a sentence for each.
    pub needed_by: Vec<String>,
}

/// What becomes of packages that a bundle depends on and that are not installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DependencyPolicy {
    /// The bundle is not installed, and it is said which packages would help.
    #[default]
    Refuse,
    /// A Plan asks whether they may be installed.
    Propose,
    /// They are installed first.
    Install,
}

/// An installed release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacedRelease {
    /// Digest of its content, and its format.
    pub content: String,
    /// Number of the revision in the history of the BundleDeployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// When its installation began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
}

/// An answer to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanApproval {
    /// It is carried out, as long as it would do what it says.
    Approved,
    /// It is not carried out. What is installed stays, until another plan takes its place.
    Rejected,
}

/// PlanStatus says what would be done, or was. Nothing is decided by it. All of it is there, so that each write replaces all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Phase of the plan.
    pub phase: PlanPhase,
    /// Why it is in this phase.
    pub message: String,
    /// Summary in one sentence.
    pub summary: String,
    /// Objects that would be created.
    pub created: Listing<PlannedObject>,
    /// Objects that would be changed.
    pub changed: Listing<PlannedObject>,
    /// Objects that would be left in the cluster, without an owner.
    pub orphaned: Listing<PlannedObject>,
    /// Objects that would be deleted.
    pub deleted: Listing<PlannedObject>,
    /// Rights that the bundle would grant and the installed one does not.
    pub rights: Listing<GrownRight>,
    /// Images of containers that would be others.
    pub images: Listing<ChangedImage>,
    /// Versions of CustomResourceDefinitions that would come or go.
    pub versions: Listing<ChangedVersion>,
}

/// Phase of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanPhase {
    /// It waits for an answer.
    #[default]
    Waiting,
    /// It was approved, and is carried out.
    Approved,
    /// It was carried out.
    Applied,
    /// It was rejected.
    Rejected,
    /// It is not asked for any more, or would do something else by now.
    Expired,
}

impl PlanPhase {
    /// Whether the plan is over: no answer changes anything.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Applied | Self::Expired)
    }
}

/// The first items of a list that may be long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listing<T> {
    /// How many there are, also those that are left out here.
    pub count: i64,
    /// The first 50 of them.
    pub items: Vec<T>,
}

impl<T> Listing<T> {
    /// So many items are listed.
    pub const LISTED: usize = 50;

    /// Lists the first of `items`, and counts all.
    pub fn of(items: impl IntoIterator<Item = T>) -> Self {
        let mut items: Vec<T> = items.into_iter().collect();
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        items.truncate(Self::LISTED);
        Self { count, items }
    }

    /// How many are left out.
    pub fn omitted(&self) -> i64 {
        self.count - i64::try_from(self.items.len()).unwrap_or(i64::MAX)
    }
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { count: 0, items: Vec::new() }
    }
}

/// An object that something would be done to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedObject {
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
    /// What to know about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A right that a bundle would grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrownRight {
    /// Who would have it.
    pub holder: String,
    /// What it allows.
    pub rule: String,
    /// Whether somebody who has it can take any other right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub escalation: bool,
}

/// The image of a container that would be another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedImage {
    /// The object with the container.
    pub object: String,
    /// Name of the container.
    pub container: String,
    /// The image now; empty if the container is new.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The image that would be.
    pub to: String,
}

/// Versions of a CustomResourceDefinition that would come or go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedVersion {
    /// Name of the CustomResourceDefinition.
    pub definition: String,
    /// Versions that would be served, and are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Versions that are served, and would not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// When a Plan has to be approved before a BundleDeployment is installed or upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApprovalPolicy {
    /// Never.
    #[default]
    Automatic,
    /// Before an installed release is replaced by another one.
    Upgrades,
    /// Before a bundle grants rights that the installed one does not grant.
    Escalations,
    /// Before everything that is new to the cluster, the first installation too.
    Always,
}

/// What the API server holds a change of a plan to, as a rule of its schema: where nobody approves, nobody changes anything.
pub(crate) fn immutability() -> serde_json::Value {
    json!([{
        "rule": "self.deployment == oldSelf.deployment && self.digest == oldSelf.digest && self.binds == oldSelf.binds && \
                 has(self.rendering) == has(oldSelf.rendering) && (!has(self.rendering) || self.rendering == oldSelf.rendering)",
        "message": "a Plan cannot be changed: set spec.approval to Approved or Rejected, or delete it to have it made anew",
    }])
}

impl PlanBinding {
    /// Whether both would put the same objects into the cluster, whatever that does to those that are there.
    pub fn is_of_same_objects(&self, other: &Self) -> bool {
        (&self.content, &self.config, &self.account, &self.objects)
            == (&other.content, &other.config, &other.account, &other.objects)
    }

    /// What is otherwise in `other`, in words; `None` if nothing is.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let causes = [
            ("the content of the bundle", self.content != other.content),
            ("spec.config", self.config != other.config),
            ("spec.serviceAccount", self.account != other.account),
            ("the release that is installed", self.replaces != other.replaces),
        ];
        let changed: Vec<&str> = causes.iter().filter(|(_, is_other)| *is_other).map(|(what, _)| *what).collect();
        // The rest follows from these, and changes without them where the cluster or this program does.
        if !changed.is_empty() {
            return Some(changed.join(", "));
        }
        match (self.objects != other.objects, self.actions != other.actions) {
            (false, false) => None,
            (true, _) => Some("what the bundle is rendered to".to_owned()),
            (false, true) => Some("what would be done to the objects in the cluster".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_first_items_and_counts_all() {
        let listing = Listing::of(0..60);
        assert_eq!((listing.count, listing.items.len(), listing.omitted()), (60, 50, 10));
        assert_eq!(Listing::of(0..2).omitted(), 0);
    }

    #[test]
    fn tells_what_changed_and_not_what_follows_from_it() {
        let plan = PlanBinding { content: "a".into(), objects: "o".into(), actions: "x".into(), ..Default::default() };
        let content = PlanBinding { content: "b".into(), objects: "p".into(), actions: "y".into(), ..plan.clone() };
        let config = PlanBinding { config: Some("c".into()), objects: "p".into(), ..plan.clone() };
        let account = PlanBinding { account: Some("c".into()), ..plan.clone() };
        let actions = PlanBinding { actions: "y".into(), ..plan.clone() };
        assert_eq!(plan.difference(&plan), None);
        assert_eq!(plan.difference(&content).as_deref(), Some("the content of the bundle"));
        assert_eq!(plan.difference(&config).as_deref(), Some("spec.config"));
        assert_eq!(plan.difference(&account).as_deref(), Some("spec.serviceAccount"));
        assert_eq!(plan.difference(&actions).as_deref(), Some("what would be done to the objects in the cluster"));
        assert!(plan.is_of_same_objects(&actions) && !plan.is_of_same_objects(&account));
    }
}
