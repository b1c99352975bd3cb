//! The service's certificate is renewed without a refused call; and what else needs flags of its own: limits, swept uploads.

use std::time::Duration;

use reqwest::StatusCode;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{SOON, World};

use crate::caller::{Caller, account, archive, authorities, manifest, upload_bundle};

const FLAGS: [&str; 3] =
    ["--content-certificate-lifetime=1m", "--limit-download-bytes=100000", "--upload-storage-sync-interval=1s"];

#[tokio::test]
async fn short_lives_and_small_limits() {
    let world = World::start(FLAGS.map(str::to_owned).into()).await.unwrap();
    let client = world.admin().await;
    let first = authorities(&client).await;
    let token = account(&client, Some("bundle-uploader")).await;
    limits(&world).await;
    swept(&world).await;

    // Whoever reads ca.crt is never refused, while the newest authority, which comes first, becomes another one.
    let end = tokio::time::Instant::now() + Duration::from_mins(1);
    let mut now = first.clone();
    while now.starts_with(&first) {
        assert!(tokio::time::Instant::now() < end, "nothing is renewed");
        let caller = Caller::with_token(&world, Some(&token)).await;
        assert_eq!(caller.get("/uploads/none.tgz").await.status, StatusCode::NOT_FOUND);
        now = authorities(&client).await;
    }
    assert!(now.ends_with(&first), "the old one is trusted still");
    let caller = Caller::with_token(&world, Some(&token)).await;
    assert_eq!(caller.get("/uploads/none.tgz").await.status, StatusCode::NOT_FOUND);
    lost_secrets(&world).await;
}

async fn limits(world: &World) {
    let client = world.admin().await;
    let caller = Caller::with_role(world, "bundle-uploader").await;
    let name = unique_name("large");
    upload_bundle(&client, &name).await;
    for body in [vec![7; 100_001], vec![7; 3_000_000]] {
        let answer = caller.put(&name, body).await;
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(answer.text().contains("--limit-download-bytes"), "{}", answer.text());
    }
    assert_eq!(caller.get(&format!("/uploads/{name}.tgz")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(caller.put(&name, vec![7; 100_000]).await.status, StatusCode::CREATED, "the limit itself is allowed");
}

/// What no Bundle has is removed; what one has is not.
async fn swept(world: &World) {
    let client = world.admin().await;
    let caller = Caller::with_role(world, "bundle-uploader").await;
    let name = unique_name("kept");
    upload_bundle(&client, &name).await;
    let body = archive(&[("manifests/a.yaml", manifest(&name))]);
    assert_eq!(caller.put(&name, body.clone()).await.status, StatusCode::CREATED);
    let stray = world.controller.storage.join("uploads/00000000-0000-0000-0000-000000000000.tgz");
    std::fs::write(&stray, "left behind").unwrap();
    let end = tokio::time::Instant::now() + SOON;
    while stray.exists() {
        assert!(tokio::time::Instant::now() < end, "it is not swept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(caller.get(&format!("/uploads/{name}.tgz")).await.body, body);
}

/// Whoever deletes the Secrets gets new ones.
async fn lost_secrets(world: &World) {
    let client = world.admin().await;
    let before = authorities(&client).await;
    for name in ["core-cert", "rukpak-ca"] {
        verbs::delete(&client, &Target::namespaced("v1", "Secret", "rukpak-system", name)).await.unwrap();
    }
    let token = account(&client, Some("bundle-uploader")).await;
    let end = tokio::time::Instant::now() + SOON;
    while authorities(&client).await == before {
        assert!(tokio::time::Instant::now() < end, "no new authority");
    }
    let caller = Caller::with_token(world, Some(&token)).await;
    assert_eq!(caller.get("/uploads/none.tgz").await.status, StatusCode::NOT_FOUND);
}
