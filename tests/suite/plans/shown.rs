//! A Plan shows all that a yes allows, also what no list of the deployment's own objects has.

use rukpak_tests::verbs::Target;
use serde_json::{Value, json};

use super::case::{Asked, names, until_ready};
use crate::engine::case::{Case, definition_target};
use crate::engine::conversion::Converter;
use crate::engine::unlistable::{break_down, converted, foreign_kind};
use crate::engine::worlds;

/// What a list of a Plan notes of the objects in it.
fn notes(plan: &kube::api::DynamicObject, list: &str) -> Vec<Value> {
    let items = plan.data["status"][list]["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["note"].clone()).collect()
}

#[tokio::test]
async fn what_is_taken_over_is_not_told_as_created() {
    let case = Case::new("plan-adopts").await;
    let mut foreign = case.config_map("taken", json!({"mine": "yes"}));
    foreign["metadata"]["annotations"] = json!({"core.rukpak.io/adopt-by": case.name});
    let foreign = case.foreign(&foreign).await;
    case.create_asking("Always", &[case.config_map("taken", json!({"mine": "no"})), case.config_map("new", json!({}))])
        .await;
    let plan = case.asked().await;
    assert_eq!(names(&plan, "created"), ["new"], "{:#}", plan.data["status"]);
    assert_eq!(names(&plan, "changed"), ["taken"], "{:#}", plan.data["status"]);
    assert_eq!(notes(&plan, "changed"), ["taken over: this BundleDeployment did not install it"]);

    // The yes is for this object: who replaces it is asked again.
    case.delete(&case.config_map_target("taken")).await;
    let mut other = case.config_map("taken", json!({"mine": "again"}));
    other["metadata"]["annotations"] = json!({"core.rukpak.io/adopt-by": case.name});
    let other = case.foreign(&other).await;
    case.answer(&plan, "Approved").await;
    let next = case.asked_beside(&[&plan]).await;
    let now = case.get(&case.config_map_target("taken")).await.expect("it is there");
    assert_eq!(now.data["data"], json!({"mine": "again"}), "nothing was written");
    case.answer(&next, "Approved").await;
    until_ready(&case).await;
    let taken = case.until_owned(&case.config_map_target("taken")).await;
    assert_eq!(taken.metadata.uid, other.metadata.uid, "not made anew");
    assert_ne!(taken.metadata.uid, foreign.metadata.uid);
}

#[tokio::test]
async fn what_leaves_without_its_labels_is_told_as_deleted() {
    let alone = worlds::alone().await;
    let case = alone.case("plan-stripped").await;
    let both = [case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))];
    case.create_asking("Upgrades", &both).await;
    until_ready(&case).await;
    alone.stop().await;
    let target = case.config_map_target("a");
    case.edit("intruder", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}})).await;
    case.change("v2", &both[1..]).await;
    alone.start().await;
    let plan = case.asked().await;
    assert_eq!(names(&plan, "deleted"), ["a"], "{:#}", plan.data["status"]);
    case.answer(&plan, "Approved").await;
    case.until_gone(&target).await;
}

/// The upgrade may be the very thing that mends the kind, so it is asked about all the same.
#[tokio::test]
async fn a_kind_that_cannot_be_listed_is_told_as_such() {
    let case = Case::in_world(worlds::troubled().await, "plan-unlisted").await;
    let converter = Converter::start();
    let group = foreign_kind(&case, &converter).await;
    let g = converted(&case, &group, "g");
    case.create_asking("Upgrades", &[g.clone(), case.config_map("a", json!({"x": "1"}))]).await;
    until_ready(&case).await;
    break_down(&case, &converter, &group).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let plan = case.asked().await;
    // The API server may still list it from its cache: then the object itself is told of.
    let told = names(&plan, "deleted");
    assert!(told == ["*"] || told == ["g"], "{:#}", plan.data["status"]);
    assert_eq!(plan.data["status"]["deleted"]["items"][0]["kind"], "Gadget");
    case.answer(&plan, "Approved").await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    converter.mend();
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    case.until_gone(&Target::of(&g).unwrap()).await;
    case.delete(&definition_target(&group)).await;
}
