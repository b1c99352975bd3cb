//! A kind that nobody serves any more leaves the guarding of everything else as it is.

use axum::http::{Method, StatusCode};
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use rukpak_tests::{Fault, Rule};
use serde_json::json;

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::worlds;

#[tokio::test]
async fn a_missing_kind_leaves_the_rest_guarded() {
    let case = Case::new("missing-kind").await;
    let (crd, group) = definition("missing");
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.install(&[case.config_map("a", json!({"x": "1"})), gadget(&group, &case.namespace, "g", 1)]).await;
    case.delete(&definition_target(&group)).await;
    case.until_gone(&definition_target(&group)).await;
    let said = |object: &DynamicObject| object.data["status"]["conditions"].to_string().contains("Gadget");
    case.until(&case.target(), "news of the missing kind", |object| object.is_some_and(said)).await;
    let target = case.config_map_target("a");
    case.edit("intruder", &target, json!({"data": {"x": "2"}})).await;
    case.until_value(&target, "/data/x", &json!("1")).await;
    case.delete(&target).await;
    case.until_owned(&target).await;
    // The kind comes back, and its object with it.
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.until_owned(&Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap()).await;
    case.installed().await;
    case.delete(&definition_target(&group)).await;
}

/// The same where the kind goes before the watch over it could list it: then no watch tells that its objects went.
#[tokio::test]
async fn a_kind_that_goes_before_it_was_listed_is_missed_as_well() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "missing-early").await;
    let (crd, group) = definition("early");
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let turn = worlds::PROXY.lock().await;
    let lists = format!("/apis/{group}/v1/gadgets");
    proxy.add(Rule::on(&lists, Fault::Status(StatusCode::SERVICE_UNAVAILABLE, String::new())).method(Method::GET));
    case.install(&[case.config_map("a", json!({"x": "1"})), gadget(&group, &case.namespace, "g", 1)]).await;
    case.delete(&definition_target(&group)).await;
    case.until_gone(&definition_target(&group)).await;
    proxy.mend();
    drop(turn);
    let said = |object: &DynamicObject| object.data["status"]["conditions"].to_string().contains("Gadget");
    case.until(&case.target(), "news of the missing kind", |object| object.is_some_and(said)).await;
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.until_owned(&Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap()).await;
    case.installed().await;
    case.delete(&definition_target(&group)).await;
}

/// The same where it was missing already when the controller started.
#[tokio::test]
async fn a_kind_that_is_missing_at_a_restart_leaves_the_rest_guarded() {
    let alone = worlds::alone().await;
    let case = alone.case("missing-restart").await;
    let (crd, group) = definition("missing");
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.install(&[case.config_map("a", json!({"x": "1"})), gadget(&group, &case.namespace, "g", 1)]).await;
    alone.stop().await;
    case.delete(&definition_target(&group)).await;
    case.until_gone(&definition_target(&group)).await;
    alone.start().await;
    let target = case.config_map_target("a");
    case.edit("intruder", &target, json!({"data": {"x": "2"}})).await;
    case.until_value(&target, "/data/x", &json!("1")).await;
    case.delete(&target).await;
    case.until_owned(&target).await;
    let is_said = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["status"]["conditions"].to_string().contains("Gadget"))
    };
    case.until(&case.target(), "what is missing is said", is_said).await;
}

/// What is missing is in no digest of what is there: the status has to tell the next process of it.
#[tokio::test]
async fn a_kind_that_was_missing_before_a_restart_is_waited_for_after_it() {
    let alone = worlds::alone().await;
    let case = alone.case("missing-before").await;
    let (crd, group) = definition("missing");
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.install(&[case.config_map("a", json!({"x": "1"})), gadget(&group, &case.namespace, "g", 1)]).await;
    case.delete(&definition_target(&group)).await;
    case.until_gone(&definition_target(&group)).await;
    case.refused("ReconcileFailed", "no matches for kind \"Gadget\"").await;
    alone.stop().await;
    alone.start().await;
    let is_said = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| Expected::is_false("Installed", "ReconcileFailed").met_by(object))
    };
    let whole_time = std::time::Duration::from_secs(5);
    verbs::holds_for(&case.client, &case.target(), "Installed is False", whole_time, is_said).await.unwrap();
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.until_owned(&Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap()).await;
    case.ready().await;
    case.delete(&definition_target(&group)).await;
}

/// As under RBAC with `list` and without `watch`, or behind an extension API server that lists only.
#[tokio::test]
async fn a_kind_that_may_be_listed_and_not_watched_has_a_condition_until_it_may() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "unwatchable").await;
    let (crd, group) = definition("unwatchable");
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let turn = worlds::PROXY.lock().await;
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "MethodNotAllowed", "code": 405,
        "message": "the server does not allow this method on the requested resource"});
    let watches = format!("/apis/{group}/v1/gadgets?&watch=true");
    proxy.add(Rule::on(&watches, Fault::Status(StatusCode::METHOD_NOT_ALLOWED, refusal.to_string())));
    case.install(&[gadget(&group, &case.namespace, "g", 1)]).await;
    let refused =
        Expected::is_true("Unwatched", "CreateDynamicWatchFailed").saying("Gadget: the server does not allow");
    until(&case.client, &case.name, refused).await;
    proxy.mend();
    drop(turn);
    let is_over = |object: &DynamicObject| !object.data["status"]["conditions"].to_string().contains("Unwatched");
    case.until(&case.target(), "no condition Unwatched", |object| object.is_some_and(is_over)).await;
    // And its objects are guarded.
    let target = Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap();
    case.delete(&target).await;
    case.until_owned(&target).await;
    case.delete(&case.target()).await;
    case.delete(&definition_target(&group)).await;
}
