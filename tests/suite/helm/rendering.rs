//! What was rendered once for a release stays.

use std::fs;
use std::process::Command;

use rukpak_tests::tools;
use rukpak_tests::verbs::Expected;
use rukpak_tests::world::World;
use serde_json::json;

use super::case::{Chart, Charts as _, until_again, world};
use crate::engine::case::Case;
use crate::plans::case::Asked as _;

#[tokio::test]
async fn repairs_password_as_it_was_rendered() {
    let case = Case::in_world(world().await, "chart-drift").await;
    case.deploy_chart(&Chart::new().with_password(), json!({})).await;
    case.until_size("1").await;
    let (target, password) = (case.system("Secret", "password"), case.password().await);

    case.edit("somebody", &target, json!({"data": {"password": "YQ=="}})).await;
    case.until_value(&target, "/data/password", &password).await;
    let before = case.get(&target).await.unwrap();
    case.delete(&target).await;
    until_again(&case, &target, &before).await;
    assert_eq!(case.password().await, password);
}

#[tokio::test]
async fn renders_new_password_for_other_values_and_finds_the_first_again() {
    let case = Case::in_world(world().await, "chart-values").await;
    case.deploy_chart(&Chart::new().with_password(), json!({"values": "size: 1"})).await;
    case.until_size("1").await;
    let first = case.password().await;
    case.change_values(json!("size: 2")).await;
    case.until_size("2").await;
    assert_ne!(case.password().await, first);
    case.change_values(json!("size: 1")).await;
    case.until_size("1").await;
    assert_eq!(case.password().await, first, "the history has it");
}

#[tokio::test]
async fn installs_the_password_that_was_approved() {
    let case = Case::in_world(world().await, "chart-plan").await;
    case.deploy_chart(&Chart::new().with_password(), json!({"values": "size: 1"})).await;
    case.until_size("1").await;
    case.edit("user", &case.target(), json!({"spec": {"approval": "Upgrades"}})).await;
    case.change_values(json!("size: 2")).await;
    let plan = case.asked().await;
    for time in ["once", "twice"] {
        let now = json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": time}}});
        case.edit("user", &case.target(), now).await;
        case.until_value(&case.target(), "/status/lastHandledReconcileAt", &json!(time)).await;
    }
    assert_eq!(case.plans().await.len(), 1, "each reconcile would make up another password");
    case.answer(&plan, "Approved").await;
    case.until_size("2").await;
    case.until_phase(&plan, "Applied").await;
    assert_eq!(case.plans().await.len(), 1);
}

/// In a world of its own, whose controller is ended.
#[tokio::test]
async fn keeps_password_over_a_restart_and_does_not_make_up_another_when_the_store_is_lost() {
    let world = World::start(vec![format!("--helm={}", tools::helm().unwrap().display())]).await.unwrap();
    let case = Case::in_world(&world, "chart-restart").await;
    case.deploy_chart(&Chart::new().with_password(), json!({})).await;
    case.ready().await;
    let (target, password) = (case.system("Secret", "password"), case.password().await);

    world.controller.end();
    let before = case.get(&target).await.unwrap();
    case.delete(&target).await;
    world.controller.restart().await.unwrap();
    until_again(&case, &target, &before).await;
    assert_eq!(case.password().await, password, "after a restart");

    world.controller.end();
    fs::remove_dir_all(world.controller.storage.join("v1/content")).unwrap();
    case.delete(&case.system("ConfigMap", "settings")).await;
    world.controller.restart().await.unwrap();
    let expected = Expected::is_false("HasValidBundle", "BundleLoadFailed").saying("is lost with the store");
    rukpak_tests::world::until(&case.client, &case.name, expected).await;
    assert_eq!(case.password().await, password, "after the loss");

    // The way out that the message names.
    case.change_values(json!("# anew")).await;
    case.until_size("1").await;
    assert_ne!(case.password().await, password, "it was asked for");
}

/// A chart may ask for a version of Kubernetes; where there is no cluster it is told that of Helm's own libraries.
#[test]
fn tells_a_version_of_kubernetes_where_there_is_no_cluster() {
    let folder = tools::temp_folder("chart").unwrap();
    let chart =
        Chart::new().with("Chart.yaml", "{apiVersion: v2, name: pump, version: 1.0.0, kubeVersion: '>=1.28.0-0'}");
    for (path, text) in chart.files("") {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let rendered = Command::new(tools::helm().unwrap()).arg("template").arg(folder.path()).output().unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
}
