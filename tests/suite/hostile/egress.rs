//! Addresses that only the controller can reach: itself, its link, the metadata service of a cloud. A source, a redirect or a
//! token service that leads there is refused before anybody is connected to, and the refusal says no more than that.

use axum::http::StatusCode;
use rukpak_tests::verbs::unique_name;
use rukpak_tests::world::image;
use rukpak_tests::{Fault, Rule};
use serde_json::{Value, json};

use super::sources::{Scene, Trap, git, good, http};

const REFUSED: &str = "has an address that sources may not be fetched from (--source-allow-cidr opens it)";

#[tokio::test]
async fn sources_at_refused_addresses_are_not_connected_to() {
    let scene = Scene::shared().await;
    let trap = Trap::set();
    let port = trap.port();
    let branch = json!({"branch": "main"});
    let mut sources = vec![
        image(&format!("127.0.0.2:{port}/app:v1")),
        image("169.254.169.254/app:v1"),
        http(&format!("http://[::ffff:127.0.0.2]:{port}/a.tgz")),
        http(&format!("http://[::127.0.0.2]:{port}/a.tgz")),
        http(&format!("http://0.0.0.0:{port}/a.tgz")),
        http("http://169.254.169.254/latest/meta-data/"),
        http("http://[fd00:ec2::254]/latest/meta-data/"),
        git(&format!("git@127.0.0.2:{port}:r"), &branch),
    ];
    sources.push(http(&format!("http://127.0.0.2:{port}/a.tgz")));
    sources.push(git(&format!("http://127.0.0.2:{port}/r.git"), &branch));
    // The same address in other words: a decimal number, hexadecimal, short. They are no addresses for anybody.
    for host in ["2130706434", "0x7f.2", "127.2"] {
        for source in
            [http(&format!("http://{host}:{port}/a.tgz")), git(&format!("http://{host}:{port}/r.git"), &branch)]
        {
            scene.refused(source, host).await;
        }
    }
    let key = scene
        .secret(
            "kubernetes.io/ssh-auth",
            &json!({"ssh-privatekey": "k", "ssh-knownhosts": "h ssh-rsa AAAA"}),
            &json!({}),
        )
        .await;
    let refusals = sources.into_iter().map(async |mut source: Value| {
        if source["git"]["repository"].as_str().is_some_and(|repository| repository.starts_with("git@")) {
            source["git"]["auth"] = json!({"secret": {"name": key}});
        }
        scene.refused(source, REFUSED).await
    });
    futures::future::join_all(refusals).await;
    trap.is_untouched();
    scene.unharmed().await;
}

#[tokio::test]
async fn a_refusal_does_not_tell_an_open_port_from_a_closed_one() {
    let scene = Scene::shared().await;
    let trap = Trap::set();
    let (open, closed) = (trap.port(), rukpak_tests::tools::free_port().unwrap());
    let said = async |port: u16| {
        let url = format!("http://127.0.0.2:{port}/a.tgz");
        scene.refused(http(&url), "http request for bundle content failed").await.replace(&port.to_string(), "PORT")
    };
    assert_eq!(said(open).await, said(closed).await);
    trap.is_untouched();
}

#[tokio::test]
async fn redirects_to_refused_addresses_are_not_followed() {
    let scene = Scene::shared().await;
    let trap = Trap::set();
    let targets = [
        format!("https://{}/", trap.address()),
        "https://169.254.169.254/latest/meta-data/".to_owned(),
        format!("https://[::ffff:127.0.0.2]:{}/", trap.port()),
        "https://[fe80::1]/".to_owned(),
    ];
    let tries = targets.iter().map(async |target| {
        let server = scene.registry();
        let name = unique_name("redirect");
        scene.world.push(&name, &good(&name)).await;
        server.add(Rule::on("/blobs/", Fault::Redirect(target.clone())));
        scene.refused(image(&format!("{}/bundles/{name}:v1", server.host())), REFUSED).await;
        let server = scene.server();
        server.add(Rule::on("/", Fault::Redirect(target.clone())));
        scene.refused(image(&format!("{}/app:v1", server.host())), REFUSED).await;
        scene.refused(http(&format!("{}/a.tgz", server.url())), REFUSED).await;
    });
    futures::future::join_all(tries).await;
    trap.is_untouched();
    scene.unharmed().await;
}

#[tokio::test]
async fn a_token_service_at_a_refused_address_is_not_asked() {
    let scene = Scene::shared().await;
    let trap = Trap::set();
    for realm in [format!("https://{}/token", trap.address()), "https://169.254.169.254/token".to_owned()] {
        let server = scene.server();
        let challenge = vec![("www-authenticate", format!("Bearer realm=\"{realm}\",service=\"x\""))];
        server.add(Rule::on("/v2/", Fault::Answer(StatusCode::UNAUTHORIZED, challenge, Vec::new())));
        scene.refused(image(&format!("{}/app:v1", server.host())), REFUSED).await;
    }
    trap.is_untouched();
    scene.unharmed().await;
}
