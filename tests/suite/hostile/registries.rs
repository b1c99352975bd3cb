//! Registries that mean harm.

use std::time::Duration;

use axum::http::StatusCode;
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::image;
use rukpak_tests::{Fault, FaultyServer, Rule};
use serde_json::json;

use super::sources::{Scene, good, layer};

fn of(server: &FaultyServer) -> serde_json::Value {
    image(&format!("{}/app:v1", server.host()))
}

#[tokio::test]
async fn answers_without_end_are_cut_off_at_their_bounds() {
    let scene = Scene::shared().await;
    let bearer = |server: &FaultyServer| {
        let challenge = format!("Bearer realm=\"{}/token\",service=\"x\"", server.url());
        Fault::Answer(StatusCode::UNAUTHORIZED, vec![("www-authenticate", challenge)], Vec::new())
    };
    let manifest = scene.server();
    manifest.add(Rule::on("/manifests/", Fault::Endless(StatusCode::OK, "", " ")));
    let error = scene.server();
    error.add(Rule::on("/manifests/", Fault::Endless(StatusCode::INTERNAL_SERVER_ERROR, "", " ")));
    let token = scene.server();
    token.add(Rule::on("/token", Fault::Endless(StatusCode::OK, "", " ")));
    token.add(Rule::on("/v2/", bearer(&token)));
    let refusal = scene.server();
    refusal.add(Rule::on("/token", Fault::Endless(StatusCode::UNAUTHORIZED, "", " ")));
    refusal.add(Rule::on("/v2/", bearer(&refusal)));
    let (name, layers) = (unique_name("endless"), scene.registry());
    scene.world.push(&name, &good(&name)).await;
    layers.add(Rule::on("/blobs/", Fault::Endless(StatusCode::OK, "", " ")));
    let archive = scene.server();
    archive.add(Rule::on("/", Fault::Endless(StatusCode::OK, "", " ")));
    tokio::join!(
        scene.refused(of(&manifest), "the answer has more than 4194304 bytes"),
        scene.refused(of(&error), "the registry answered 500 Internal Server Error"),
        scene.refused(of(&token), "the answer has more than 65536 bytes"),
        scene.refused(of(&refusal), "access denied (401 Unauthorized"),
        scene.refused(image(&format!("{}/bundles/{name}:v1", layers.host())), "bytes, got at least "),
        scene.refused(super::sources::http(&format!("{}/a.tgz", archive.url())), "(--limit=download-bytes)"),
    );
    scene.unharmed().await;
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let scene = Scene::shared().await;
    let (one, other) = (scene.server(), scene.server());
    one.add(Rule::on("/", Fault::Redirect(format!("{}/v2/app/manifests/v1", other.url()))));
    other.add(Rule::on("/", Fault::Redirect(format!("{}/v2/app/manifests/v1", one.url()))));
    scene.refused(of(&one), "more than 5 redirects").await;
    assert!(one.seen().len() <= 6 && other.seen().len() <= 6, "an attempt asks six times");
    let plain = scene.server();
    plain.add(Rule::on("/", Fault::Redirect("http://localhost:1/".to_owned())));
    scene.refused(of(&plain), "redirects to localhost:1, which is not https").await;
    scene.unharmed().await;
}

#[tokio::test]
async fn swapped_content_is_seen_by_its_digest() {
    let scene = Scene::shared().await;
    let name = unique_name("swap");
    let registry = &scene.world.registry;
    let (ours, theirs) = (format!("bundles/{name}"), format!("bundles/{name}-other"));
    let good_one = registry.push(&ours, "v1", &good(&name)).await.unwrap();
    let other = registry.push(&theirs, "v1", &good("other")).await.unwrap();
    let text = "the registry or something on the way changed the content";
    // Another manifest under the digest that was asked for,
    let server = scene.registry();
    server.add(Rule::on(
        &format!("/manifests/{}", good_one.digest),
        Fault::Redirect(format!("{}/v2/{theirs}/manifests/v1", server.url())),
    ));
    scene.refused(image(&format!("{}/{ours}@{}", server.host(), good_one.digest)), text).await;
    // and another layer, whole and of its own digest.
    let server = scene.registry();
    let elsewhere = format!("{}/v2/{theirs}/blobs/{}", server.url(), other.layers[0]);
    server.add(Rule::on(&format!("/blobs/{}", good_one.layers[0]), Fault::Redirect(elsewhere)));
    let message = scene.refused(image(&format!("{}/{ours}:v1", server.host())), "layer sha256:").await;
    assert!(message.contains(text) || message.contains("bytes, got "), "{message}");
    scene.unharmed().await;
}

#[tokio::test]
async fn what_drips_is_given_up_after_the_time_for_a_pull() {
    let scene = Scene::shared().await;
    let text = "more than the limit of 6 seconds for an image pull (--limit=pull-seconds)";
    let tries = ["/manifests/", "/blobs/"].map(async |path| {
        let (name, server) = (unique_name("drip"), scene.registry());
        scene.world.push(&name, &good(&name)).await;
        server.add(Rule::on(path, Fault::Slow(1, Duration::from_millis(200))));
        scene.refused(image(&format!("{}/bundles/{name}:v1", server.host())), text).await
    });
    futures::future::join_all(tries).await;
    scene.unharmed().await;
}

#[tokio::test]
async fn a_manifest_lists_a_bounded_number_of_layers_and_each_is_fetched_once() {
    let scene = Scene::shared().await;
    let name = unique_name("layers");
    let many = rukpak_tests::ImageBuilder::new((0..21).map(|_| layer(&name)));
    let reference = scene.world.push(&name, &many).await;
    scene.refused(image(&reference), "more than the limit of 20 layers in an image (--limit=layers)").await;
    let (name, server) = (unique_name("layers"), scene.registry());
    let again =
        rukpak_tests::ImageBuilder::new([layer(&name), layer("between"), layer(&name), layer("between"), layer(&name)]);
    scene.world.push(&name, &again).await;
    scene.unpacked(image(&format!("{}/bundles/{name}:v1", server.host()))).await;
    assert_eq!(server.count("/blobs/"), 2, "{:?}", server.seen());
    scene.unharmed().await;
}

/// M3: a registry that wants a token for somebody else's repository is given one for the repository that is pulled.
#[tokio::test]
async fn a_hostile_realm_gets_no_token_for_another_repository() {
    let scene = Scene::shared().await;
    let (registry, tokens) = (scene.server(), scene.server());
    let answer = serde_json::to_vec(&json!({"token": "tok-4711"})).unwrap();
    tokens.add(Rule::on("/token", Fault::Answer(StatusCode::OK, vec![], answer)));
    let realm = format!(
        "{}/token?service=victim&scope=repository:victim/app:pull,push&%73cope=registry:catalog:*&account=admin\
         &client_id=victim&offline_token=true&x=1",
        tokens.url()
    );
    let challenge = format!("Bearer realm=\"{realm}\",service=\"shared\",scope=\"repository:victim/app:pull,push\"");
    let asked = Fault::Answer(StatusCode::UNAUTHORIZED, vec![("www-authenticate", challenge)], Vec::new());
    registry.add(Rule::on("/v2/", asked));
    let login = rukpak_tests::registry::pull_secret_json(&registry.host(), "robot", "hush");
    let secret = scene.secret("kubernetes.io/dockerconfigjson", &json!({".dockerconfigjson": login}), &json!({})).await;
    let mut source = of(&registry);
    source["image"]["pullSecret"] = json!(secret);
    scene.refused(source, "access denied").await;
    let seen = tokens.seen();
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.authorization.is_some()),
        "the login goes to the token service"
    );
    for seen in seen {
        assert_eq!(seen.path, "/token?x=1&service=shared&scope=repository%3Aapp%3Apull");
    }
    scene.unharmed().await;
}
