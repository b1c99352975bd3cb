//! A kind whose objects cannot be listed, because its conversion is down: it stops neither an upgrade nor the repair of the rest.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition_target, is_owned};
use crate::engine::conversion::Converter;
use crate::engine::worlds;

/// An object that is stored as `v2`, written as `v1`: whoever lists `v1` needs the conversion. Garbage collection lists the highest
/// version, and goes on.
pub fn converted(case: &Case<'_>, group: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": name, "namespace": case.namespace},
        "spec": {"size": 1, "colour": "red"}})
}

/// The kind, made by somebody else, and an object of it that is nobody's.
pub async fn foreign_kind(case: &Case<'_>, converter: &Converter) -> String {
    let (crd, group) = converter.definition("unlistable", "v2");
    case.foreign(&crd).await;
    for version in ["v1", "v2"] {
        verbs::await_served(&case.client, &format!("{group}/{version}"), "Gadget", SOON).await.expect("it is served");
    }
    case.foreign(&converted(case, &group, "foreign")).await;
    group
}

/// So long a list is waited for: an API server since 1.31 may leave it without any answer while it cannot fill its cache.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// The objects of it cannot be listed any more. An API server since 1.31 lists them from its cache for as long as it has one, so it
/// is made to begin anew, as after its next start.
pub async fn break_down(case: &Case<'_>, converter: &Converter, group: &str) {
    converter.break_down();
    let names = json!({"spec": {"names": {"categories": ["begun-anew"]}}});
    verbs::merge(&case.client, &definition_target(group), &names).await.expect("the definition is there");
    let end = tokio::time::Instant::now() + SOON;
    let version = format!("{group}/v1");
    let list = || tokio::time::timeout(ANSWERED_WITHIN, verbs::list(&case.client, &version, "Gadget", ""));
    while matches!(list().await, Ok(Ok(_))) {
        assert!(tokio::time::Instant::now() < end, "the conversion is down, and the list comes all the same");
        tokio::time::sleep(Duration::from_millis(100)).await; // nothing to watch: it is the watches that fail
    }
}

/// The mend of a broken operator is its upgrade: the very thing that must not wait for it.
#[tokio::test]
async fn an_upgrade_mends_the_conversion_that_keeps_its_kind_from_being_listed() {
    let case = Case::in_world(worlds::troubled().await, "mends").await;
    let (old, new) = (Converter::start(), Converter::start());
    let (crd, group) = old.definition("mends", "v2");
    let g = converted(&case, &group, "g");
    case.install(&[crd.clone(), g.clone(), case.config_map("a", json!({"x": "1"}))]).await;
    break_down(&case, &old, &group).await;
    let mut mended = crd;
    mended["spec"]["conversion"] = new.conversion();
    case.pivot("v2", &[mended, g.clone(), case.config_map("a", json!({"x": "2"}))]).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "2");
    case.until_owned(&Target::of(&g).unwrap()).await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

/// What cannot be pruned is told of, made up for later, and keeps nothing else. The API server may still list the kind from its cache:
/// then it is the deletion that fails.
#[tokio::test]
async fn an_upgrade_that_drops_an_object_of_an_unlistable_kind_is_made_and_prunes_it_later() {
    let case = Case::in_world(worlds::troubled().await, "drops").await;
    let converter = Converter::start();
    let group = foreign_kind(&case, &converter).await;
    let g = converted(&case, &group, "g");
    case.install(&[g.clone(), case.config_map("a", json!({"x": "1"}))]).await;
    break_down(&case, &converter, &group).await;
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let failed = Expected::is_false("Ready", "PruneFailed");
    let has_failed = |object: Option<&DynamicObject>| object.is_some_and(|object| failed.met_by(object));
    let told = case.until(&case.target(), "PruneFailed", has_failed).await.expect("it is there");
    let message = verbs::condition(&told, "Ready").and_then(|ready| ready["message"].as_str()).unwrap_or_default();
    assert!(message.contains("Gadget"), "{message}");
    converter.mend();
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    case.until_gone(&Target::of(&g).unwrap()).await;
    let done = case.ready().await;
    assert_eq!(done.data["status"]["inventory"]["unlisted"], Value::Null);
    assert!(case.get(&Target::of(&converted(&case, &group, "foreign")).unwrap()).await.is_some(), "it is nobody's");
    case.delete(&case.target()).await;
    case.delete(&definition_target(&group)).await;
}

/// A kind that was used once is of no interest for ever.
#[tokio::test]
async fn a_kind_no_longer_in_use_that_cannot_be_listed_stops_no_upgrade() {
    let case = Case::in_world(worlds::troubled().await, "unused").await;
    let converter = Converter::start();
    let group = foreign_kind(&case, &converter).await;
    let g = converted(&case, &group, "g");
    case.install(&[g.clone(), case.config_map("a", json!({"x": "1"}))]).await;
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    case.until_gone(&Target::of(&g).unwrap()).await;
    break_down(&case, &converter, &group).await;
    case.pivot("v3", &[case.config_map("a", json!({"x": "3"}))]).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "3");
    converter.mend();
    case.delete(&definition_target(&group)).await;
}

/// Nor does it keep what is installed from being guarded.
#[tokio::test]
async fn an_unlistable_kind_leaves_the_rest_guarded() {
    let case = Case::in_world(worlds::troubled().await, "guarded").await;
    let converter = Converter::start();
    let group = foreign_kind(&case, &converter).await;
    case.install(&[converted(&case, &group, "g"), case.config_map("a", json!({"x": "1"}))]).await;
    break_down(&case, &converter, &group).await;
    let target = case.config_map_target("a");
    case.edit("intruder", &target, json!({"data": {"x": "2"}})).await;
    case.until_value(&target, "/data/x", &json!("1")).await;
    case.delete(&target).await;
    case.until_owned(&target).await;
    converter.mend();
    case.delete(&case.target()).await;
    case.delete(&definition_target(&group)).await;
}

/// What cannot be watched is said, as long as it is so.
#[tokio::test]
async fn a_kind_that_cannot_be_watched_has_a_condition() {
    let alone = worlds::alone().await;
    let case = alone.case("unwatched").await;
    let converter = Converter::start();
    let group = foreign_kind(&case, &converter).await;
    case.install(&[converted(&case, &group, "g"), case.config_map("a", json!({"x": "1"}))]).await;
    alone.stop().await;
    break_down(&case, &converter, &group).await;
    alone.start().await;
    let text = "changes of objects of these kinds are not seen, and not repaired: Gadget: ";
    let unwatched = Expected::is_true("Unwatched", "CreateDynamicWatchFailed").saying(text);
    case.until(&case.target(), "Unwatched", |object| object.is_some_and(|object| unwatched.met_by(object))).await;
    converter.mend();
    let conditions =
        |object: &DynamicObject| object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_over = |object: &DynamicObject| conditions(object).iter().all(|condition| condition["type"] != "Unwatched");
    case.until(&case.target(), "no condition Unwatched", |object| object.is_some_and(is_over)).await;
    case.delete(&case.target()).await;
    case.delete(&definition_target(&group)).await;
}

/// Whether a definition has instances is asked before what serves its conversion is gone; and no answer means yes.
#[tokio::test]
async fn a_definition_whose_instances_cannot_be_listed_is_released() {
    let case = Case::in_world(worlds::troubled().await, "uncounted").await;
    let converter = Converter::start();
    // The first version is not the stored one.
    let (crd, group) = converter.definition("uncounted", "v2");
    let a = case.config_map("a", json!({"x": "1"}));
    case.install(&[crd, case.workload("operator", 0), a]).await;
    verbs::await_served(&case.client, &format!("{group}/v2"), "Gadget", SOON).await.unwrap();
    let precious = converted(&case, &group, "precious");
    case.foreign(&precious).await;
    converter.break_down();
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let uid = case.uid().await;
    let live = case.get(&definition_target(&group)).await.expect("its instances would be lost");
    assert!(live.metadata.deletion_timestamp.is_none() && !is_owned(&live, &case.name, &uid));
    assert!(live.metadata.owner_references.unwrap_or_default().is_empty());
    let released = case.status().await["inventory"]["released"].to_string();
    assert!(released.contains(&format!("gadgets.{group}")), "{released}");
    case.until_gone(&case.in_namespace("apps/v1", "Deployment", "operator")).await;
    converter.mend();
    assert!(case.get(&Target::of(&precious).unwrap()).await.is_some());
    case.delete(&definition_target(&group)).await;
}
