//! A version of a kind that is no longer served: its objects are pruned, watched and repaired through those that are.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};
use crate::engine::worlds;

/// A definition with these `(version, served, storage)` of one schema.
pub fn with_versions(definition: &Value, versions: &[(&str, bool, bool)]) -> Value {
    let mut new = definition.clone();
    let versions = versions.iter().map(|(name, served, storage)| {
        let mut version = definition["spec"]["versions"][0].clone();
        version["name"] = json!(name);
        version["served"] = json!(served);
        version["storage"] = json!(storage);
        version
    });
    new["spec"]["versions"] = versions.collect();
    new
}

/// A [`gadget`] of some version.
fn gadget_of(version: &str, group: &str, case: &Case<'_>) -> Value {
    let mut object = gadget(group, &case.namespace, "g", 1);
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object
}

/// Waits until discovery does not show the version any more.
async fn until_unserved(case: &Case<'_>, api_version: &str) {
    let end = tokio::time::Instant::now() + SOON;
    while verbs::discover(&case.client, api_version, "Gadget").await.is_ok() {
        assert!(tokio::time::Instant::now() < end, "{api_version} is still served");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await; // discovery cannot be watched
    }
}

#[tokio::test]
async fn an_object_of_an_unserved_version_is_pruned() {
    let case = Case::new("unserved").await;
    let (crd, group) = definition("unserved");
    case.foreign(&with_versions(&crd, &[("v1alpha1", true, false), ("v1", true, true)])).await;
    for version in ["v1alpha1", "v1"] {
        verbs::await_served(&case.client, &format!("{group}/{version}"), "Gadget", SOON).await.expect("it is served");
    }
    let a = case.config_map("a", json!({}));
    case.install(&[gadget_of("v1alpha1", &group, &case), a.clone()]).await;
    let target = Target::of(&gadget_of("v1", &group, &case)).unwrap();
    assert!(is_owned(&case.get(&target).await.unwrap(), &case.name, &case.uid().await));
    let ended = with_versions(&crd, &[("v1alpha1", false, false), ("v1", true, true)]);
    case.edit("admin", &definition_target(&group), json!({"spec": {"versions": ended["spec"]["versions"]}})).await;
    until_unserved(&case, &format!("{group}/v1alpha1")).await;
    case.pivot("v2", &[a, case.config_map("b", json!({}))]).await;
    assert!(case.get(&target).await.is_none(), "it is forgotten");
    case.delete(&definition_target(&group)).await;
}

/// The upgrade itself ends the version of what it drops.
#[tokio::test]
async fn an_object_whose_version_the_same_upgrade_ends_is_pruned() {
    let case = Case::new("ended").await;
    let (crd, group) = definition("ended");
    let v1 = with_versions(&crd, &[("v1alpha1", true, false), ("v1", true, true)]);
    case.install(&[v1, gadget_of("v1alpha1", &group, &case)]).await;
    let target = Target::of(&gadget_of("v1", &group, &case)).unwrap();
    case.until_owned(&target).await;
    case.pivot("v2", &[with_versions(&crd, &[("v1alpha1", false, false), ("v1", true, true)])]).await;
    assert!(case.get(&target).await.is_none(), "it is forgotten");
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

/// The same where the controller was killed in between: what the new one finds is a version that nobody serves.
#[tokio::test]
async fn an_object_whose_version_ended_before_a_crash_is_pruned() {
    let alone = worlds::alone().await;
    let case = alone.case("ended-crash").await;
    let (crd, group) = definition("ended");
    let v1 = with_versions(&crd, &[("v1alpha1", true, false), ("v1", true, true)]);
    case.install(&[v1, gadget_of("v1alpha1", &group, &case)]).await;
    case.until_owned(&Target::of(&gadget_of("v1", &group, &case)).unwrap()).await;
    let hook =
        crate::engine::hook::Hook::start(&case, &[["", "configmaps"]], |_| crate::engine::hook::Verdict::AtGate).await;
    let v2 = with_versions(&crd, &[("v1alpha1", false, false), ("v1", true, true)]);
    case.change("v2", &[v2, case.config_map("b", json!({}))]).await;
    // Definitions come before ConfigMaps, and what is pruned goes after all that.
    hook.until_at_gate().await;
    alone.kill().await;
    hook.end().await;
    alone.start().await;
    case.installed().await;
    let with_b = |object: &DynamicObject| object.data.pointer("/status/inventory/pendingDigest").is_none();
    case.until(&case.target(), "the end of the upgrade", |object| object.is_some_and(with_b)).await;
    case.until_owned(&case.config_map_target("b")).await;
    case.ready().await;
    let target = Target::of(&gadget_of("v1", &group, &case)).unwrap();
    assert!(case.get(&target).await.is_none(), "it is forgotten");
}

/// The usual path of a kind: `v1alpha1`, then both with the first one ended.
#[tokio::test]
async fn a_kind_goes_on_being_watched_when_the_version_of_its_watch_ends() {
    let case = Case::new("watched").await;
    let (crd, group) = definition("watched");
    let v1 = with_versions(&crd, &[("v1alpha1", true, true)]);
    case.install(&[v1, gadget_of("v1alpha1", &group, &case)]).await;
    let v2 = with_versions(&crd, &[("v1alpha1", false, false), ("v1", true, true)]);
    case.pivot("v2", &[v2, gadget_of("v1", &group, &case)]).await;
    until_unserved(&case, &format!("{group}/v1alpha1")).await;
    case.ready().await;
    let target = Target::of(&gadget_of("v1", &group, &case)).unwrap();
    let old = case.get(&target).await.unwrap().metadata.uid;
    case.delete(&target).await;
    let uid = case.uid().await;
    let anew = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.uid != old && is_owned(object, &case.name, &uid))
    };
    case.until(&target, "a new one", anew).await;
    case.edit("intruder", &target, json!({"spec": {"size": 5}})).await;
    case.until_value(&target, "/spec/size", &json!(1)).await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

/// Installs a gadget in `v1alpha1`, which is then no longer served, and a ConfigMap. Returns the group.
async fn with_ended_version(case: &Case<'_>) -> String {
    let (crd, group) = definition("has");
    case.foreign(&with_versions(&crd, &[("v1alpha1", true, false), ("v1", true, true)])).await;
    for version in ["v1alpha1", "v1"] {
        verbs::await_served(&case.client, &format!("{group}/{version}"), "Gadget", SOON).await.expect("it is served");
    }
    case.install(&[gadget_of("v1alpha1", &group, case), case.config_map("a", json!({"x": "1"}))]).await;
    case.until_owned(&Target::of(&gadget_of("v1", &group, case)).expect("an object")).await;
    let ended = with_versions(&crd, &[("v1alpha1", false, false), ("v1", true, true)]);
    case.edit("admin", &definition_target(&group), json!({"spec": {"versions": ended["spec"]["versions"]}})).await;
    until_unserved(case, &format!("{group}/v1alpha1")).await;
    group
}

/// The bundle has the object, in a version that nobody serves: it can be neither applied nor called superfluous.
#[tokio::test]
async fn an_object_that_the_bundle_has_stays_when_its_version_is_no_longer_served() {
    let case = Case::new("has").await;
    let group = with_ended_version(&case).await;
    let target = Target::of(&gadget_of("v1", &group, &case)).unwrap();
    let before = case.get(&target).await.unwrap().metadata.uid;
    // As its operator does. Before, everything was applied again, and the gadget was not in the plan.
    case.edit("operator", &target, json!({"spec": {"size": 5}})).await;
    let said = |object: &DynamicObject| object.data["status"]["conditions"].to_string().contains("Gadget");
    case.until(&case.target(), "news of the version", |object| object.is_some_and(said)).await;
    // The rest is guarded, which takes another look at all that the bundle has.
    let a = case.config_map_target("a");
    case.delete(&a).await;
    case.until_owned(&a).await;
    let stays = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.uid == before && object.metadata.deletion_timestamp.is_none())
    };
    let held = verbs::holds_for(&case.client, &target, "the gadget stays", std::time::Duration::from_secs(3), stays);
    held.await.unwrap();
    let message = case.refused("ReconcileFailed", "is served in").await;
    assert!(message.contains(&format!("Gadget is served in {group}/v1, not in {group}/v1alpha1")), "{message}");
    // A version of the bundle that has it in the version that is served takes it over as it is.
    case.pivot("v2", &[gadget_of("v1", &group, &case), case.config_map("a", json!({"x": "1"}))]).await;
    case.ready().await;
    assert_eq!(case.get(&target).await.unwrap().metadata.uid, before);
    case.delete(&case.target()).await;
    case.until_gone(&target).await;
    case.delete(&definition_target(&group)).await;
}

/// It is read in the version that is served.
#[tokio::test]
async fn the_health_of_an_object_is_read_when_its_version_is_no_longer_served() {
    let case = Case::new("ill").await;
    let group = with_ended_version(&case).await;
    let target = Target::of(&gadget_of("v1", &group, &case)).unwrap();
    let ill = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "it is ill"}]}});
    case.edit_sub("status", "operator", &target, ill).await;
    until(&case.client, &case.name, Expected::is_false("Healthy", "Unhealthy").saying("it is ill")).await;
    case.delete(&case.target()).await;
    case.until_gone(&target).await;
    case.delete(&definition_target(&group)).await;
}
