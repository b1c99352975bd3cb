//! A ClusterServiceVersion: what is written of it, and what its status says. Pure; phases, reasons and messages are OLM's.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use rukpak_crds::BundleDeployment;
use rukpak_crds::olmv0::service_version::{ClusterServiceVersionStatus, HISTORY_MAX, PhaseRecord};
use rukpak_crds::olmv0::{
    ClusterServiceVersion, DEPLOYMENT_UID, MANAGED_LABEL, OPERATOR_GROUP, OPERATOR_NAMESPACE, TARGET_NAMESPACES,
    component_label,
};
use serde_json::{Map, Value, json};

use super::super::membership::{Group, Membership, unsupported};
use super::super::stage::{Seen, Stage};
use super::super::unit::Unit;
use super::requirements::requirements;

/// How long an operator may take to be healthy.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// Longest message that is written, in characters.
const MESSAGE_MAX: usize = 4096;

const CHECK_FAILED: &str = "InstallCheckFailed";
const COMPONENT_UNHEALTHY: &str = "ComponentUnhealthy";

/// What a ClusterServiceVersion is beside others of its BundleDeployment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// It is the one that is wanted, or nothing is in its place yet.
    None,
    /// Another one takes its place, or has done so.
    ReplacedBy { name: String, is_done: bool },
}

/// What is created under `name`, perhaps in the place of the one that was there `before`: the bundle's own, with whose it is.
pub(super) fn body(
    manifest: &Value,
    (deployment, unit, membership): (&BundleDeployment, &Unit, &Membership),
    name: &str,
    before: Option<&str>,
) -> Value {
    let texts = |key: &str| -> Map<String, Value> {
        let found = manifest["metadata"][key].as_object().cloned().unwrap_or_default();
        found.into_iter().filter(|(_, value)| value.is_string()).collect()
    };
    let (mut labels, mut annotations) = (texts("labels"), texts("annotations"));
    labels.insert(MANAGED_LABEL.to_owned(), json!("true"));
    labels.insert(component_label(&unit.package, &unit.namespace), json!(""));
    annotations.insert(DEPLOYMENT_UID.to_owned(), json!(deployment.uid()));
    if let Some(group) = membership.group() {
        let told = group_annotations(group, &unit.namespace);
        annotations.extend(told.into_iter().map(|(key, value)| (key.to_owned(), json!(value))));
    }
    let mut spec = manifest["spec"].clone();
    if !spec.is_object() {
        spec = json!({});
    }
    if spec["displayName"].as_str().is_none_or(str::is_empty) {
        spec["displayName"] = json!(name);
    }
    if let Some(before) = before {
        spec["replaces"] = json!(before);
    }
    json!({
        "apiVersion": ClusterServiceVersion::api_version(&()),
        "kind": ClusterServiceVersion::kind(&()),
        "metadata": {
            "name": name,
            "namespace": unit.namespace,
            // Creates, or conflicts with somebody else's.
            "resourceVersion": "1",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": spec,
    })
}

/// What is said on it of the OperatorGroup.
pub(super) fn group_annotations(group: &Group, namespace: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (OPERATOR_GROUP, group.name.clone()),
        (OPERATOR_NAMESPACE, namespace.to_owned()),
        (TARGET_NAMESPACES, group.targets.join(",")),
    ])
}

/// What the status says; `None` where nothing is to be said.
pub(super) fn status(
    version: &ClusterServiceVersion,
    seen: &Seen,
    (namespace, membership): (&str, &Membership),
    others: &Others,
    now: Timestamp,
) -> Option<ClusterServiceVersionStatus> {
    if version.meta().deletion_timestamp.is_some() {
        return None;
    }
    let old = version.status.clone().unwrap_or_default();
    let (phase, reason, message) = match others {
        Others::ReplacedBy { name, is_done: false } => {
            ("Replacing", "BeingReplaced", format!("being replaced by csv: {name}"))
        }
        Others::ReplacedBy { is_done: true, .. } => {
            let message = "has been replaced by a newer ClusterServiceVersion that has successfully installed.";
            ("Deleting", "Replaced", message.to_owned())
        }
        // An upgrade that has not begun is no business of what runs.
        Others::None if version.name_any() != seen.wanted.name => return None,
        Others::None => of_group(version, namespace, membership).or_else(|| of_stage(seen, &old, now))?,
    };
    let requirement_status = requirements(version, seen);
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    let is_other = (old.phase.as_str(), old.reason.as_str()) != (phase, reason);
    if !is_other && old.message == message && old.requirement_status == requirement_status {
        return Some(old);
    }
    let since = if old.phase == phase { old.last_transition_time } else { None }.or(Some(now));
    let mut conditions = old.conditions;
    if is_other {
        conditions.push(PhaseRecord {
            phase: phase.to_owned(),
            reason: reason.to_owned(),
            message: message.clone(),
            last_update_time: Some(now),
            last_transition_time: since,
        });
        conditions.drain(..conditions.len().saturating_sub(HISTORY_MAX));
    }
    Some(ClusterServiceVersionStatus {
        phase: phase.to_owned(),
        reason: reason.to_owned(),
        message,
        last_update_time: Some(now),
        last_transition_time: since,
        conditions,
        requirement_status,
        cleanup: old.cleanup,
    })
}

/// Phase, reason and message.
type Said = (&'static str, &'static str, String);

/// What the OperatorGroups of the namespace keep from being right.
fn of_group(version: &ClusterServiceVersion, namespace: &str, membership: &Membership) -> Option<Said> {
    match membership {
        Membership::Unfit { reason, message } => Some(("Failed", reason, message.clone())),
        Membership::One(group) => {
            let refused = unsupported(&version.spec.install_modes, namespace, &group.targets)?;
            Some(("Failed", "UnsupportedOperatorGroup", refused))
        }
    }
}

/// When an operator that is being installed has taken too long to be healthy.
pub(super) fn deadline(version: &ClusterServiceVersion) -> Option<Timestamp> {
    version.status.as_ref().and_then(until)
}

fn until(status: &ClusterServiceVersionStatus) -> Option<Timestamp> {
    let since = status.last_transition_time.filter(|_| status.phase == "Installing")?;
    since.checked_add(PATIENCE).ok()
}

/// What is said of an operator that is not healthy, after what was said of it.
fn of_unhealthy(why: &str, old: &ClusterServiceVersionStatus, now: Timestamp) -> Said {
    let was = (old.phase.as_str(), old.reason.as_str());
    if was == ("Failed", CHECK_FAILED) || until(old).is_some_and(|until| until <= now) {
        return ("Failed", CHECK_FAILED, format!("install timeout: {why}"));
    }
    if was.0 == "Succeeded" || was == ("Failed", COMPONENT_UNHEALTHY) {
        return ("Failed", COMPONENT_UNHEALTHY, format!("installing: {why}"));
    }
    ("Installing", "InstallWaiting", format!("installing: {why}"))
}

fn of_stage(seen: &Seen, old: &ClusterServiceVersionStatus, now: Timestamp) -> Option<Said> {
    Some(match &seen.stage {
        Stage::Succeeded => ("Succeeded", "InstallSucceeded", "install strategy completed with no errors".to_owned()),
        Stage::Applied(why) if why.is_empty() => {
            ("Installing", "InstallSucceeded", "waiting for install components to report healthy".to_owned())
        }
        // Whoever has just begun to look at it knows no better than whoever has seen it.
        Stage::Applied(_) if matches!(old.phase.as_str(), "Succeeded" | "Failed") => return None,
        Stage::Applied(why) => ("Installing", "InstallWaiting", format!("installing: {why}")),
        Stage::Unhealthy(why) => of_unhealthy(why, old, now),
        Stage::Applying(_) => {
            ("InstallReady", "AllRequirementsMet", "all requirements found, attempting install".to_owned())
        }
        Stage::Held(why) => {
            ("Pending", "RequirementsNotMet", format!("one or more requirements couldn't be found: {why}"))
        }
        Stage::Lost { why, .. } => ("Pending", "RequirementsNotMet", format!("requirements no longer met: {why}")),
        Stage::NotUpgradeable(why) => {
            ("Pending", "OperatorConditionNotUpgradeable", format!("operator is not upgradeable: {why}"))
        }
        Stage::Failed { reason, message } => {
            let what = if *reason == CHECK_FAILED { "install failed" } else { "install strategy failed" };
            ("Failed", reason, format!("{what}: {message}"))
        }
        // What is there stays what it is while its content is looked at again, or a change of its settings is asked about.
        Stage::Unpacking(_) | Stage::UnpackFailed(_) | Stage::Asking { .. } if !old.phase.is_empty() => return None,
        Stage::Unpacking(_) | Stage::UnpackFailed(_) | Stage::Asking { .. } => {
            ("Pending", "RequirementsUnknown", "requirements not yet checked".to_owned())
        }
    })
}

#[cfg(test)]
mod tests;
