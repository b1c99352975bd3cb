//! Registries that are out of order or do not know us: the Bundle says so, waits, and is unpacked once they are mended.

use std::time::Duration;

use axum::http::StatusCode;
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::registry::pull_secret_json;
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{PASSWORD, SOON, USER, image};
use rukpak_tests::{FaultyServer, TestCa};
use serde_json::{Value, json};

use crate::bundles::hands::{Bare, Hands, Scene, good};

/// A Bundle of a good image behind `server`, which fails in the way of `rule`; heals by mending.
async fn waits(hands: &Hands, server: &FaultyServer, name: &str, rule: Rule, text: &str) {
    server.add(rule);
    let reference = format!("{}/{name}:v1", server.host());
    hands.bundle(name, image(&reference)).await;
    let message = hands.pending(name, text).await;
    let begin = format!("Back-off pulling image \"{reference}");
    // A layer is asked for by the digest of its image.
    assert!(message.starts_with(&begin), "{message}");
    assert!(!hands.holds(name), "half of {name} is in the store");
    server.mend();
    hands.unpacked(name).await;
}

async fn scene_case(rule: Rule, text: &str) {
    let scene = Scene::shared().await;
    let name = unique_name("registry");
    scene.world.registry.push(&name, "v1", &good(&name)).await.expect("the registry takes it");
    waits(&scene.hands().await, &scene.faulty_registry(), &name, rule, text).await;
}

fn status(code: StatusCode) -> Fault {
    Fault::Status(code, "{\"errors\":[{\"code\":\"TEST\",\"message\":\"in its own words\"}]}".to_owned())
}

#[tokio::test]
async fn trouble_with_the_manifest() {
    for (code, text) in [
        (StatusCode::INTERNAL_SERVER_ERROR, "the registry answered 500 Internal Server Error"),
        (StatusCode::SERVICE_UNAVAILABLE, "the registry answered 503 Service Unavailable"),
        (StatusCode::TOO_MANY_REQUESTS, "the registry answered 429 Too Many Requests"),
        (StatusCode::UNAUTHORIZED, "the registry asks for authentication in a way that is not supported"),
        (StatusCode::FORBIDDEN, "access denied (403 Forbidden"),
    ] {
        scene_case(Rule::on("/manifests/", status(code)), text).await;
    }
}

/// However many Bundles there are of one image, its layers are fetched once; each asks for the manifest with its own login.
#[tokio::test]
async fn many_bundles_of_one_image_are_one_pull() {
    let (scene, name) = (Scene::shared().await, unique_name("shared"));
    let hands = scene.hands().await;
    let server = scene.faulty_registry();
    scene.world.registry.push(&name, "v1", &good(&name)).await.expect("the registry takes it");
    let names: Vec<String> = (0..8).map(|index| format!("{name}-{index}")).collect();
    for bundle in &names {
        hands.bundle(bundle, image(&format!("{}/{name}:v1", server.host()))).await;
    }
    for bundle in &names {
        hands.unpacked(bundle).await;
    }
    assert_eq!(server.count("/blobs/"), 1, "{:?}", server.seen());
    assert!(server.count("/manifests/") >= names.len());
    // The manifest's bytes are no key to the layers: a registry of another name is asked for them itself.
    let (other, elsewhere) = (scene.faulty_registry(), format!("{name}-elsewhere"));
    other.add(Rule::on("/blobs/", status(StatusCode::INTERNAL_SERVER_ERROR)));
    hands.bundle(&elsewhere, image(&format!("{}/{name}:v1", other.host()))).await;
    hands.pending(&elsewhere, "the registry answered 500 Internal Server Error").await;
    assert!(!hands.holds(&elsewhere));
    other.mend();
    hands.unpacked(&elsewhere).await;
    // What is gone from the store is fetched again, whatever is remembered.
    let names: Vec<String> = names.into_iter().chain([elsewhere]).collect();
    for bundle in &names {
        verbs::delete(&hands.client, &Target::bundle(bundle)).await.expect("it is deleted");
    }
    for bundle in &names {
        verbs::await_deleted(&hands.client, &Target::bundle(bundle), SOON).await.expect("it goes");
    }
    let again = format!("{name}-again");
    hands.bundle(&again, image(&format!("{}/{name}:v1", server.host()))).await;
    hands.unpacked(&again).await;
}

#[tokio::test]
async fn the_registrys_own_words_are_passed_on() {
    scene_case(Rule::on("/manifests/", status(StatusCode::BAD_GATEWAY)), "in its own words").await;
}

#[tokio::test]
async fn trouble_with_a_layer() {
    let server_error = status(StatusCode::INTERNAL_SERVER_ERROR);
    scene_case(Rule::on("/blobs/", server_error), "the registry answered 500 Internal Server Error").await;
    // A layer that is missing is not a missing image: it says so.
    scene_case(Rule::on("/blobs/", status(StatusCode::NOT_FOUND)), "the registry answered 404 Not Found").await;
    scene_case(Rule::on("/blobs/", Fault::HangUpAfter(100)), "the answer broke off after ").await;
    scene_case(Rule::on("/manifests/", Fault::HangUpAfter(100)), "the answer broke off after ").await;
}

/// Bytes that change on the way are not the registry's to mend; the Bundle fails, and is tried again all the same.
#[tokio::test]
async fn bytes_changed_on_the_way() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    for path in ["/manifests/", "/blobs/"] {
        let (name, server) = (unique_name("flipped"), scene.faulty_registry());
        scene.world.registry.push(&name, "v1", &good(&name)).await.unwrap();
        server.add(Rule::on(path, Fault::FlipBit));
        hands.bundle(&name, image(&format!("{}/{name}:v1", server.host()))).await;
        let text = "the registry or something on the way changed the content";
        let message = hands.failing(&name, text).await;
        assert!(message.contains("expected sha256:") && message.contains("got sha256:"), "{message}");
        assert!(!hands.holds(&name));
        server.mend();
        hands.unpacked(&name).await;
    }
}

#[tokio::test]
async fn a_registry_that_is_down() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("down");
    let port = rukpak_tests::tools::free_port().unwrap();
    hands.bundle(&name, image(&format!("localhost:{port}/{name}:v1"))).await;
    let message = hands.pending(&name, &format!("no answer from localhost:{port}")).await;
    assert!(message.contains("refused"), "{message}");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("stranger");
    let server = FaultyServer::alone(&TestCa::new("stranger").unwrap()).unwrap();
    hands.bundle(&name, image(&format!("{}/{name}:v1", server.host()))).await;
    let message = hands.pending(&name, "no answer from localhost:").await;
    assert!(message.contains("certificate"), "{message}");
    assert_eq!(server.seen(), []);
}

fn private(reference: &str, secret: &str) -> Value {
    json!({"type": "image", "image": {"ref": reference, "pullSecret": secret}})
}

fn secret(name: &str, key: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "rukpak-system"},
           "stringData": {key: value}})
}

#[tokio::test]
async fn a_missing_pull_secret_is_named_and_waited_for() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("pull-secret");
    let registry = &scene.world.private_registry;
    let pushed = registry.push(&name, "v1", &good(&name)).await.unwrap();
    hands.bundle(&name, private(&pushed.reference, &name)).await;
    let message = hands.failing(&name, "not found").await;
    assert!(message.starts_with(&format!("source bundle content: get secret rukpak-system/{name}: ")), "{message}");
    assert!(message.contains(&format!("secrets \"{name}\" not found")), "{message}");
    hands.create(&registry.pull_secret(&name, USER, PASSWORD)).await;
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn pull_secrets_that_cannot_be_used_are_named() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let registry = &scene.world.private_registry;
    let wrong = pull_secret_json(registry.host(), USER, "wrong");
    let table = [
        ("token", "x", "has no key .dockerconfigjson or .dockercfg"),
        (".dockerconfigjson", "{", "key .dockerconfigjson cannot be used"),
    ];
    for (key, value, text) in table {
        let name = unique_name("unusable");
        hands.create(&secret(&name, key, value)).await;
        hands.bundle(&name, private(&format!("{}/{name}:v1", registry.host()), &name)).await;
        hands.failing(&name, &format!("source bundle content: secret rukpak-system/{name}")).await;
        hands.failing(&name, text).await;
    }
    let name = unique_name("refused");
    let pushed = registry.push(&name, "v1", &good(&name)).await.unwrap();
    hands.create(&secret(&name, ".dockerconfigjson", &wrong)).await;
    hands.bundle(&name, private(&pushed.reference, &name)).await;
    hands.pending(&name, "access denied (401 Unauthorized").await;
    let target = rukpak_tests::verbs::Target::namespaced("v1", "Secret", "rukpak-system", &name);
    let mended = json!({"stringData": {".dockerconfigjson": registry.pull_secret_json(USER, PASSWORD)}});
    rukpak_tests::verbs::merge(&hands.client, &target, &mended).await.unwrap();
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn without_a_login_a_private_image_says_what_to_do() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("private");
    let pushed = scene.world.private_registry.push(&name, "v1", &good(&name)).await.unwrap();
    hands.bundle(&name, image(&pushed.reference)).await;
    let message = hands.pending(&name, "access denied (401 Unauthorized").await;
    assert!(message.contains("pullSecret") || message.contains("pull secret"), "{message}");
}

/// Servers that say nothing: the time for a pull ends it. With 4 s, see [`Bare`].
#[tokio::test]
async fn a_registry_that_hangs() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    for rule in [
        Rule::on("/manifests/", Fault::Hang),
        Rule::on("/blobs/", Fault::StallAfter(100)),
        Rule::on("/blobs/", Fault::Slow(10, Duration::from_secs(1))),
    ] {
        let name = unique_name("hangs");
        bare.registry.push(&name, "v1", &good(&name)).await.unwrap();
        let text = "more than the limit of 4 seconds for an image pull (--limit=pull-seconds)";
        waits(&hands, &bare.faulty_registry(), &name, rule, text).await;
    }
}
