//! Git sources that are wrong: each says what and where, nothing is stored, and the Bundle is unpacked once it is mended.

use axum::http::StatusCode;
use rukpak_tests::RepoBuilder;
use rukpak_tests::faulty::{Fault, Rule};
use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world::{PASSWORD, USER};
use serde_json::{Value, json};

use crate::bundles::hands::{Bare, Hands, Scene, git, manifest};

const CLONE: &str = "source bundle content: bundle unpack git clone error: ";

/// A repository with one commit of a good bundle.
fn repository(scene: &Scene, name: &str) -> RepoBuilder {
    let repository = scene.world.git.repository(name).expect("git can do it");
    repository.write(&[("manifests/object.yaml", manifest(name))]).expect("git can do it");
    repository.commit("first").expect("git can do it");
    repository
}

fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "rukpak-system"},
           "stringData": data})
}

fn login(mut source: Value, secret: &str) -> Value {
    source["git"]["auth"] = json!({"secret": {"name": secret}});
    source
}

/// Gives an existing Secret other data.
async fn mend_secret(hands: &Hands, name: &str, data: &Value) {
    let target = Target::namespaced("v1", "Secret", "rukpak-system", name);
    verbs::merge(&hands.client, &target, &json!({"stringData": data})).await.expect("the API server takes it");
}

#[tokio::test]
async fn an_unknown_branch() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("branch");
    let repository = repository(scene, &name);
    let url = scene.world.git.url(&name);
    hands.bundle(&name, git(&url, &json!({"branch": "release"}))).await;
    let message = hands.failing(&name, CLONE).await;
    assert_eq!(message, format!("{CLONE}{url} has no branch \"release\": it has main"));
    repository.branch("release").unwrap();
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn an_unknown_tag() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("tag");
    let repository = repository(scene, &name);
    repository.annotated_tag("v1").unwrap();
    let url = scene.world.git.url(&name);
    hands.bundle(&name, git(&url, &json!({"tag": "v2"}))).await;
    let message = hands.failing(&name, CLONE).await;
    assert_eq!(message, format!("{CLONE}{url} has no tag \"v2\": it has v1"));
    repository.light_tag("v2").unwrap();
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn an_unknown_commit() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("commit");
    let repository = repository(scene, &name);
    // Made here, pushed later.
    repository.git(&["commit", "--quiet", "--allow-empty", "--message", "local"]).unwrap();
    let commit = repository.resolve("HEAD").unwrap();
    let url = scene.world.git.url(&name);
    hands.bundle(&name, git(&url, &json!({"commit": commit}))).await;
    let begin = format!("source bundle content: checkout commit \"{commit}\": no branch or tag of {url} leads to it");
    hands.failing(&name, &begin).await;
    repository.git(&["push", "--quiet", "origin", "HEAD"]).unwrap();
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn a_short_commit_is_denied() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let bundle = rukpak_tests::world::bundle(&unique_name("short"), git("https://h/r", &json!({"commit": "abc1234"})));
    let denial = verbs::create_expecting_denial(&hands.client, &bundle).await.unwrap();
    let text =
        "bundle.spec.source.git.ref.commit \"abc1234\" is not a full commit id: 40 hexadecimal characters are needed";
    assert!(denial.message.ends_with(text), "{}", denial.message);
}

#[tokio::test]
async fn an_empty_repository() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("empty");
    let repository = scene.world.git.repository(&name).unwrap();
    let url = scene.world.git.url(&name);
    hands.bundle(&name, git(&url, &json!({"branch": "main"}))).await;
    assert_eq!(hands.failing(&name, CLONE).await, format!("{CLONE}{url} is empty: push a commit first"));
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("first").unwrap();
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn a_missing_repository() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("missing");
    hands.bundle(&name, git(&scene.world.git.url(&name), &json!({"branch": "main"}))).await;
    hands.failing(&name, "check the repository's URL").await;
    repository(scene, &name);
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn a_missing_directory() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("directory");
    let repository = repository(scene, &name);
    repository.write(&[("deploy", "a file\n")]).unwrap();
    repository.commit("second").unwrap();
    let url = scene.world.git.url(&name);
    let mut source = git(&url, &json!({"branch": "main"}));
    source["git"]["directory"] = json!("./deploy");
    hands.bundle(&name, source).await;
    let begin = format!("source bundle content: get subdirectory \"deploy\" for repository \"{url}\": ");
    hands.failing(&name, &begin).await;
    repository.remove("deploy").unwrap();
    repository.commit("third").unwrap();
    repository.write(&[("deploy/manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("fourth").unwrap();
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn a_link_out_of_the_repository() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("link");
    let repository = repository(scene, &name);
    repository.symlink("manifests/passwd.yaml", "../../../etc/passwd").unwrap();
    // Elsewhere it is nobody's business.
    repository.symlink("passwd", "/etc/passwd").unwrap();
    repository.commit("second").unwrap();
    hands.bundle(&name, git(&scene.world.git.url(&name), &json!({"branch": "main"}))).await;
    let text = "entry \"manifests/passwd.yaml\": the link to \"../../../etc/passwd\" leaves the bundle";
    hands.failing(&name, text).await;
    assert!(!hands.holds(&name));
    repository.remove("manifests/passwd.yaml").unwrap();
    repository.commit("third").unwrap();
    hands.unpacked(&name).await;
    assert_eq!(hands.content(&name).into_keys().collect::<Vec<_>>(), ["manifests/object.yaml"]);
}

#[tokio::test]
async fn a_server_in_trouble() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let broken = |code, text: &str| (Fault::Status(code, String::new()), text.to_owned());
    let redirect = |to: &str, text: &str| (Fault::Redirect(to.to_owned()), text.to_owned());
    let table = [
        broken(StatusCode::INTERNAL_SERVER_ERROR, "500"),
        broken(StatusCode::UNAUTHORIZED, "the repository is private or does not exist, set auth.secret"),
        broken(StatusCode::FORBIDDEN, "the repository is private or does not exist, set auth.secret"),
        (
            Fault::Answer(StatusCode::OK, vec![("content-type", "text/html".into())], b"<html>".to_vec()),
            "this is not a git server".to_owned(),
        ),
        redirect(
            "https://elsewhere.invalid/r.git/info/refs",
            "redirects to another host are not followed, use the final URL",
        ),
        // libgit2 crashes here, in its child process; that is not the end of the controller.
        redirect("https://localhost:1/r.git/info/refs", "a redirect without its query does: use the final URL"),
        (Fault::HangUpAfter(40), CLONE.to_owned()),
    ];
    for (fault, text) in table {
        let (name, server) = (unique_name("trouble"), scene.faulty_git());
        repository(scene, &name);
        server.add(Rule::on("/info/refs", fault));
        let url = format!("{}/{name}.git", server.url());
        hands.bundle(&name, git(&url, &json!({"branch": "main"}))).await;
        let message = hands.failing(&name, &text).await;
        assert!(message.starts_with(&format!("{CLONE}{url}: ")), "{message}");
        server.mend();
        hands.unpacked(&name).await;
    }
}

#[tokio::test]
async fn a_pack_that_breaks_off() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let (name, server) = (unique_name("pack"), scene.faulty_git());
    repository(scene, &name);
    server.add(Rule::on("/git-upload-pack", Fault::HangUpAfter(60)).method(axum::http::Method::POST));
    hands.bundle(&name, git(&format!("{}/{name}.git", server.url()), &json!({"branch": "main"}))).await;
    hands.failing(&name, CLONE).await;
    assert!(!hands.holds(&name));
    server.mend();
    hands.unpacked(&name).await;
}

/// With 4 s for a fetch, see [`Bare`].
#[tokio::test]
async fn a_server_that_hangs() {
    let bare = Bare::shared().await;
    let hands = bare.hands().await;
    for path in ["/info/refs", "/git-upload-pack"] {
        let (name, server) = (unique_name("hangs"), bare.faulty_git());
        let repository = bare.git.repository(&name).unwrap();
        repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
        repository.commit("first").unwrap();
        let rule = Rule::on(path, Fault::Hang);
        server.add(if path == "/info/refs" { rule } else { rule.method(axum::http::Method::POST) });
        let url = format!("{}/{name}.git", server.url());
        hands.bundle(&name, git(&url, &json!({"branch": "main"}))).await;
        let text = format!("{CLONE}{url}: more than the limit of 4 seconds for a git fetch (--limit=git-seconds)");
        assert_eq!(hands.failing(&name, CLONE).await, text);
        server.mend();
        hands.unpacked(&name).await;
    }
}

#[tokio::test]
async fn logins_over_https() {
    let scene = Scene::shared().await;
    let hands = scene.hands().await;
    let name = unique_name("login");
    let repository = scene.world.private_git.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("first").unwrap();
    let url = scene.world.private_git.url(&name);
    let source = git(&url, &json!({"branch": "main"}));

    let none = unique_name("login");
    hands.bundle(&none, source.clone()).await;
    hands.failing(&none, "the repository is private or does not exist, set auth.secret if it is private").await;

    hands.bundle(&name, login(source.clone(), &name)).await;
    let message = hands.failing(&name, "not found").await;
    assert!(message.starts_with(&format!("source bundle content: get secret rukpak-system/{name}: ")), "{message}");
    hands.create(&secret(&name, &json!({"token": "x"}))).await;
    hands.failing(&name, &format!("secret rukpak-system/{name} has no key username or password")).await;
    // With a key that no login has, it would not be sent.
    let target = Target::namespaced("v1", "Secret", "rukpak-system", &name);
    verbs::merge(&hands.client, &target, &json!({"data": {"token": null}})).await.unwrap();
    mend_secret(&hands, &name, &json!({"username": USER, "password": "wrong"})).await;
    let message = hands.failing(&name, "check username and password in the Secret").await;
    assert!(message.starts_with(&format!("{CLONE}{url}: ")), "{message}");
    mend_secret(&hands, &name, &json!({"password": PASSWORD})).await;
    hands.unpacked(&name).await;
}

#[tokio::test]
async fn logins_over_ssh() {
    let scene = Scene::shared().await;
    let (hands, ssh) = (scene.hands().await, &scene.world.ssh);
    let name = unique_name("ssh");
    let repository = ssh.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("first").unwrap();
    let url = ssh.url(&name);
    let source = login(git(&url, &json!({"branch": "main"})), &name);

    let none = unique_name("ssh");
    hands.bundle(&none, git(&url, &json!({"branch": "main"}))).await;
    let text = format!("source bundle content: configuring Auth error: {url}: an ssh repository needs auth.secret");
    hands.failing(&none, &text).await;

    let (key, other) = (ssh.client_key().unwrap(), ssh.other_key().unwrap());
    hands.create(&secret(&name, &json!({"ssh-privatekey": key}))).await;
    hands.bundle(&name, source).await;
    hands.failing(&name, "the server's host key cannot be verified: add ssh-knownhosts to the Secret").await;
    mend_secret(&hands, &name, &json!({"ssh-knownhosts": "# nothing"})).await;
    hands.failing(&name, "ssh-knownhosts holds no key: put the output of ssh-keyscan there").await;
    mend_secret(&hands, &name, &json!({"ssh-knownhosts": ssh.wrong_known_hosts().unwrap()})).await;
    hands.failing(&name, "the host key is not among the Secret's ssh-knownhosts").await;
    let known_hosts = ssh.known_hosts().unwrap();
    mend_secret(&hands, &name, &json!({"ssh-knownhosts": known_hosts, "ssh-privatekey": "no key"})).await;
    hands.failing(&name, "check ssh-privatekey in the Secret").await;
    mend_secret(&hands, &name, &json!({"ssh-privatekey": key})).await;
    hands.unpacked(&name).await;

    // The server refuses this key.
    let refused = unique_name("ssh");
    let data = json!({"ssh-privatekey": other, "ssh-knownhosts": ssh.known_hosts().unwrap()});
    hands.create(&secret(&refused, &data)).await;
    hands.bundle(&refused, login(git(&url, &json!({"branch": "main"})), &refused)).await;
    hands.failing(&refused, "check ssh-privatekey in the Secret: no passphrase, and known to the server").await;
}

#[tokio::test]
async fn an_ssh_server_without_the_repository() {
    let scene = Scene::shared().await;
    let (hands, ssh) = (scene.hands().await, &scene.world.ssh);
    let name = unique_name("ssh-missing");
    hands.create(&ssh.secret(&name).unwrap()).await;
    hands.bundle(&name, login(git(&ssh.url(&name), &json!({"branch": "main"})), &name)).await;
    hands.failing(&name, "check the repository's URL, and whether the key may read it").await;
    let repository = ssh.repository(&name).unwrap();
    repository.write(&[("manifests/object.yaml", manifest(&name))]).unwrap();
    repository.commit("first").unwrap();
    hands.unpacked(&name).await;
}
