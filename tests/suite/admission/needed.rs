//! What others need is deleted only by those who say so.

use kube::Client;
use kube::api::DeleteParams;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{SOON, World};
use serde_json::json;

use super::helpers::{create, deployment, image, patch};

/// The time between two looks.
const INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);

/// What keeps the object from being deleted; it is not deleted in any case.
async fn obstacle(client: &Client, target: &Target) -> Option<String> {
    let api = target.api(client).await.expect("the kind is served");
    let tried = api.delete(&target.name, &DeleteParams { dry_run: true, ..DeleteParams::default() }).await;
    tried.err().map(|error| error.to_string())
}

#[tokio::test]
async fn what_others_need_is_not_deleted_before_somebody_says_that_they_can_do_without() {
    let client = World::shared().await.admin().await;
    let name = unique_name("needed");
    let mut object = deployment(&name, &image());
    object["metadata"]["annotations"] =
        json!({"core.rukpak.io/needed-by": "ClusterExtension/pump,PlatformOperator/mill"});
    create(&client, &object).await;
    let target = Target::bundle_deployment(&name);
    let end = tokio::time::Instant::now() + SOON;
    let refused = loop {
        if let Some(refused) = obstacle(&client, &target).await {
            break refused;
        }
        assert!(tokio::time::Instant::now() < end, "nobody asks about what others need");
        tokio::time::sleep(INTERVAL).await;
    };
    let told = format!(
        "BundleDeployment \"{name}\" cannot be deleted, because others need what it has installed: ClusterExtension pump, PlatformOperator mill"
    );
    assert!(refused.contains(&told), "{refused}");

    let free = unique_name("free");
    create(&client, &deployment(&free, &image())).await;
    assert_eq!(obstacle(&client, &Target::bundle_deployment(&free)).await, None, "nobody needs it");
    let said = json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependents": "true"}}});
    patch(&client, &target, &said).await;
    assert_eq!(obstacle(&client, &target).await, None, "its owner says so");
    verbs::delete(&client, &target).await.expect("it is deleted");
}
