use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::DeletionPolicy;
use rukpak_plain::Origin;

use super::*;
use crate::Kind;

fn object(kind: &str, name: &str, annotations: &Value) -> Object {
    let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations}});
    Object::new(body, Origin::made_from("a test")).unwrap()
}

fn us() -> Owner {
    Owner { name: "pump".to_owned(), uid: "1".to_owned() }
}

fn planned(objects: &[Object], events: &[Event]) -> (Vec<Hook>, Vec<Missing>) {
    let kind = |group: &str, kind: &str| {
        let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)));
        ((resource.api_version.clone(), kind.to_owned()), Some(Kind { resource, namespaced: true }))
    };
    let served = Served::from([kind("batch", "Job"), kind("", "ConfigMap"), kind("", "PersistentVolumeClaim")]);
    let stamp = OwnerMetadata { owner: us(), default_namespace: "n".to_owned(), policy: DeletionPolicy::Delete };
    plan(objects, events, &served, &stamp)
}

fn hook(kind: &str, policy: &str) -> Hook {
    let annotations = json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy});
    planned(&[object(kind, "a", &annotations)], &Event::ALL).0.remove(0)
}

#[test]
fn runs_hooks_of_the_event_by_weight_then_kind_then_name() {
    let hook = |kind: &str, name: &str, events: &str, weight: &str| {
        object(kind, name, &json!({"helm.sh/hook": events, "helm.sh/hook-weight": weight}))
    };
    let objects = [
        hook("Job", "b", "pre-install, Pre-Upgrade", "0"),
        hook("Job", "a", "pre-install", "none"),
        hook("ConfigMap", "z", "pre-install", "0"),
        hook("Job", "first", "pre-install", "-5"),
        hook("Job", "last", "pre-install", "10"),
        hook("Job", "after", "post-install,pre-delete", "-9"),
        hook("Pod", "unserved", "pre-upgrade", "0"),
    ];
    let names = |why: Why| {
        let (hooks, missing) = planned(&objects, Event::of(why));
        let names = hooks.iter().map(|hook| format!("{} {}", hook.event, hook.step.key.name)).collect::<Vec<_>>();
        (names, missing.len())
    };
    let first = ["first", "z", "a", "b", "last"].map(|name| format!("pre-install {name}"));
    let first: Vec<String> = first.into_iter().chain(["post-install after".to_owned()]).collect();
    assert_eq!(names(Why::First), (first, 0));
    assert_eq!(names(Why::Upgrade), (vec!["pre-upgrade b".to_owned()], 1));
    assert_eq!(names(Why::Rollback), (Vec::new(), 0));
}

#[test]
fn is_ours_without_the_label_of_objects_of_a_release() {
    let body = hook("Job", "").made_for("this run").body();
    assert_eq!(body["metadata"]["labels"], json!({names::OWNER_NAME: "pump"}));
    assert_eq!(body["metadata"]["annotations"][names::HOOK_RUN], "this run");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "1");
}

#[test]
fn refuses_hook_that_is_declared_twice_or_as_an_object_too() {
    let job = object("Job", "a", &json!({"helm.sh/hook": "pre-install,post-install"}));
    let (hooks, _) = planned(std::slice::from_ref(&job), &Event::ALL);
    assert_eq!(check(&hooks, &BTreeMap::new()), Ok(()));
    let steps = BTreeMap::from([(hooks[0].step.key.clone(), hooks[0].step.clone())]);
    assert!(check(&hooks, &steps).unwrap_err().object.starts_with("Job \"a\""));
    let (twice, _) = planned(&[job.clone(), job], &Event::ALL);
    assert!(check(&twice, &BTreeMap::new()).is_err());
}

#[test]
fn keeps_what_data_hangs_on_whatever_its_policy_says() {
    let goes = |kind: &str, policy: &str| {
        let hook = hook(kind, policy);
        (hook.goes_when_succeeded, hook.goes_when_failed)
    };
    assert_eq!(goes("Job", "before-hook-creation, hook-succeeded"), (true, false));
    assert_eq!(goes("Job", "hook-failed"), (false, true));
    assert_eq!(goes("Job", ""), (false, false));
    assert_eq!(goes("PersistentVolumeClaim", "hook-succeeded,hook-failed"), (false, false));
}

fn metadata(uid: &str, run: &str, more: &Value) -> ObjectMeta {
    let mut metadata =
        json!({"uid": uid, "annotations": {names::HOOK_RUN: run}, "ownerReferences": [us().reference()]});
    metadata.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    serde_json::from_value(metadata).unwrap()
}

fn known(succeeded: Option<bool>) -> HookRun {
    HookRun { hook: "pre-install Job".to_owned(), uid: "u".to_owned(), succeeded }
}

#[test]
fn is_made_once_for_a_run_and_again_when_it_has_failed() {
    let (job, failed) = (hook("Job", ""), json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}));
    let complete = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let next = |known: Option<HookRun>, live: Option<(&ObjectMeta, &Value)>| {
        let live = live.map(|(metadata, body)| Live { metadata, body });
        job.next(&us(), "now", known.as_ref(), live)
    };
    let (own, other) = (metadata("u", "now", &json!({})), metadata("u", "before", &json!({})));
    assert_eq!(next(None, None), Next::Create);
    assert_eq!(next(None, Some((&own, &json!({})))), Next::Wait, "the controller ended before it said so");
    assert_eq!(next(None, Some((&own, &complete))), Next::Over);
    assert!(matches!(next(None, Some((&own, &failed))), Next::Failed(_)));
    assert_eq!(next(Some(known(Some(false))), Some((&own, &failed))), Next::Replace);
    assert_eq!(next(Some(known(Some(false))), None), Next::Create);
    assert_eq!(next(Some(known(None)), None), Next::Over, "its time to live is over");
    assert_eq!(next(None, Some((&other, &complete))), Next::Replace);
    let going = metadata("u", "before", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!(next(None, Some((&going, &complete))), Next::Wait);
    let foreign = ObjectMeta { owner_references: None, ..other };
    assert_eq!(next(None, Some((&foreign, &complete))), Next::Create, "whose it is, is told by that");
}

#[test]
fn leaves_claim_of_an_earlier_run_as_it_is() {
    let earlier = metadata("u", "before", &json!({}));
    let live = Live { metadata: &earlier, body: &json!({}) };
    assert_eq!(hook("PersistentVolumeClaim", "").next(&us(), "now", None, Some(live)), Next::Over);
}

#[test]
fn a_wait_ends_with_the_job_or_the_pod_or_when_it_is_gone() {
    let key = |group: &str, kind: &str| ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("n".to_owned()),
        name: "a".to_owned(),
    };
    let (own, uid) = (metadata("u", "now", &json!({})), "u".to_owned());
    let over = |key: &ObjectKey, body: &Value| is_over(key, Some(&uid), Live { metadata: &own, body });
    assert!(!over(&key("", "Pod"), &json!({"status": {"phase": "Running"}})));
    assert!(over(&key("", "Pod"), &json!({"status": {"phase": "Succeeded"}})));
    assert!(over(&key("", "ConfigMap"), &json!({})));
    let failed = json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no more"});
    let job = json!({"status": {"conditions": [failed]}});
    assert!(over(&key("batch", "Job"), &job));
    assert_eq!(state(&key("batch", "Job"), &job), State::Failed("BackoffLimitExceeded: no more".to_owned()));

    let another = Live { metadata: &metadata("v", "now", &json!({})), body: &json!({}) };
    assert!(is_over(&key("batch", "Job"), Some(&uid), another));
}
