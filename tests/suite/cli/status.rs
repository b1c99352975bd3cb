//! `rukpakctl status` against a real API server. No manager runs here: the test writes what one would.

use std::net::{Ipv4Addr, TcpListener};

use kube::api::{Patch, PatchParams};
use rukpak_tests::tools;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use crate::cli::hands::{Did, Hands, folder, text};

const API: &str = "platform.openshift.io/v1alpha1";
const KIND: &str = "PlatformOperator";

async fn serve_the_kind(hands: &Hands) {
    let file = tools::workspace_folder().join("crds/generated/platform.openshift.io_platformoperators.yaml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let definition: Value = serde_saphyr::from_str(&text).expect("YAML");
    verbs::apply(&hands.client, &definition).await.expect("it is accepted");
    verbs::await_served(&hands.client, API, KIND, SOON).await.expect("it is served");
}

/// Makes a PlatformOperator whose status says so.
async fn operator(hands: &Hands, name: &str, status: &Value) -> Target {
    let object = json!({"apiVersion": API, "kind": KIND, "metadata": {"name": name, "labels": {"test": "status"}},
                        "spec": {"package": {"name": name}}});
    hands.create(&object).await;
    let target = Target::cluster(API, KIND, name);
    let api = target.api(&hands.client).await.expect("the kind is served");
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.expect("the status is accepted");
    target
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn assert_said(did: &Did, code: i32, out: &str) {
    assert_eq!((did.code, did.out.as_str()), (Some(code), out), "{}", did.err);
}

/// One after the other: all of it is about the whole cluster.
#[tokio::test]
async fn the_operators_of_a_cluster_are_told_in_the_words_of_its_cluster_operator() {
    let hands = Hands::admin().await;
    // Other tests have BundleDeployments of their own.
    let ours = ["status", "-l", "test=status"];
    let none = "No BundleDeployments are present in the cluster\n";
    assert_said(&hands.run_alone(&ours).await, 0, none);

    serve_the_kind(&hands).await;
    let nothing = format!("{none}No platform operators are present in the cluster\n");
    assert_said(&hands.run_alone(&ours).await, 0, &nothing);

    let installed = "Successfully applied the pump BundleDeployment resource";
    let good = json!({
        "source": {"catalog": "c", "package": "pump", "channel": "stable", "bundle": "pump.v1.0.0", "version": "1.0.0", "image": "i"},
        "conditions": [
            condition("Installed", "True", "InstallSuccessful", installed),
            condition("UpgradeAvailable", "True", "ManualPolicy", "Version 1.1.0 (pump.v1.1.0) can replace version 1.0.0"),
        ],
    });
    operator(&hands, "pump", &good).await;
    let heading = "NAME   PACKAGE   VERSION   INSTALLED   REASON              MESSAGE";
    let line = format!("pump   pump      1.0.0     True        InstallSuccessful   {installed}");
    let upgrade = "pump: upgrade available: Version 1.1.0 (pump.v1.1.0) can replace version 1.0.0";
    let wanted = format!("{none}\n{heading}\n{line}\n{upgrade}\nAll platform operators are in a successful state\n");
    assert_said(&hands.run_alone(&ours).await, 0, &wanted);

    let bad = json!({"conditions": [condition("Installed", "False", "SourceFailed", "failed to run sourcing logic")]});
    operator(&hands, "valve", &bad).await;
    let did = hands.run_alone(&ours).await;
    let sentence = "encountered the failing valve platform operator with reason \"SourceFailed\"";
    assert!(did.code == Some(1) && did.out.ends_with(&format!("\n{sentence}\n")), "{did:?}");
    let did = hands.run_alone(&[&ours[..], &["--output=json"]].concat()).await;
    let json: Value = serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"));
    assert_eq!((did.code, &json["successful"], &json["message"]), (Some(1), &json!(false), &json!(sentence)));
    let wanted = json!({"name": "valve", "package": "valve", "installed": "False", "reason": "SourceFailed",
                        "message": "failed to run sourcing logic"});
    assert_eq!(json["platformOperators"][1], wanted);
    assert_eq!(json["platformOperators"][0]["upgradeAvailable"]["reason"], "ManualPolicy");

    let elsewhere = Hands { kubeconfig: "/nonexistent".into(), ..Hands::admin().await };
    let flag = ["--kubeconfig", hands.kubeconfig.to_str().expect("UTF-8")];
    let by_flag = elsewhere.run_alone(&[&ours[..], &["--output=json"], &flag].concat()).await;
    assert_said(&by_flag, 1, &did.out);
    let by_context = elsewhere.run_alone(&[&["status", "--context=none"], &flag[..]].concat()).await;
    assert_said(&by_context, 2, "");
    assert!(by_context.err.contains("has no context \"none\"; choose one by --context: "), "{}", by_context.err);

    let nobody = Hands::account(&verbs::unique_name("status"), &json!([])).await;
    let did = nobody.run_alone(&["status"]).await;
    assert_said(&did, 2, "");
    assert!(did.err.contains("forbidden"), "{}", did.err);
}

#[tokio::test]
async fn the_deployments_of_a_cluster_have_a_line_each() {
    let hands = Hands::admin().await;
    let name = verbs::unique_name("listed");
    let mut object = rukpak_tests::world::deployment(&name, rukpak_tests::world::image("localhost:1/nothing:v1"));
    object["metadata"]["labels"] = json!({"test": name});
    object["spec"]["suspend"] = json!(true);
    hands.create(&object).await;
    let suspended = verbs::Expected::is_true("Stalled", "Suspended");
    rukpak_tests::world::until(&hands.client, &name, suspended).await;
    let selector = format!("test={name}");
    let did = hands.run_alone(&["status", "-l", &selector]).await;
    let lines: Vec<Vec<&str>> = did.out.lines().map(|line| line.split("   ").map(str::trim).collect()).collect();
    assert_eq!((did.code, lines[0].first()), (Some(1), Some(&"BUNDLEDEPLOYMENT")), "{did:?}");
    let cells: Vec<&&str> = lines[1].iter().filter(|cell| !cell.is_empty()).collect();
    let message = "spec.suspend is true: what is asked for is not installed";
    assert_eq!(cells, [&name.as_str(), &"False", &"yes", &"Suspended", &message], "{did:?}");
    let did = hands.run_alone(&["status", "-l", &selector, "-o", "name"]).await;
    assert_said(&did, 1, &format!("bundledeployment.core.rukpak.io/{name}\n"));
    let did = hands.run_alone(&["status", "-l", &selector, "-o", "yaml"]).await;
    assert!(did.out.contains("isSuspended: true\n") && did.out.contains("source: localhost:1/nothing:v1"), "{did:?}");
    let did = hands.run_alone(&["status", &name, "-o", "name"]).await;
    assert_said(&did, 1, &format!("bundledeployment.core.rukpak.io/{name}\n"));
}

#[tokio::test]
async fn without_a_cluster_it_could_not_be_found_out() {
    let folder = tools::temp_folder("kubeconfig").expect("a folder");
    let hands = Hands { kubeconfig: folder.path().join("none"), ..Hands::admin().await };
    let did = hands.run_alone(&["status"]).await;
    assert_said(&did, 2, "");
    assert!(did.err.contains("there is no kubeconfig") && did.err.contains("--kubeconfig PATH"), "{}", did.err);
}

/// As at the end of a tunnel that leads nowhere: the connection is made, and nothing comes.
#[tokio::test]
async fn an_api_server_that_never_answers_is_given_up() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let server = format!("http://{}", silent.local_addr().expect("an address"));
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "silent",
        "contexts": [{"name": "silent", "context": {"cluster": "silent", "user": "nobody"}}],
        "clusters": [{"name": "silent", "cluster": {"server": server}}], "users": [{"name": "nobody", "user": {}}]});
    let folder = folder(&[("kubeconfig", config.to_string())]);
    let kubeconfig = folder.path().join("kubeconfig");
    let hands = Hands::admin().await;

    let words = ["status", "--kubeconfig", text(&kubeconfig)];
    let did = tokio::time::timeout(SOON, hands.run_alone(&words)).await.expect("it ends");
    assert_said(&did, 2, "");
    assert!(did.err.contains("the API server did not answer within 50s"), "{}", did.err);
}
