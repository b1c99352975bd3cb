//! The revisions of a BundleDeployment, as upstream tells of those of an extension. Pure.

use rukpak_crds::condition::{Conditions as _, HEALTHY};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, Revision, RevisionResult};

/// The revision whose objects are applied.
fn in_place(status: &BundleDeploymentStatus) -> Option<&Revision> {
    let active = status.active_bundle.as_ref()?;
    // What was tried with the same Bundle and other settings, and failed, is not there.
    status.history.iter().find(|revision| revision.bundle.as_ref() == Some(active) && !revision.result.is_failure())
}

/// Whether somebody reads the health of the objects.
fn is_health_read(deployment: &BundleDeployment, status: &BundleDeploymentStatus) -> bool {
    status.conditions.find(HEALTHY).is_some() || deployment.spec.progress_deadline.is_some()
}

/// Whether all objects of what is installed were healthy once, since they were applied. What falls ill later was rolled out all the same.
pub(super) fn is_rolled_out(deployment: &BundleDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let is_healthy = |revision: &Revision| revision.result == RevisionResult::Healthy;
    !is_health_read(deployment, status) || in_place(status).is_none_or(is_healthy)
}

/// What upstream says of a revision that is rolled out now.
pub(super) fn rolling_out(version: &str) -> String {
    format!("Revision {version} is rolling out.")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(history: &Value, conditions: &Value) -> BundleDeployment {
        serde_json::from_value(json!({
            "metadata": {"name": "e"},
            "spec": {"provisionerClassName": "c",
                     "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
            "status": {"activeBundle": "e-1", "history": history, "conditions": conditions},
        }))
        .unwrap()
    }

    fn revision(number: i64, bundle: &str, result: &str) -> Value {
        json!({"revision": number, "bundle": bundle, "contentDigest": format!("sha256:{number:064}"), "result": result,
               "time": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_version_is_rolled_out_once_it_was_healthy() {
        let ill = json!([{"type": "Healthy", "status": "False", "reason": "Unhealthy", "message": "0 of 1",
                          "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let table = [
            ("it was healthy once", json!([revision(1, "e-1", "Healthy")]), true),
            ("it never was", json!([revision(1, "e-1", "Installed")]), false),
            ("other settings failed", json!([revision(2, "e-1", "Failed"), revision(1, "e-1", "Healthy")]), true),
            ("other settings", json!([revision(2, "e-1", "Installed"), revision(1, "e-1", "Healthy")]), false),
            ("another one failed", json!([revision(2, "e-2", "Failed"), revision(1, "e-1", "Installed")]), false),
            ("an earlier version kept no history", json!([]), true),
        ];
        for (what, history, expected) in table {
            assert_eq!(is_rolled_out(&deployment(&history, &ill)), expected, "{what}");
            let mut unread = deployment(&history, &json!([]));
            assert!(is_rolled_out(&unread), "nobody reads its health: {what}");
            unread.spec.progress_deadline = Some("10m".to_owned());
            assert_eq!(is_rolled_out(&unread), expected, "the deadline has it read: {what}");
        }
    }
}
