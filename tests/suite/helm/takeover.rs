//! What Helm itself has installed is taken over in place.

use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::Target;
use serde_json::json;

use super::case::{Chart, Charts as _, world};
use super::install::helm;
use crate::engine::case::Case;

#[tokio::test]
async fn takes_over_release_of_helm_and_deletes_its_secret_on_request() {
    let case = Case::in_world(world().await, "chart-takeover").await;
    let (chart, name) = (Chart::new(), case.name.as_str());
    let kubeconfig = case.world.plane.kubeconfig_path().to_str().expect("it is UTF-8");
    helm(&chart, &[&["install", name, "chart", "--namespace", SYSTEM_NAMESPACE, "--kubeconfig", kubeconfig]]);
    let settings = case.system("ConfigMap", "settings");
    let release = Target::namespaced("v1", "Secret", SYSTEM_NAMESPACE, &format!("sh.helm.release.v1.{name}.v1"));
    let before = case.get(&settings).await.expect("Helm has installed it");
    assert!(case.get(&release).await.is_some(), "Helm keeps its release");

    case.deploy_chart(&chart, json!({})).await;
    case.installed().await;
    let owned = case.until_owned(&settings).await;
    assert_eq!(owned.metadata.uid, before.metadata.uid, "taken over, not made anew");
    assert_eq!(owned.data["data"], before.data["data"], "it is the same chart");
    case.change_values(json!({"size": 5})).await;
    case.until_size("5").await;
    assert_eq!(case.get(&settings).await.expect("it is there").metadata.uid, before.metadata.uid);
    case.ready().await;
    assert!(case.get(&release).await.is_some(), "nobody asked for its end");

    let request = json!({"metadata": {"annotations": {"core.rukpak.io/delete-helm-releases": "true"}}});
    case.edit("user", &case.target(), request).await;
    case.until_gone(&release).await;
    let told = case.told("HelmReleasesDeleted").await;
    assert!(told.message.ends_with(&release.name), "{told:?}");
    case.until_size("5").await;
}
