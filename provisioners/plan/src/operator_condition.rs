//! Whether the installed operator lets itself be upgraded: what its OperatorCondition says. Kind and messages are OLM v0's.

use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::Release;
use crate::memory::{Problem, Stage};
use crate::observed::Observed;
use crate::resolve::Why;
use crate::retry::Class;

/// The version in which it is read: in OLM's `v1` an operator writes only the status.
pub const API_VERSION: &str = "operators.coreos.com/v2";
/// Its kind.
pub const KIND: &str = "OperatorCondition";

/// The type of the condition and of the override.
const UPGRADEABLE: &str = "Upgradeable";

/// Whether the key is that of an OperatorCondition.
pub fn is_operator_condition(key: &ObjectKey) -> bool {
    key.group == "operators.coreos.com" && key.kind == KIND
}

/// Whether the operator is asked before `release` is installed: it is an upgrade to another bundle, not to other settings only, and has
/// not begun.
pub fn is_asked(observed: &Observed, release: &Release, why: Why) -> bool {
    let is_other = observed.installed().is_some_and(|installed| installed.content != release.content);
    let is_begun = observed.pending().is_some_and(|(pending, _)| pending == *release);
    why == Why::Upgrade && is_other && !is_begun
}

/// What an OperatorCondition, without its metadata, says against an upgrade, if anything. What people say in `spec.overrides` wins.
///
/// OLM copies `spec.conditions` into the status, with the generation of that time, and reads only the status. Nobody copies here:
/// `spec.conditions` are read as if they had just been copied. Only what is in the status alone can be outdated.
pub fn refusal(condition: &Value, generation: Option<i64>) -> Option<String> {
    let not_upgradeable =
        |said: &Value| format!("the operator is not upgradeable: {}", said["message"].as_str().unwrap_or_default());
    if let Some(said) = find(condition, "/spec/overrides") {
        return (said["status"] != "True").then(|| not_upgradeable(said));
    }
    let copied = find(condition, "/spec/conditions");
    let said = copied.or_else(|| find(condition, "/status/conditions"))?;
    if copied.is_none() && said["observedGeneration"].as_i64().unwrap_or_default() < generation.unwrap_or_default() {
        let status = said["status"].as_str().unwrap_or_default();
        return Some(format!("the operatorcondition status \"{UPGRADEABLE}\"=\"{status}\" is outdated"));
    }
    (said["status"] == "False").then(|| not_upgradeable(said))
}

fn find<'a>(condition: &'a Value, list: &str) -> Option<&'a Value> {
    condition.pointer(list)?.as_array()?.iter().find(|said| said["type"] == UPGRADEABLE)
}

/// What an upgrade waits for that was refused.
pub fn problem(refusal: String) -> Problem {
    Problem {
        stage: Stage::NotUpgradeable,
        message: refusal,
        class: Class::Blocked,
        is_definite: false,
        can_go_back: true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(status: &str) -> Value {
        json!([{"type": "Other", "status": "False"}, {"type": "Upgradeable", "status": status, "message": "m"}])
    }

    const NO: Option<&str> = Some("the operator is not upgradeable: m");

    #[test]
    fn a_condition_holds_up_an_upgrade_only_if_it_is_false() {
        let of = |status: &str| refusal(&json!({"spec": {"conditions": said(status)}}), Some(7));
        assert_eq!([of("False"), of("True"), of("Unknown")].each_ref().map(Option::as_deref), [NO, None, None]);
        let other = json!([{"type": "Other", "status": "False", "message": "m"}]);
        for nothing in [json!({}), json!({"spec": {}}), json!({"spec": {"conditions": other}})] {
            assert_eq!(refusal(&nothing, Some(1)), None, "{nothing}");
        }
    }

    #[test]
    fn an_override_wins_over_the_condition() {
        let of = |override_: &str, condition: &str| {
            refusal(&json!({"spec": {"overrides": said(override_), "conditions": said(condition)}}), Some(1))
        };
        let found = [of("True", "False"), of("False", "True"), of("Unknown", "True")];
        assert_eq!(found.each_ref().map(Option::as_deref), [None, NO, NO]);
    }

    #[test]
    fn only_what_is_in_the_status_alone_can_be_outdated() {
        let status = |status: &str, generation: i64| {
            let condition =
                json!([{"type": "Upgradeable", "status": status, "message": "m", "observedGeneration": generation}]);
            json!({"status": {"conditions": condition}})
        };
        let outdated = Some("the operatorcondition status \"Upgradeable\"=\"True\" is outdated".to_owned());
        assert_eq!(refusal(&status("True", 1), Some(2)), outdated);
        let found = [refusal(&status("True", 2), Some(2)), refusal(&status("False", 2), Some(2))];
        assert_eq!(found.each_ref().map(Option::as_deref), [None, NO]);
        let mut copied = status("False", 1);
        copied["spec"] = json!({"conditions": said("True")});
        assert_eq!(refusal(&copied, Some(2)), None, "OLM would copy it");
    }
}
