//! How the revision stands that a ClusterObjectSet shows. Pure; the words are upstream's.

use jiff::Timestamp;
use rukpak_crds::ConditionStatus;
use rukpak_crds::condition::{Conditions as _, NewCondition};
use rukpak_crds::olm::cluster_extension::RevisionStatus;
use rukpak_crds::olm::{ClusterObjectSet, ClusterObjectSetStatus, PROGRESSING, reason};

use crate::cluster_extension::revisions::{ActiveRevision, Stage, rolled_out, rolling_out};

const AVAILABLE: &str = "Available";
pub(super) const SUCCEEDED: &str = "Succeeded";
const ROLLING_OUT: &str = "RollingOut";
const ARCHIVED: &str = "Archived";

/// Of an active revision, of which the extension has `told` this.
pub(super) fn of_active(
    set: &ClusterObjectSet,
    revision: &ActiveRevision,
    told: Option<&RevisionStatus>,
    now: Timestamp,
) -> ClusterObjectSetStatus {
    let mut writer = Writer::new(set, now);
    let has_succeeded = matches!(revision.stage, Stage::Replaced | Stage::RolledOut);
    for condition in told.into_iter().flat_map(|told| &told.conditions) {
        writer.set(&condition.type_, condition.status, (&condition.reason, &condition.message));
    }
    // The extension tells nothing of one that another is about to replace.
    if told.is_none_or(|told| told.conditions.find(PROGRESSING).is_none()) {
        let (reason, message) = if has_succeeded {
            (reason::SUCCEEDED, rolled_out(&revision.version))
        } else {
            (ROLLING_OUT, rolling_out(&revision.version))
        };
        writer.set(PROGRESSING, ConditionStatus::True, (reason, &message));
    }
    if has_succeeded {
        writer.set(SUCCEEDED, ConditionStatus::True, (reason::SUCCEEDED, "Revision succeeded rolling out."));
    }
    writer.status
}

/// Of one that another has replaced.
pub(super) fn of_archived(set: &ClusterObjectSet, now: Timestamp) -> ClusterObjectSetStatus {
    let mut writer = Writer::new(set, now);
    writer.set(PROGRESSING, ConditionStatus::False, (ARCHIVED, "revision is archived"));
    writer.set(AVAILABLE, ConditionStatus::Unknown, (ARCHIVED, "revision is archived"));
    writer.status
}

struct Writer {
    status: ClusterObjectSetStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Writer {
    fn new(set: &ClusterObjectSet, now: Timestamp) -> Self {
        Self { status: set.status.clone().unwrap_or_default(), generation: set.metadata.generation, now }
    }

    fn set(&mut self, type_: &str, status: ConditionStatus, (reason, message): (&str, &str)) {
        self.status.conditions.set(NewCondition { type_, status, reason, message }, self.generation, self.now);
    }
}

#[cfg(test)]
mod tests {
    use rukpak_crds::ReleaseRecord;
    use serde_json::{Value, json};

    use super::*;

    fn set(status: &ClusterObjectSetStatus) -> ClusterObjectSet {
        serde_json::from_value(json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "e-1", "generation": 1},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"}, "status": status,
        }))
        .unwrap()
    }

    fn revision(stage: Stage) -> ActiveRevision {
        ActiveRevision {
            number: 1,
            version: "1.0.0".to_owned(),
            stage,
            release: ReleaseRecord::default(),
            bundle: None,
        }
    }

    fn told(conditions: &Value) -> RevisionStatus {
        serde_json::from_value(json!({"name": "e-1", "conditions": conditions})).unwrap()
    }

    fn lines(status: &ClusterObjectSetStatus) -> Vec<String> {
        let conditions = status.conditions.iter();
        conditions.map(|one| format!("{} {:?} {}: {}", one.type_, one.status, one.reason, one.message)).collect()
    }

    #[test]
    fn a_set_says_what_the_extension_says_of_the_revision_and_that_it_succeeded() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let begun =
            told(&json!([condition("Available", "False", "RollingOut"), condition("Progressing", "True", "Retrying")]));
        let first = of_active(&set(&ClusterObjectSetStatus::default()), &revision(Stage::Begun), Some(&begun), at(1));
        assert_eq!(lines(&first), ["Available False RollingOut: m", "Progressing True Retrying: m"]);
        assert_eq!(of_active(&set(&first), &revision(Stage::Begun), Some(&begun), at(2)), first, "no news");

        let well = told(&json!([
            condition("Available", "True", "ProbesSucceeded"),
            condition("Progressing", "True", "Succeeded")
        ]));
        let second = of_active(&set(&first), &revision(Stage::RolledOut), Some(&well), at(3));
        let succeeded = "Succeeded True Succeeded: Revision succeeded rolling out.";
        assert_eq!(lines(&second), ["Available True ProbesSucceeded: m", "Progressing True Succeeded: m", succeeded]);
        let third = of_active(&set(&second), &revision(Stage::Replaced), Some(&told(&json!([]))), at(4));
        assert_eq!(lines(&third)[1], "Progressing True Succeeded: Revision 1.0.0 has rolled out.");
        let last = of_archived(&set(&third), at(5));
        let available = "Available Unknown Archived: revision is archived";
        assert_eq!(lines(&last), [available, "Progressing False Archived: revision is archived", succeeded]);
    }

    #[test]
    fn a_set_says_how_a_revision_is_of_which_nothing_is_told() {
        let none = ClusterObjectSetStatus::default();
        let of = |stage| lines(&of_active(&set(&none), &revision(stage), None, Timestamp::UNIX_EPOCH));
        assert_eq!(of(Stage::Applied), ["Progressing True RollingOut: Revision 1.0.0 is rolling out."]);
        assert_eq!(of(Stage::Replaced).len(), 2);
    }
}
