//! The harness proves itself: its peers are real, and they are gone when they should be.

pub mod conformance;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rukpak_tests::faulty::TokenAuth;
use rukpak_tests::keeper::Kept;
use rukpak_tests::plane::yaml;
use rukpak_tests::registry::{Compression, Flavour, Platform, TarEntry};
use rukpak_tests::verbs::{self, Expected, PATIENCE, Target};
use rukpak_tests::{
    Fault, FaultyServer, GitServer, GitServerOptions, ImageBuilder, Layer, Plane, PlaneOptions, Registry,
    RegistryOptions, Rule, SshServer, TestCa, faulty, fixtures, tools,
};
use serde_json::json;

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn widget_crd(group: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Cluster", "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "properties": {
                    "size": { "type": "integer", "maximum": 3 } } } } } } }],
        },
    })
}

#[tokio::test]
async fn a_plane_serves_and_collects() {
    let plane = Plane::shared().await.unwrap();
    let client = plane.admin().await.unwrap();
    let namespace = verbs::namespace(&client, "harness").await.unwrap();

    // The controller-manager works: it makes the default ServiceAccount, and garbage goes with its owner.
    let account = Target::namespaced("v1", "ServiceAccount", &namespace, "default");
    verbs::await_object(&client, &account, "its creation", PATIENCE, |object| object.is_some()).await.unwrap();
    let config_map = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace } });
    let owner = verbs::create(&client, &config_map("owner")).await.unwrap();
    let mut dependent = config_map("dependent");
    dependent["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid }]);
    verbs::apply(&client, &dependent).await.unwrap();
    verbs::delete(&client, &Target::of(&config_map("owner")).unwrap()).await.unwrap();
    verbs::await_deleted(&client, &Target::of(&dependent).unwrap(), PATIENCE).await.unwrap();

    let space = Target::cluster("v1", "Namespace", &namespace);
    verbs::delete(&client, &space).await.unwrap();
    verbs::await_deleted(&client, &space, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn verbs_tell_refusals_and_conditions() {
    let plane = Plane::shared().await.unwrap();
    let client = plane.admin().await.unwrap();
    let group = format!("{}.example.rukpak.io", verbs::unique_name("g"));
    let crd = widget_crd(&group);
    verbs::apply(&client, &crd).await.unwrap();
    let crd = Target::of(&crd).unwrap();
    let established = Expected::is_true("Established", "InitialNamesAccepted");
    verbs::await_condition(&client, &crd, established, PATIENCE).await.unwrap();

    let widget = |size: i64| json!({ "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": { "name": "w" }, "spec": { "size": size } });
    verbs::await_served(&client, &format!("{group}/v1"), "Widget", PATIENCE).await.unwrap();
    let denial = verbs::create_expecting_denial(&client, &widget(4)).await.unwrap();
    assert_eq!(denial.code, 422, "{denial:?}");
    assert!(denial.message.contains("spec.size"), "{denial:?}");
    assert!(verbs::create_expecting_denial(&client, &widget(3)).await.is_err(), "an accepted object is no denial");

    // A wait in vain shows the object.
    let wish = Expected::is_true("Established", "Never");
    let error = verbs::await_condition(&client, &crd, wish, Duration::from_millis(200)).await.unwrap_err().to_string();
    assert!(error.contains("InitialNamesAccepted") && error.contains("--- events"), "{error}");
    verbs::delete(&client, &crd).await.unwrap();
}

#[tokio::test]
async fn a_plane_of_ones_own_restarts_and_ends() {
    let plane = Plane::start_with(PlaneOptions { audit: true, ..PlaneOptions::default() }).await.unwrap();
    let client = plane.admin().await.unwrap();
    let before = plane.pids().unwrap();
    let config_map = Target::namespaced("v1", "ConfigMap", "default", "kept");
    verbs::create(
        &client,
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "kept", "namespace": "default" } }),
    )
    .await
    .unwrap();

    plane.restart_apiserver().await.unwrap();
    let after = plane.pids().unwrap();
    assert_ne!(before.kube_apiserver, after.kube_apiserver);
    assert_eq!(before.etcd, after.etcd);
    assert!(verbs::get(&client, &config_map).await.unwrap().is_some(), "data outlives the API server");
    assert!(std::fs::read_to_string(plane.audit_log()).unwrap().contains("\"name\":\"kept\""));

    plane.stop_apiserver().await.unwrap();
    assert!(verbs::get(&client, &config_map).await.is_err());
    plane.start_apiserver().await.unwrap();

    let pids = plane.pids().unwrap();
    let pids = [pids.etcd, pids.kube_apiserver.unwrap(), pids.kube_controller_manager];
    let folder = plane.folder().to_owned();
    let log = tools::tail(&folder.join("kube-controller-manager.log"), 15);
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}\n{log}");
    drop(plane);
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_kept_program_dies_with_its_keeper() {
    let folder = tools::temp_folder("kept").unwrap();
    let mut command = Command::new("/bin/sh");
    // It ignores the polite request and has a child of its own.
    command.args(["-c", "trap '' TERM; sleep 1000 & echo child $!; wait"]);
    let log = folder.path().join("log");
    let mut arguments =
        vec!["run".to_owned(), "--grace-seconds=1".to_owned(), format!("--log={}", log.display()), "--".to_owned()];
    arguments.push("/bin/sh".to_owned());
    arguments.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    let kept = Kept::start(arguments, |_| ()).unwrap();
    let pid = kept.hear(0, Some(PATIENCE), |line| line["pid"].as_u64()).await.unwrap();
    let child = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if let Some(child) = text.trim().strip_prefix("child ") {
            break child.parse::<u32>().unwrap();
        }
        tokio::task::yield_now().await;
    };
    let pid = u32::try_from(pid).unwrap();
    assert!(is_alive(pid) && is_alive(child));
    drop(kept);
    assert!(!is_alive(pid), "the program outlived its keeper");
    // It has been killed, but nobody of ours can wait for it: a loaded machine may take a moment.
    let end = std::time::Instant::now() + PATIENCE;
    while is_alive(child) && std::time::Instant::now() < end {
        tokio::task::yield_now().await;
    }
    assert!(!is_alive(child), "the program's child outlived its keeper");
}

#[tokio::test]
async fn a_private_registry_takes_images_and_guards_them() {
    let registry = Registry::start(RegistryOptions::private("alice", "secret")).await.unwrap();
    let image = ImageBuilder::new([
        Layer::of_files([("manifests/a.yaml", "a: 1\n")]),
        Layer::new([TarEntry::whiteout("manifests/a.yaml")]).compression(Compression::Zstd),
    ]);
    let pushed = registry.push("bundles/one", "v1", &image).await.unwrap();
    assert_eq!(pushed.pinned, format!("{}/bundles/one@{}", registry.host(), pushed.digest));

    let client = faulty::client(&registry.ca_pem()).unwrap();
    let url = format!("{}/v2/bundles/one/manifests/v1", registry.url());
    let get = || client.get(&url).header("accept", "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(get().send().await.unwrap().status(), 401);
    let answer = get().basic_auth("alice", Some("secret")).send().await.unwrap();
    assert_eq!(answer.headers()["docker-content-digest"], pushed.digest.as_str());

    let index = [Platform::host(), Platform::new("linux", "s390x")]
        .map(|platform| (platform, vec![Layer::of_files([("manifests/b.yaml", "b: 1\n")])]));
    let index =
        registry.push("bundles/one", "index", &ImageBuilder::index(index).flavour(Flavour::Docker)).await.unwrap();
    assert_eq!(index.manifests.len(), 2);
    registry.move_tag("bundles/one", "v1", &index.digest).await.unwrap();

    registry.truncate_blob(&pushed.layers[0], 10).unwrap();
    let blob = format!("{}/v2/bundles/one/blobs/{}", registry.url(), pushed.layers[0]);
    let bytes = client.get(blob).basic_auth("alice", Some("secret")).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(bytes.len(), 10);

    let pid = registry.pid();
    assert!(is_alive(pid));
    drop(registry);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_faulty_server_does_as_told() {
    let registry = Registry::start(RegistryOptions::default()).await.unwrap();
    let pushed =
        registry.push("b", "v1", &ImageBuilder::of_files([("manifests/a.yaml", "x".repeat(4096))])).await.unwrap();
    let ca = TestCa::new("faulty-ca").unwrap();
    let tokens = TokenAuth { user: "bob".into(), password: "pw".into(), field: "token" };
    let server = FaultyServer::before_with_tokens(&ca, &registry.url(), &registry.ca_pem(), tokens).unwrap();
    let client = faulty::client(server.ca_pem()).unwrap();
    let url = format!("{}/v2/b/blobs/{}", server.url(), pushed.layers[0]);

    let challenge = client.get(&url).send().await.unwrap();
    assert_eq!(challenge.status(), 401);
    let challenge = challenge.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert!(challenge.starts_with("Bearer realm=") && challenge.contains("scope=\"repository:b:pull\""), "{challenge}");
    let token = client.get(format!("{}/token", server.url())).basic_auth("bob", Some("pw")).send().await.unwrap();
    let token = token.json::<serde_json::Value>().await.unwrap()["token"].as_str().unwrap().to_owned();
    let get = || client.get(&url).bearer_auth(&token).send();
    let good = get().await.unwrap().bytes().await.unwrap();
    assert_eq!(rukpak_tests::registry::digest(&good), pushed.layers[0]);

    server.add(Rule::on("/blobs/", Fault::FlipBit).times(1));
    let flipped = get().await.unwrap().bytes().await.unwrap();
    assert_eq!(flipped.len(), good.len());
    assert_ne!(flipped, good);
    assert_eq!(get().await.unwrap().bytes().await.unwrap(), good, "once means once");

    server.add(Rule::on("/blobs/", Fault::HangUpAfter(20)).times(1));
    get().await.unwrap().bytes().await.unwrap_err();
    server.add(Rule::on("/blobs/", Fault::Hang));
    tokio::time::timeout(Duration::from_millis(300), get()).await.unwrap_err();
    server.mend();
    server.add(Rule::on("/blobs/", Fault::StallAfter(20)));
    tokio::time::timeout(Duration::from_millis(300), get().await.unwrap().bytes()).await.unwrap_err();
    server.mend();
    assert_eq!(get().await.unwrap().bytes().await.unwrap(), good);
    assert_eq!(server.count("/token"), 1);
}

fn git(home: &Path, arguments: &[&str], environment: &[(&str, String)]) -> Output {
    let mut command = Command::new("git");
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("GIT_") {
            command.env_remove(key);
        }
    }
    command.current_dir(home).env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    command
        .args(arguments)
        .envs(environment.iter().map(|(key, value)| (key, value)))
        .output()
        .expect("git is installed")
}

#[tokio::test]
async fn git_serves_over_https() {
    let credentials = Some(("alice".to_owned(), "secret".to_owned()));
    let server = GitServer::start_with(GitServerOptions { credentials }).unwrap();
    let repository = server.repository("team/bundle").unwrap();
    let first = repository.write(&[("manifests/a.yaml", "a: 1\n")]).unwrap().commit("first").unwrap();
    repository.annotated_tag("v1.0.0").unwrap();
    repository.branch("side").unwrap();
    let hidden = repository.write(&[("manifests/b.yaml", "b: 1\n")]).unwrap().commit("second").unwrap();
    repository.branch("main").unwrap().delete_branch("side").unwrap();

    let home = tools::temp_folder("clone").unwrap();
    std::fs::write(home.path().join("ca.pem"), server.ca_pem()).unwrap();
    let ca = [("GIT_SSL_CAINFO", home.path().join("ca.pem").display().to_string())];
    let refused = git(home.path(), &["clone", &server.url("team/bundle"), "refused"], &ca);
    assert!(!refused.status.success());
    let url = server.url("team/bundle").replace("https://", "https://alice:secret@");
    let cloned = git(home.path(), &["clone", "--branch=v1.0.0", &url, "cloned"], &ca);
    assert!(cloned.status.success(), "{}", String::from_utf8_lossy(&cloned.stderr));
    let head = git(&home.path().join("cloned"), &["rev-parse", "HEAD"], &[]);
    assert_eq!(String::from_utf8(head.stdout).unwrap().trim(), first);
    assert!(
        !git(&home.path().join("cloned"), &["cat-file", "-e", &hidden], &[]).status.success(),
        "nothing leads to it"
    );

    // The same commit on another day, in another place.
    let other = GitServer::start().unwrap();
    let again = other.repository("y").unwrap();
    assert_eq!(again.write(&[("manifests/a.yaml", "a: 1\n")]).unwrap().commit("first").unwrap(), first);
}

#[tokio::test]
async fn git_serves_over_ssh() {
    let server = SshServer::start().await.unwrap();
    let repository = server.repository("bundle").unwrap();
    repository.write(&[("manifests/a.yaml", "a: 1\n")]).unwrap().commit("first").unwrap();
    let home = tools::temp_folder("clone").unwrap();
    std::fs::write(home.path().join("known_hosts"), server.known_hosts().unwrap()).unwrap();
    std::fs::write(home.path().join("wrong_hosts"), server.wrong_known_hosts().unwrap()).unwrap();
    let ssh = |hosts: &str| {
        let (hosts, key) = (home.path().join(hosts), server.client_key_path());
        let options = "-o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes";
        [(
            "GIT_SSH_COMMAND",
            format!("ssh -F none {options} -o UserKnownHostsFile={} -i {}", hosts.display(), key.display()),
        )]
    };
    let cloned = git(home.path(), &["clone", &server.url("bundle"), "cloned"], &ssh("known_hosts"));
    let log = tools::tail(&server.log_path(), 30);
    assert!(cloned.status.success(), "{}\n{log}", String::from_utf8_lossy(&cloned.stderr));
    assert!(home.path().join("cloned/manifests/a.yaml").is_file());
    assert!(!git(home.path(), &["clone", &server.url("bundle"), "refused"], &ssh("wrong_hosts")).status.success());
    let pid = server.pid();
    drop(server);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn fixtures_are_what_they_say() {
    let plane = Plane::shared().await.unwrap();
    let client = plane.admin().await.unwrap();
    let suffix = verbs::unique_name("f");
    let objects = |fixture: &str| {
        let files = fixtures::renamed(fixture, &suffix).unwrap();
        let texts = files.into_iter().filter(|(path, _)| !path.ends_with(".gitignore")).map(|(_, text)| text);
        texts
            .flat_map(|text| yaml::objects(&text).unwrap())
            .map(|object| serde_json::to_value(object).unwrap())
            .collect::<Vec<_>>()
    };
    for fixture in ["valid", "provides", "dependent", "crds-and-crs", "missing-crds", "subdir", "mixed"] {
        let found = objects(&format!("plain/{fixture}"));
        assert!(!found.is_empty(), "{fixture}");
        let foreign = found.iter().find(|object| {
            object["metadata"]["namespace"].is_null()
                && object["kind"] != "List"
                && !object["metadata"]["name"].as_str().unwrap().contains(&suffix)
        });
        assert!(foreign.is_none(), "{fixture} would meet another test's copy: {foreign:?}");
    }
    let first = ["Namespace", "CustomResourceDefinition"];
    let (early, late): (Vec<_>, Vec<_>) =
        objects("operator/v1").into_iter().partition(|object| first.contains(&object["kind"].as_str().unwrap()));
    for object in early.iter().chain(&late) {
        verbs::create(&client, object).await.unwrap();
    }
    for object in objects("operator/v2") {
        let target = Target::of(&object).unwrap();
        match verbs::get(&client, &target).await.unwrap() {
            Some(_) => verbs::merge(&client, &target, &object).await.unwrap(),
            None => verbs::create(&client, &object).await.unwrap(),
        };
    }
    let broken = objects("operator/v3-broken").into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let denial = verbs::merge_expecting_denial(&client, &Target::of(&broken).unwrap(), &broken).await.unwrap();
    assert!(denial.message.contains("`selector` does not match template `labels`"), "{denial:?}");
    for object in objects("operator/v2") {
        verbs::delete(&client, &Target::of(&object).unwrap()).await.unwrap();
    }
}
