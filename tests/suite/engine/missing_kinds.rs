//! A kind that nobody serves any more leaves the guarding of everything else as it is.

use axum::http::{Method, StatusCode};
use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{Fault, Rule};
use serde_json::json;

use crate::case::{Case, definition, definition_target, gadget};
use crate::worlds;

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
    let status = case.status().await;
    assert!(status["conditions"].to_string().contains("Gadget"), "what is missing is said: {status:#}");
}
