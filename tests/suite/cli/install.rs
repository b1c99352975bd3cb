//! `rukpakctl install`, `upgrade` and `run --wait` against a real controller.

use rukpak_tests::verbs::{Target, unique_name};
use rukpak_tests::world::World;
use rukpak_tests::{ImageBuilder, Layer};
use serde_json::{Value, json};

use crate::cli::hands::{Did, Hands, folder, manifest, text, write};

/// An image of one ConfigMap.
async fn push(name: &str, value: &str) -> String {
    let image = ImageBuilder::new([Layer::of_files([("manifests/a.yaml".to_owned(), manifest(name, value))])]);
    World::shared().await.push(&format!("{name}-{value}"), &image).await
}

async fn value(hands: &Hands, name: &str) -> Value {
    let target = Target::namespaced("v1", "ConfigMap", "default", name);
    hands.get(&target).await.expect("it is installed").data["data"]["value"].clone()
}

fn assert_said(did: &Did, code: i32, out: &str) {
    assert_eq!((did.code, did.out.as_str()), (Some(code), out), "{}", did.err);
}

fn object(name: &str, what: &str) -> String {
    format!("bundledeployment.core.rukpak.io/{name} {what}\n")
}

#[tokio::test]
async fn an_image_is_installed_and_upgraded_and_waited_for() {
    let hands = Hands::admin().await;
    let name = unique_name("install");
    let (one, two) = (push(&name, "one").await, push(&name, "two").await);
    let did = hands.run_alone(&["install", &name, &one]).await;
    assert_said(&did, 0, &object(&name, "installed"));
    assert_eq!(value(&hands, &name).await, "one");
    for line in did.err.lines() {
        let (time, what) = line.split_once(' ').unwrap_or_else(|| panic!("{did:?}"));
        assert!(time.len() == 20 && time.ends_with('Z') && !what.is_empty(), "a time and what is waited for: {line}");
    }
    let again = hands.run_alone(&["install", &name, &two]).await;
    assert_said(&again, 1, "");
    let words = format!("error: bundledeployment {name:?} already exists; nothing was changed\n");
    assert_eq!(again.err, format!("{words}hint: rukpakctl upgrade {name} SOURCE\n"));

    assert_said(&hands.run_alone(&["upgrade", &name, &two]).await, 0, &object(&name, "upgraded"));
    assert_eq!(value(&hands, &name).await, "two");
    assert_said(&hands.run_alone(&["upgrade", &name, &two]).await, 0, &object(&name, "is installed already"));
    // A rollback is over when something else is asked for.
    assert_said(&hands.run_alone(&["rollback", &name]).await, 0, &object(&name, "rolled back to revision 1"));
    let did = hands.run_alone(&["upgrade", &name, &two, "-ojson"]).await;
    let json: Value = serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"));
    assert_eq!((did.code, json["spec"].get("rollbackTo")), (Some(0), None), "{json:#}");
    assert_eq!(value(&hands, &name).await, "two");
}

#[tokio::test]
async fn a_folder_is_uploaded_and_replaced_by_an_archive_and_an_image() {
    let hands = Hands::admin().await;
    let name = unique_name("folder");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let arguments = ["install", &name, text(folder.path())];
    assert_said(&hands.run(&arguments).await, 0, &object(&name, "installed"));
    assert_eq!(value(&hands, &name).await, "one");

    write(folder.path(), &[("manifests/a.yaml", manifest(&name, "two"))]);
    let archive = tempfile::NamedTempFile::with_suffix(".tar").expect("a file");
    let mut builder = tar::Builder::new(archive.as_file());
    builder.append_dir_all(".", folder.path()).and_then(|()| builder.finish()).expect("an archive");
    let path = text(archive.path());
    assert_said(&hands.run(&["upgrade", &name, path]).await, 0, &object(&name, "upgraded"));
    assert_eq!(value(&hands, &name).await, "two");
    assert_said(&hands.run(&["upgrade", &name, text(folder.path())]).await, 0, &object(&name, "is installed already"));

    let image = push(&name, "three").await;
    assert_said(&hands.run(&["upgrade", &name, &image]).await, 0, &object(&name, "upgraded"));
    assert_eq!(value(&hands, &name).await, "three");
    let template =
        hands.get(&Target::bundle_deployment(&name)).await.expect("it is there").data["spec"]["template"].clone();
    assert_eq!(template["spec"]["source"], json!({"type": "image", "image": {"ref": image}}));
    assert_eq!(template["metadata"]["labels"], json!({"app": name}), "nothing was uploaded for it");
}

#[tokio::test]
async fn what_will_not_be_installed_ends_the_wait_with_why() {
    let hands = Hands::admin().await;
    let name = unique_name("broken");
    let image = ImageBuilder::new([Layer::of_files([("manifests/a.yaml".to_owned(), "kind: Nothing\n".to_owned())])]);
    let reference = World::shared().await.push(&name, &image).await;
    let did = hands.run_alone(&["install", &name, &reference]).await;
    assert_said(&did, 1, "");
    let words = format!(
        "error: bundledeployment {name:?} is not installed and healthy: UnpackFailed: Failed to unpack the {name}-"
    );
    assert!(did.err.contains(&words), "{did:?}");
    assert!(did.err.ends_with(&format!("\nhint: rukpakctl status {name}\n")), "{did:?}");

    let late = unique_name("late");
    let did = hands.run_alone(&["install", &late, "localhost:1/nothing:v1", "--timeout=10s"]).await;
    assert_said(&did, 2, "");
    let words = format!(
        "error: bundledeployment {late:?} is not installed and healthy after 10 s: UnpackPending: Waiting for the {late}-"
    );
    assert!(did.err.contains(&words), "{did:?}");
    let did = hands.run_alone(&["upgrade", &late, "localhost:1/nothing:v2", "--wait=false"]).await;
    assert_said(&did, 0, &object(&late, "changed"));

    let did = hands.run_alone(&["upgrade", "nobody", "localhost:1/nothing:v2"]).await;
    assert_said(&did, 1, "");
    let words = "error: bundledeployments.core.rukpak.io \"nobody\" not found\nhint: rukpakctl install nobody SOURCE\n";
    assert_eq!(did.err, words);
}

#[tokio::test]
async fn a_folder_that_is_no_bundle_changes_nothing() {
    let hands = Hands::admin().await;
    let name = unique_name("invalid");
    let folder = folder(&[("manifests/a.yaml", "kind: Nothing\n")]);
    let path = text(folder.path());
    let did = hands.run(&["install", &name, path]).await;
    assert_said(&did, 1, "");
    let words = format!("error: {path}: refused as a plain+v0 bundle: 1 finding; nothing was applied\n");
    assert!(did.err.ends_with(&format!("{words}hint: rukpakctl validate {path}\n")), "{did:?}");
    assert!(hands.get(&Target::bundle_deployment(&name)).await.is_none(), "nothing is applied");
}

#[tokio::test]
async fn run_waits_if_it_is_told_to() {
    let hands = Hands::admin().await;
    let name = unique_name("waited");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let did = hands.run(&["run", &name, text(folder.path()), "--wait"]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    let last = format!("\nbundledeployment.core.rukpak.io {name:?} is installed and healthy\n");
    assert!(did.out.ends_with(&last), "{did:?}");
    assert_eq!(value(&hands, &name).await, "one");
}

#[tokio::test]
async fn ctrl_c_during_an_upload_says_what_waits() {
    let hands = Hands::admin().await;
    let name = unique_name("cut-short");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    // A service that takes the connection, and nothing else.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("https://localhost:{}", silent.local_addr().expect("an address").port());
    for verb in ["install", "run"] {
        let arguments = [verb, &name, text(folder.path()), "--endpoint", &endpoint];
        let did = hands.interrupted(&arguments, "uploading to bundle").await;
        assert_eq!(did.code, Some(2), "{did:?}");
        let words = format!(
            "error: interrupted: the content was not sent: bundledeployment {name:?} waits for it in the cluster\n"
        );
        let hint = "hint: run the command again: what is there already is not sent twice\n";
        assert!(did.err.ends_with(&format!("{words}{hint}")), "{did:?}");
    }
    let installed = hands.run(&["run", &name, text(folder.path()), "--wait"]).await;
    assert_eq!(installed.code, Some(0), "{installed:?}");
}

#[tokio::test]
async fn ctrl_c_says_what_goes_on() {
    let hands = Hands::admin().await;
    let name = unique_name("interrupted");
    let arguments = ["install", &name, "localhost:1/nothing:v1"];
    let did = hands.interrupted(&arguments, "UnpackPending").await;
    assert_said(&did, 2, "");
    let words = format!(
        "error: interrupted: the installation of bundledeployment {name:?} goes on in the cluster without rukpakctl\n"
    );
    assert!(did.err.ends_with(&format!("{words}hint: rukpakctl status {name}\n")), "{did:?}");
    assert!(hands.get(&Target::bundle_deployment(&name)).await.is_some(), "it goes on");
}
