//! Git repositories, servers and addresses that mean harm.

use std::path::Path;

use rukpak_tests::verbs::{self, Target, unique_name};
use rukpak_tests::world;
use rukpak_tests::{Fault, RepoBuilder, Rule};
use serde_json::{Value, json};

use super::sources::{Scene, Trap, git, manifest};

fn repository(scene: &Scene, name: &str) -> RepoBuilder {
    let repository = scene.world.git.repository(name).expect("git can do it");
    repository.write(&[("manifests/object.yaml", manifest(name))]).expect("git can do it");
    repository
}

fn branch() -> Value {
    json!({"branch": "main"})
}

#[tokio::test]
async fn hooks_attributes_filters_and_configuration_of_a_repository_are_files_like_others() {
    let scene = Scene::shared().await;
    let (name, folder) = (unique_name("hooks"), tempfile::tempdir().unwrap());
    let marker = folder.path().join("ran");
    let hook = format!("#!/bin/sh\ntouch {}\n", marker.display());
    let repository = repository(scene, &name);
    let config =
        format!("[core]\n\tfsmonitor = {hook:?}\n\tsshCommand = {hook:?}\n[filter \"x\"]\n\tsmudge = {hook:?}\n");
    let mut files: Vec<(String, String)> = ["post-checkout", "post-merge", "pre-receive"]
        .map(|hook_name| (format!("hooks/{hook_name}"), hook.clone()))
        .into();
    files.extend([
        ("config".to_owned(), config),
        ("HEAD".to_owned(), "ref: refs/heads/main\n".to_owned()),
        (".gitattributes".to_owned(), "* filter=x diff=x merge=x\n".to_owned()),
        (".gitconfig".to_owned(), format!("[alias]\n\tstatus = !{}\n", marker.display())),
    ]);
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    repository.write(&files).unwrap();
    repository.commit("first").unwrap();
    scene.unpacked(git(&scene.world.git.url(&name), &branch())).await;
    assert!(!marker.exists(), "something of the repository was run");
    scene.unharmed().await;
}

#[tokio::test]
async fn submodules_are_not_fetched() {
    let scene = Scene::shared().await;
    let (name, trap) = (unique_name("submodule"), Trap::set());
    let repository = repository(scene, &name);
    let first = repository.commit("first").unwrap();
    let modules = format!(
        "[submodule \"x\"]\n\tpath = manifests/x\n\turl = http://{}/r.git\n\tupdate = !touch /tmp/{name}\n",
        trap.address()
    );
    repository.write(&[(".gitmodules", modules)]).unwrap();
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{first},manifests/x")]).unwrap();
    repository.git(&["add", ".gitmodules"]).unwrap();
    repository.git(&["commit", "--quiet", "--message", "second"]).unwrap();
    repository.git(&["push", "--quiet", "origin", "HEAD"]).unwrap();
    let message = outcome(scene, git(&scene.world.git.url(&name), &branch())).await;
    assert!(message.contains("submodule") || message.contains("Successfully unpacked"), "{message}");
    trap.is_untouched();
    assert!(!Path::new("/tmp").join(&name).exists());
    scene.unharmed().await;
}

/// Trees as git itself refuses to make them.
#[tokio::test]
async fn trees_with_names_that_lead_elsewhere_are_refused_or_harmless() {
    let scene = Scene::shared().await;
    for bad in [".git", "..", ".", "a/b", ".GIT", "git~1", ".git\u{200c}"] {
        let name = unique_name("tree");
        let repository = repository(scene, &name);
        repository.commit("first").unwrap();
        let blob = repository.git(&["hash-object", "-w", "manifests/object.yaml"]).unwrap();
        // By hand: the commands that make trees look at names.
        let mut tree = format!("100644 {bad}\0").into_bytes();
        tree.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&blob[at..at + 2], 16).unwrap()));
        repository.write(&[("tree", tree)]).unwrap();
        let tree = repository.git(&["hash-object", "-t", "tree", "-w", "--literally", "tree"]).unwrap();
        let commit = repository.git(&["commit-tree", &tree, "-m", "bad"]).unwrap();
        repository.git(&["push", "--quiet", "--force", "origin", &format!("{commit}:refs/heads/main")]).unwrap();
        let message = outcome(scene, git(&scene.world.git.url(&name), &branch())).await;
        assert!(message.starts_with("source bundle content: ") || message.contains("manifests"), "{bad}: {message}");
    }
    scene.unharmed().await;
}

#[tokio::test]
async fn a_pack_that_is_small_and_a_tree_that_is_large_end_at_the_limit() {
    let scene = Scene::shared().await;
    // One file of zeros, and many that are nearly alike, which become deltas.
    let name = unique_name("bomb");
    let zeros = repository(scene, &name);
    zeros.write(&[("manifests/zeros", vec![0_u8; 64 << 20])]).unwrap();
    zeros.commit("first").unwrap();
    let message = scene.refused(git(&scene.world.git.url(&name), &branch()), "--limit=").await;
    assert!(message.contains("=tree-bytes") || message.contains("=manifest-bytes"), "{message}");
    let name = unique_name("bomb");
    let deltas = repository(scene, &name);
    let base = "0123456789abcdef".repeat(16 * 1024);
    for at in 0..60 {
        deltas.write(&[(format!("files/{at}").as_str(), format!("{base}{at}"))]).unwrap();
    }
    deltas.commit("first").unwrap();
    scene.refused(git(&scene.world.git.url(&name), &branch()), "--limit=tree-bytes").await;
    scene.unharmed().await;
}

/// Whatever is written into the fields is an address, a name or nothing.
#[tokio::test]
async fn options_and_other_schemes_as_addresses_and_names_are_refused() {
    let scene = Scene::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("ran");
    let touch = format!("touch {}", marker.display());
    let addresses = [
        format!("--upload-pack={touch}"),
        format!("-u{touch}:r"),
        format!("-oProxyCommand={touch}:r"),
        format!("ssh://-oProxyCommand={touch}/r"),
        format!("ext::sh -c {touch}"),
        format!("file://{}", folder.path().display()),
        folder.path().display().to_string(),
        "fd::17".to_owned(),
        "git://127.0.0.2/r".to_owned(),
        "https://127.0.0.1:1/r\nhost: x".to_owned(),
    ];
    let text = "is not an allowed repository";
    let refused = addresses.iter().map(|address| scene.refused(git(address, &branch()), text));
    futures::future::join_all(refused).await;
    let name = unique_name("names");
    repository(scene, &name).commit("first").unwrap();
    let url = scene.world.git.url(&name);
    for (kind, value, text) in [
        ("branch", format!("--upload-pack={touch}"), "has no branch"),
        ("tag", "--exec=x".to_owned(), "has no tag"),
        ("branch", "+main:main".to_owned(), "is not a valid name in git"),
        ("branch", "main:../../../../etc/x".to_owned(), "is not a valid name in git"),
        ("tag", "../../x".to_owned(), "is not a valid name in git"),
    ] {
        let said = scene.refused(git(&url, &json!({kind: value})), "source bundle content: ").await;
        assert!(said.contains(text) || said.contains("is not a valid name in git"), "{kind} {value}: {said}");
    }
    assert!(!marker.exists());
    scene.unharmed().await;
}

#[tokio::test]
async fn redirects_of_a_git_server_are_not_followed() {
    let scene = Scene::shared().await;
    let trap = Trap::set();
    for target in [
        format!("https://{}/r.git/info/refs?service=git-upload-pack", trap.address()),
        "https://169.254.169.254/r.git/info/refs?service=git-upload-pack".to_owned(),
    ] {
        let server = scene.git();
        server.add(Rule::on("/info/refs", Fault::Redirect(target)));
        scene.refused(git(&format!("{}/r.git", server.url()), &branch()), "redirect").await;
    }
    trap.is_untouched();
    scene.unharmed().await;
}

/// What the Bundle says in the end, good or bad.
async fn outcome(scene: &Scene, source: Value) -> String {
    let (client, name) = (scene.client().await, unique_name("outcome"));
    verbs::create(&client, &world::bundle(&name, source)).await.unwrap_or_else(|error| panic!("{error:#}"));
    let said = |object: &kube::api::DynamicObject| {
        let unpacked = verbs::condition(object, "Unpacked")?;
        let over = unpacked["reason"] == "UnpackFailed" || unpacked["status"] == "True";
        over.then(|| unpacked["message"].as_str().unwrap_or_default().to_owned())
    };
    let deadline = std::time::Duration::from_mins(1);
    let target = Target::bundle(&name);
    let found = verbs::await_object(&client, &target, "an outcome", deadline, |object| {
        object.is_some_and(|object| said(object).is_some())
    });
    let found = found.await.unwrap_or_else(|error| panic!("{error:#}")).expect("it is there");
    said(&found).unwrap_or_default()
}
