//! Whether a BundleDeployment has the version still that OLM had. Pure.

use kube::ResourceExt as _;
use rukpak_crds::BundleDeployment;
use rukpak_crds::condition::{Conditions as _, READY, reason};
use rukpak_crds::olm::BUNDLE_REFERENCE;
use rukpak_crds::olmv0::PACKAGE;

use super::record::Record;
use crate::failure::Failure;
use crate::history;

/// Refuses where OLM would get another version than it had.
pub(super) fn check(record: &Record, deployment: Option<&BundleDeployment>) -> Result<(), Failure> {
    match deployment {
        // Nobody points what no Subscription has at another version, and what is suspended says nothing of approval.
        Some(deployment) if !record.stays || is_handed_over(deployment) => same_version(record, deployment),
        _ => Ok(()),
    }
}

/// Refuses where the BundleDeployment has another version than OLM had.
pub(super) fn same_version(record: &Record, deployment: &BundleDeployment) -> Result<(), Failure> {
    let image = deployment.spec.template.spec.source.image.as_ref().map(|image| image.reference.as_str());
    if image == Some(record.image()) || only_asks(deployment, record.image()) {
        return Ok(());
    }
    let (name, image) = (deployment.name_any(), image.unwrap_or("another source"));
    let text = format!(
        "bundledeployment {name:?} has {image} by now, and OLM had {}: it cannot go back from another version",
        record.image()
    );
    Err(Failure::no(text).hint(format!("rukpakctl history {name}")))
}

/// Whether a Subscription that stays has the BundleDeployment.
pub(super) fn is_handed_over(deployment: &BundleDeployment) -> bool {
    deployment.annotations().contains_key(PACKAGE)
}

/// Whether the bundle of this image is what is installed, and another one waits for approval: nothing of that is in the cluster.
fn only_asks(deployment: &BundleDeployment, image: &str) -> bool {
    let Some(status) = &deployment.status else { return false };
    let asks = status.conditions.find(READY).is_some_and(|ready| ready.reason == reason::WAITING_FOR_APPROVAL);
    let active = history::installed(&status.history).and_then(|revision| revision.annotations.get(BUNDLE_REFERENCE));
    asks && active.is_some_and(|active| active == image) && status.observed_generation >= deployment.metadata.generation
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(image: &str) -> Record {
        let deployment = json!({"metadata": {"name": "p.ns"}, "spec": spec(image)});
        let nothing: [Value; 0] = [];
        serde_json::from_value(json!({
            "namespace": "ns", "subscription": {}, "csv": {}, "group": {}, "taken": nothing, "made": nothing,
            "removed": nothing, "swept": nothing, "deployment": deployment, "stays": true,
        }))
        .unwrap()
    }

    fn spec(image: &str) -> Value {
        json!({"provisionerClassName": "p", "template": {"spec": {"provisionerClassName": "p",
               "source": {"type": "image", "image": {"ref": image}}}}})
    }

    #[test]
    fn an_upgrade_that_waits_for_approval_does_not_bar_the_way_back() {
        let can_from = |annotations: Value, wanted: &str, active: &str, ready: &str| {
            let condition = json!({"type": "Ready", "status": "Unknown", "reason": ready, "message": "",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let revision = json!({"revision": 1, "contentDigest": "d", "result": "Healthy", "bundle": "b",
                                  "time": "2026-01-01T00:00:00Z", "annotations": {BUNDLE_REFERENCE: active}});
            let deployment: BundleDeployment = serde_json::from_value(json!({
                "metadata": {"name": "p.ns", "generation": 2, "annotations": annotations}, "spec": spec(wanted),
                "status": {"observedGeneration": 2, "conditions": [condition], "history": [revision]},
            }))
            .unwrap();
            check(&record("one"), Some(&deployment)).is_ok()
        };
        let can = |wanted: &str, active: &str, ready: &str| can_from(json!({PACKAGE: "p"}), wanted, active, ready);
        assert!(can("one", "one", "Succeeded"));
        assert!(can("two", "one", "WaitingForApproval"));
        assert!(!can("two", "one", "Progressing"), "it was approved");
        assert!(!can("three", "two", "WaitingForApproval"), "another one is installed");
        assert!(can_from(json!({}), "two", "one", "Suspended"), "the way back was begun");
    }
}
