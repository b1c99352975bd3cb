//! Archives on web servers.

use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{PASSWORD, USER};
use rukpak_tests::{Fault, FaultyServer, Rule, TestCa};
use serde_json::{Value, json};

use crate::bundles::hands::{self, Hands, Scene, manifest};

/// A tar.gz of files.
pub fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut builder = tar::Builder::new(encoder);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        builder.append_data(&mut header, path, text.as_bytes()).expect("memory takes it");
    }
    builder.into_inner().and_then(flate2::write::GzEncoder::finish).expect("memory takes it")
}

/// A good archive whose one object is called `name`.
pub fn good(name: &str) -> Vec<u8> {
    archive(&[("manifests/object.yaml", &manifest(name))])
}

fn source(url: &str) -> Value {
    json!({"type": "http", "http": {"url": url}})
}

fn holds(server: &FaultyServer, path: &str, body: Vec<u8>) {
    server.add(Rule::on(path, Fault::Answer(StatusCode::OK, vec![], body)));
}

async fn scene() -> (Hands, FaultyServer, String) {
    let scene = Scene::shared().await;
    let server = FaultyServer::alone(&scene.ca).expect("a loopback port is free");
    (scene.hands().await, server, unique_name("http"))
}

#[tokio::test]
async fn an_archive_is_unpacked_and_pinned() {
    let (hands, server, name) = scene().await;
    let (path, body) = (format!("/{name}.tgz"), good(&name));
    holds(&server, &path, body.clone());
    let source = source(&format!("{}{path}", server.url()));
    hands.bundle(&name, source.clone()).await;
    let bundle = hands.unpacked(&name).await;
    assert_eq!(hands::message(&bundle, "Unpacked"), "Successfully unpacked the http Bundle");
    let status = &bundle.data["status"];
    assert_eq!(status["resolvedSource"], source, "upstream repeats the spec");
    let digest = rukpak_content::Digest::sha256(&body).to_string();
    assert_eq!(status["pin"]["archiveDigest"], digest);
    assert_eq!(hands.reference(&name).unwrap()["source"], digest);
    assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest(&name));

    // Other content at the same address changes nothing, not even where the content was lost.
    server.mend();
    holds(&server, &path, good("other"));
    std::fs::remove_file(hands.content_file(&name).unwrap()).unwrap();
    hands.touch(&name).await;
    let changed = Expected::is_false("Unpacked", "UnpackFailed").saying("the content has changed since it was pinned");
    let bundle = hands.condition(&name, changed).await;
    assert_eq!(bundle.data["status"]["pin"], status["pin"]);
    assert!(bundle.data["status"]["contentURL"].is_null());
    // The old content is taken when it is back.
    server.mend();
    holds(&server, &path, body);
    let back = hands.unpacked(&name).await;
    assert_eq!(back.data["status"]["pin"], status["pin"]);
    assert_eq!(hands.content(&name)["manifests/object.yaml"], manifest(&name));
}

#[tokio::test]
async fn refusals_are_upstreams() {
    let (hands, server, name) = scene().await;
    holds(&server, "/text.tgz", b"no archive".to_vec());
    let subdir = archive(&[("manifests/emptydir/.gitignore", ""), ("manifests/a.yaml", &manifest("a"))]);
    holds(&server, "/subdir.tgz", subdir);
    let url = server.url();
    let table = [
        ("gone", format!("source bundle content: GET {url}/gone.tgz: unexpected status \"404 Not Found\"")),
        ("text", "source bundle content: gzip: invalid header".to_owned()),
        ("subdir", "get objects from bundle manifests: subdirectories are not allowed".to_owned()),
    ];
    for (file, text) in table {
        let name = format!("{name}-{file}");
        hands.bundle(&name, source(&format!("{url}/{file}.tgz"))).await;
        let message = hands.failing(&name, &text).await;
        assert!(message.starts_with(&text), "{message}");
    }
    let name = format!("{name}-none");
    hands.bundle(&name, source("ftp://example.com/a.tgz")).await;
    hands.failing(&name, "is not an http or https URL").await;
}

#[tokio::test]
async fn what_is_missing_is_taken_when_it_comes() {
    let (hands, server, name) = scene().await;
    let path = format!("/{name}.tgz");
    hands.bundle(&name, source(&format!("{}{path}", server.url()))).await;
    hands.failing(&name, "404 Not Found").await;
    holds(&server, &path, good(&name));
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn a_private_server_is_asked_with_the_secret() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("http");
    // The private git server wants the login for everything.
    let url = format!("{}/no-repository/{name}.tgz", scene.world.private_git.base_url());
    hands.bundle(&format!("{name}-open"), source(&url)).await;
    let open = hands.failing(&format!("{name}-open"), "401 Unauthorized").await;
    assert!(open.ends_with("give a Secret with username and password"), "{open}");
    let planted = unique_name("planted-http-password");
    for (suffix, password, text) in
        [("right", PASSWORD, "unexpected status \"40"), ("wrong", planted.as_str(), "401 Unauthorized")]
    {
        let name = format!("{name}-{suffix}");
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "rukpak-system"},
            "stringData": {"username": USER, "password": password}});
        hands.create(&secret).await;
        let mut source = source(&url);
        source["http"]["auth"] = json!({"secret": {"name": name}});
        hands.bundle(&name, source).await;
        let message = hands.failing(&name, text).await;
        assert!(!message.contains(password), "{message}");
        // The bare number may also stand in the port.
        assert_eq!(message.contains("401 Unauthorized"), suffix == "wrong", "{message}");
    }
    let asked: Vec<_> = scene.world.private_git.seen();
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let with =
        |path: &str| asked.iter().any(|seen| seen.path.contains(path) && seen.authorization == Some(expected.clone()));
    assert!(with(&format!("{name}.tgz")));
    let log = scene.world.controller.log();
    assert!(!log.contains(&planted) && !log.contains(&BASE64_STANDARD.encode(format!("{USER}:{planted}"))));
}

#[tokio::test]
async fn a_secret_without_a_login_is_named() {
    let (hands, server, name) = scene().await;
    let mut source = source(&format!("{}/a.tgz", server.url()));
    source["http"]["auth"] = json!({"secret": {"name": name}});
    hands.bundle(&name, source).await;
    let missing = hands.failing(&name, "source bundle content: get secret").await;
    assert!(missing.contains(&format!("rukpak-system/{name}")), "{missing}");
    hands
        .create(&json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "hush"},
                        "metadata": {"name": name, "namespace": "rukpak-system"}}))
        .await;
    hands.failing(&name, "has no key username or password").await;
    assert_eq!(server.seen(), [], "nothing is asked without the login");
}

#[tokio::test]
async fn an_unknown_authority_is_refused_unless_the_spec_lets_it() {
    let hands = Scene::shared().await.hands().await;
    let stranger = FaultyServer::alone(&TestCa::new("stranger").unwrap()).unwrap();
    let name = unique_name("http");
    holds(&stranger, "/a.tgz", good(&name));
    let mut source = source(&format!("{}/a.tgz", stranger.url()));
    hands.bundle(&name, source.clone()).await;
    hands.failing(&name, "certificate signed by unknown authority").await;
    assert_eq!(stranger.seen(), []);
    let careless = format!("{name}-careless");
    source["http"]["auth"] = json!({"insecureSkipVerify": true});
    hands.bundle(&careless, source.clone()).await;
    let bundle = hands.unpacked(&careless).await;
    assert_eq!(bundle.data["status"]["resolvedSource"], source);
}

#[tokio::test]
async fn nothing_is_asked_again_once_it_is_unpacked() {
    let (hands, server, name) = scene().await;
    let path = format!("/{name}.tgz");
    holds(&server, &path, good(&name));
    hands.bundle(&name, source(&format!("{}{path}", server.url()))).await;
    hands.unpacked(&name).await;
    assert_eq!(server.count(&path), 1);
    hands.touch(&name).await;
    let version = hands.get(&name).await.metadata.resource_version;
    let same = |object: Option<&kube::api::DynamicObject>| {
        object.is_some_and(|object| object.metadata.resource_version == version)
    };
    let moment = Duration::from_secs(2);
    verbs::holds_for(&hands.client, &Target::bundle(&name), "no write", moment, same).await.unwrap();
    assert_eq!(server.count(&path), 1);
}
