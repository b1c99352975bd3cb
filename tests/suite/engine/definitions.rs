//! DESIGN 17: a definition is not replaced by one that would lose what is stored or break what exists.

use rukpak_tests::verbs;
use serde_json::{Value, json};

use crate::case::{Case, definition, definition_target, gadget};

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
         \"{SWITCH}\" annotation to \"false\"): error validating existing CRs against new CRD's schema for \"{name}\": "
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
async fn a_stored_version_stays() {
    let case = Case::new("crd-stored").await;
    let (old, group) = definition("crd-stored");
    case.install(std::slice::from_ref(&old)).await;
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    case.change("v2", std::slice::from_ref(&new)).await;
    let message = case.refused("ErrorGettingReleaseState", "").await;
    // The API server's own dry run may answer first, as upstream found.
    assert!(message.contains("stored") && message.contains("v1"), "{message}");
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
