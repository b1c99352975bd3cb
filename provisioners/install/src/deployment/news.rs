//! What of a change of the status is an Event: what somebody wants to see later in `kubectl describe`. Pure.

use rukpak_crds::condition::{Conditions, HAS_VALID_BUNDLE, HEALTHY, INSTALLED, READY, reason};
use rukpak_crds::{BundleDeploymentStatus, Condition, ConditionStatus};
use rukpak_plan::Release;
use rukpak_plan::rewrite::grouped;
use rukpak_plan::status::CONTESTED;
use rukpak_runtime::events::{EventType, News};

/// Another release is installed than before.
pub(super) const UPGRADE_SUCCEEDED: &str = "UpgradeSucceeded";
/// And it is the revision that `spec.rollbackTo` asked for.
pub(super) const ROLLBACK_SUCCEEDED: &str = "RollbackSucceeded";

/// Objects that are stored in a version which a CRD drops are being migrated.
const MIGRATION_STARTED: &str = "MigrationStarted";
/// Some more of them are.
const MIGRATION_PROGRESSING: &str = "MigrationProgressing";
/// All of them are.
const MIGRATION_SUCCEEDED: &str = "MigrationSucceeded";

/// The stored objects of `crd` are about to be migrated.
pub(super) fn migration_started(crd: &str, from: &[String], to: &str) -> News {
    let message = format!("Migrating stored objects of {crd} from {} to {to}", from.join(", "));
    News { type_: EventType::Normal, reason: MIGRATION_STARTED.to_owned(), message }
}

/// Some more of them are, as `message` says.
pub(super) fn migration_progressing(message: String) -> News {
    News { type_: EventType::Normal, reason: MIGRATION_PROGRESSING.to_owned(), message }
}

/// They all are.
pub(super) fn migration_succeeded(crd: &str, to: &str, objects: u64) -> News {
    let message = format!("Stored objects of {crd} are migrated to {to}: {}", grouped(objects));
    News { type_: EventType::Normal, reason: MIGRATION_SUCCEEDED.to_owned(), message }
}

/// What there is to tell of the change from `before` to `after`, oldest first. Reasons are those of the conditions, but for the
/// success of an upgrade and of a rollback; so are the messages.
pub(super) fn news(before: &BundleDeploymentStatus, after: &BundleDeploymentStatus, is_rollback: bool) -> Vec<News> {
    let changed = |type_| changed(before, after, type_);
    let invalid = changed(HAS_VALID_BUNDLE).filter(|now| now.status == ConditionStatus::False).map(warning);
    let healthy = changed(HEALTHY).and_then(|now| health(before, now));
    let contested = after.conditions.find(CONTESTED).filter(|now| {
        let known = before.conditions.find(CONTESTED);
        known.is_none_or(|known| (known.status, &known.message) != (now.status, &now.message))
    });
    let bundle = waiting_for_bundle(after).filter(|_| waiting_for_bundle(before).is_none()).map(warning);
    let approval = waiting_for_approval(before, after).map(normal);
    let news = [invalid, bundle, installed(before, after, is_rollback), healthy, contested.map(warning), approval];
    news.into_iter().flatten().collect()
}

/// `Ready`, where it says why the Bundle is not unpacked yet. `HasValidBundle` says only that it is not.
fn waiting_for_bundle(status: &BundleDeploymentStatus) -> Option<&Condition> {
    let ready = status.conditions.find(READY).filter(|ready| ready.reason == reason::UNPACK_PENDING)?;
    let valid = status.conditions.find(HAS_VALID_BUNDLE)?;
    (ready.message != valid.message).then_some(ready)
}

/// `Ready`, if a Plan waits for approval that was not told of before.
fn waiting_for_approval<'a>(
    before: &BundleDeploymentStatus,
    after: &'a BundleDeploymentStatus,
) -> Option<&'a Condition> {
    let now = after.conditions.find(READY).filter(|now| now.reason == reason::WAITING_FOR_APPROVAL)?;
    let known = before.conditions.find(READY);
    known.is_none_or(|known| (&known.reason, &known.message) != (&now.reason, &now.message)).then_some(now)
}

/// The condition, if its status or reason is another one than before. Messages of failures change with each attempt.
fn changed<'a>(
    before: &BundleDeploymentStatus,
    after: &'a BundleDeploymentStatus,
    type_: &str,
) -> Option<&'a Condition> {
    let now = after.conditions.find(type_)?;
    let known = before.conditions.find(type_);
    known.is_none_or(|known| (known.status, &known.reason) != (now.status, &now.reason)).then_some(now)
}

fn installed(before: &BundleDeploymentStatus, after: &BundleDeploymentStatus, is_rollback: bool) -> Option<News> {
    let now = after.conditions.find(INSTALLED)?;
    let is_changed = changed(before, after, INSTALLED).is_some();
    match now.status {
        ConditionStatus::False => is_changed.then(|| warning(now)),
        ConditionStatus::Unknown => None,
        ConditionStatus::True => {
            let (old, new) = (release(before), release(after));
            let reason = match old {
                Some(old) if Some(&old) != new.as_ref() && is_rollback => ROLLBACK_SUCCEEDED,
                Some(old) if Some(&old) != new.as_ref() => UPGRADE_SUCCEEDED,
                Some(_) if !is_changed => return None,
                _ => reason::INSTALLATION_SUCCEEDED,
            };
            Some(News { reason: reason.to_owned(), ..normal(now) })
        }
    }
}

fn release(status: &BundleDeploymentStatus) -> Option<Release> {
    status.inventory.as_ref().and_then(Release::installed)
}

/// Objects that start take their time; one that ran and does no more is news, and so is its recovery. That nothing is installed is
/// told already.
fn health(before: &BundleDeploymentStatus, now: &Condition) -> Option<News> {
    if now.reason == reason::INSTALLATION_STATUS_FALSE {
        return None;
    }
    match (before.conditions.find(HEALTHY)?.status, now.status) {
        (ConditionStatus::True, ConditionStatus::False) => Some(warning(now)),
        (ConditionStatus::False, ConditionStatus::True) => Some(normal(now)),
        _ => None,
    }
}

fn normal(condition: &Condition) -> News {
    News { type_: EventType::Normal, reason: condition.reason.clone(), message: condition.message.clone() }
}

fn warning(condition: &Condition) -> News {
    News { type_: EventType::Warning, ..normal(condition) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(conditions: &[(&str, &str, &str, &str)], content: Option<&str>) -> BundleDeploymentStatus {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason, message)| {
                json!({"type": type_, "status": status, "reason": reason, "message": message,
                       "lastTransitionTime": "2024-01-01T00:00:00Z"})
            })
            .collect();
        let digest = content.map(|content| format!("sha256:{}", content.repeat(64)));
        serde_json::from_value(json!({"conditions": conditions, "inventory": {"contentDigest": digest}})).unwrap()
    }

    fn told(before: &BundleDeploymentStatus, after: &BundleDeploymentStatus, is_rollback: bool) -> Vec<String> {
        let news = news(before, after, is_rollback);
        news.into_iter().map(|News { type_, reason, message }| format!("{type_:?} {reason}: {message}")).collect()
    }

    const INSTALLED_A: (&str, &str, &str, &str) = ("Installed", "True", "InstallationSucceeded", "a is in");
    const INSTALLED_B: (&str, &str, &str, &str) = ("Installed", "True", "InstallationSucceeded", "b is in");
    const REFUSED: (&str, &str, &str, &str) = ("Installed", "False", "UpgradeFailed", "no");

    #[test]
    fn the_first_installation_an_upgrade_and_a_rollback_are_told_once_each() {
        let (nothing, a, b) = (status(&[], None), status(&[INSTALLED_A], Some("a")), status(&[INSTALLED_B], Some("b")));
        assert_eq!(told(&nothing, &a, false), ["Normal InstallationSucceeded: a is in"]);
        assert_eq!(told(&a, &a, false), [""; 0]);
        assert_eq!(told(&a, &b, false), ["Normal UpgradeSucceeded: b is in"]);
        assert_eq!(told(&b, &a, true), ["Normal RollbackSucceeded: a is in"]);
        assert_eq!(told(&a, &a, true), [""; 0], "the rollback is done");
    }

    #[test]
    fn a_failed_upgrade_is_a_warning_whose_next_attempts_are_silent() {
        let (a, failed) = (status(&[INSTALLED_A], Some("a")), status(&[REFUSED], Some("a")));
        assert_eq!(told(&a, &failed, false), ["Warning UpgradeFailed: no"]);
        let again = status(&[("Installed", "False", "UpgradeFailed", "no, for another reason")], Some("a"));
        assert_eq!(told(&failed, &again, false), [""; 0]);
        assert_eq!(told(&again, &a, false), ["Normal InstallationSucceeded: a is in"], "the template went back");
    }

    #[test]
    fn tells_once_why_a_bundle_is_not_unpacked_yet() {
        let valid = ("HasValidBundle", "True", "UnpackPending", "waits");
        let waiting = |message| status(&[valid, ("Ready", "Unknown", "UnpackPending", message)], None);
        let (begun, held, again) = (waiting("waits"), waiting("waits: no such image"), waiting("waits: no answer"));
        assert_eq!(told(&status(&[], None), &begun, false), [""; 0]);
        assert_eq!(told(&begun, &held, false), ["Warning UnpackPending: waits: no such image"]);
        assert_eq!(told(&held, &again, false), [""; 0]);
        assert_eq!(told(&again, &status(&[INSTALLED_A], Some("a")), false), ["Normal InstallationSucceeded: a is in"]);
    }

    #[test]
    fn health_is_told_when_it_is_lost_and_when_it_is_back() {
        let healthy = |truth, reason| status(&[INSTALLED_A, ("Healthy", truth, reason, "m")], Some("a"));
        let (good, bad) = (healthy("True", "Healthy"), healthy("False", "Unhealthy"));
        let (unknown, absent) = (healthy("Unknown", "NotObserved"), healthy("False", "InstallationStatusFalse"));
        assert_eq!(told(&good, &bad, false), ["Warning Unhealthy: m"]);
        assert_eq!(told(&bad, &good, false), ["Normal Healthy: m"]);
        for (before, after) in [(&unknown, &bad), (&unknown, &good), (&good, &unknown), (&good, &absent)] {
            assert_eq!(told(before, after, false), [""; 0]);
        }
    }

    #[test]
    fn a_bundle_that_cannot_be_unpacked_and_contested_fields_are_warnings() {
        let before = status(&[INSTALLED_A], Some("a"));
        let invalid = ("HasValidBundle", "False", "UnpackFailed", "no such image");
        let contested = ("Contested", "True", "FieldsLeftToOthers", "x");
        let after = status(&[INSTALLED_A, invalid, contested], Some("a"));
        assert_eq!(
            told(&before, &after, false),
            ["Warning UnpackFailed: no such image", "Warning FieldsLeftToOthers: x"]
        );
        let more = status(&[INSTALLED_A, invalid, ("Contested", "True", "FieldsLeftToOthers", "x, y")], Some("a"));
        assert_eq!(told(&after, &more, false), ["Warning FieldsLeftToOthers: x, y"]);
    }
}
