//! Before anything is migrated: what would not survive it is named, and nothing is written.

use rukpak_tests::verbs;
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use super::{Contents, content, contents, fill, is_migrated, versions};
use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::conversion::version;
use crate::engine::served_versions::with_versions;

const SWITCH: &str = "core.rukpak.io/safe-crd-upgrade-validation";

/// A version without a webhook is relabelled: a field that only the old one has would be gone.
#[tokio::test]
async fn objects_that_cannot_be_migrated_are_named_and_nothing_is_changed() {
    let case = Case::new("migration-lost").await;
    let (one, group) = definition("lost");
    let mut old = with_versions(&one, &[("v1", true, true), ("v2", true, false)]);
    old["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    let mut new = old.clone();
    // Valid in both only from 5 on.
    let minimum = "/schema/openAPIV3Schema/properties/spec/properties/size/minimum";
    *old["spec"]["versions"][1].pointer_mut(minimum).unwrap() = json!(5);
    new["spec"]["versions"] = json!([old["spec"]["versions"][1].clone()]);
    new["spec"]["versions"][0]["storage"] = json!(true);
    case.install(&[old, case.config_map("a", json!({"x": "1"}))]).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let object = |name: &str, spec: Value| {
        json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
            "metadata": {"name": name, "namespace": case.namespace}, "spec": spec})
    };
    for index in 0..7 {
        case.foreign(&object(&format!("red-{index}"), json!({"size": 9, "colour": "red"}))).await;
    }
    let live = case.get(&definition_target(&group)).await.unwrap();
    case.change("v2", &[new.clone(), case.config_map("a", json!({"x": "2"}))]).await;
    let message = case.refused("ErrorGettingReleaseState", "failed to validate safety of UPDATE").await;
    assert!(message.contains(&format!("set the \"{SWITCH}\" annotation to \"false\"")), "the way out: {message}");
    let lost = "cannot be stored as version v2: spec.colour of version v1 would be lost";
    assert_eq!(message.matches(lost).count(), 5, "{message}");
    let after = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(after.metadata.resource_version, live.metadata.resource_version, "nothing was written");
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1", "nothing at all");

    for index in 0..7 {
        let target = case.in_namespace(&format!("{group}/v1"), "Gadget", &format!("red-{index}"));
        case.edit("user", &target, json!({"spec": {"colour": null}})).await;
    }
    case.foreign(&object("small", json!({"size": 1}))).await;
    case.change("v3", &[new, case.config_map("a", json!({"x": "3"}))]).await;
    let small = format!("existing custom object {}/small cannot be stored as version v2: ", case.namespace);
    let message = case.refused("ErrorGettingReleaseState", &small).await;
    assert!(message.contains("spec.size") && message.matches("cannot be stored").count() == 1, "{message}");
    let target = case.in_namespace(&format!("{group}/v1"), "Gadget", "small");
    case.edit("user", &target, json!({"spec": {"size": 5}})).await;
    let before = contents(&case, &group, "v1").await;
    case.edit(
        "user",
        &case.target(),
        json!({"metadata": {"annotations": {
        "core.rukpak.io/reconcile-requested-at": "1"}}}),
    )
    .await;
    case.ready().await;
    is_migrated(&case, &group, &before).await;
}

/// Objects from before their schema became stricter are invalid in the version that they are stored in, too.
#[tokio::test]
async fn objects_that_are_invalid_under_their_own_schema_are_named_and_nothing_is_changed() {
    let case = Case::new("migration-invalid").await;
    let (one, group) = definition("invalid");
    let mut lax = one.clone();
    lax["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    let mut strict = lax.clone();
    for index in 0..2 {
        strict["spec"]["versions"][index]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] =
            json!(5);
    }
    let mut new = strict.clone();
    new["spec"]["versions"] = json!([strict["spec"]["versions"][1].clone()]);
    new["spec"]["versions"][0]["storage"] = json!(true);
    case.install(&[lax]).await;
    let before = fill(&case, &group, 6).await;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {SWITCH: "false"}}})).await;
    case.pivot("v1-strict", &[strict]).await;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {SWITCH: null}}})).await;
    let live = case.get(&definition_target(&group)).await.unwrap();

    case.change("v2", &[new]).await;
    let first = format!("existing custom object {}/g-00000 cannot be stored as version v2: ", case.namespace);
    let message = case.refused("ErrorGettingReleaseState", &first).await;
    assert!(message.contains("spec.size") && message.matches("cannot be stored").count() == 4, "{message}");
    let after = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(after.metadata.resource_version, live.metadata.resource_version, "nothing was written");
    assert!(contents(&case, &group, "v1").await == before);
    // The way out.
    for index in 0..4 {
        let target = case.in_namespace(&format!("{group}/v2"), "Gadget", &format!("g-{index:05}"));
        case.edit("user", &target, json!({"spec": {"size": 5}})).await;
    }
    let before = contents(&case, &group, "v2").await;
    let now = json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": "1"}}});
    case.edit("user", &case.target(), now).await;
    case.ready().await;
    is_migrated(&case, &group, &before).await;
}

/// Who says that nothing is to be looked at loses what the new version does not have.
#[tokio::test]
async fn objects_are_migrated_unproved_where_the_check_is_switched_off() {
    let case = Case::new("migration-off").await;
    let (one, group) = definition("off");
    let mut old = one.clone();
    old["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    let mut new = one;
    new["spec"]["versions"] = json!([version("v2", true)]);
    case.install(&[old]).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let mut object = gadget(&group, &case.namespace, "red", 1);
    object["spec"]["colour"] = json!("red");
    case.foreign(&object).await;
    case.change("v2", &[new]).await;
    case.refused("ErrorGettingReleaseState", "spec.colour of version v1 would be lost").await;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {SWITCH: "false"}}})).await;
    case.installed().await;
    assert_eq!(versions(&case, &group).await, ("v2*".to_owned(), json!(["v2"])));
    assert_eq!(contents(&case, &group, "v2").await["red"].1, json!({"size": 1}));
}

/// A revision that lacks a version comes back where nothing of the objects is lost.
#[tokio::test]
async fn rollback_migrates_objects_that_lose_nothing() {
    let case = Case::new("migration-rollback").await;
    let (one, group) = definition("rollback");
    let both = with_versions(&one, &[("v1", true, false), ("v2", true, true)]);
    case.install(&[one]).await;
    let before = fill(&case, &group, 3).await;
    case.pivot("v2", &[both]).await;
    case.ready().await;
    let late = json!({"apiVersion": format!("{group}/v2"), "kind": "Gadget",
        "metadata": {"name": "late", "namespace": case.namespace}, "spec": {"size": 1}});
    verbs::await_served(&case.client, &format!("{group}/v2"), "Gadget", SOON).await.unwrap();
    let late = content(case.foreign(&late).await);
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    case.until_value(&definition_target(&group), "/status/storedVersions", &json!(["v1"])).await;
    case.ready().await;
    assert_eq!(versions(&case, &group).await, ("v1*".to_owned(), json!(["v1"])));
    let expected: Contents = before.into_iter().chain([late]).collect();
    assert!(contents(&case, &group, "v1").await == expected);
}
