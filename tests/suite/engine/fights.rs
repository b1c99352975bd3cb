//! Somebody who insists is not fought without end: removals, owner marks and deletions no longer than changed values.

use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use rukpak_tests::verbs::{Expected, Target};
use rukpak_tests::world::until;
use serde_json::json;

use crate::engine::case::Case;
use crate::engine::worlds;

/// So long the opponent insists.
const PERIOD: Duration = Duration::from_secs(10);
/// Repairs that a fight of this length may cost: three in a row, and a few more ever later.
const REPAIRS: usize = 12;

/// Acts whenever the object is as `provokes` says, for [`PERIOD`]; returns how often.
async fn insist(
    case: &Case<'_>,
    target: &Target,
    provokes: impl Fn(&DynamicObject) -> bool,
    act: impl AsyncFn(),
) -> usize {
    let api = target.api(&case.client).await.expect("the kind is served");
    let mut acts = 0;
    let fight = async {
        let mut seen = std::pin::pin!(watcher::watch_object(api, &target.name).default_backoff());
        while let Some(step) = seen.next().await {
            if let Ok(Some(object)) = step
                && provokes(&object)
            {
                act().await;
                acts += 1;
            }
        }
    };
    let ended = tokio::time::timeout(PERIOD, fight).await;
    assert!(ended.is_err(), "the watch of {target} ended");
    acts
}

/// The opponent insists until the deployment says that somebody does. In [`PERIOD`] that costs few repairs; a busy machine may have
/// had too few rounds by then.
async fn fight(case: &Case<'_>, target: &Target, provokes: impl Fn(&DynamicObject) -> bool, act: impl AsyncFn()) {
    let repairs = insist(case, target, &provokes, &act).await;
    assert!(repairs <= REPAIRS, "{repairs} repairs in {PERIOD:?}");
    let contested = Expected { kind: "Contested", status: "True", reason: None, message: "" };
    let goes_on = async {
        loop {
            insist(case, target, &provokes, &act).await;
        }
    };
    tokio::select! {
        _ = until(&case.client, &case.name, contested) => {}
        () = goes_on => {}
    }
}

/// A JSON patch that removes one path; fine where it is gone already.
async fn remove(case: &Case<'_>, target: &Target, path: &str) {
    let removal: Patch<()> =
        Patch::Json(serde_json::from_value(json!([{"op": "remove", "path": path}])).expect("it is a patch"));
    let parameters = PatchParams { field_manager: Some("stubborn".to_owned()), ..PatchParams::default() };
    let api = target.api(&case.client).await.expect("the kind is served");
    match api.patch(&target.name, &parameters, &removal).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Whoever removes a field owns nothing afterwards: it has to be counted all the same.
#[tokio::test]
async fn a_field_that_is_removed_again_and_again_is_not_fought_over_without_end() {
    let case = Case::new("removed").await;
    case.install(&[case.config_map("a", json!({"x": "1", "y": "1"}))]).await;
    let target = case.config_map_target("a");
    let has_it = |object: &DynamicObject| object.data["data"].get("x").is_some();
    fight(&case, &target, has_it, async || remove(&case, &target, "/data/x").await).await;
    // The rest of the object is guarded as before.
    case.edit("intruder", &target, json!({"data": {"y": "2"}})).await;
    case.until_value(&target, "/data/y", &json!("1")).await;
}

/// Marks are never given up, or pruning would forget the object; but they are put back ever less often.
#[tokio::test]
async fn owner_labels_that_are_stripped_again_and_again_are_put_back_ever_less_often() {
    let case = Case::new("stripped").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    let target = case.config_map_target("a");
    let label = "core.rukpak.io/owner-name";
    let has_it =
        |object: &DynamicObject| object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label));
    let path = format!("/metadata/labels/{}", label.replace('/', "~1"));
    fight(&case, &target, has_it, async || remove(&case, &target, &path).await).await;
}

/// As an administrator does who does not know who makes it.
#[tokio::test]
async fn an_object_that_is_deleted_again_and_again_is_made_anew_ever_less_often() {
    let case = Case::new("deleted").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    let target = case.config_map_target("a");
    let api = target.api(&case.client).await.unwrap();
    let act = async || {
        // Gone already is as good.
        let _ = api.delete(&target.name, &DeleteParams::background()).await;
    };
    fight(&case, &target, |_| true, act).await;
    // The rest is guarded as before.
    case.delete(&case.config_map_target("b")).await;
    case.until_owned(&case.config_map_target("b")).await;
}

/// What is left to others stays so, and stays said, whoever starts anew.
#[tokio::test]
async fn a_contested_field_is_remembered_over_a_restart() {
    let alone = worlds::alone().await;
    let case = alone.case("contest-restart").await;
    case.install(&[case.config_map("a", json!({"x": "1", "y": "1"}))]).await;
    let target = case.config_map_target("a");
    for round in 0..3 {
        case.edit("stubborn", &target, json!({"data": {"x": format!("theirs {round}")}})).await;
        case.until_value(&target, "/data/x", &json!("1")).await;
    }
    case.edit("stubborn", &target, json!({"data": {"x": "theirs"}})).await;
    let expected =
        Expected { kind: "Contested", status: "True", reason: Some("FieldsLeftToOthers"), message: ".data.x" };
    until(&case.client, &case.name, expected).await;
    alone.stop().await;
    // Proof that it has looked at it since: something else drifted meanwhile.
    case.edit("intruder", &target, json!({"data": {"y": "2"}})).await;
    alone.start().await;
    let repaired = case.until_value(&target, "/data/y", &json!("1")).await;
    assert_eq!(repaired.data["data"]["x"], "theirs", "it was left to another before the restart");
    let status = case.ready().await;
    assert!(expected.met_by(&status), "{:#}", status.data["status"]);
}

/// The number that an autoscaler wrote is its own: read before and written after its next change, it would undo that.
#[tokio::test]
async fn replicas_that_were_scaled_are_left_to_the_scaler_and_not_written() {
    let case = Case::new("scaler").await;
    case.install(&[case.workload("w", 1)]).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    case.edit_sub("scale", "autoscaler", &target, json!({"spec": {"replicas": 3}})).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}});
    case.edit("intruder", &target, image).await;
    let pointer = "/spec/template/spec/containers/0/image";
    let live = case.until_value(&target, pointer, &json!("example.com/none:1")).await;
    assert_eq!(live.data["spec"]["replicas"], 3);
    let entries: Vec<_> = live.metadata.managed_fields.iter().flatten().collect();
    assert!(entries.iter().any(|entry| entry.subresource.as_deref() == Some("scale")), "{entries:?}");
    let ours = entries.iter().find(|entry| entry.manager.as_deref() == Some(crate::engine::case::OURS)).unwrap();
    let set = &ours.fields_v1.as_ref().unwrap().0;
    assert!(set.pointer("/f:spec/f:replicas").is_none(), "{set}");
}

/// There is nobody to whom a field of a new object could be left, and without some fields there is no object.
#[tokio::test]
async fn an_object_that_is_made_anew_has_the_fields_that_were_left_to_others() {
    let case = Case::new("contest-anew").await;
    case.install(&[case.config_map("a", json!({"x": "1", "z": "1"})), case.workload("w", 0)]).await;
    let image = |name: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}});
    let (a, w) = (case.config_map_target("a"), case.in_namespace("apps/v1", "Deployment", "w"));
    let of_image = "/spec/template/spec/containers/0/image";
    for round in 0..3 {
        case.edit("stubborn", &a, json!({"data": {"x": format!("theirs {round}")}})).await;
        case.until_value(&a, "/data/x", &json!("1")).await;
        strategic(&case, &w, image(&format!("theirs:{round}"))).await;
        case.until_value(&w, of_image, &json!("example.com/none:1")).await;
    }
    case.edit("stubborn", &a, json!({"data": {"x": "theirs"}})).await;
    strategic(&case, &w, image("theirs:last")).await;
    for message in [".data.x", ".image"] {
        let left = Expected { kind: "Contested", status: "True", reason: Some("FieldsLeftToOthers"), message };
        until(&case.client, &case.name, left).await;
    }
    for target in [&a, &w] {
        case.delete(target).await;
    }
    case.until_value(&a, "/data/x", &json!("1")).await;
    case.until_value(&w, of_image, &json!("example.com/none:1")).await;
    let begins_anew = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["inventory"]["contested"].is_null())
    };
    case.until(&case.target(), "the count begins anew", begins_anew).await;
    case.ready().await;
}

/// As an updater of images does, which knows containers by their names.
async fn strategic(case: &Case<'_>, target: &Target, patch: serde_json::Value) {
    let parameters = PatchParams { field_manager: Some("stubborn".to_owned()), ..PatchParams::default() };
    let api = target.api(&case.client).await.expect("the kind is served");
    api.patch(&target.name, &parameters, &Patch::Strategic(patch)).await.expect("the API server agrees");
}

/// Its author says how long it may live when it is done; made anew each time, it would run for ever.
#[tokio::test]
async fn a_job_that_its_time_to_live_removes_runs_once() {
    let alone = worlds::alone().await;
    let case = alone.case("job-once").await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": case.namespace},
        "spec": {"ttlSecondsAfterFinished": 1, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/none:1"}]}}}});
    case.install(&[job, case.config_map("a", json!({"x": "1"}))]).await;
    let (target, a) = (case.in_namespace("batch/v1", "Job", "j"), case.config_map_target("a"));
    case.delete(&target).await;
    case.until_gone(&target).await;
    // Proof that its end was seen: what drifts after it is repaired.
    case.edit("intruder", &a, json!({"data": {"x": "2"}})).await;
    case.until_value(&a, "/data/x", &json!("1")).await;
    assert!(case.get(&target).await.is_none(), "it was made anew");
    case.ready().await;
    alone.stop().await;
    case.edit("intruder", &a, json!({"data": {"y": "2"}})).await;
    alone.start().await;
    case.edit("intruder", &a, json!({"data": {"x": "3"}})).await;
    case.until_value(&a, "/data/x", &json!("1")).await;
    assert!(case.get(&target).await.is_none(), "a restart has made it anew");
    case.ready().await;
}

/// An autoscaler does nothing else: that an object has another generation is no change of what the bundle declares.
#[tokio::test]
async fn a_workload_without_replicas_that_is_scaled_again_and_again_is_not_contested() {
    let case = Case::new("scaled").await;
    let mut workload = case.workload("w", 0);
    workload["spec"].as_object_mut().unwrap().remove("replicas");
    case.install(&[workload, case.config_map("a", json!({"x": "1"}))]).await;
    let (target, a) = (case.in_namespace("apps/v1", "Deployment", "w"), case.config_map_target("a"));
    for replicas in [2, 3, 2, 3, 2, 3] {
        case.edit_sub("scale", "autoscaler", &target, json!({"spec": {"replicas": replicas}})).await;
        // Proof that it was seen: what drifts after it is repaired.
        case.edit("intruder", &a, json!({"data": {"y": replicas.to_string()}})).await;
    }
    case.edit("intruder", &a, json!({"data": {"x": "2"}})).await;
    case.until_value(&a, "/data/x", &json!("1")).await;
    let status = case.get(&case.target()).await.unwrap();
    assert!(rukpak_tests::verbs::condition(&status, "Contested").is_none(), "{:#}", status.data["status"]);
    assert_eq!(case.get(&target).await.unwrap().data["spec"]["replicas"], 3);
}
