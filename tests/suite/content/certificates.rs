//! The service's certificate is renewed without a refused call; and what else needs flags of its own: limits, swept uploads,
//! mirrors of registries.

use std::time::Duration;

use kube::Client;
use reqwest::{Method, StatusCode};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{self, SOON, World, image};
use rukpak_tests::{ImageBuilder, Registry, RegistryOptions, tools};

use crate::content::caller::{Caller, account, archive, authorities, create, manifest, sent, unpacked, upload_bundle};

/// A registry that is nowhere.
const MIRRORED: &str = "registry.invalid/mirrored";
const FLAGS: [&str; 5] = [
    "--certificate-lifetime=1m",
    "--limit=download-bytes=100000",
    "--limit=upload-seconds=5",
    "--limit=upload-store-bytes=250000",
    "--upload-storage-sync-interval=1s",
];

#[tokio::test]
async fn short_lives_and_small_limits() {
    let (mirror, folder) =
        (Registry::start(RegistryOptions::default()).await.unwrap(), tools::temp_folder("mirror").unwrap());
    let mut flags: Vec<String> = FLAGS.map(str::to_owned).into();
    let location = mirror.host();
    for (flag, file, text) in [
        ("source-ca-file", "ca.pem", mirror.ca_pem()),
        (
            "registries-conf",
            "registries.conf",
            format!("[[registry]]\nprefix = \"{MIRRORED}\"\n[[registry.mirror]]\nlocation = \"{location}\"\n"),
        ),
    ] {
        let path = folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        flags.push(format!("--{flag}={}", path.display()));
    }
    let world = World::start(flags).await.unwrap();
    let client = world.admin().await;
    let first = authorities(&client).await;
    let token = account(&client, Some("bundle-uploader")).await;
    mirrored(&world, &mirror).await;
    limits(&world).await;
    swept(&world).await;

    // Whoever reads ca.crt is never refused, while the newest authority, which comes first, becomes another one.
    let end = tokio::time::Instant::now() + Duration::from_mins(3);
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

/// The image comes from the mirror; the status says what the spec names.
async fn mirrored(world: &World, mirror: &Registry) {
    let client = world.admin().await;
    let name = unique_name("mirrored");
    let files = [("manifests/a.yaml".to_owned(), manifest(&name))];
    let pushed = mirror.push(&name, "v1", &ImageBuilder::of_files(files)).await.expect("the mirror takes it");
    let bundle = world::bundle(&name, image(&format!("{MIRRORED}/{name}:v1")));
    create(&client, &bundle).await;
    let bundle = unpacked(&client, &name).await;
    let digest = pushed.pinned.split_once('@').expect("it is pinned by digest").1;
    assert_eq!(bundle.data["status"]["resolvedSource"], image(&format!("{MIRRORED}/{name}@{digest}")));
}

async fn limits(world: &World) {
    let client = world.admin().await;
    let caller = Caller::with_role(world, "bundle-uploader").await;
    let name = unique_name("large");
    upload_bundle(&client, &name).await;
    for body in [vec![7; 100_001], vec![7; 3_000_000]] {
        let answer = caller.put(&name, body).await;
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(answer.text().contains("--limit=download-bytes"), "{}", answer.text());
    }
    assert_eq!(caller.get(&format!("/uploads/{name}.tgz")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(caller.put(&name, vec![7; 100_000]).await.status, StatusCode::CREATED, "the limit itself is allowed");
    late(&caller, &client).await;
    full(&caller, &client).await;
}

/// It comes fast enough, and never ends.
async fn late(caller: &Caller, client: &Client) {
    let name = unique_name("late");
    upload_bundle(client, &name).await;
    let answer = caller.put_slowly(&name, futures::future::pending()).await;
    assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT);
    let text = "read request body: the upload was not complete after 5 seconds (--limit=upload-seconds=5)";
    assert_eq!(answer.text().trim_end(), text);
}

async fn full(caller: &Caller, client: &Client) {
    let names = ["second", "third"].map(unique_name);
    for name in &names {
        upload_bundle(client, name).await;
    }
    let body = vec![7; 100_000];
    assert_eq!(caller.put(&names[0], body.clone()).await.status, StatusCode::CREATED);
    let chunk = body.clone();
    let unannounced = reqwest::Body::wrap_stream(futures::stream::iter([Ok::<_, std::io::Error>(chunk)]));
    let path = format!("/uploads/{}.tgz", names[1]);
    for body in [reqwest::Body::from(body), unannounced] {
        let answer = sent(caller.ask(Method::PUT, &path).body(body)).await;
        assert_eq!(answer.status, StatusCode::INSUFFICIENT_STORAGE);
        assert!(answer.text().contains("(--limit=upload-store-bytes=250000)"), "{}", answer.text());
    }
    assert_eq!(caller.get(&path).await.status, StatusCode::NOT_FOUND);
    // Room comes from Bundles that go.
    verbs::delete(client, &Target::bundle(&names[0])).await.expect("the administrator may");
    let end = tokio::time::Instant::now() + SOON;
    while caller.put(&names[1], vec![7; 100_000]).await.status != StatusCode::CREATED {
        assert!(tokio::time::Instant::now() < end, "there is no room");
    }
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
    std::fs::write(&stray, "left behind").expect("the folder is there");
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
        verbs::delete(&client, &Target::namespaced("v1", "Secret", "rukpak-system", name))
            .await
            .expect("the administrator may");
    }
    let token = account(&client, Some("bundle-uploader")).await;
    let end = tokio::time::Instant::now() + SOON;
    while authorities(&client).await == before {
        assert!(tokio::time::Instant::now() < end, "no new authority");
    }
    let caller = Caller::with_token(world, Some(&token)).await;
    // The new authority is published a moment before its certificate is served, and nothing else is trusted any more.
    while caller.ask(Method::GET, "/uploads/none.tgz").send().await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the new certificate is not served");
    }
    assert_eq!(caller.get("/uploads/none.tgz").await.status, StatusCode::NOT_FOUND);
}
