//! What holds up an upgrade that could begin: the windows of the BundleDeployment, and the installed operator, by what its OperatorCondition
//! says. Kind and messages of that are OLM v0's.

use std::time::Duration;

use cronexpr::{MakeTimestamp, parse_crontab};
use jiff::Timestamp;
use rukpak_crds::{InventoryKind, UpgradeWindow};
use rukpak_plain::ObjectKey;
use serde_json::Value;

use crate::Release;
use crate::observed::{Observed, duration};
use crate::problem::{Problem, Stage};
use crate::resolve::Why;

/// The version in which an OperatorCondition is read: in OLM's `v1` an operator writes only the status.
pub const API_VERSION: &str = "operators.coreos.com/v2";
/// Its kind.
pub const KIND: &str = "OperatorCondition";

/// The type of the condition and of the override.
const UPGRADEABLE: &str = "Upgradeable";

/// Whether the key is that of an OperatorCondition.
pub fn is_operator_condition(key: &ObjectKey) -> bool {
    key.group == "operators.coreos.com" && key.kind == KIND
}

/// Whether the kind is that of OperatorConditions.
pub fn is_of_operator_conditions(kind: &InventoryKind) -> bool {
    kind.group == "operators.coreos.com" && kind.kind == KIND
}

/// Whether the operator is asked before `release` is installed: it is an upgrade to another bundle, not to other settings only.
pub fn asks_operator(observed: &Observed, release: &Release, why: Why) -> bool {
    let is_other = observed.installed().is_some_and(|installed| installed.content != release.content);
    begins(observed, release, why) && is_other
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

/// What keeps an upgrade to `release` from beginning now: no window is open for as long as it may take.
pub fn closed(observed: &Observed, release: &Release, why: Why, now: Timestamp) -> Option<Problem> {
    if !begins(observed, release, why) {
        return None;
    }

    let needed = observed.progress_deadline().unwrap_or_default();
    let (opens, message) = match opens(&observed.deployment.spec.windows, needed, now)? {
        Ok(opens) if opens <= now => return None,
        Ok(opens) => (Some(opens), format!("an upgrade waits for a window of spec.windows: the next opens at {opens}")),
        Err(message) => (None, format!("no upgrade can begin: {message}")),
    };
    Some(Problem::blocked(Stage::Closed(opens), message))
}

/// When the first window opens in which there is time for `needed`; not after `now` if one is open. `None` without windows.
fn opens(windows: &[UpgradeWindow], needed: Duration, now: Timestamp) -> Option<Result<Timestamp, String>> {
    let opens = windows
        .iter()
        .enumerate()
        .map(|(index, window)| next(window, needed, now).map_err(|problem| format!("spec.windows[{index}].{problem}")));
    // One that cannot be read holds up all: what it was to allow or to keep from happening is not known.
    let all: Result<Vec<Timestamp>, String> = opens.collect();
    all.map(|all| all.into_iter().min()).transpose()
}

/// The first opening that leaves time enough: one in the past may.
fn next(window: &UpgradeWindow, needed: Duration, now: Timestamp) -> Result<Timestamp, String> {
    let zone = window.time_zone.as_deref().unwrap_or("UTC");
    let schedule = parse_crontab(&format!("{} {zone}", window.schedule)).map_err(|error| {
        let words: Vec<String> = error.to_string().split_whitespace().map(str::to_owned).collect();
        format!("schedule: {:?} in time zone {zone}: {}", window.schedule, words.join(" "))
    })?;
    let open = duration(&window.duration).ok_or_else(|| format!("duration: {:?} is none", window.duration))?;
    let slack = open.checked_sub(needed).filter(|slack| !slack.is_zero()).ok_or_else(|| {
        format!("duration: {} is not longer than spec.progressDeadline, which an upgrade may take", window.duration)
    })?;

    // Times of a schedule are whole minutes.
    let since = now.checked_sub(slack).map_err(|_| format!("duration: {} is too long", window.duration))?;
    let found = schedule.find_next(MakeTimestamp(since)).map_err(|_| "schedule: it never comes".to_owned())?;
    Ok(found.timestamp())
}

/// Whether to install `release` begins an upgrade. What has begun goes on.
fn begins(observed: &Observed, release: &Release, why: Why) -> bool {
    why == Why::Upgrade && observed.pending().is_none_or(|(pending, _)| pending != *release)
}

#[cfg(test)]
mod tests;
