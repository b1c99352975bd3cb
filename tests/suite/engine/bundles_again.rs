//! Promise 1: a template that was resolved once means the same content, whatever becomes of the generated Bundle or the tag.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use serde_json::json;

use crate::engine::case::Case;
use crate::engine::worlds;

async fn value(case: &Case<'_>) -> serde_json::Value {
    case.get(&case.config_map_target("a")).await.expect("it is there").data["data"]["x"].clone()
}

#[tokio::test]
async fn deleting_the_generated_bundle_moves_nothing_though_the_tag_has_moved() {
    let case = Case::new("bundle-gone").await;
    let first = case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.ready().await;
    let content = first.data["status"]["inventory"]["contentDigest"].clone();
    case.push("v1", &[case.config_map("a", json!({"x": "moved"}))]).await;
    let bundle = Target::bundle(first.data["status"]["activeBundle"].as_str().unwrap());
    let old = case.get(&bundle).await.unwrap().metadata.uid;
    case.delete(&bundle).await;
    let unpacked = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| {
            object.metadata.uid != old && Expected::is_true("Unpacked", "UnpackSuccessful").met_by(object)
        })
    };
    case.until(&bundle, "another Bundle, unpacked", unpacked).await;
    // Whatever is to be installed is, once it is ready again with the new Bundle seen.
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    let target = case.config_map_target("a");
    let drift = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["x"] != "drift");
    case.until(&target, "the repair", drift).await;
    until(&case.client, &case.name, Expected::is_true("Ready", "Succeeded")).await;
    let stays = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["x"] == "1");
    verbs::holds_for(&case.client, &target, "the same content", std::time::Duration::from_secs(2), stays)
        .await
        .unwrap();
    assert_eq!(case.status().await["inventory"]["contentDigest"], content);
}

#[tokio::test]
async fn coming_back_to_an_earlier_template_gives_the_same_content_though_the_tag_has_moved() {
    let case = Case::new("earlier").await;
    let reference = case.push("v1", &[case.config_map("a", json!({"x": "1"}))]).await;
    let first = case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    let old = Target::bundle(first.data["status"]["activeBundle"].as_str().unwrap());
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    case.ready().await;
    case.until_gone(&old).await;
    case.push("v1", &[case.config_map("a", json!({"x": "moved"}))]).await;
    let source = json!({"image": {"ref": reference}});
    case.edit("user", &case.target(), json!({"spec": {"template": {"spec": {"source": source}}}})).await;
    let left = |object: Option<&DynamicObject>| object.is_some_and(|object| object.data["data"]["x"] != "2");
    case.until(&case.config_map_target("a"), "the earlier version", left).await;
    assert_eq!(value(&case).await, "1");
    assert_eq!(
        case.installed().await.data["status"]["inventory"]["contentDigest"],
        first.data["status"]["inventory"]["contentDigest"]
    );
}

/// A tag that moves while another template is asked for is no news of that one.
#[tokio::test]
async fn a_new_template_with_the_same_tag_is_resolved_anew() {
    let case = Case::new("fresh").await;
    let first = case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    case.push("v1", &[case.config_map("a", json!({"x": "moved"}))]).await;
    case.edit("user", &case.target(), json!({"spec": {"template": {"metadata": {"labels": {"another": "template"}}}}}))
        .await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("moved")).await;
    let digest = |object: &kube::api::DynamicObject| object.data["status"]["inventory"]["contentDigest"].clone();
    let before = digest(&first);
    let is_new = |object: &kube::api::DynamicObject| digest(object) != before;
    case.until(&case.target(), "the new content in the status", |object| object.is_some_and(is_new)).await;
}

/// The reconcile that installs it ends after the event that it is gone: nothing must be kept for it then.
#[tokio::test]
async fn the_content_of_a_deployment_that_is_deleted_while_it_is_installed_is_let_go() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "gone-early").await;
    let (turn, controller) = (worlds::PROXY.lock().await, &world.controller);
    let (apply, report) = (format!("{}/configmaps/a?", case.namespace), format!("{}/status?", case.name));
    proxy.hold(&apply);
    case.create(&[case.config_map("a", json!({"x": "1"}))]).await;
    let asked = proxy.asked(&apply, 1, SOON).await;
    let deleted = format!(r#""BundleDeployment deleted","deployment":"{}""#, case.name);
    let (said, reported) = (controller.log().len(), proxy.count(&report));
    case.delete(&case.target()).await;
    let noticed = controller.until_logged(said, &deleted).await;
    proxy.release();
    let ended = proxy.asked(&report, reported + 1, SOON).await;
    drop(turn);
    asked.and(noticed).and(ended).unwrap_or_else(|error| panic!("{error:#}"));
    let refs = std::fs::read_dir(controller.storage.join("v1/refs/deployments")).unwrap();
    let left: Vec<_> = refs.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with(&case.name)), "{left:?}");
}
