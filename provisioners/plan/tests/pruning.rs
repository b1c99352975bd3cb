//! A pass of pruning, driven without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use rukpak_crds::InventoryKind;
use rukpak_plan::prune::{Answer, Leaving, Order, Outcome, Pass, Request};
use rukpak_plan::{Identity, Kind, Owner};
use serde_json::{Value, json};

fn owner() -> Owner {
    Owner { name: "app".into(), uid: "1".into() }
}

fn metadata(name: &str, more: Value) -> ObjectMeta {
    let mut all = json!({
        "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "1",
        "labels": {"core.rukpak.io/owner-kind": "BundleDeployment", "core.rukpak.io/owner-name": "app"},
        "ownerReferences": [owner().reference()],
    });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    serde_json::from_value(all).expect("it is metadata")
}

fn object(api_version: &str, kind: &str, more: Value) -> Leaving {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = Arc::new(ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)));
    let name = kind.to_lowercase();
    let kind = Kind { resource, namespaced: false };
    let metadata = Arc::new(metadata(&name, more));
    Leaving { identity: Identity { kind, namespace: None, name }, metadata }
}

fn crd() -> Leaving {
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", json!({}))
}

fn resource() -> Leaving {
    object("example.com/v1", "Gadget", json!({}))
}

fn workload() -> Leaving {
    object("apps/v1", "Deployment", json!({}))
}

fn namespace(more: Value) -> Leaving {
    object("v1", "Namespace", more)
}

/// Runs the pass with answers given one after the other. Returns what was sent, and the outcome.
fn run(leaving: &[Leaving], is_patient: bool, answer: impl FnMut(&Order) -> Answer) -> (Vec<String>, Outcome) {
    drive(Pass::new(owner(), leaving.to_vec(), is_patient), answer)
}

fn drive(mut pass: Pass, mut answer: impl FnMut(&Order) -> Answer) -> (Vec<String>, Outcome) {
    let (mut sent, mut ends) = (Vec::new(), BTreeMap::new());
    while let Some(order) = pass.next_order() {
        let verb = match &order.request {
            Request::Ask { going, .. } => format!("ask with {} going", going.len()),
            Request::Release { reason } => format!("release ({reason})"),
            other => format!("{other:?}").to_lowercase(),
        };
        sent.push(format!("{verb} {}", order.object.identity.name));
        assert!(sent.len() < 50, "it does not end: {sent:?}");
        if let Some((leaving, end)) = pass.answer(order.id, answer(&order)) {
            assert_eq!(ends.insert(leaving.identity.name.clone(), end.clone()), None, "it ends once");
        }
    }
    (sent, pass.outcome())
}

/// Everything goes at once.
fn willing(order: &Order) -> Answer {
    match &order.request {
        Request::Ask { .. } => Answer::WouldLose(None),
        Request::Look => Answer::Seen(None),
        Request::FollowVersion => Answer::Version(None),
        Request::AskWanted => Answer::Wanted(true),
        Request::Delete | Request::Release { .. } | Request::HandOver => Answer::Done,
    }
}

#[test]
fn objects_leave_phase_by_phase_and_what_is_guarded_is_asked_about_twice() {
    let (sent, outcome) = run(&[namespace(json!({})), crd(), workload(), resource()], true, willing);
    let expected = [
        "ask with 2 going customresourcedefinition",
        "ask with 2 going namespace",
        "delete gadget",
        "delete deployment",
        "ask with 2 going customresourcedefinition",
        "delete customresourcedefinition",
        "ask with 3 going namespace",
        "delete namespace",
    ];
    assert_eq!(sent, expected);
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn what_is_left_as_it_is_on_request_stays_and_holds_nobody_up() {
    let annotations = json!({"annotations": {"core.rukpak.io/reconcile": "disabled"}});
    let held = object("example.com/v1", "Gadget", annotations.clone());
    let (sent, outcome) = run(&[workload(), held.clone()], true, willing);
    assert_eq!(sent, ["delete deployment"]);
    assert_eq!(outcome.paused, [held.identity.key()].into());
    assert!(outcome.failed.is_empty() && outcome.waiting.is_empty());
    // It says so only since it was listed.
    let (sent, outcome) = run(&[resource()], true, |order| match &order.request {
        Request::Delete => Answer::Conflict("another version".into()),
        Request::Look => Answer::Seen(Some(Box::new(metadata("gadget", annotations.clone())))),
        _ => willing(order),
    });
    assert_eq!(sent, ["delete gadget", "look gadget"]);
    assert_eq!(outcome.paused.len(), 1);
    // What hangs on a definition keeps that.
    let (sent, _) = run(&[crd(), held], true, |order| match &order.request {
        Request::Ask { going, .. } => Answer::WouldLose(going.is_empty().then(|| "it has instances".into())),
        _ => willing(order),
    });
    assert_eq!(sent.last().unwrap(), "release (it has instances) customresourcedefinition");
}

#[test]
fn a_refused_deletion_keeps_every_earlier_phase() {
    let (sent, outcome) = run(&[crd(), workload(), resource()], true, |order| match &order.request {
        Request::Delete if order.object.identity.name == "gadget" => Answer::Refused("denied".into()),
        _ => willing(order),
    });
    assert_eq!(sent, ["ask with 2 going customresourcedefinition", "delete gadget"]);
    assert_eq!(outcome.failed, ["Gadget \"gadget\": denied"]);
}

fn gadgets() -> InventoryKind {
    InventoryKind { group: "example.com".into(), version: "v1".into(), kind: "Gadget".into() }
}

#[test]
fn keeps_every_earlier_phase_when_a_kind_cannot_be_listed() {
    let pass = Pass::new(owner(), [crd(), workload()], true).wait_for(&[gadgets()], &BTreeSet::new());
    let (sent, outcome) = drive(pass, willing);
    assert_eq!(sent, ["ask with 1 going customresourcedefinition"], "its operator may be what ends a Gadget");
    assert!(outcome.is_unanswered, "it is counted");

    let pass = Pass::new(owner(), [crd(), workload()], false).wait_for(&[gadgets()], &BTreeSet::new());
    let (sent, outcome) = drive(pass, willing);
    assert_eq!(sent.last().unwrap(), "delete customresourcedefinition", "it is not waited for without end: {sent:?}");
    assert!(!outcome.is_unanswered);
}

#[test]
fn keeps_every_earlier_phase_when_what_was_being_deleted_cannot_be_listed() {
    let leaving = BTreeSet::from([resource().identity.key()]);
    for is_patient in [true, false] {
        let pass = Pass::new(owner(), [workload()], is_patient).wait_for(&[gadgets()], &leaving);
        let (sent, outcome) = drive(pass, willing);
        assert!(sent.is_empty(), "{sent:?}");
        assert_eq!(outcome.waiting.into_iter().map(|(key, _)| key).collect::<BTreeSet<_>>(), leaving);
    }
}

#[test]
fn what_waits_for_a_finalizer_keeps_every_earlier_phase() {
    let held = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]});
    let (sent, outcome) = run(&[workload(), resource()], true, |order| match &order.request {
        Request::Delete => Answer::Accepted,
        Request::Look => Answer::Seen(Some(Box::new(metadata("gadget", held.clone())))),
        _ => willing(order),
    });
    assert_eq!(sent, ["delete gadget", "look gadget"]);
    assert!(outcome.failed.is_empty());
    let [(key, why)] = outcome.waiting.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(
        (key.name.as_str(), why.as_str()),
        ("gadget", "Gadget \"gadget\" waits for its finalizers: example.com/hold")
    );
    // In the next pass it is looked at, and not deleted again.
    let (sent, outcome) = run(&[workload(), object("example.com/v1", "Gadget", held)], true, willing);
    assert_eq!(sent, ["look gadget", "delete deployment"]);
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn a_definition_whose_instances_came_later_is_released() {
    let mut asked = 0;
    let (sent, outcome) = run(&[crd(), workload()], true, |order| match &order.request {
        Request::Ask { .. } => {
            asked += 1;
            Answer::WouldLose((asked == 2).then(|| "it has instances".to_owned()))
        }
        _ => willing(order),
    });
    assert_eq!(
        sent[2..],
        ["ask with 1 going customresourcedefinition", "release (it has instances) customresourcedefinition"]
    );
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn what_has_no_answer_is_asked_again_and_then_counts_as_data() {
    let unseen = |order: &Order| match &order.request {
        Request::Ask { .. } => Answer::Unseen { why: "no answer".into(), is_transient: true },
        _ => willing(order),
    };
    let (sent, outcome) = run(&[crd(), workload()], true, unseen);
    assert_eq!(sent, ["ask with 1 going customresourcedefinition"], "nothing goes before it is known");
    assert!(outcome.is_unanswered);
    assert_eq!(outcome.failed.len(), 1);
    let (sent, outcome) = run(&[crd(), workload()], false, unseen);
    assert_eq!(sent[1..], ["delete deployment", "release (no answer) customresourcedefinition"]);
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn a_shared_namespace_is_handed_over_and_not_asked_about() {
    let other = json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleDeployment", "name": "b", "uid": "2"});
    let shared = json!({"ownerReferences": [owner().reference(), other]});
    let (sent, outcome) = run(&[namespace(shared)], true, willing);
    assert_eq!(sent, ["handover namespace"]);
    assert_eq!(outcome, Outcome::default());
}

/// It is labelled as that of whoever leads it.
#[test]
fn what_another_leads_is_handed_over_and_what_nobody_leads_is_asked_about() {
    let reference = |name: &str, uid: &str, controller: bool| {
        json!({"apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleDeployment", "name": name, "uid": uid, "controller": controller})
    };
    let us = owner();
    let sharer = reference(&us.name, &us.uid, false);
    let crd = |owners: Value| {
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", json!({"ownerReferences": owners}))
    };
    let (sent, _) = run(&[crd(json!([reference("b", "2", true), sharer]))], true, willing);
    assert_eq!(sent, ["handover customresourcedefinition"]);
    let (sent, _) = run(&[crd(json!([sharer]))], true, willing);
    assert_eq!(sent.last().map(String::as_str), Some("delete customresourcedefinition"), "{sent:?}");
    assert!(sent[0].starts_with("ask"), "{sent:?}");
}

#[test]
fn what_is_data_is_released_and_what_may_go_is_deleted() {
    let claim = |more| object("v1", "PersistentVolumeClaim", more);
    assert_eq!(run(&[claim(json!({}))], true, willing).0, ["release (its data would be lost) persistentvolumeclaim"]);
    let allowed = json!({"annotations": {"core.rukpak.io/allow-deletion": "true"}});
    assert_eq!(run(&[claim(allowed)], true, willing).0, ["delete persistentvolumeclaim"]);
}

#[test]
fn an_object_that_changed_is_looked_at_and_decided_about_again() {
    let mut looks = 0;
    let kept = json!({"annotations": {"helm.sh/resource-policy": "keep"}});
    let (sent, outcome) = run(&[workload()], true, |order| match &order.request {
        Request::Delete => Answer::Conflict("another version".into()),
        Request::Look => {
            looks += 1;
            Answer::Seen(Some(Box::new(metadata("deployment", if looks == 1 { json!({}) } else { kept.clone() }))))
        }
        _ => willing(order),
    });
    let once = ["delete deployment", "look deployment", "askwanted deployment"];
    assert_eq!(sent[..3], once);
    assert_eq!(sent[3..6], once);
    assert_eq!(sent[6..], ["release (its data would be lost) deployment"]);
    assert_eq!(outcome, Outcome::default());
}

/// Another of our controllers has the deployment by now, and the release that it installs has the object.
#[test]
fn pruning_ends_at_an_object_that_changed_where_the_deployment_asks_for_something_else() {
    let (sent, outcome) = run(&[workload(), resource()], true, |order| match &order.request {
        Request::Delete => Answer::Conflict("another version".into()),
        Request::Look => Answer::Seen(Some(Box::new(metadata("gadget", json!({}))))),
        Request::AskWanted => Answer::Wanted(false),
        _ => willing(order),
    });
    assert_eq!(sent, ["delete gadget", "look gadget", "askwanted gadget"]);
    assert_eq!(outcome, Outcome { is_superseded: true, ..Outcome::default() });
}

#[test]
fn nothing_more_of_a_phase_is_sent_once_the_deployment_asks_for_something_else() {
    let leaving = [resource(), object("example.com/v1", "Widget", json!({})), workload()];
    let (sent, outcome) = run(&leaving, true, |_| Answer::Wanted(false));
    assert_eq!(sent, ["delete gadget"]);
    assert!(outcome.is_superseded);
}

#[test]
fn an_object_that_changes_all_the_time_is_given_up_until_the_next_pass() {
    let (sent, outcome) = run(&[workload()], true, |order| match &order.request {
        Request::Delete => Answer::Conflict("another version".into()),
        Request::Look => Answer::Seen(Some(Box::new(metadata("deployment", json!({}))))),
        _ => willing(order),
    });
    assert_eq!(sent.iter().filter(|line| line.starts_with("delete")).count(), 5);
    assert_eq!(outcome.failed.len(), 1);
}

#[test]
fn what_is_not_ours_any_more_is_left() {
    for now in [json!({"ownerReferences": []}), json!({"uid": "another"})] {
        let (sent, outcome) = run(&[workload()], true, |order| match &order.request {
            Request::Delete => Answer::Conflict("another version".into()),
            Request::Look => Answer::Seen(Some(Box::new(metadata("deployment", now.clone())))),
            _ => willing(order),
        });
        assert_eq!(sent, ["delete deployment", "look deployment"], "{now}");
        assert_eq!(outcome, Outcome::default());
    }
}

#[test]
fn an_object_whose_version_ended_is_deleted_in_the_one_that_is_served() {
    let mut deleted = Vec::new();
    let (_, outcome) = run(&[resource()], true, |order| match &order.request {
        Request::Delete => {
            let version = order.object.identity.kind.resource.version.clone();
            deleted.push(version.clone());
            if version == "v1" { Answer::Absent } else { Answer::Done }
        }
        Request::FollowVersion => Answer::Version(Some(object("example.com/v2", "Gadget", json!({})).identity)),
        Request::Look => Answer::Seen(Some(Box::new(metadata("gadget", json!({}))))),
        _ => willing(order),
    });
    assert_eq!(deleted, ["v1", "v2"]);
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn orders_of_one_phase_are_given_together() {
    let mut pass = Pass::new(owner(), [resource(), object("example.com/v1", "Widget", json!({})), workload()], true);
    let (first, second) = (pass.next_order().unwrap(), pass.next_order().unwrap());
    assert_eq!(pass.next_order(), None, "the next phase waits for both");
    assert!(pass.answer(second.id, Answer::Done).is_some());
    assert_eq!(pass.next_order(), None);
    assert!(pass.answer(first.id, Answer::Done).is_some());
    assert_eq!(pass.next_order().unwrap().object.identity.name, "deployment");
}

#[test]
fn a_deployment_that_is_deleted_takes_its_data_along_phase_by_phase() {
    let claim = object("v1", "PersistentVolumeClaim", json!({"annotations": {"core.rukpak.io/reconcile": "disabled"}}));
    let all = [namespace(json!({})), crd(), claim, workload(), resource()];
    let (sent, outcome) = drive(Pass::whole(owner(), all.clone()), willing);
    let expected = [
        "ask with 4 going customresourcedefinition",
        "delete gadget",
        "delete deployment",
        "delete persistentvolumeclaim",
        "ask with 3 going customresourcedefinition",
        "delete customresourcedefinition",
        "delete namespace",
    ];
    assert_eq!(sent, expected);
    assert_eq!(outcome, Outcome::default());
    // As long as there is an instance that somebody has to finalize, nobody goes who may do that.
    let (sent, outcome) = drive(Pass::whole(owner(), all.clone()), |order| match &order.request {
        Request::Ask { .. } => Answer::WouldLose(Some("it has instances".into())),
        _ => willing(order),
    });
    assert_eq!(sent, expected[..1]);
    assert!(outcome.waiting[0].1.contains("stays, for it has instances; delete"), "{outcome:?}");
    // And each phase waits for the one before.
    let going = metadata("gadget", json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}));
    let (sent, outcome) = drive(Pass::whole(owner(), all), |order| match &order.request {
        Request::Delete => Answer::Accepted,
        Request::Look => Answer::Seen(Some(Box::new(going.clone()))),
        _ => willing(order),
    });
    assert_eq!(sent.last().unwrap(), "look gadget");
    assert_eq!(outcome.waiting.len(), 1);
}

/// Its objects may be to stay by now, or another of our controllers may have the deployment.
#[test]
fn a_deployment_that_is_deleted_takes_nothing_more_along_once_somebody_has_changed_it() {
    let (sent, outcome) = drive(Pass::whole(owner(), [workload(), resource()]), |order| match &order.request {
        Request::Delete => Answer::Conflict("another version".into()),
        Request::Look => Answer::Seen(Some(Box::new(metadata("gadget", json!({}))))),
        Request::AskWanted => Answer::Wanted(false),
        _ => willing(order),
    });
    assert_eq!(sent, ["delete gadget", "look gadget", "askwanted gadget"]);
    assert_eq!(outcome, Outcome { is_superseded: true, ..Outcome::default() });
}
