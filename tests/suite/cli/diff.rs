//! `rukpakctl diff` against a real controller: what it says an upgrade does is what the upgrade does.

use rukpak_tests::verbs::{self, Expected, Target, unique_name};
use rukpak_tests::world::{World, until};
use rukpak_tests::{ImageBuilder, tools};
use serde_json::{Value, json};

use crate::cli::hands::{Did, Hands, folder, manifest, text, write};

fn json(did: &Did) -> Value {
    serde_json::from_str(&did.out).unwrap_or_else(|error| panic!("{error}: {did:?}"))
}

fn config_map(name: &str) -> Target {
    Target::namespaced("v1", "ConfigMap", "default", name)
}

fn secret(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default}}\nstringData: {{token: {value}}}\n"
    )
}

/// The CA of the world's servers, as a flag.
async fn ca() -> (tempfile::TempDir, String) {
    let world = World::shared().await;
    let folder = tools::temp_folder("ca").expect("a folder");
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, [world.registry.ca_pem(), world.git.ca_pem()].concat()).expect("a file");
    let flag = format!("--ca-file={}", path.display());
    (folder, flag)
}

fn assert_said(did: &Did, code: i32, out: &str) {
    assert_eq!((did.code, did.out.as_str()), (Some(code), out), "{}", did.err);
}

/// Two versions of a bundle: an object that changes, one that goes and one that comes, a Secret that changes, one that stays.
fn versions(name: &str) -> [Vec<(&'static str, String)>; 2] {
    ["one", "two"].map(|value| {
        let second = if value == "one" { "gone" } else { "new" };
        vec![
            ("manifests/a.yaml", manifest(&format!("{name}-changed"), value)),
            ("manifests/b.yaml", manifest(&format!("{name}-{second}"), "one")),
            ("manifests/c.yaml", secret(&format!("{name}-secret"), &format!("hidden-{value}"))),
            ("manifests/d.yaml", manifest(&format!("{name}-same"), "one")),
        ]
    })
}

#[tokio::test]
async fn an_upgrade_does_what_was_said_and_nothing_else() {
    let hands = Hands::admin().await;
    let name = unique_name("diff");
    let of = |part: &str| format!("{name}-{part}");
    let [old, new] = versions(&name);
    let folder = folder(&old);
    let path = text(folder.path());
    // Of what is not installed yet everything is new.
    let did = hands.run(&["diff", &name, path]).await;
    assert!(did.code == Some(1) && did.out.ends_with("\n4 to create, 0 unchanged\n"), "{did:?}");
    assert!(
        hands.get(&Target::bundle_deployment(&name)).await.is_none()
            && hands.get(&config_map(&of("same"))).await.is_none()
    );
    hands.install(&name, folder.path()).await;
    until(&hands.client, &name, Expected::is_true("Ready", "Succeeded")).await;
    assert_said(&hands.run(&["diff", &name, path]).await, 0, "4 unchanged\n");
    assert_said(&hands.run(&["diff", &name]).await, 0, "4 unchanged\n");

    write(folder.path(), &new);
    let wanted = format!(
        "change    ConfigMap default/{name}-changed
  - .data.value: \"one\"
  + .data.value: \"two\"
create    ConfigMap default/{name}-new
change    Secret default/{name}-secret
  - .data.token: *** (not shown)
  + .data.token: *** (not shown)
delete    ConfigMap default/{name}-gone
1 to create, 2 to change, 1 to delete, 1 unchanged
"
    );
    let did = hands.run(&["diff", &name, path]).await;
    assert_said(&did, 1, &wanted);
    assert_eq!(did.err, format!("{path}: 4 objects of a plain+v0 bundle\n"));
    let wide = hands.run(&["diff", &name, path, "-o", "wide"]).await;
    assert!(wide.out.contains("-changed   manifests/a.yaml, document 1 (line 1)\n"), "{wide:?}");
    let names =
        format!("configmap/{name}-changed\nconfigmap/{name}-new\nsecret/{name}-secret\nconfigmap/{name}-gone\n");
    assert_said(&hands.run(&["diff", &name, path, "-o", "name"]).await, 1, &names);
    let did = hands.run(&["diff", &name, path, "-o", "json"]).await;
    let shown = json(&did);
    let field = json!({"path": ".data.value", "before": "one", "after": "two"});
    assert_eq!((&shown["changes"][0]["fields"][0], &shown["unchanged"]), (&field, &json!(1)), "{shown:#}");
    for answer in [&did, &wide] {
        for hidden in ["hidden", "aGlkZGVu"] {
            assert!(!answer.out.contains(hidden) && !answer.err.contains(hidden), "a secret: {answer:?}");
        }
    }
    let live = hands.get(&config_map(&of("changed"))).await.expect("it is installed");
    assert_eq!(live.data["data"]["value"], "one", "nothing is written");

    let did = hands.run(&["upgrade", &name, path]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    assert!(hands.get(&config_map(&of("gone"))).await.is_none() && hands.get(&config_map(&of("new"))).await.is_some());
    assert_said(&hands.run(&["diff", &name, path]).await, 0, "4 unchanged\n");
}

#[tokio::test]
async fn drift_is_what_the_controller_would_repair() {
    let hands = Hands::admin().await;
    let name = unique_name("drift");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    hands.install(&name, folder.path()).await;
    until(&hands.client, &name, Expected::is_true("Ready", "Succeeded")).await;
    assert_eq!(hands.run_alone(&["suspend", &name]).await.code, Some(0));
    until(&hands.client, &name, Expected::is_true("Suspended", "Suspended")).await;
    let patch = json!({"data": {"value": "by hand", "other": "stays"}});
    verbs::merge(&hands.client, &config_map(&name), &patch).await.expect("it is patched");
    let wanted = format!(
        "change    ConfigMap default/{name}\n  - .data.value: \"by hand\"\n  + .data.value: \"one\"\n1 to change, 0 unchanged\n"
    );
    assert_said(&hands.run(&["diff", &name]).await, 1, &wanted);
    // The controller replaces what it cannot change.
    verbs::merge(&hands.client, &config_map(&name), &json!({"immutable": true})).await.expect("it is patched");
    let did = hands.run(&["diff", &name]).await;
    assert_eq!(did.code, Some(1), "{did:?}");
    let fields =
        "  - .data.other: \"stays\"\n  - .data.value: \"by hand\"\n  + .data.value: \"one\"\n  - .immutable: true\n";
    assert!(
        did.out.contains(fields) && did.err.contains("cannot be changed: it is deleted and created again"),
        "{did:?}"
    );
    verbs::delete(&hands.client, &config_map(&name)).await.expect("it is deleted");
    let wanted = format!("create    ConfigMap default/{name}\n1 to create, 0 unchanged\n");
    assert_said(&hands.run(&["diff", &name]).await, 1, &wanted);
    let none = hands.run(&["diff", "nobody"]).await;
    assert_said(&none, 1, "");
    assert_eq!(none.err, "error: bundledeployments.core.rukpak.io \"nobody\" not found\nhint: rukpakctl status\n");
}

#[tokio::test]
async fn what_would_be_refused_is_told() {
    let hands = Hands::admin().await;
    let name = unique_name("refused");
    let foreign = format!("{name}-foreign");
    hands
        .create(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": foreign, "namespace": "default"}}),
        )
        .await;
    let folder = folder(&[("manifests/a.yaml", manifest(&foreign, "one"))]);
    let path = text(folder.path());
    let wanted = format!(
        "refuse    ConfigMap default/{foreign}: it exists: it was not created by this BundleDeployment
1 to refuse, 0 unchanged; the upgrade would fail and change nothing
"
    );
    assert_said(&hands.run(&["diff", &name, path]).await, 1, &wanted);
    // It may be given away; then its fields change hands, which no dry run shows.
    let give = json!({"metadata": {"annotations": {"core.rukpak.io/adopt-by": name}}});
    verbs::merge(&hands.client, &config_map(&foreign), &give).await.expect("it is patched");
    let did = hands.run(&["diff", &name, path]).await;
    let taken = format!(
        "note: taken over from whoever installed them: ConfigMap \"{foreign}\" in namespace \"default\"; fields "
    );
    assert!(did.code == Some(1) && did.out.contains("1 to change") && did.err.contains(&taken), "{did:?}");
    // What the API server does not take.
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: NAME, namespace: default}\nspec: {ports: [{port: 70000}]}\n";
    write(folder.path(), &[("manifests/a.yaml", service.replace("NAME", &name))]);
    let did = hands.run(&["diff", &name, path]).await;
    assert!(did.code == Some(1) && did.out.starts_with(&format!("refuse    Service default/{name}: ")), "{did:?}");
    assert!(did.out.contains("spec.ports[0].port: Invalid value: 70000"), "{did:?}");
    // And what is no bundle.
    write(folder.path(), &[("manifests/a.yaml", "kind: Nothing\n")]);
    let did = hands.run(&["diff", &name, path]).await;
    assert_said(&did, 1, "");
    assert!(did.err.contains("Object 'apiVersion' is missing"), "{did:?}");
}

/// A CRD with these properties.
fn crd(plural: &str, properties: &str) -> String {
    crd_of("diff.example.com", plural, &format!("K{plural}"), properties)
}

fn crd_of(group: &str, plural: &str, kind: &str, properties: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: {plural}, singular: {plural}one, kind: {kind}}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {{spec: {{type: object, properties: {{{properties}}}}}}}
"
    )
}

#[tokio::test]
async fn crds_with_objects_are_guarded() {
    let hands = Hands::admin().await;
    let plural = unique_name("d").replace('-', "");
    let object = format!(
        "apiVersion: diff.example.com/v1\nkind: K{plural}\nmetadata: {{name: x, namespace: default}}\nspec: {{a: text}}\n"
    );
    let folder = folder(&[("manifests/crd.yaml", crd(&plural, "a: {type: string}"))]);
    let path = text(folder.path());
    hands.install(&plural, folder.path()).await;
    until(&hands.client, &plural, Expected::is_true("Ready", "Succeeded")).await;
    hands.create(&serde_saphyr::from_str::<Value>(&object).expect("YAML")).await;
    write(folder.path(), &[("manifests/crd.yaml", crd(&plural, "a: {type: integer}"))]);
    let did = hands.run(&["diff", &plural, path]).await;
    let first = format!("refuse    CustomResourceDefinition {plural}.diff.example.com: ");
    assert!(did.code == Some(1) && did.out.starts_with(&first), "{did:?}");
    assert!(
        did.out.contains("existing custom object default/x failed validation for new schema version v1"),
        "{did:?}"
    );
    // A CRD that leaves stays with its objects.
    std::fs::remove_file(folder.path().join("manifests/crd.yaml")).expect("it is there");
    write(folder.path(), &[("manifests/a.yaml", manifest(&plural, "one"))]);
    let did = hands.run(&["diff", &plural, path]).await;
    let wanted = format!(
        "create    ConfigMap default/{plural}
orphan    CustomResourceDefinition {plural}.diff.example.com: it has instances, K{plural} \"x\" among them
1 to create, 1 to orphan, 0 unchanged
"
    );
    assert_said(&did, 1, &wanted);
}

/// What comes before a stored version is dropped is told; that it could not be dropped now is no refusal.
#[tokio::test]
async fn migration_of_stored_objects_is_told() {
    let hands = Hands::admin().await;
    let plural = unique_name("d").replace('-', "");
    let one = crd(&plural, "a: {type: string}");
    let (head, version) = one.split_once("  - name: v1").expect("it has a version");
    let of = |name: &str, storage: bool| {
        format!("  - name: {name}{}", version.replace("storage: true", &format!("storage: {storage}")))
    };
    let folder = folder(&[("manifests/crd.yaml", format!("{head}{}{}", of("v1", true), of("v2", false)))]);
    let path = text(folder.path());
    hands.install(&plural, folder.path()).await;
    until(&hands.client, &plural, Expected::is_true("Ready", "Succeeded")).await;
    write(folder.path(), &[("manifests/crd.yaml", format!("{head}{}", of("v2", true)))]);
    let did = hands.run(&["diff", &plural, path]).await;
    let first = format!("change    CustomResourceDefinition {plural}.diff.example.com\n");
    assert!(did.code == Some(1) && did.out.starts_with(&first), "{did:?}");
    let note = format!(
        "note: objects of {plural}.diff.example.com that are stored as v1 are migrated to v2 first, if each of them converts; \
         then v1 is dropped"
    );
    assert!(did.err.contains(&note), "{did:?}");
}

#[tokio::test]
async fn images_and_repositories_are_fetched_from_here() {
    let hands = Hands::admin().await;
    let name = unique_name("remote");
    let (_folder, ca) = ca().await;
    let world = World::shared().await;
    let image = ImageBuilder::of_files([("manifests/a.yaml", manifest(&name, "image"))]);
    let reference = world.push(&name, &image).await;
    let wanted = format!("create    ConfigMap default/{name}\n1 to create, 0 unchanged\n");
    let did = hands.run_alone(&["diff", &name, &reference, &ca]).await;
    assert_said(&did, 1, &wanted);
    assert!(did.err.contains("@sha256:") && did.err.contains(": 1 object of a plain+v0 bundle"), "{did:?}");
    let repository = world.git.repository(&name).expect("a repository");
    repository.write(&[("bundle/manifests/a.yaml", manifest(&name, "git").as_str())]).expect("files");
    let commit = repository.commit("first").expect("a commit");
    let url = world.git.url(&name);
    let git = ["diff", &name, &url, "--branch=main", "--directory=bundle", &ca];
    let did = hands.run_alone(&git).await;
    assert_said(&did, 1, &wanted);
    assert!(did.err.contains(&commit), "{did:?}");
    let none = hands.run_alone(&["diff", &name, "localhost:1/none:v1"]).await;
    assert_said(&none, 2, "");
    assert!(none.err.starts_with("error: manifest of localhost:1/none:v1"), "{none:?}");
}

#[tokio::test]
async fn certificates_of_webhooks_are_no_change() {
    let hands = Hands::admin().await;
    let name = unique_name("kite");
    let kite = tools::workspace_folder().join("provisioners/registry/tests/fixtures/kite");
    // What the bundle depends on.
    let wind = crd_of("wind.example.org", "winds", "Wind", "a: {type: string}");
    hands.create(&serde_saphyr::from_str::<Value>(&wind).expect("YAML")).await;
    let did = hands.run(&["run", &name, text(&kite)]).await;
    assert_eq!(did.code, Some(0), "{did:?}");
    until(&hands.client, &name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    let did = hands.run(&["diff", &name]).await;
    assert_said(&did, 0, "16 unchanged\n");
    assert_said(&hands.run(&["diff", &name, text(&kite)]).await, 0, "16 unchanged\n");
}

#[tokio::test]
async fn who_may_not_ask_is_told_that_it_is_not_known() {
    let hands = Hands::admin().await;
    let name = unique_name("rights");
    let folder = folder(&[("manifests/a.yaml", manifest(&name, "one"))]);
    let rules = json!([{"apiGroups": ["core.rukpak.io"], "resources": ["bundledeployments"], "verbs": ["get"]}]);
    let reader = Hands::account(&name, &rules).await;
    hands.bind(&name, "system:discovery").await;
    let did = reader.run(&["diff", &name, text(folder.path())]).await;
    assert_eq!(did.code, Some(2), "{did:?}");
    let first = format!("?         ConfigMap \"{name}\" in namespace \"default\": configmaps \"{name}\" is forbidden");
    assert!(did.out.starts_with(&first) && did.out.ends_with("\n1 unknown, 0 unchanged\n"), "{did:?}");
}
