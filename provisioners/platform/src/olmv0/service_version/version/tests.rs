use super::*;
use crate::installed::Identity;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn seen(wanted: &str, active: Option<&str>, stage: Stage) -> Seen {
    let identity = |name: &str| Identity { name: name.to_owned(), ..Identity::default() };
    Seen { wanted: identity(wanted), active: active.map(identity), stage }
}

fn version(name: &str) -> ClusterServiceVersion {
    let owned = json!([{"name": "pumps.example.com", "version": "v1", "kind": "Pump"}]);
    let spec = json!({"displayName": "p", "installModes": [{"type": "AllNamespaces", "supported": true}],
        "customresourcedefinitions": {"owned": owned}});
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})).unwrap()
}

fn group(targets: &[&str]) -> Membership {
    let targets = targets.iter().map(|target| (*target).to_owned()).collect();
    Membership::One(Group { name: "g".to_owned(), targets, account: None })
}

fn told(version: &ClusterServiceVersion, seen: &Seen, membership: &Membership, others: &Others) -> (String, String) {
    let status = status(version, seen, ("ns", membership), others, NOW).unwrap_or_default();
    (status.phase, status.reason)
}

fn pair(phase: &str, reason: &str) -> (String, String) {
    (phase.to_owned(), reason.to_owned())
}

#[test]
fn phases_follow_the_bundle_deployment() {
    let (csv, all) = (version("v1"), group(&[""]));
    let of = |active, stage| told(&csv, &seen("v1", active, stage), &all, &Others::None);
    let text = String::new;
    assert_eq!(of(None, Stage::Unpacking(text())), pair("Pending", "RequirementsUnknown"));
    assert_eq!(of(None, Stage::Held(text())), pair("Pending", "RequirementsNotMet"));
    assert_eq!(of(Some("v0"), Stage::NotUpgradeable(text())), pair("Pending", "OperatorConditionNotUpgradeable"));
    assert_eq!(of(None, Stage::Applying(text())), pair("InstallReady", "AllRequirementsMet"));
    assert_eq!(of(Some("v1"), Stage::Applied("no Pod".to_owned())), pair("Installing", "InstallWaiting"));
    assert_eq!(of(Some("v1"), Stage::Unhealthy("no Pod".to_owned())), pair("Installing", "InstallWaiting"));
    assert_eq!(of(Some("v1"), Stage::Succeeded), pair("Succeeded", "InstallSucceeded"));
    let failed = Stage::Failed { reason: "InstallComponentFailed", message: text() };
    assert_eq!(of(None, failed), pair("Failed", "InstallComponentFailed"));
}

/// What is said of stages, one after the other, so many minutes after the beginning.
fn walk(stages: &[(i64, Stage)]) -> Vec<(String, String)> {
    let (mut csv, all) = (version("v1"), group(&[""]));
    let mut said = Vec::new();
    for (minute, stage) in stages {
        let now = Timestamp::from_second(60 * minute).unwrap();
        if let Some(status) = status(&csv, &seen("v1", Some("v1"), stage.clone()), ("ns", &all), &Others::None, now) {
            csv.status = Some(status);
        }
        let status = csv.status.clone().unwrap_or_default();
        said.push((status.phase, status.reason));
    }
    said
}

#[test]
fn who_is_not_healthy_in_time_has_failed_until_it_is() {
    let sick = || Stage::Unhealthy("no Pod".to_owned());
    let said = walk(&[(0, sick()), (4, sick()), (5, sick()), (9, sick()), (10, Stage::Succeeded)]);
    let (waiting, failed) = (pair("Installing", "InstallWaiting"), pair("Failed", "InstallCheckFailed"));
    let healed = pair("Succeeded", "InstallSucceeded");
    assert_eq!(said, [waiting.clone(), waiting, failed.clone(), failed, healed]);
}

#[test]
fn who_was_healthy_fails_at_once_and_what_is_not_known_changes_nothing() {
    let (sick, unknown) = (|| Stage::Unhealthy("no Pod".to_owned()), || Stage::Applied("not looked at".to_owned()));
    let said = walk(&[(0, Stage::Succeeded), (1, unknown()), (2, sick()), (9, sick()), (10, unknown())]);
    let (well, failed) = (pair("Succeeded", "InstallSucceeded"), pair("Failed", "ComponentUnhealthy"));
    assert_eq!(said, [well.clone(), well, failed.clone(), failed.clone(), failed]);
    let rolled = walk(&[(0, Stage::Succeeded), (1, Stage::Applied(String::new())), (2, sick())]);
    assert_eq!(rolled.last(), Some(&pair("Installing", "InstallWaiting")), "another Deployment has its own time");
}

#[test]
fn operator_groups_come_first() {
    let (csv, done) = (version("v1"), seen("v1", Some("v1"), Stage::Succeeded));
    let unfit = Membership::Unfit { reason: "TooManyOperatorGroups", message: String::new() };
    assert_eq!(told(&csv, &done, &unfit, &Others::None), pair("Failed", "TooManyOperatorGroups"));
    assert_eq!(told(&csv, &done, &group(&["ns"]), &Others::None), pair("Failed", "UnsupportedOperatorGroup"));
}

#[test]
fn an_old_one_is_replaced_and_then_deleted() {
    let (csv, all) = (version("v1"), group(&[""]));
    let going = seen("v2", Some("v1"), Stage::Applying(String::new()));
    let by = |is_done| Others::ReplacedBy { name: "v2".to_owned(), is_done };
    assert_eq!(told(&csv, &going, &all, &by(false)), pair("Replacing", "BeingReplaced"));
    assert_eq!(told(&csv, &going, &all, &by(true)), pair("Deleting", "Replaced"));
    assert_eq!(status(&csv, &going, ("ns", &all), &Others::None, NOW), None, "the upgrade has not begun");
}

#[test]
fn history_is_kept_and_bounded_and_nothing_new_is_no_write() {
    let (mut csv, all) = (version("v1"), group(&[""]));
    for turn in 0..15 {
        for stage in [Stage::Applied(String::new()), Stage::Succeeded] {
            let seen = seen("v1", Some("v1"), stage);
            let first = status(&csv, &seen, ("ns", &all), &Others::None, NOW).expect("it is told");
            csv.status = Some(first.clone());
            let later = Timestamp::from_second(60 * (turn + 1)).unwrap();
            assert_eq!(status(&csv, &seen, ("ns", &all), &Others::None, later), Some(first));
        }
    }
    let status = csv.status.unwrap();
    assert_eq!(status.conditions.len(), HISTORY_MAX);
    assert_eq!(status.conditions.last().map(|last| last.phase.as_str()), Some("Succeeded"));
    assert_eq!(status.requirement_status[0].status, "Present");
}

#[test]
fn what_is_created_is_the_bundles_own_and_says_whose_it_is() {
    let manifest = json!({"apiVersion": "x", "kind": "y", "status": {"phase": "Succeeded"},
        "metadata": {"name": "other", "namespace": "elsewhere", "finalizers": ["f"], "ownerReferences": [{}],
                     "annotations": {"alm-examples": "[]", "core.rukpak.io/deployment-uid": "forged", "number": 1}},
        "spec": {"description": "d"}});
    let deployment: BundleDeployment = serde_json::from_value(json!({
        "metadata": {"name": "p.ns", "uid": "u"},
        "spec": {"provisionerClassName": "c", "template": {"spec": {"provisionerClassName": "c", "source": {"type": "image"}}}},
    }))
    .unwrap();
    let unit = Unit { namespace: "ns".to_owned(), package: "p".to_owned() };
    let body = body(&manifest, (&deployment, &unit, &group(&["a", "b"])), "v2", Some("v1"));
    let annotations = json!({"alm-examples": "[]", "core.rukpak.io/deployment-uid": "u", "olm.operatorGroup": "g",
        "olm.operatorNamespace": "ns", "olm.targetNamespaces": "a,b"});
    let labels = json!({"olm.managed": "true", "operators.coreos.com/p.ns": ""});
    let metadata =
        json!({"name": "v2", "namespace": "ns", "resourceVersion": "1", "labels": labels, "annotations": annotations});
    assert_eq!(body["metadata"], metadata);
    assert_eq!(body["spec"], json!({"description": "d", "displayName": "v2", "replaces": "v1"}));
    assert_eq!(body.get("status"), None);
}
