//! Bundles that name a Secret which is not theirs to use: the login goes only where the Secret says.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::registry::pull_secret_json;
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::{PASSWORD, USER, image};
use rukpak_tests::{Fault, FaultyServer, Rule, TestCa};
use serde_json::{Value, json};

use super::sources::{Scene, git, http, manifest};

fn with(mut source: Value, secret: &str) -> Value {
    let type_ = source["type"].as_str().unwrap_or_default().to_owned();
    if type_ == "image" {
        source["image"]["pullSecret"] = json!(secret);
    } else {
        source[type_]["auth"] = json!({"secret": {"name": secret}});
    }
    source
}

fn careless(mut source: Value) -> Value {
    let type_ = source["type"].as_str().unwrap_or_default().to_owned();
    source[type_]["auth"]["insecureSkipVerify"] = json!(true);
    source
}

/// No request had a login.
fn nobody_logged_in(server: &FaultyServer) {
    let given: Vec<_> = server.seen().into_iter().filter_map(|seen| seen.authorization).collect();
    assert!(given.is_empty(), "{given:?}");
}

#[tokio::test]
async fn a_secret_that_names_hosts_is_sent_to_these_only() {
    let scene = Scene::shared().await;
    let thief = scene.server();
    let login = json!({"username": USER, "password": PASSWORD});
    let own = scene.world.private_git.base_url();
    let host = own.trim_start_matches("https://");
    for annotations in [json!({"core.rukpak.io/hosts": host}), json!({"tekton.dev/git-0": own})] {
        let secret = scene.secret("kubernetes.io/basic-auth", &login, &annotations).await;
        let repository = format!("{}/r.git", thief.url());
        for source in [git(&repository, &json!({"branch": "main"})), http(&format!("{}/a.tgz", thief.url()))] {
            let text = format!("secret rukpak-system/{secret} is not sent to {}", thief.host());
            let message = scene.refused(with(source, &secret), &text).await;
            assert!(message.contains("core.rukpak.io/hosts"), "{message}");
        }
        // To its own host it goes.
        let name = unique_name("own");
        let repository = scene.world.private_git.repository(&name).unwrap();
        repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
        repository.commit("first").unwrap();
        scene.unpacked(with(git(&scene.world.private_git.url(&name), &json!({"branch": "main"})), &secret)).await;
    }
    assert_eq!(thief.seen(), []);
    scene.unharmed().await;
}

#[tokio::test]
async fn a_pull_secret_that_names_hosts_is_sent_to_these_only_token_services_too() {
    let scene = Scene::shared().await;
    let (registry, tokens) = (scene.server(), scene.server());
    let challenge = format!("Bearer realm=\"{}/token\",service=\"x\"", tokens.url());
    let asked = Fault::Answer(StatusCode::UNAUTHORIZED, vec![("www-authenticate", challenge)], Vec::new());
    registry.add(Rule::on("/v2/", asked));
    let config = json!({".dockerconfigjson": pull_secret_json("localhost*", USER, PASSWORD)});
    let whole = json!({".dockerconfigjson": pull_secret_json(&registry.host(), USER, PASSWORD)});
    let of = |annotation: String| json!({"core.rukpak.io/hosts": annotation});
    let source = image(&format!("{}/app:v1", registry.host()));
    let elsewhere =
        scene.secret("kubernetes.io/dockerconfigjson", &config, &of("registry.example.com".to_owned())).await;
    let text = format!("secret rukpak-system/{elsewhere} is not sent to {}", registry.host());
    scene.refused(with(source.clone(), &elsewhere), &text).await;
    assert_eq!(registry.seen(), []);
    let narrow = scene.secret("kubernetes.io/dockerconfigjson", &whole, &of(registry.host())).await;
    scene.refused(with(source, &narrow), "which is not one of the hosts that the login is for").await;
    assert_eq!(tokens.seen(), []);
    nobody_logged_in(&registry);
    scene.unharmed().await;
}

#[tokio::test]
async fn a_secret_of_something_else_is_sent_nowhere() {
    let scene = Scene::shared().await;
    let thief = scene.server();
    let database = json!({"username": "postgres", "password": "hush", "host": "db", "port": "5432"});
    for (type_, data) in [("Opaque", database), ("example.com/thing", json!({"password": "hush"}))] {
        let secret = scene.secret(type_, &data, &json!({})).await;
        for source in [
            git(&format!("{}/r.git", thief.url()), &json!({"branch": "main"})),
            http(&format!("{}/a.tgz", thief.url())),
        ] {
            let text =
                format!("secret rukpak-system/{secret} is sent nowhere: it is not of type kubernetes.io/basic-auth");
            scene.refused(with(source, &secret), &text).await;
        }
    }
    assert_eq!(thief.seen(), []);
    scene.unharmed().await;
}

#[tokio::test]
async fn a_login_is_not_sent_in_the_open_unless_the_secret_allows_it() {
    let scene = Scene::shared().await;
    let stranger = FaultyServer::alone(&TestCa::new("stranger").unwrap()).unwrap();
    let login = json!({"username": USER, "password": PASSWORD});
    let closed = scene.secret("kubernetes.io/basic-auth", &login, &json!({})).await;
    let sources = || {
        let branch = json!({"branch": "main"});
        [git(&format!("{}/r.git", stranger.url()), &branch), http(&format!("{}/a.tgz", stranger.url()))]
    };
    for source in sources() {
        let text = format!(
            "secret rukpak-system/{closed} is not sent to {} without a look at its certificate",
            stranger.host()
        );
        scene.refused(careless(with(source, &closed)), &text).await;
    }
    let plain = format!("http://localhost:{}", rukpak_tests::tools::free_port().unwrap());
    for source in [git(&format!("{plain}/r.git"), &json!({"branch": "main"})), http(&format!("{plain}/a.tgz"))] {
        let message = scene.refused(with(source, &closed), " without TLS").await;
        assert!(message.contains("core.rukpak.io/allow-insecure"), "{message}");
    }
    assert_eq!(stranger.seen(), []);
    // Asked for, it is sent.
    let open =
        scene.secret("kubernetes.io/basic-auth", &login, &json!({"core.rukpak.io/allow-insecure": "true"})).await;
    scene.refused(careless(with(http(&format!("{}/a.tgz", stranger.url())), &open)), "404 Not Found").await;
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    assert_eq!(stranger.seen()[0].authorization.as_deref(), Some(expected.as_str()));
    scene.unharmed().await;
}

#[tokio::test]
async fn whoever_a_careless_server_redirects_to_has_to_prove_who_it_is() {
    let scene = Scene::shared().await;
    let [careless_one, stranger] = ["one", "two"].map(|name| FaultyServer::alone(&TestCa::new(name).unwrap()).unwrap());
    // By an address that is not the host that need not prove it.
    let target = stranger.url().replace("localhost", "127.0.0.1");
    careless_one.add(Rule::on("/", Fault::Redirect(format!("{target}/a.tgz"))));
    let message = scene.refused(careless(http(&format!("{}/a.tgz", careless_one.url()))), "certificate").await;
    assert!(!message.contains(" 404"), "{message}");
    assert_eq!((careless_one.seen().is_empty(), stranger.seen()), (false, vec![]));
    scene.unharmed().await;
}
