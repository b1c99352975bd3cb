//! `PUT` and `GET /uploads/<name>.tgz`: what is taken and refused, and the status codes.

use reqwest::{Method, StatusCode};
use rukpak_tests::fixtures;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{self, World, image, until_bundle};
use serde_json::json;

use crate::content::caller::{Caller, archive, create, files, manifest, sent, unpacked, upload_bundle};

const UPLOADER: &str = "bundle-uploader";

#[tokio::test]
async fn an_upload_is_unpacked_and_is_what_it_is() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("p19");
    upload_bundle(&client, &name).await;
    let caller = Caller::with_role(world, UPLOADER).await;
    let body = archive(&fixtures::renamed("plain/valid", &name).unwrap());
    let path = format!("/uploads/{name}.tgz");
    assert_eq!(caller.get(&path).await.status, StatusCode::NOT_FOUND, "nothing is there yet");

    let created = caller.put(&name, body.clone()).await;
    assert_eq!((created.status, created.text().as_str()), (StatusCode::CREATED, ""));
    let bundle = unpacked(&client, &name).await;
    let status = &bundle.data["status"];
    assert_eq!(verbs::condition(&bundle, "Unpacked").unwrap()["message"], "Successfully unpacked the upload Bundle");
    assert_eq!(status["resolvedSource"], json!({"type": "upload", "upload": {}}));
    assert_eq!(status["pin"]["archiveDigest"], rukpak_content::Digest::sha256(&body).to_string());
    assert_eq!(caller.get(&path).await.body, body, "what was sent is what is there");

    let again = caller.put(&name, body.clone()).await;
    assert_eq!((again.status, again.text().as_str()), (StatusCode::NO_CONTENT, ""));
    let other = caller.put(&name, archive(&[("manifests/other.yaml", manifest("other"))])).await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    let text = "bundle has already been unpacked, cannot change content of existing bundle";
    assert_eq!(other.text().trim_end(), text);
    assert_eq!(caller.get(&path).await.body, body);
    let reader = Caller::with_role(world, "bundle-reader").await;
    let served = reader.get(&format!("/bundles/{name}.tgz")).await;
    assert_eq!(files(&served.body), files(&body));
}

#[tokio::test]
async fn an_upload_that_is_no_bundle_is_refused_and_may_be_replaced() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("p20");
    upload_bundle(&client, &name).await;
    let caller = Caller::with_role(world, UPLOADER).await;
    let mut subdir = fixtures::renamed("plain/subdir", &name).unwrap();
    subdir.insert(0, ("manifests/emptydir/.gitignore".to_owned(), String::new()));
    assert_eq!(caller.put(&name, archive(&subdir)).await.status, StatusCode::CREATED);
    let text = "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: \
                found \"manifests/emptydir\"";
    let failed = until_bundle(&client, &name, Expected::is_false("Unpacked", "UnpackFailed").saying(text)).await;
    assert_eq!(failed.data["status"]["phase"], "Failing");

    assert_eq!(caller.put(&name, b"no archive".to_vec()).await.status, StatusCode::CREATED);
    let text = "source bundle content: read response as gzip: gzip: invalid header";
    until_bundle(&client, &name, Expected::is_false("Unpacked", "UnpackFailed").saying(text)).await;

    // What is no archive is not tried again by itself: it is the upload that wakes the Bundle.
    let good = archive(&[("manifests/a.yaml", manifest(&name))]);
    assert_eq!(caller.put(&name, good).await.status, StatusCode::CREATED);
    unpacked(&client, &name).await;
}

#[tokio::test]
async fn what_is_received_shows_until_it_is_unpacked() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("received");
    // Nobody unpacks Bundles of this class here, so what the upload says stays.
    let mut bundle = world::bundle(&name, json!({"type": "upload", "upload": {}}));
    bundle["spec"]["provisionerClassName"] = json!("somebody-else");
    create(&client, &bundle).await;
    let caller = Caller::with_role(world, UPLOADER).await;
    assert_eq!(caller.put(&name, archive(&[("manifests/a.yaml", manifest(&name))])).await.status, StatusCode::CREATED);
    let text = "received bundle upload, waiting for provisioner to unpack it.";
    let found = verbs::get(&client, &Target::bundle(&name)).await.unwrap().unwrap();
    let condition = verbs::condition(&found, "Unpacked").unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("UnpackPending")));
    assert_eq!(condition["message"], text);
    assert_eq!(found.data["status"]["phase"], "Pending");
}

#[tokio::test]
async fn refusals_have_upstreams_codes_and_texts() {
    let world = World::shared().await;
    let client = world.admin().await;
    let caller = Caller::with_role(world, UPLOADER).await;
    let unknown = unique_name("unknown");
    // More than sockets hold: the answer comes while the body is still being sent.
    let missing = caller.put(&unknown, vec![1; 64 << 20]).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert_eq!(missing.text().trim_end(), format!("bundles.core.rukpak.io \"{unknown}\" not found"));

    let name = unique_name("image");
    create(&client, &world::bundle(&name, image("localhost:1/nowhere:v1"))).await;
    let other = caller.put(&name, b"x".to_vec()).await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    assert_eq!(other.text().trim_end(), "bundle source type is \"image\"; expected \"upload\"");
    assert_eq!(caller.get(&format!("/uploads/{name}.tgz")).await.status, StatusCode::NOT_FOUND);

    // Whoever may do everything still cannot do what makes no sense.
    let everything = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/uploads/*", "/bundles/*"], "verbs": ["*"]}]});
    create(&client, &everything).await;
    let able = Caller::with_role(world, &name).await;
    for method in [Method::POST, Method::DELETE, Method::PATCH] {
        let answer = sent(able.ask(method.clone(), &format!("/uploads/{name}.tgz"))).await;
        assert_eq!(
            (answer.status, answer.header("allow")),
            (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD, PUT"),
            "{method}"
        );
    }
    let answer = sent(able.ask(Method::PUT, &format!("/bundles/{name}.tgz")).body("x")).await;
    assert_eq!((answer.status, answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD"));
}

/// Most memory that the controller ever had, in bytes.
fn peak_bytes(world: &World) -> u64 {
    let path = format!("/proc/{}/status", world.controller.pid().expect("it runs"));
    let text = std::fs::read_to_string(path).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has VmHWM");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

#[tokio::test]
async fn a_large_body_is_never_in_memory() {
    const BODY_BYTES: usize = 128 << 20;
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("large");
    upload_bundle(&client, &name).await;
    let caller = Caller::with_role(world, UPLOADER).await;
    let before = peak_bytes(world);
    assert_eq!(caller.put(&name, vec![7; BODY_BYTES]).await.status, StatusCode::CREATED);
    assert_eq!(caller.get(&format!("/uploads/{name}.tgz")).await.body.len(), BODY_BYTES);
    // Other tests run beside this one.
    let more = peak_bytes(world).saturating_sub(before);
    assert!(more < 64 << 20, "{} MiB more for a body of {} MiB", more >> 20, BODY_BYTES >> 20);
    println!("{} KiB more", more >> 10);
}

#[tokio::test]
async fn a_new_bundle_of_an_old_name_has_no_upload() {
    let world = World::shared().await;
    let client = world.admin().await;
    let name = unique_name("again");
    upload_bundle(&client, &name).await;
    let caller = Caller::with_role(world, UPLOADER).await;
    assert_eq!(caller.put(&name, archive(&[("manifests/a.yaml", manifest(&name))])).await.status, StatusCode::CREATED);
    let old = unpacked(&client, &name).await;
    let file = world.controller.storage.join("uploads").join(format!("{}.tgz", old.metadata.uid.unwrap()));
    assert!(file.is_file());
    verbs::delete(&client, &Target::bundle(&name)).await.unwrap();
    verbs::await_deleted(&client, &Target::bundle(&name), world::SOON).await.unwrap();
    upload_bundle(&client, &name).await;
    let end = tokio::time::Instant::now() + world::SOON;
    while file.exists() {
        assert!(tokio::time::Instant::now() < end, "the upload of the Bundle that is gone is still there");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(caller.get(&format!("/uploads/{name}.tgz")).await.status, StatusCode::NOT_FOUND);
}
