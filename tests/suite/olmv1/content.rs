//! The content of catalogs over HTTPS, as catalogd's clients ask for it. What each call is answered to the byte is tested beside the
//! code.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use reqwest::{Client, ClientBuilder, StatusCode};
use rukpak_tests::Documents;
use rukpak_tests::plane::install::SYSTEM_NAMESPACE;
use rukpak_tests::verbs::Expected;
use serde_json::{Value, json};

use super::case::{Case, catalog, serving, text};
use super::world::World;

/// A client that trusts what the Secret `catalogd-ca` says, and asks for nothing in particular.
async fn client(world: &World) -> Client {
    builder(world).await.build().expect("a client")
}

/// A client to be that trusts what the Secret `catalogd-ca` says.
pub async fn builder(world: &World) -> ClientBuilder {
    let secrets: Api<Secret> = Api::namespaced(world.admin().await, SYSTEM_NAMESPACE);
    let secret = secrets.get("catalogd-ca").await.expect("it is published");
    let pem = &secret.data.expect("it has data")["ca.crt"].0;
    let certificates = reqwest::Certificate::from_pem_bundle(pem).expect("a certificate");
    certificates.into_iter().fold(Client::builder(), ClientBuilder::add_root_certificate)
}

fn documents(package: &str) -> Documents {
    let images: Vec<(String, String)> =
        (0..20).map(|number| (format!("1.{number}.0"), format!("registry.example/{package}:v{number}"))).collect();
    let pairs: Vec<(&str, &str)> = images.iter().map(|(version, image)| (version.as_str(), image.as_str())).collect();
    Documents::package(package, &pairs)
}

/// The session of catalogd's documentation, without a token.
#[tokio::test]
async fn anybody_reads_a_catalog_at_the_url_of_its_status() {
    let case = Case::new("read").await;
    let object = case.serve(documents(&case.name)).await;
    let (client, base) = (client(case.world).await, text(&object, "/status/urls/base").to_owned());
    let response = client.get(format!("{base}/api/v1/all")).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/jsonl");
    let digest = text(&object, "/status/resolvedSource/image/ref").rsplit_once('@').unwrap().1.to_owned();
    assert_eq!(response.headers()["etag"], format!("\"{digest}\""));
    let all = response.text().await.expect("a body");
    let schemas: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(schemas.iter().filter(|document| document["schema"] == "olm.bundle").count(), 20);

    let metas = client.get(format!("{base}/api/v1/metas?schema=olm.package&name={}", case.name)).send().await.unwrap();
    let found: Value = serde_json::from_str(&metas.text().await.unwrap()).expect("one document");
    assert_eq!(found["defaultChannel"], "stable");
    let unchanged = client.get(format!("{base}/api/v1/all")).header("If-None-Match", format!("\"{digest}\""));
    assert_eq!(unchanged.send().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    let compressed = client.get(format!("{base}/api/v1/all")).header("Accept-Encoding", "gzip").send().await.unwrap();
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    let absent =
        client.get(format!("https://{}/catalogs/absent/api/v1/all", case.world.catalogs)).send().await.unwrap();
    assert_eq!((absent.status(), absent.text().await.unwrap().as_str()), (StatusCode::NOT_FOUND, "404 Not Found\n"));

    let mode = |mode: &str| json!({"spec": {"availabilityMode": mode}});
    case.merge_into(&catalog(&case.name), &mode("Unavailable")).await;
    case.until_at(&catalog(&case.name), Expected::is_false("Serving", "UserSpecifiedUnavailable")).await;
    let gone = client.get(format!("{base}/api/v1/all")).send().await.unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
}

/// Upstream's replicas answer 404 until they lead.
#[tokio::test]
async fn a_replica_that_stands_by_serves_the_same() {
    let world = World::with(&["--leader-elect"]).await;
    let case = Case::within(&world, "replica").await;
    let object = case.serve(documents(&case.name)).await;
    let client = client(&world).await;
    let first = client.get(format!("{}/api/v1/all", text(&object, "/status/urls/base"))).send().await.unwrap();
    let (tag, body) = (first.headers()["etag"].clone(), first.text().await.unwrap());
    let (_second, catalogs) = world.second(&["--leader-elect"]).await;
    let url = format!("https://{catalogs}/catalogs/{}/api/v1/all", case.name);
    let end = std::time::Instant::now() + rukpak_tests::verbs::PATIENCE;
    let answer = loop {
        match client.get(&url).send().await {
            Ok(answer) if answer.status() == StatusCode::OK => break answer,
            other => assert!(std::time::Instant::now() < end, "{other:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!(answer.headers()["etag"], tag);
    assert_eq!(answer.text().await.unwrap(), body);
    case.delete(&catalog(&case.name)).await;
    while client.get(&url).send().await.unwrap().status() != StatusCode::NOT_FOUND {
        assert!(std::time::Instant::now() < end, "what is deleted is served on");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Upstream answers 404 until it has unpacked everything anew.
#[tokio::test]
async fn content_is_there_again_right_after_a_restart_without_the_registry() {
    let world = World::new().await;
    let case = Case::within(&world, "restart").await;
    let object = case.serve(documents(&case.name)).await;
    let url = format!("{}/api/v1/all", text(&object, "/status/urls/base"));
    let client = client(&world).await;
    let before = client.get(&url).send().await.unwrap();
    let modified = before.headers()["last-modified"].clone();
    let before = before.text().await.unwrap();
    drop(case);
    let World { plane, registry, manager, catalogs, controller } = world;
    drop(registry);
    manager.kill().await.expect("it is killed");
    manager.restart().await.expect("it starts again");
    manager.wait_ready().await.expect("it is ready");
    let after = client.get(&url).send().await.expect("an answer");
    assert_eq!((after.status(), &after.headers()["last-modified"]), (StatusCode::OK, &modified));
    assert_eq!(after.text().await.unwrap(), before);
    // That the registry does not answer is said, and what is known is kept.
    let registry = rukpak_tests::Registry::start(rukpak_tests::RegistryOptions::default()).await.unwrap();
    let world = World { plane, registry, manager, catalogs, controller };
    let admin = world.admin().await;
    let name = object.metadata.name.as_deref().unwrap();
    let retrying = Expected::is_true("Progressing", "Retrying").saying("error creating image source");
    let found = rukpak_tests::verbs::await_condition(&admin, &catalog(name), retrying, rukpak_tests::world::SOON).await;
    assert!(serving().met_by(&found.unwrap()));
}
