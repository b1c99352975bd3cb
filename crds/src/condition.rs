//! Conditions: their types, reasons and the rule for transition times.

use std::borrow::Cow;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `Unpacked` on Bundles.
pub const UNPACKED: &str = "Unpacked";
/// `HasValidBundle` on BundleDeployments.
pub const HAS_VALID_BUNDLE: &str = "HasValidBundle";
/// `Installed` on BundleDeployments.
pub const INSTALLED: &str = "Installed";
/// `Healthy` on BundleDeployments, where the feature gate is on.
pub const HEALTHY: &str = "Healthy";
/// Summary, as kstatus reads it (additive).
pub const READY: &str = "Ready";
/// Work is under way or waited for, as kstatus reads it (additive; absent when false).
pub const RECONCILING: &str = "Reconciling";
/// Nothing will move without a change, as kstatus reads it (additive; absent when false).
pub const STALLED: &str = "Stalled";

/// `DefinitionDeleted` on BundleDeployments: somebody has deleted CRDs that installations have in common (additive; absent when false).
pub const DEFINITION_DELETED: &str = "DefinitionDeleted";
/// `Verified` on Bundles: what the ContentPolicies say of the content (additive).
pub const VERIFIED: &str = "Verified";

/// Longest message the schema accepts, in characters.
pub const MESSAGE_MAX: usize = 32_768;

/// How the message of a Bundle begins whose image cannot be had, and is asked for again; RukPak's words, and the kubelet's.
pub const BACK_OFF_PULLING: &str = "Back-off pulling image";

/// Reasons of conditions. Those of RukPak v0.16 where a name is the same.
pub mod reason {
    /// Bundle: waiting for the content to be available.
    pub const UNPACK_PENDING: &str = "UnpackPending";
    /// Bundle: fetching.
    pub const UNPACKING: &str = "Unpacking";
    /// The content could not be fetched, or is not of the format.
    pub const UNPACK_FAILED: &str = "UnpackFailed";
    /// `Ready`, `Stalled` of a Bundle: it cannot be installed before the settings say which namespaces its operator watches.
    pub const WATCH_NAMESPACE_REQUIRED: &str = "WatchNamespaceRequired";
    /// The content is in the store.
    pub const UNPACK_SUCCESSFUL: &str = "UnpackSuccessful";
    /// The desired Bundle could not be found out or made; as `Installed` reason: drift could not be repaired.
    pub const RECONCILE_FAILED: &str = "ReconcileFailed";
    /// Stored content could not be loaded or rendered.
    pub const BUNDLE_LOAD_FAILED: &str = "BundleLoadFailed";
    /// The dry run of a pivot failed: nothing was changed.
    pub const ERROR_GETTING_RELEASE_STATE: &str = "ErrorGettingReleaseState";
    /// The first installation failed.
    pub const INSTALL_FAILED: &str = "InstallFailed";
    /// A pivot failed and the previous version was restored.
    pub const UPGRADE_FAILED: &str = "UpgradeFailed";
    /// `Healthy`: the objects were not looked at since the controller started.
    pub const NOT_OBSERVED: &str = "NotObserved";
    /// `Ready`: objects that left the bundle could not be deleted.
    pub const PRUNE_FAILED: &str = "PruneFailed";
    /// `Ready`: objects that are stored in a version which a CRD drops could not all be migrated to another one.
    pub const MIGRATION_FAILED: &str = "MigrationFailed";
    /// `Ready`: a kind or a Namespace that the bundle needs is not in the cluster; it is waited for.
    pub const REQUIRED_RESOURCE_NOT_FOUND: &str = "RequiredResourceNotFound";
    /// `Ready`, `Stalled`: somebody has deleted a CRD that installations have in common; it is made again on request.
    pub const DEFINITION_DELETED: &str = "DefinitionDeleted";
    /// `Ready`, `Stalled`: the revision that was asked for is not in the history.
    pub const REVISION_NOT_FOUND: &str = "RevisionNotFound";
    /// `Ready`, `Stalled`: the revision that was asked for cannot be installed now.
    pub const ROLLBACK_REFUSED: &str = "RollbackRefused";
    /// `Ready`, `Stalled`: an upgrade was not healthy in time, and the revision before came back.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// `Ready`: another BundleDeployment must be ready first.
    pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
    /// `Ready`, `Stalled`: BundleDeployments wait for one another.
    pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
    /// The dependents could not be watched.
    pub const CREATE_DYNAMIC_WATCH_FAILED: &str = "CreateDynamicWatchFailed";
    /// Applied.
    pub const INSTALLATION_SUCCEEDED: &str = "InstallationSucceeded";
    /// `Healthy` follows a false `Installed`.
    pub const INSTALLATION_STATUS_FALSE: &str = "InstallationStatusFalse";
    /// An object is not healthy.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// All objects are healthy.
    pub const HEALTHY: &str = "Healthy";
    /// `Ready`, `Stalled`: spec.serviceAccount names none that there is.
    pub const SERVICE_ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";
    /// `Installed`, `Ready`, `Stalled`: spec.serviceAccount has to name one.
    pub const SERVICE_ACCOUNT_REQUIRED: &str = "ServiceAccountRequired";
    /// `Installed`, `Ready`, `Stalled`: the ServiceAccount lacks rights that the bundle takes.
    pub const MISSING_RIGHTS: &str = "MissingRights";
    /// `Ready`, `Reconciling`, Event: a Plan has to be approved first.
    pub const WAITING_FOR_APPROVAL: &str = "WaitingForApproval";
    /// `Ready`: an upgrade waits until a window of `spec.windows` opens.
    pub const WAITING_FOR_WINDOW: &str = "WaitingForWindow";
    /// `Ready`, `Reconciling`: the installed operator says that it must not be upgraded now. OLM v0's word.
    pub const OPERATOR_CONDITION_NOT_UPGRADEABLE: &str = "OperatorConditionNotUpgradeable";
    /// `Ready`, `Stalled`: the Plan was rejected.
    pub const PLAN_REJECTED: &str = "PlanRejected";
    /// `Ready`, `Reconciling`: work goes on.
    pub const PROGRESSING: &str = "Progressing";
    /// `Reconciling`: the last attempt failed and another will follow by itself.
    pub const PROGRESSING_WITH_RETRY: &str = "ProgressingWithRetry";
    /// `Verified`: who may sign has signed.
    pub const SIGNATURE_VERIFIED: &str = "SignatureVerified";
    /// `Verified`: nobody who may sign has signed.
    pub const SIGNATURE_MISSING: &str = "SignatureMissing";
    /// `Verified`: a rule refuses the source, or none accepts it.
    pub const REFUSED_BY_POLICY: &str = "RefusedByPolicy";
    /// Event: a login is asked for, and its Secret does not say which hosts it is for.
    pub const SECRET_NAMES_NO_HOSTS: &str = "SecretNamesNoHosts";
    /// `Verified`: no rule asks for a signature.
    pub const NOT_REQUIRED: &str = "NotRequired";
    /// `Verified`: signatures, or the keys to check them, could not be read.
    pub const VERIFICATION_PENDING: &str = "VerificationPending";
    /// `Ready`: everything is as asked for.
    pub const SUCCEEDED: &str = "Succeeded";
}

/// Truth of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known.
    Unknown,
}

/// One aspect of the state of an object, as Kubernetes writes conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The last time the condition changed from one status to another.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Timestamp,
    /// Details in words. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// The generation that the condition was set for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// One word in CamelCase for the condition's last transition.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// Type of the condition in CamelCase.
    #[serde(rename = "type")]
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub type_: String,
}

/// Reading and writing of a list of conditions, one a type.
pub trait Conditions {
    /// The condition of this type.
    fn find(&self, type_: &str) -> Option<&Condition>;
    /// Sets or adds a condition. The transition time moves to `now` only if the status changes. Messages longer than
    /// [`MESSAGE_MAX`] are cut, because the API server would refuse the whole status otherwise, and control characters
    /// [escaped](printable).
    fn set(&mut self, new: NewCondition<'_>, generation: Option<i64>, now: Timestamp);
    /// Removes the condition of this type.
    fn drop_type(&mut self, type_: &str);
    /// Whether the condition is there with this status.
    fn is(&self, type_: &str, status: ConditionStatus) -> bool {
        self.find(type_).is_some_and(|condition| condition.status == status)
    }
}

/// What a condition shall say.
#[derive(Clone, Copy, Debug)]
pub struct NewCondition<'a> {
    /// Its type.
    pub type_: &'a str,
    /// Its truth.
    pub status: ConditionStatus,
    /// One word.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
}

impl Conditions for Vec<Condition> {
    fn find(&self, type_: &str) -> Option<&Condition> {
        self.iter().find(|condition| condition.type_ == type_)
    }

    fn set(&mut self, new: NewCondition<'_>, generation: Option<i64>, now: Timestamp) {
        let old = self.iter_mut().find(|condition| condition.type_ == new.type_);
        let last_transition_time = match &old {
            Some(old) if old.status == new.status => old.last_transition_time,
            _ => whole_seconds(now),
        };
        let condition = Condition {
            last_transition_time,
            message: cut(&printable(new.message)),
            observed_generation: generation,
            reason: new.reason.to_owned(),
            status: new.status,
            type_: new.type_.to_owned(),
        };
        match old {
            Some(old) => *old = condition,
            None => self.push(condition),
        }
    }

    fn drop_type(&mut self, type_: &str) {
        self.retain(|condition| condition.type_ != type_);
    }
}

/// metav1.Time has whole seconds; anything finer would look like a change after a round trip through a Go client.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// `text` without what would do something to a terminal: control characters, but for line ends and tabs, are escaped.
///
/// Messages hold names that authors of content and servers chose; `kubectl describe` prints them as they are.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_hostile = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_hostile) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_hostile(letter) { printable.extend(letter.escape_unicode()) } else { printable.push(letter) }
    }
    Cow::Owned(printable)
}

fn cut(message: &str) -> String {
    const MORE: &str = " … (cut)";
    if message.chars().count() <= MESSAGE_MAX {
        return message.to_owned();
    }
    message.chars().take(MESSAGE_MAX - MORE.chars().count()).chain(MORE.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: ConditionStatus, message: &str) -> NewCondition<'_> {
        NewCondition { type_: READY, status, reason: reason::PROGRESSING, message }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        conditions.set(ready(ConditionStatus::False, "a"), Some(1), at(1));
        conditions.set(ready(ConditionStatus::False, "b"), Some(2), at(2));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert_eq!((conditions[0].message.as_str(), conditions[0].observed_generation), ("b", Some(2)));
        conditions.set(ready(ConditionStatus::True, "c"), Some(2), at(3));
        assert_eq!(conditions[0].last_transition_time, at(3));
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn a_message_does_nothing_to_a_terminal() {
        let mut conditions = Vec::new();
        let hostile = "ref \u{1b}[2J\u{9b}1m\u{7}\r\u{7f}\0 of\n\tb\u{e4}";
        conditions.set(ready(ConditionStatus::False, hostile), None, at(1));
        let expected = "ref \\u{1b}[2J\\u{9b}1m\\u{7}\\u{d}\\u{7f}\\u{0} of\n\tb\u{e4}";
        assert_eq!(conditions[0].message, expected);
        conditions.set(ready(ConditionStatus::False, &"\u{1b}".repeat(40_000)), None, at(1));
        assert_eq!(conditions[0].message.chars().count(), MESSAGE_MAX);
        assert!(matches!(printable("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_message_too_long_for_the_schema_is_cut() {
        let mut conditions = Vec::new();
        conditions.set(ready(ConditionStatus::False, &"ä".repeat(40_000)), None, at(1));
        assert_eq!(conditions[0].message.chars().count(), MESSAGE_MAX);
    }
}
