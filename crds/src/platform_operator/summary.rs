//! What all PlatformOperators come to. Pure.
//!
//! The words are those of OpenShift's manager, which puts them into its ClusterOperator. They stand here, because the manager
//! and the command line say the same.

use kube::ResourceExt as _;

use super::PlatformOperator;
use crate::{ConditionStatus, Conditions as _, condition};

/// Condition type of a PlatformOperator: there is a newer version, or it cannot be known, or not reached (additive; absent where what is
/// installed is the newest).
pub const UPGRADE_AVAILABLE: &str = "UpgradeAvailable";
/// Condition type of a PlatformOperator: the catalog advises against what is installed (additive; absent when false).
pub const DEPRECATED: &str = "Deprecated";
/// Reason of a PlatformOperator that says nothing yet.
pub const INSTALL_PENDING: &str = "InstallPending";

/// All PlatformOperators in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many are not installed.
    pub failing: usize,
    /// The sentence.
    pub message: String,
}

impl PlatformOperator {
    /// The reason, unless `Installed` says True.
    pub fn failing_reason(&self) -> Option<&str> {
        let installed = self.status.as_ref().and_then(|status| status.conditions.find(condition::INSTALLED));
        match installed {
            Some(condition) if condition.status == ConditionStatus::True => None,
            Some(condition) => Some(&condition.reason),
            None => Some(INSTALL_PENDING),
        }
    }
}

impl Summary {
    /// Sums them up. Their order does not count.
    pub fn of<'a>(operators: impl IntoIterator<Item = &'a PlatformOperator>) -> Self {
        let mut is_empty = true;
        let mut failures = Vec::new();
        for operator in operators {
            is_empty = false;
            if let Some(reason) = operator.failing_reason() {
                let name = operator.name_any();
                failures.push(format!("encountered the failing {name} platform operator with reason {reason:?}"));
            }
        }
        failures.sort();
        // As Kubernetes prints several errors: one bare, more in brackets.
        let message = match failures.as_slice() {
            [] if is_empty => "No platform operators are present in the cluster".to_owned(),
            [] => "All platform operators are in a successful state".to_owned(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Self { failing: failures.len(), message }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::condition::NewCondition;
    use crate::{PlatformOperatorSpec, PlatformOperatorStatus};

    fn operator(name: &str, installed: Option<(ConditionStatus, &str)>) -> PlatformOperator {
        let mut status = PlatformOperatorStatus::default();
        if let Some((truth, reason)) = installed {
            let new = NewCondition { type_: condition::INSTALLED, status: truth, reason, message: "" };
            status.conditions.set(new, None, Timestamp::UNIX_EPOCH);
        }
        let mut operator = PlatformOperator::new(name, PlatformOperatorSpec::default());
        operator.status = Some(status);
        operator
    }

    #[test]
    fn the_words_are_those_of_the_cluster_operator() {
        use ConditionStatus::{False, True, Unknown};
        let good = operator("good", Some((True, "InstallSuccessful")));
        let bad = operator("bad", Some((False, "SourceFailed")));
        let odd = operator("odd", Some((Unknown, "Wondering")));
        let new = operator("new", None);
        let text = |name: &str, reason: &str| {
            format!("encountered the failing {name} platform operator with reason \"{reason}\"")
        };
        let all = format!(
            "[{}, {}, {}]",
            text("bad", "SourceFailed"),
            text("new", INSTALL_PENDING),
            text("odd", "Wondering")
        );
        let table: [(&[&PlatformOperator], usize, String); 5] = [
            (&[], 0, "No platform operators are present in the cluster".to_owned()),
            (&[&good], 0, "All platform operators are in a successful state".to_owned()),
            (&[&good, &bad], 1, text("bad", "SourceFailed")),
            (&[&new], 1, text("new", INSTALL_PENDING)),
            (&[&odd, &new, &good, &bad], 3, all),
        ];
        for (operators, failing, message) in table {
            assert_eq!(Summary::of(operators.iter().copied()), Summary { failing, message });
        }
    }
}
