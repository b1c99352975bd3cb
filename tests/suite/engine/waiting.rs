//! What a deployment waits for wakes it, however long it has waited.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, deployment, image, until};
use serde_json::json;

use crate::deployments::tired::tire;
use crate::engine::case::{Case, definition, definition_target, gadget, is_owned};
use crate::engine::hook::{Hook, Verdict};

/// Nobody else has anything of the kind: the watch that is to wake the second one is of the first one's making.
#[tokio::test]
async fn of_two_deployments_of_one_bundle_the_second_is_woken_when_the_first_goes() {
    let one = Case::new("heirs").await;
    let two = one.sibling();
    let (crd, group) = definition("heirs");
    one.foreign(&crd).await;
    verbs::await_served(&one.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    let object = gadget(&group, &one.namespace, "shared", 1);
    one.install(std::slice::from_ref(&object)).await;
    two.create(std::slice::from_ref(&object)).await;
    let why = format!("it is controlled by BundleDeployment {:?}", one.name);
    let taken = Expected::is_false("Installed", "InstallFailed").saying(&why);
    until(&two.client, &two.name, taken).await;
    let tired = tire(&two.client, &two.name, taken).await;
    one.delete(&one.target()).await;
    two.installed().await;
    tired.was_woken();
    two.until_owned(&Target::of(&object).unwrap()).await;
    two.delete(&definition_target(&group)).await;
}

/// The installed release is held back after a failure; that the new Bundle fails is news all the same.
#[tokio::test]
async fn a_bundle_that_fails_is_told_while_the_installed_release_is_held_back() {
    let case = Case::new("held").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    // It goes forward, and not back.
    let hook = Hook::start(&case, &[["", "configmaps"]], |request| match request.object["data"]["x"].as_str() {
        Some("1") => Verdict::Deny("not back".to_owned()),
        _ => Verdict::Allow,
    })
    .await;
    let (crd, group) = definition("held");
    let bad = gadget(&group, &case.namespace, "bad", 0);
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), crd, bad]).await;
    let failed = Expected { kind: "Installed", status: "False", reason: None, message: "not back" };
    until(&case.client, &case.name, failed).await;
    let _tired = tire(&case.client, &case.name, failed).await;
    let reference = case.push("empty", &[]).await;
    let source = json!({"image": {"ref": reference}});
    case.edit("user", &case.target(), json!({"spec": {"template": {"spec": {"source": source}}}})).await;
    let told = Expected { kind: "HasValidBundle", status: "False", reason: None, message: "" };
    let is_told = |object: &DynamicObject| told.met_by(object);
    let news = verbs::await_object(
        &case.client,
        &case.target(),
        "the failure of the Bundle",
        std::time::Duration::from_mins(1), // by itself it would look again in two
        |object| object.is_some_and(is_told),
    )
    .await;
    hook.end().await;
    news.unwrap_or_else(|error| panic!("{error:#}"));
}

/// A Namespace of somebody else is used as it is: what the manifest asks of it and it has not is said.
#[tokio::test]
async fn a_namespace_that_is_used_as_it_is_is_told_of() {
    let case = Case::new("used-told").await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
    let space =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.namespace, "labels": labels}});
    case.install(&[space, case.config_map("a", json!({}))]).await;
    let ready = case.ready().await;
    let conditions = ready.data["status"]["conditions"].to_string();
    assert!(conditions.contains(&case.namespace), "{:#}", ready.data["status"]);
}

/// What a deployment that is gone had is not taken for what the next one of its name has.
#[tokio::test]
async fn a_deployment_made_anew_at_once_gets_its_own_objects() {
    let case = Case::new("anew").await;
    let objects = [case.config_map("a", json!({"x": "1"}))];
    case.install(&objects).await;
    let old = case.get(&case.config_map_target("a")).await.unwrap().metadata.uid;
    let reference = format!("{}/bundles/{}:v1", case.world.registry.host(), case.name);
    case.delete(&case.target()).await;
    case.until_gone(&case.target()).await;
    verbs::create(&case.client, &deployment(&case.name, image(&reference))).await.unwrap();
    case.installed().await;
    let uid = case.uid().await;
    let own = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.uid != old && is_owned(object, &case.name, &uid))
    };
    case.until(&case.config_map_target("a"), "its own object", own).await;
}
