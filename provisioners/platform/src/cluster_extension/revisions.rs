//! The revisions of a BundleDeployment, as upstream tells of those of an extension. Pure.

use std::collections::BTreeMap;

use rukpak_crds::condition::{Conditions as _, HEALTHY};
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus, ReleaseRecord, Revision, RevisionResult};

use crate::installed::Identity;

/// A revision whose objects are in the cluster, or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ActiveRevision {
    /// Its number in the history.
    pub number: i64,
    /// Version of the bundle, if it is known.
    pub version: String,
    /// How it stands.
    pub stage: Stage,
    /// What it installs.
    pub release: ReleaseRecord,
    /// Which bundle that is, if it is known.
    pub bundle: Option<Identity>,
}

impl ActiveRevision {
    /// Its name, as upstream has it.
    pub fn name(&self, extension: &str) -> String {
        format!("{extension}-{}", self.number)
    }
}

/// How a revision stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was healthy, and another one takes its place.
    Replaced,
    /// Its objects are applied, and were not all healthy yet.
    Applied,
    /// Its objects are applied, and were all healthy.
    RolledOut,
    /// Its objects are being applied.
    Begun,
}

/// The active revisions, the newest last.
pub(super) fn active(deployment: &BundleDeployment) -> Vec<ActiveRevision> {
    let Some(status) = &deployment.status else { return Vec::new() };
    let in_place = in_place(status);
    let stage = if is_rolled_out(deployment) { Stage::RolledOut } else { Stage::Applied };
    let found = |revision: &Revision, stage| ActiveRevision {
        number: revision.revision,
        version: version(&revision.annotations),
        stage,
        release: revision.release.clone(),
        bundle: Identity::read(&revision.annotations),
    };
    let healthy = |revision: &&Revision| revision.result == RevisionResult::Healthy;
    // The one that comes back if the new one does not become healthy in time.
    let replaced = in_place.filter(|_| stage == Stage::Applied).and_then(|_| status.history.iter().find(healthy));
    let mut active: Vec<ActiveRevision> =
        replaced.map(|revision| found(revision, Stage::Replaced)).into_iter().collect();
    active.extend(in_place.map(|revision| found(revision, stage)));
    active.extend(begun(deployment, status, in_place));
    active.sort_by_key(|revision| revision.number);
    active
}

/// What is being applied in place of what is there. It gets a number when it is applied: that one, unless somebody changes the spec.
fn begun(
    deployment: &BundleDeployment,
    status: &BundleDeploymentStatus,
    in_place: Option<&Revision>,
) -> Option<ActiveRevision> {
    let release = &status.inventory.as_ref()?.pending.as_ref()?.release;
    if in_place.is_some_and(|revision| revision.release == *release) {
        return None;
    }
    let known = status.history.iter().enumerate().find(|(_, revision)| revision.release == *release);
    // A number stays with what was tried last, and with what is asked for by it.
    let kept = known.filter(|(index, revision)| *index == 0 || deployment.spec.rollback_to == Some(revision.revision));
    let newest = status.history.iter().map(|revision| revision.revision).max().unwrap_or_default();
    let number = kept.map_or(newest + 1, |(_, revision)| revision.revision);
    let template = deployment.spec.template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let annotations = known.map(|(_, revision)| &revision.annotations).or(template);
    Some(ActiveRevision {
        number,
        version: annotations.map(version).unwrap_or_default(),
        stage: Stage::Begun,
        release: release.clone(),
        bundle: annotations.and_then(Identity::read),
    })
}

fn version(annotations: &BTreeMap<String, String>) -> String {
    Identity::read(annotations).map(|identity| identity.version).unwrap_or_default()
}

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

/// What upstream says of a revision all of whose objects were healthy.
pub(super) fn rolled_out(version: &str) -> String {
    format!("Revision {version} has rolled out.")
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

    fn annotations(version: &str) -> BTreeMap<String, String> {
        let (name, reference) = (format!("p.v{version}"), format!("r.example/p:{version}"));
        let identity =
            Identity { package: "p".to_owned(), name, version: version.to_owned(), reference, release: None };
        identity.annotations()
    }

    fn digest(number: i64) -> String {
        format!("sha256:{number:064}")
    }

    /// Revision `n`, of version `n.0.0`.
    fn revision(number: i64, bundle: &str, result: &str) -> Value {
        json!({"revision": number, "bundle": bundle, "contentDigest": digest(number), "result": result,
               "time": "2026-01-01T00:00:00Z", "annotations": annotations(&format!("{number}.0.0"))})
    }

    /// Of a deployment whose template asks for version 9.0.0: number, version and stage of each.
    fn told(history: &Value, pending: Option<i64>, rollback_to: Option<i64>) -> Vec<(i64, String, Stage)> {
        let ill = json!([{"type": "Healthy", "status": "False", "reason": "Unhealthy", "message": "0 of 1",
                          "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let mut deployment = deployment(history, &ill);
        deployment.spec.rollback_to = rollback_to;
        deployment.spec.template.metadata =
            serde_json::from_value(json!({"annotations": annotations("9.0.0")})).unwrap();
        let since = "2026-01-01T00:00:00Z";
        let pending = pending.map(|number| json!({"pending": {"contentDigest": digest(number), "since": since}}));
        deployment.status.as_mut().unwrap().inventory = serde_json::from_value(json!(pending)).unwrap();
        active(&deployment).into_iter().map(|one| (one.number, one.version, one.stage)).collect()
    }

    #[test]
    fn lists_what_is_installed_and_what_is_on_its_way() {
        use Stage::{Applied, Begun, Replaced, RolledOut};
        let of = |number: i64, stage| (number, format!("{number}.0.0"), stage);
        let healthy = json!([revision(1, "e-1", "Healthy")]);
        assert_eq!(told(&healthy, None, None), [of(1, RolledOut)]);
        assert_eq!(told(&healthy, Some(1), None), [of(1, RolledOut)], "it is applied once more");
        assert_eq!(told(&healthy, Some(9), None), [of(1, RolledOut), (2, "9.0.0".to_owned(), Begun)]);
        assert_eq!(told(&json!([]), Some(9), None), [(1, "9.0.0".to_owned(), Begun)], "the first");
        // The template asks for e-1, whose objects were not healthy yet.
        let new = json!([revision(2, "e-1", "Installed"), revision(1, "e-0", "Healthy")]);
        assert_eq!(told(&new, None, None), [of(1, Replaced), of(2, Applied)]);
        assert_eq!(told(&json!([revision(1, "e-1", "Installed")]), None, None), [of(1, Applied)]);
        // What failed is not there; when it is tried again, it keeps its number.
        let failed = json!([revision(3, "e-2", "Failed"), revision(1, "e-1", "Healthy")]);
        assert_eq!(told(&failed, None, None), [of(1, RolledOut)]);
        assert_eq!(told(&failed, Some(3), None), [of(1, RolledOut), of(3, Begun)]);
        // A rollback that is asked for keeps its number too; the same content that comes back by itself gets a new one.
        let back = json!([revision(2, "e-1", "Healthy"), revision(1, "e-0", "Healthy")]);
        assert_eq!(told(&back, Some(1), Some(1)), [of(1, Begun), of(2, RolledOut)]);
        assert_eq!(told(&back, Some(1), None), [of(2, RolledOut), (3, "1.0.0".to_owned(), Begun)]);
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
