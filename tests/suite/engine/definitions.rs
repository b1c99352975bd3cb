//! A CRD is not replaced by one that would lose what is stored or break what exists.

use rukpak_tests::verbs;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};

const SWITCH: &str = "core.rukpak.io/safe-crd-upgrade-validation";

/// The definition with another schema of `spec`.
fn with_spec(definition: &Value, spec: &Value) -> Value {
    let mut new = definition.clone();
    new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec.clone();
    new
}

fn colour_required() -> Value {
    json!({"type": "object", "required": ["colour"],
        "properties": {"size": {"type": "integer", "minimum": 5}, "colour": {"type": "string"}}})
}

#[tokio::test]
async fn an_upgrade_that_breaks_existing_objects_is_refused_until_they_are_mended() {
    let case = Case::new("crd-objects").await;
    let (old, group) = definition("crd-objects");
    let first = case.install(std::slice::from_ref(&old)).await;
    for (name, size) in [("small", 1), ("large", 9)] {
        case.foreign(&gadget(&group, &case.namespace, name, size)).await;
    }
    let before = case.get(&definition_target(&group)).await.unwrap();
    let new = with_spec(&old, &colour_required());
    case.change("v2", &[new.clone(), case.config_map("beside", json!({}))]).await;
    let name = format!("gadgets.{group}");
    let begin = format!(
        "failed to validate safety of UPDATE for CRD \"{name}\" (NOTE: to disable this validation, set the \
         \"{SWITCH}\" annotation to \"false\" on the CRD): error validating existing CRs against new CRD's schema for \"{name}\": "
    );
    let message = case.refused("ErrorGettingReleaseState", &begin).await;
    for part in [
        format!("existing custom object {}/small failed validation for new schema version v1", case.namespace),
        format!("existing custom object {}/large failed validation for new schema version v1", case.namespace),
        "spec.colour".to_owned(),
        "spec.size".to_owned(),
    ] {
        assert!(message.contains(&part), "all findings at once, {part} too: {message}");
    }
    let where_to = "the annotation goes on the CustomResourceDefinition in the bundle or on the BundleDeployment";
    assert_eq!(message.matches(where_to).count(), 1, "{message}");
    let after = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation, "nothing was written");
    assert!(case.get(&case.config_map_target("beside")).await.is_none(), "nothing at all");
    assert_eq!(case.status().await["activeBundle"], first.data["status"]["activeBundle"]);

    let api_version = format!("{group}/v1");
    let mend = json!({"spec": {"size": 9}});
    case.edit("user", &case.in_namespace(&api_version, "Gadget", "small"), mend).await;
    // The template changes too, so that nobody waits a minute for the next attempt.
    let stricter = json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": 5}}});
    case.pivot("v3", &[with_spec(&old, &stricter)]).await;
    let after = case.get(&definition_target(&group)).await.unwrap();
    assert!(after.metadata.generation > before.metadata.generation);
}

#[tokio::test]
async fn a_stored_version_stays_where_no_other_version_is_served_by_both() {
    let case = Case::new("crd-stored").await;
    let (old, group) = definition("crd-stored");
    case.install(std::slice::from_ref(&old)).await;
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    case.change("v2", std::slice::from_ref(&new)).await;
    let message = case.refused("ErrorGettingReleaseState", "failed to validate safety of UPDATE").await;
    let why = "cannot remove stored versions [v1]: their objects are not migrated, for no version is served by both CRDs; \
               install first a bundle whose CRD serves both the stored version and the one that replaces it";
    assert!(message.contains(why), "{message}");
    let live = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(live.data["spec"]["versions"][0]["name"], "v1");
}

#[tokio::test]
async fn the_owner_of_a_deployment_may_switch_the_check_off() {
    let case = Case::new("crd-off").await;
    let (old, group) = definition("crd-off");
    case.install(std::slice::from_ref(&old)).await;
    case.foreign(&gadget(&group, &case.namespace, "one", 1)).await;
    let new = with_spec(&old, &colour_required());
    case.change("v2", std::slice::from_ref(&new)).await;
    case.refused("ErrorGettingReleaseState", "failed validation for new schema").await;
    // No new template, no wait of a minute: the annotation is news enough.
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {SWITCH: "false"}}})).await;
    case.installed().await;
    let live = case.get(&definition_target(&group)).await.unwrap();
    let spec = &live.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["colour"]));
}

#[tokio::test]
async fn the_author_of_a_definition_may_switch_the_check_off() {
    let case = Case::new("crd-author").await;
    let (old, group) = definition("crd-author");
    case.install(std::slice::from_ref(&old)).await;
    case.foreign(&gadget(&group, &case.namespace, "one", 1)).await;
    let mut new = with_spec(&old, &colour_required());
    new["metadata"]["annotations"] = json!({SWITCH: "false"});
    case.pivot("v2", std::slice::from_ref(&new)).await;
    assert!(verbs::get(&case.client, &definition_target(&group)).await.unwrap().is_some());
}

#[tokio::test]
async fn the_way_back_keeps_versions_that_are_stored_by_then() {
    let case = Case::new("crd-back").await;
    let (old, group) = definition("crd-back");
    let first = case.install(&[old.clone(), case.config_map("kept", json!({"x": "1"}))]).await;
    let mut new = old.clone();
    let mut second = old["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(second);
    // Of a kind that the bundle brings, so no dry run can tell: its size is too small.
    let mut broken = gadget(&group, &case.namespace, "broken", 0);
    broken["apiVersion"] = json!(format!("{group}/v2"));
    case.change("v2", &[new, broken, case.config_map("kept", json!({"x": "2"}))]).await;
    let message = case.refused("UpgradeFailed", "spec.size").await;
    assert!(!message.contains("putting the previous version back failed"), "{message}");
    let live = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(live.data["status"]["storedVersions"], json!(["v1", "v2"]));
    let storage: Vec<&Value> = live.data["spec"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|version| version["storage"] == true)
        .map(|version| &version["name"])
        .collect();
    assert_eq!(storage, ["v1"], "the old version's way");
    assert_eq!(case.get(&case.config_map_target("kept")).await.unwrap().data["data"]["x"], "1", "all of it is back");
    assert_eq!(case.status().await["activeBundle"], first.data["status"]["activeBundle"]);
}

#[tokio::test]
async fn a_safe_upgrade_goes_through_with_objects_there() {
    let case = Case::new("crd-safe").await;
    let (old, group) = definition("crd-safe");
    case.install(std::slice::from_ref(&old)).await;
    case.foreign(&gadget(&group, &case.namespace, "one", 1)).await;
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}, "colour": {"type": "string"}}});
    case.pivot("v2", &[with_spec(&old, &spec)]).await;
    let live = case.get(&definition_target(&group)).await.unwrap();
    let spec = &live.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["colour"], json!({"type": "string"}));
}
