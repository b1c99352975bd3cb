//! `rukpakctl history`, `rollback`, `suspend`, `resume` and `reconcile` against a real controller.

use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::cli::hands::{Did, Hands, folder, manifest};

async fn value(hands: &Hands, name: &str) -> Value {
    let target = Target::namespaced("v1", "ConfigMap", "default", name);
    hands.get(&target).await.expect("it is installed").data["data"]["value"].clone()
}

/// Two revisions of a ConfigMap: "one", and "two" that is installed.
async fn two_revisions(hands: &Hands, name: &str) {
    for text in ["one", "two"] {
        run_until_ready(hands, name, text).await;
    }
}

/// Runs a folder with a ConfigMap of this value, and waits until it is installed.
async fn run_until_ready(hands: &Hands, name: &str, value: &str) {
    let folder = folder(&[("manifests/a.yaml", manifest(name, value))]);
    let (bundle, _) = hands.install(name, folder.path()).await;
    let installed = Expected::is_true("Ready", "Succeeded");
    let active = |object: &kube::api::DynamicObject| {
        installed.met_by(object) && object.data["status"]["activeBundle"] == bundle.as_str()
    };
    let target = Target::bundle_deployment(name);
    let seen = verbs::await_object(&hands.client, &target, value, rukpak_tests::world::SOON, |found| {
        found.is_some_and(active)
    });
    seen.await.unwrap_or_else(|error| panic!("{error:#}"));
}

fn assert_said(did: &Did, code: i32, out: &str) {
    assert_eq!((did.code, did.out.as_str()), (Some(code), out), "{}", did.err);
}

fn json(did: &Did) -> Value {
    serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"))
}

#[tokio::test]
async fn a_deployment_goes_back_to_a_revision_of_its_history() {
    let hands = Hands::admin().await;
    let name = unique_name("revisions");
    two_revisions(&hands, &name).await;
    let did = hands.run_alone(&["history", &name]).await;
    let lines: Vec<&str> = did.out.lines().collect();
    assert_eq!((did.code, lines.len()), (Some(0), 3), "{did:?}");
    assert!(lines[0].starts_with("REVISION   INSTALLED   RESULT    SINCE "), "{did:?}");
    assert!(lines[1].starts_with("2          yes         Healthy   20"), "{did:?}");
    assert!(lines[2].starts_with("1          no          Healthy   20"), "{did:?}");

    let did = hands.run_alone(&["rollback", &name]).await;
    assert_said(&did, 0, &format!("bundledeployment.core.rukpak.io/{name} rolled back to revision 1\n"));
    assert_eq!(value(&hands, &name).await, "one");
    assert!(!did.err.contains(['\r', '\u{1b}']), "nothing for a terminal: {:?}", did.err);
    let history = json(&hands.run_alone(&["history", &name, "-o", "json"]).await);
    assert_eq!((&history["name"], &history["installed"]), (&json!(name), &json!(1)), "{history:#}");

    let did = hands.run_alone(&["rollback", &name, "--to-revision", "2", "-o", "json"]).await;
    let object = json(&did);
    assert_eq!((did.code, &object["spec"]["rollbackTo"]), (Some(0), &json!(2)), "{did:?}");
    assert!(object["metadata"].get("managedFields").is_none(), "{did:?}");
    assert_eq!(value(&hands, &name).await, "two");

    let did = hands.run_alone(&["rollback", &name, "--to-revision", "7"]).await;
    assert_said(&did, 1, "");
    let words = format!("error: bundledeployment {name:?} has no revision 7: its history has 2, 1\n");
    assert_eq!(did.err, format!("{words}hint: rukpakctl history {name}\n"));
}

#[tokio::test]
async fn run_ends_a_rollback_and_installs_the_folder() {
    let hands = Hands::admin().await;
    let name = unique_name("forward");
    two_revisions(&hands, &name).await;
    let did = hands.run_alone(&["rollback", &name]).await;
    assert_eq!((did.code, value(&hands, &name).await), (Some(0), json!("one")), "{did:?}");

    run_until_ready(&hands, &name, "three").await;
    assert_eq!(value(&hands, &name).await, "three");
    let deployment = hands.get(&Target::bundle_deployment(&name)).await.unwrap();
    assert!(deployment.data["spec"].get("rollbackTo").is_none(), "{:#}", deployment.data["spec"]);
}

#[tokio::test]
async fn a_suspended_deployment_is_resumed() {
    let hands = Hands::admin().await;
    let name = unique_name("suspended");
    two_revisions(&hands, &name).await;
    let object = format!("bundledeployment.core.rukpak.io/{name}");
    assert_said(&hands.run_alone(&["suspend", &name]).await, 0, &format!("{object} suspended\n"));
    assert_said(&hands.run_alone(&["suspend", &name]).await, 0, &format!("{object} is suspended already\n"));
    until(&hands.client, &name, Expected::is_true("Suspended", "Suspended")).await;
    // Nothing comes of it, and how to go on is said.
    let did = hands.run_alone(&["rollback", &name]).await;
    assert_said(&did, 1, "");
    assert!(
        did.err.contains(&format!("error: bundledeployment {name:?} is not rolled back and healthy: Suspended: ")),
        "{did:?}"
    );
    assert!(did.err.ends_with(&format!("\nhint: rukpakctl resume {name}\n")), "{did:?}");
    assert_eq!(value(&hands, &name).await, "two");
    assert_said(&hands.run_alone(&["resume", &name, "-o", "name"]).await, 0, &format!("{object}\n"));
    let target = Target::namespaced("v1", "ConfigMap", "default", &name);
    let back =
        |found: Option<&kube::api::DynamicObject>| found.is_some_and(|object| object.data["data"]["value"] == "one");
    let seen = verbs::await_object(&hands.client, &target, "revision 1", rukpak_tests::world::SOON, back).await;
    seen.unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test]
async fn a_reconcile_is_asked_for_and_answered() {
    let hands = Hands::admin().await;
    let name = unique_name("asked");
    two_revisions(&hands, &name).await;
    let did = hands.run_alone(&["reconcile", &name]).await;
    let object = format!("bundledeployment.core.rukpak.io/{name}");
    assert_said(&did, 0, &format!("{object} reconciled: Succeeded: 1 object is installed\n"));
    let status = hands.get(&Target::bundle_deployment(&name)).await.expect("it is there");
    let asked = &status.metadata.annotations.as_ref().expect("annotations")["core.rukpak.io/reconcile-requested-at"];
    assert_eq!(&status.data["status"]["lastHandledReconcileAt"], asked);
    let did = hands.run_alone(&["reconcile", &name, "--wait=false"]).await;
    assert_said(&did, 0, &format!("{object} is to be reconciled\n"));
    // Nobody answers for a class that nobody serves.
    let alone = unique_name("alone");
    let mut nobodys = rukpak_tests::world::deployment(&alone, rukpak_tests::world::image("example.com/a:v1"));
    nobodys["spec"]["provisionerClassName"] = json!("somebody-else");
    hands.create(&nobodys).await;
    let did = hands.run_alone(&["reconcile", &alone, "--timeout", "5s"]).await;
    assert_said(&did, 2, "");
    let waits = "waiting for a controller of class \"somebody-else\" to answer the request";
    let words = format!(
        "error: bundledeployment {alone:?} is not reconciled after 5 s: {waits}\nhint: rukpakctl status {alone}\n"
    );
    assert!(did.err.ends_with(&words), "{did:?}");
    let first = did.err.lines().next().expect("a line of progress");
    assert!(
        first.starts_with("20") && first.ends_with(&format!("Z {waits}")),
        "a time and what is waited for: {first}"
    );
}

#[tokio::test]
async fn what_is_not_there_is_said_with_a_way_on() {
    let hands = Hands::admin().await;
    for verb in ["history", "rollback", "suspend", "resume", "reconcile"] {
        let did = hands.run_alone(&[verb, "nobody"]).await;
        assert_said(&did, 1, "");
        let words = "error: bundledeployments.core.rukpak.io \"nobody\" not found\nhint: rukpakctl status\n";
        assert_eq!(did.err, words, "{verb}");
    }
}
