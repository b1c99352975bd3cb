//! From all PlatformOperators to one status. Pure.
//!
//! Source: OpenShift's manager. Its conditions are made from scratch each time, so that their times change without need; here
//! a time moves only with its condition's status. Progressing stays True while something fails, as there, but says why.
//! Upgradeable is not set there.

use std::sync::Arc;

use jiff::Timestamp;
use rukpak_crds::platform_operator::Summary;
use rukpak_crds::{ConditionStatus, PlatformOperator};

use super::About;
use crate::foreign::{ClusterCondition, ClusterOperatorStatus, OperandVersion, RelatedObject};

/// The type of the condition that permits upgrades of the cluster to its next minor version.
pub(super) const UPGRADEABLE: &str = "Upgradeable";

const AS_EXPECTED: &str = "AsExpected";
const INCOMPATIBLE_OPERATORS: &str = "IncompatibleOperatorsInstalled";
const PLATFORM_OPERATOR_ERROR: &str = "PlatformOperatorError";

/// The status for `operators`, where the one before was `old`, and the next version of the cluster is `supported` or what does not
/// support it. Conditions of other types are left alone. So is `Upgradeable` while nobody knows what it is to say: a program that has
/// just begun must not permit what it will block.
pub(super) fn aggregate(
    operators: &[Arc<PlatformOperator>],
    old: &ClusterOperatorStatus,
    about: &About,
    supported: Option<Result<(), String>>,
    now: Timestamp,
) -> ClusterOperatorStatus {
    use ConditionStatus::{False, True};
    let Summary { failing, message } = Summary::of(operators.iter().map(AsRef::as_ref));
    let (available, progressing, reason) =
        if failing > 0 { (False, True, PLATFORM_OPERATOR_ERROR) } else { (True, False, AS_EXPECTED) };
    let mut conditions = old.conditions.clone();
    set(&mut conditions, ("Available", available), reason, &message, now);
    set(&mut conditions, ("Progressing", progressing), reason, &message, now);
    set(&mut conditions, ("Degraded", False), AS_EXPECTED, "", now);
    if let Some(supported) = supported {
        let (status, reason, obstacles) = match supported {
            Ok(()) => (True, AS_EXPECTED, String::new()),
            Err(obstacles) => (False, INCOMPATIBLE_OPERATORS, obstacles),
        };
        set(&mut conditions, (UPGRADEABLE, status), reason, &obstacles, now);
    }
    ClusterOperatorStatus {
        conditions,
        versions: vec![OperandVersion { name: "operator".to_owned(), version: about.version.clone() }],
        related_objects: related(&about.namespace),
    }
}

fn set(
    conditions: &mut Vec<ClusterCondition>,
    (type_, status): (&str, ConditionStatus),
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let old = conditions.iter_mut().find(|condition| condition.type_ == type_);
    let last_transition_time = match &old {
        Some(old) if old.status == status => old.last_transition_time,
        // metav1.Time has whole seconds.
        _ => Timestamp::from_second(now.as_second()).unwrap_or(now),
    };
    let new = ClusterCondition {
        type_: type_.to_owned(),
        status,
        last_transition_time,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// What OpenShift 4.12 lists.
fn related(namespace: &str) -> Vec<RelatedObject> {
    [
        ("", "namespaces", namespace),
        ("platform.openshift.io", "platformoperators", ""),
        ("core.rukpak.io", "bundles", ""),
        ("core.rukpak.io", "bundledeployments", ""),
    ]
    .map(|(group, resource, name)| RelatedObject {
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
    })
    .into()
}

#[cfg(test)]
mod tests {
    use rukpak_crds::condition::{Conditions, INSTALLED, NewCondition};
    use rukpak_crds::{PlatformOperatorSpec, PlatformOperatorStatus};

    use super::*;

    fn operator(name: &str, installed: Option<(ConditionStatus, &str)>) -> Arc<PlatformOperator> {
        let mut operator = PlatformOperator::new(name, PlatformOperatorSpec::default());
        let mut status = PlatformOperatorStatus::default();
        if let Some((truth, reason)) = installed {
            let new = NewCondition { type_: INSTALLED, status: truth, reason, message: "" };
            status.conditions.set(new, None, Timestamp::UNIX_EPOCH);
        }
        operator.status = Some(status);
        Arc::new(operator)
    }

    fn about() -> About {
        About { version: "4.12.0".into(), namespace: "openshift-platform-operators".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> &'a ClusterCondition {
        status.conditions.iter().find(|condition| condition.type_ == type_).unwrap()
    }

    #[test]
    fn the_table() {
        use ConditionStatus::{False, True};
        let good = || operator("good", Some((True, "InstallSuccessful")));
        let bad = || operator("bad", Some((False, "SourceFailed")));
        let new = || operator("new", None);
        let text = |name: &str, reason: &str| {
            format!("encountered the failing {name} platform operator with reason \"{reason}\"")
        };
        let both = format!("[{}, {}]", text("bad", "SourceFailed"), text("new", "InstallPending"));
        let table = [
            (vec![], True, False, "AsExpected", "No platform operators are present in the cluster".to_owned()),
            (vec![good()], True, False, "AsExpected", "All platform operators are in a successful state".to_owned()),
            (vec![good(), bad()], False, True, "PlatformOperatorError", text("bad", "SourceFailed")),
            (vec![new()], False, True, "PlatformOperatorError", text("new", "InstallPending")),
            (vec![new(), good(), bad()], False, True, "PlatformOperatorError", both),
        ];
        for (operators, available, progressing, reason, message) in table {
            let status = aggregate(&operators, &ClusterOperatorStatus::default(), &about(), None, at(1));
            let found = condition(&status, "Available");
            assert_eq!((found.status, found.reason.as_str(), &found.message), (available, reason, &message));
            assert_eq!(condition(&status, "Progressing").status, progressing);
            assert_eq!(condition(&status, "Degraded").status, False);
            assert_eq!((status.versions.len(), status.related_objects.len()), (1, 4));
        }
    }

    #[test]
    fn nothing_new_is_the_same_status_however_late() {
        let one = [operator("a", Some((ConditionStatus::True, "x"))), operator("b", None)];
        let other = [one[1].clone(), one[0].clone()];
        let first = aggregate(&one, &ClusterOperatorStatus::default(), &about(), None, at(1));
        assert_eq!(aggregate(&other, &first, &about(), None, at(100)), first);
        let next = aggregate(&one[..1], &first, &about(), None, at(100));
        assert_eq!(condition(&next, "Available").last_transition_time, at(100));
        assert_eq!(condition(&next, "Degraded").last_transition_time, at(1));
    }

    #[test]
    fn upgradeable_stays_while_the_version_of_the_cluster_is_not_known() {
        use ConditionStatus::{False, True};
        let none = aggregate(&[], &ClusterOperatorStatus::default(), &about(), None, at(1));
        assert!(!none.conditions.iter().any(|condition| condition.type_ == "Upgradeable"));
        let blocked = aggregate(&[], &none, &about(), Some(Err("because".to_owned())), at(2));
        let found = condition(&blocked, "Upgradeable");
        assert_eq!(
            (found.status, &*found.reason, &*found.message),
            (False, "IncompatibleOperatorsInstalled", "because")
        );
        assert_eq!(aggregate(&[], &blocked, &about(), None, at(3)), blocked);
        let permitted = aggregate(&[], &blocked, &about(), Some(Ok(())), at(4));
        let found = condition(&permitted, "Upgradeable");
        assert_eq!((found.status, &*found.reason, &*found.message), (True, "AsExpected", ""));
        assert_eq!(found.last_transition_time, at(4));
    }
}
