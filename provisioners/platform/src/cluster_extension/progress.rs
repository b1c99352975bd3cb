//! How far a BundleDeployment is on its way to the bundle that is asked for, in operator-controller's words. Pure.

use rukpak_crds::condition::{
    BACK_OFF_PULLING, Conditions as _, HAS_VALID_BUNDLE, INSTALLED, READY, reason as of_deployment,
};
use rukpak_crds::config::REFUSED;
use rukpak_crds::{BundleDeployment, Condition, ConditionStatus};

use super::revisions::{is_rolled_out, rolling_out};
use crate::installed::Identity;

/// What `Progressing` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All is as it is asked for.
    Succeeded,
    /// It goes on by itself.
    RollingOut(String),
    /// It failed, and is tried again.
    Retrying(String),
    /// It was not healthy in time. What was healthy before is installed again, if there was something.
    DeadlineExceeded(String),
    /// The configuration has to be changed.
    InvalidConfiguration(String),
    /// The spec has to be changed.
    Blocked(String),
    /// What is installed cannot be read.
    Unreadable(String),
}

/// How far the BundleDeployment is on its way to `wanted`.
pub(super) fn progress(deployment: &BundleDeployment, wanted: &Identity, installed: Option<&Identity>) -> Progress {
    let waiting = || Progress::RollingOut(format!("Waiting for the BundleDeployment {}", name(deployment)));
    let Some(status) = &deployment.status else { return waiting() };
    if status.observed_generation < deployment.metadata.generation {
        return waiting();
    }
    let find = |type_| status.conditions.find(type_);
    let ready = find(READY);
    // While it works, what it said before is not about what it does now.
    let is_working = ready.is_some_and(|ready| ready.status == ConditionStatus::Unknown);
    let is_failed = |condition: &&Condition| {
        condition.status == ConditionStatus::False
            || (condition.type_ == HAS_VALID_BUNDLE && condition.status == ConditionStatus::Unknown)
    };
    let is_late = |ready: &&Condition| {
        ready.status == ConditionStatus::False && ready.reason == of_deployment::PROGRESS_DEADLINE_EXCEEDED
    };
    if let Some(late) = ready.filter(is_late) {
        // Where there is something to go back to, the upgrade has failed, and the message says what held it up.
        let is_taken_back = find(INSTALLED).is_some_and(|now| now.status == ConditionStatus::False);
        let last = if is_taken_back { late.message.clone() } else { rolling_out(&wanted.version) };
        return Progress::DeadlineExceeded(deadline_exceeded(deployment, &last));
    }
    let failed = [HAS_VALID_BUNDLE, INSTALLED].into_iter().filter_map(find).find(is_failed);
    if let Some(failed) = failed.filter(|_| !is_working) {
        return failure(failed, wanted);
    }
    let is_there = installed == Some(wanted) && find(INSTALLED).is_some_and(|now| now.status == ConditionStatus::True);
    let is_unhealthy = ready.is_some_and(|ready| ready.reason == of_deployment::UNHEALTHY);
    if is_there && (!is_working || is_unhealthy) {
        let is_rolled_out = is_rolled_out(deployment);
        return if is_rolled_out { Progress::Succeeded } else { Progress::RollingOut(rolling_out(&wanted.version)) };
    }
    if deployment.spec.suspend && installed != Some(wanted) {
        return Progress::RollingOut(format!(
            "BundleDeployment {:?} is suspended: nothing is installed, upgraded or repaired as long as its spec.suspend is true",
            name(deployment)
        ));
    }
    if let Some(revision) = deployment.spec.rollback_to.filter(|_| installed != Some(wanted)) {
        return Progress::RollingOut(format!(
            "BundleDeployment {:?} stays at revision {revision} as long as its spec.rollbackTo is set",
            name(deployment)
        ));
    }
    match ready {
        // The provisioner waits for an image; upstream calls that a failure.
        Some(ready) if let Some((_, why)) = ready.message.split_once(BACK_OFF_PULLING) => {
            Progress::Retrying(wanted.wrapped(&format!("{BACK_OFF_PULLING}{why}")))
        }
        Some(ready) if is_working => Progress::RollingOut(ready.message.clone()),
        _ => waiting(),
    }
}

fn failure(failed: &Condition, wanted: &Identity) -> Progress {
    match failed.message.split_once(REFUSED) {
        Some((_, problem)) => {
            let message = format!("invalid ClusterExtension configuration{problem}");
            Progress::InvalidConfiguration(wanted.wrapped(&message))
        }
        None => Progress::Retrying(wanted.wrapped(&failed.message)),
    }
}

/// What upstream says of a revision that was not rolled out in time; its tests compare the text.
fn deadline_exceeded(deployment: &BundleDeployment, last: &str) -> String {
    let limit = deployment.spec.progress_deadline.as_deref().unwrap_or_default();
    let minutes = limit.strip_suffix('m').filter(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
    // On the BundleDeployment itself people may have set another one, in other units.
    let time = minutes.map_or_else(|| limit.to_owned(), |minutes| format!("{minutes} minute(s)"));
    format!("Revision has not rolled out for {time}. Last status: {last}")
}

fn name(deployment: &BundleDeployment) -> &str {
    deployment.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
