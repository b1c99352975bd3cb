//! What is in a Secret, or in a URL, is in no status, event or log line.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rukpak_tests::registry::pull_secret_json;
use rukpak_tests::verbs::{self, unique_name};
use rukpak_tests::world::{PASSWORD, USER};
use serde_json::{Value, json};

use crate::bundles::hands::{Hands, Scene, git, good, manifest};

/// Plants a Secret and a Bundle that uses it.
async fn plant(hands: &Hands, data: &Value, mut source: Value) -> String {
    let name = unique_name("secret");
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
                        "metadata": {"name": name, "namespace": "rukpak-system"}, "stringData": data});
    hands.create(&secret).await;
    if source["type"] == "git" {
        source["git"]["auth"] = json!({"secret": {"name": name}});
    } else {
        source["image"]["pullSecret"] = json!(name);
    }
    hands.bundle(&name, source).await;
    name
}

/// The forms in which a login may show.
fn forms(user: &str, password: &str) -> Vec<String> {
    let pair = format!("{user}:{password}");
    vec![password.to_owned(), pair.clone(), BASE64_STANDARD.encode(&pair), BASE64_STANDARD.encode(password)]
}

#[tokio::test]
async fn credentials_are_nowhere_to_be_read() {
    let scene = Scene::shared().await;
    let (hands, world) = (scene.hands().await, &scene.world);
    let repository_name = unique_name("secrecy");
    for repository in
        [world.private_git.repository(&repository_name).unwrap(), world.ssh.repository(&repository_name).unwrap()]
    {
        repository.write(&[("manifests/object.yaml", manifest(&repository_name))]).unwrap();
        repository.commit("first").unwrap();
    }
    let pushed = world.private_registry.push(&repository_name, "v1", &good(&repository_name)).await.unwrap();
    let host = world.private_registry.host();
    let image = json!({"type": "image", "image": {"ref": pushed.reference}});
    let over_https = git(&world.private_git.url(&repository_name), &json!({"branch": "main"}));
    let over_ssh = git(&world.ssh.url(&repository_name), &json!({"branch": "main"}));
    let known_hosts = world.ssh.known_hosts().unwrap();

    // Logins that work, and logins that do not.
    let (planted, in_url) = (unique_name("planted-password"), unique_name("planted-in-url"));
    let (key, other_key) = (world.ssh.client_key().unwrap(), world.ssh.other_key().unwrap());
    for password in [PASSWORD, planted.as_str()] {
        let config = json!({".dockerconfigjson": pull_secret_json(host, USER, password)});
        let for_image = plant(&hands, &config, image.clone()).await;
        let login = json!({"username": USER, "password": password});
        let for_git = plant(&hands, &login, over_https.clone()).await;
        if password == PASSWORD {
            hands.unpacked(&for_image).await;
            hands.unpacked(&for_git).await;
        } else {
            hands.pending(&for_image, "access denied").await;
            hands.failing(&for_git, "check username and password").await;
        }
    }
    let login = json!({"ssh-privatekey": key, "ssh-knownhosts": known_hosts});
    hands.unpacked(&plant(&hands, &login, over_ssh.clone()).await).await;
    let login = json!({"ssh-privatekey": other_key, "ssh-knownhosts": known_hosts});
    hands.failing(&plant(&hands, &login, over_ssh.clone()).await, "check ssh-privatekey").await;
    let broken = unique_name("planted-key");
    let login = json!({"ssh-privatekey": broken, "ssh-knownhosts": known_hosts});
    hands.failing(&plant(&hands, &login, over_ssh).await, "check ssh-privatekey").await;
    // A pull secret that cannot be parsed must not be quoted.
    let unreadable = unique_name("planted-config");
    let config = json!({".dockerconfigjson": format!("{{\"auths\": {{\"{host}\": {{\"auth\": \"{unreadable}\"")});
    hands.failing(&plant(&hands, &config, image).await, "cannot be used").await;
    // A password in the URL: in the spec, where the user put it, and nowhere else.
    let name = unique_name("secret");
    let url = world.private_git.url(&repository_name).replace("https://", &format!("https://{USER}:{in_url}@"));
    hands.bundle(&name, git(&url, &json!({"branch": "main"}))).await;
    hands.failing(&name, "bundle unpack git clone error").await;

    let mut secrets = [forms(USER, PASSWORD), forms(USER, &planted), forms(USER, &in_url)].concat();
    secrets.extend([broken, unreadable]);
    for key in [key, other_key] {
        // Any line of a key, but those that all keys of the kind share.
        secrets.extend(key.lines().filter(|line| !line.starts_with("-----")).skip(1).map(str::to_owned));
    }
    nowhere(&hands, world.controller.log_path(), &secrets).await;
}

/// Reads the controller's log, the status of every Bundle, and every Event.
async fn nowhere(hands: &Hands, log: &std::path::Path, secrets: &[String]) {
    let log = std::fs::read_to_string(log).expect("the controller writes a log");
    assert!(log.contains("access denied"), "the log says why a Bundle waits");
    for secret in secrets {
        let line = log.lines().find(|line| line.contains(secret.as_str()));
        assert_eq!(line, None, "{secret:?} is in the controller's log");
    }
    for (api_version, kind) in [("core.rukpak.io/v1alpha1", "Bundle"), ("v1", "Event")] {
        for object in verbs::list(&hands.client, api_version, kind, "").await.expect("they can be listed") {
            let text = if kind == "Bundle" { object.data["status"].to_string() } else { object.data.to_string() };
            let found = secrets.iter().find(|secret| text.contains(secret.as_str()));
            assert_eq!(found, None, "in {kind} {:?}: {text}", object.metadata.name);
        }
    }
}
