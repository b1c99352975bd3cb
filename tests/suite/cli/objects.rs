//! `rukpakctl tree`, `why` and `delete` against a real controller, with objects that others write to.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{SOON, until};
use serde_json::{Value, json};

use crate::cli::hands::{Did, Hands, folder, manifest};
use crate::cli::ui::Page;

fn assert_said(did: &Did, code: i32, out: &str) {
    assert_eq!((did.code, did.out.as_str()), (Some(code), out), "{}", did.err);
}

fn json(did: &Did) -> Value {
    serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"))
}

/// Installs a ConfigMap and a Secret; returns the name of the Bundle.
async fn installed(hands: &Hands, name: &str) -> String {
    let secret = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default}}\n");
    let folder = folder(&[("manifests/a.yaml", manifest(name, "one")), ("manifests/b.yaml", secret)]);
    let (bundle, _) = hands.install(name, folder.path()).await;
    until(&hands.client, name, Expected::is_true("Ready", "Succeeded")).await;
    bundle
}

fn config_map(name: &str) -> Target {
    Target::namespaced("v1", "ConfigMap", "default", name)
}

#[tokio::test]
async fn a_tree_has_the_bundles_and_the_objects_with_their_health() {
    let hands = Hands::admin().await;
    let name = unique_name("tree");
    let bundle = installed(&hands, &name).await;
    let wanted = format!(
        "BundleDeployment {name}   Ready\n\
         ├── Bundle {bundle}   Unpacked, active\n\
         ├── ConfigMap default/{name}   Current\n\
         └── Secret default/{name}   Current\n"
    );
    assert_said(&hands.run_alone(&["tree", &name]).await, 0, &wanted);
    let tree = json(&hands.run_alone(&["tree", &name, "-o", "json"]).await);
    assert_eq!((&tree["ready"], &tree["objects"][1]["kind"]), (&json!(true), &json!("Secret")), "{tree:#}");
    let names = format!(
        "bundledeployment.core.rukpak.io/{name}\nbundle.core.rukpak.io/{bundle}\nconfigmap/{name}\nsecret/{name}\n"
    );
    assert_said(&hands.run_alone(&["tree", &name, "-oname"]).await, 0, &names);

    // Who may not list Secrets is told so, and sees the rest.
    let account = unique_name("tree");
    let rules = json!([
        {"apiGroups": ["core.rukpak.io"], "resources": ["bundledeployments", "bundles"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
    ]);
    let reader = Hands::account(&account, &rules).await;
    reader.bind(&account, "system:discovery").await;
    let did = reader.run_alone(&["tree", &name]).await;
    assert_eq!(did.code, Some(2), "{did:?}");
    assert!(did.out.contains(&format!("├── ConfigMap default/{name}   Current\n└── ?   Secret: ")), "{did:?}");
    assert!(did.out.contains("forbidden"), "{did:?}");
}

#[tokio::test]
async fn why_names_owner_and_bundle_and_other_writers() {
    let hands = Hands::admin().await;
    let name = unique_name("why");
    let bundle = installed(&hands, &name).await;
    let patch = json!({"metadata": {"labels": {"team": "a"}}});
    verbs::merge(&hands.client, &config_map(&name), &patch).await.expect("it is patched");
    let did = hands.run(&["why", &format!("configmap/{name}"), "-n", "default"]).await;
    let lines: Vec<&str> = did.out.lines().collect();
    let first = format!("ConfigMap default/{name}   Current: Resource is always ready");
    let owner = format!("bundledeployment: {name}");
    let of = format!("bundle:           {bundle}");
    let rest = ["source:           upload", "manifest:         manifests/a.yaml:1", ""];
    assert_eq!(
        (did.code, &lines[..3], &lines[3..6]),
        (Some(0), &[first.as_str(), &owner, &of][..], &rest[..]),
        "{did:?}"
    );
    assert_eq!(lines[6].split_whitespace().collect::<Vec<_>>(), ["MANAGER", "FIELD", "CONTESTED"], "{did:?}");
    assert!(lines[7].ends_with("   .metadata.labels.team   no"), "{did:?}");
    let why = json(&hands.run_alone(&["why", "ConfigMap", &name, "-n", "default", "-o", "json"]).await);
    assert_eq!((&why["bundleDeployment"], &why["bundle"]), (&json!(name), &json!(bundle)), "{why:#}");
    assert_eq!(why["fields"][0]["field"], ".metadata.labels.team", "{why:#}");
    // Without a way to the content service all else is told.
    let reason = why["manifestUnknown"].as_str().unwrap_or_default();
    assert!(why.get("manifest").is_none() && reason.contains("no ready Pod"), "{why:#}");

    let foreign = hands.run_alone(&["why", "configmap/kube-root-ca.crt", "-n", "default"]).await;
    assert_eq!(foreign.code, Some(1), "{foreign:?}");
    assert!(foreign.out.contains("\nno BundleDeployment manages it: none has created it\n"), "{foreign:?}");
    let missing = hands.run_alone(&["why", "configmap/none", "-n", "default"]).await;
    assert_said(&missing, 1, "");
    assert_eq!(missing.err, "error: configmaps \"none\" not found\nhint: kubectl get configmaps -n default\n");
    let unserved = hands.run_alone(&["why", "apple/pie"]).await;
    assert_said(&unserved, 1, "");
    assert_eq!(unserved.err, "error: the cluster serves no kind \"apple\"\nhint: kubectl api-resources\n");
}

#[tokio::test]
async fn a_deletion_is_waited_for_and_says_what_holds_it_up() {
    let hands = Hands::admin().await;
    let name = unique_name("deleted");
    installed(&hands, &name).await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    verbs::merge(&hands.client, &config_map(&name), &finalizer).await.expect("it is patched");
    let object = format!("bundledeployment.core.rukpak.io/{name}");
    let did = hands.run_alone(&["delete", &name, "--wait=false"]).await;
    assert_said(&did, 0, &format!("{object} is being deleted\n"));
    let is_told = |found: Option<&DynamicObject>| {
        found.is_some_and(|found| {
            verbs::condition(found, "Deleting").is_some_and(|deleting| {
                deleting["message"].as_str().is_some_and(|message| message.contains("example.com/hold"))
            })
        })
    };
    let target = Target::bundle_deployment(&name);
    verbs::await_object(&hands.client, &target, "what holds it up", SOON, is_told).await.expect("it is told");
    let did = hands.run_alone(&["delete", &name, "--timeout", "5s"]).await;
    assert_said(&did, 2, "");
    let last = did.err.lines().rev().nth(1).expect("two lines");
    assert!(
        last.starts_with(&format!("error: bundledeployment {name:?} is not gone after 5 s: waiting until ")),
        "{did:?}"
    );
    assert!(last.contains("example.com/hold"), "{did:?}");

    // Whoever waits sees it go.
    let (release, held) = (json!({"metadata": {"finalizers": null}}), config_map(&name));
    let delete = ["delete", &name];
    let (did, released) = tokio::join!(hands.run_alone(&delete), verbs::merge(&hands.client, &held, &release));
    released.expect("it is patched");
    assert_said(&did, 0, &format!("{object} deleted\n"));
    assert!(hands.get(&target).await.is_none() && hands.get(&config_map(&name)).await.is_none());
    let gone = hands.run_alone(&["delete", &name]).await;
    assert_said(&gone, 1, "");
    assert_eq!(
        gone.err,
        format!("error: bundledeployments.core.rukpak.io {name:?} not found\nhint: rukpakctl status\n")
    );
}

#[tokio::test]
async fn examples_are_those_of_the_bundle_that_is_installed() {
    let hands = Hands::admin().await;
    let name = unique_name("examples");
    let example = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    let first = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}});
    let shown = json!({"alm-examples": json!([example]).to_string(),
        "operatorframework.io/initialization-resource": first.to_string()});
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "annotations": shown},
        "spec": {"installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}},
    });
    let annotations = format!("annotations: {{operators.operatorframework.io.bundle.package.v1: {name}}}\n");
    let folder = folder(&[("metadata/annotations.yaml", annotations), ("manifests/csv.json", csv.to_string())]);
    let missing = hands.run(&["examples", &name]).await;
    assert_said(&missing, 1, "");
    hands.install(&name, folder.path()).await;
    until(&hands.client, &name, Expected::is_true("Ready", "Succeeded")).await;

    let did = hands.run(&["examples", &name, "configmap", "-ojson"]).await;
    assert_eq!((did.code, json(&did)), (Some(0), json!([example])), "{did:?}");
    assert!(did.err.ends_with(": 1 example\n"), "{did:?}");

    let page = Page::serve(&hands).await;
    let (_, deployment) = page.get(&format!("deployments/{name}")).await;
    assert!(deployment.contains(&format!(r#"<a href="{name}/examples">"#)), "{deployment}");
    let (status, examples) = page.get(&format!("deployments/{name}/examples")).await;
    let places = ["Secret", "ConfigMap"].map(|kind| examples.find(&format!("<h2>{kind} {name}</h2>")));
    assert!(status.is_success() && places[0].is_some() && places[0] < places[1], "{examples}");
    assert!(examples.contains(&format!("The operator needs Secret &quot;default/{name}&quot; first.")), "{examples}");
    assert!(
        examples.contains(&format!("<code>rukpakctl examples {name} KIND | kubectl apply -f -</code>")),
        "{examples}"
    );
}
