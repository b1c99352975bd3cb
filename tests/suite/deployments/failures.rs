//! Installations and pivots that fail: which reason, which text, and what is left.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use serde_json::{Value, json};

use super::case::{Case, active, installed, message};

fn bad_config_map(case: &Case) -> Value {
    case.config_map("Not_A_Name")
}

/// A definition, and an object of it with this size; up to 3 is allowed.
fn widget(case: &Case, size: u32) -> [Value; 2] {
    let group = format!("{}.example.rukpak.io", case.name);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "maximum": 3}}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"},
                        "spec": {"size": size}});
    [definition, object]
}

fn is_not_healthy(deployment: &DynamicObject) -> bool {
    Expected::is_false("Healthy", "InstallationStatusFalse").saying("Installed condition is false").met_by(deployment)
}

#[tokio::test]
async fn a_first_installation_that_is_refused_says_which_object_and_why() {
    let case = Case::new("refused").await;
    let source = case.push("v1", &[case.config_map("a"), bad_config_map(&case)]).await;
    case.deploy(source).await;
    let failed = case.until(Expected::is_false("Installed", "InstallFailed").saying("Not_A_Name")).await;
    let text = message(&failed, "Installed");
    assert!(text.contains("manifests/01.yaml") && text.contains("metadata.name: Invalid value"), "{text}");
    assert!(!text.starts_with("required resource not found"), "{text}");
    assert!(is_not_healthy(&failed), "{:#}", failed.data);
    assert!(Expected::is_true("HasValidBundle", "UnpackSuccessful").met_by(&failed), "{:#}", failed.data);
    assert!(Expected::is_true("Stalled", "InstallFailed").met_by(&failed), "{:#}", failed.data);
    assert_eq!(active(&failed), None);
    // What a failed first installation applied is tracked: it goes with the deployment.
    case.delete(&case.target()).await;
    case.until_gone(&case.config_map_target("a")).await;
    // It is tried again and again, and logged once.
    let log = case.world.controller.log();
    let parts = ["WARN", &case.name, "Not_A_Name", "manifests/01.yaml"];
    let lines: Vec<&str> = log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[tokio::test]
async fn a_missing_namespace_is_a_missing_resource_and_heals() {
    let case = Case::new("nowhere").await;
    let namespace = format!("{}-later", case.name);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}});
    let source = case.push("v1", &[object]).await;
    case.deploy(source).await;
    let text = format!("namespaces {namespace:?} not found");
    let failed = case.until(Expected::is_false("Installed", "InstallFailed").saying(&text)).await;
    assert!(message(&failed, "Installed").starts_with("required resource not found: "), "{:#}", failed.data);
    let hint = format!("; create the namespace (kubectl create namespace {namespace}), or put it into the bundle");
    assert!(message(&failed, "Installed").ends_with(&hint), "{:#}", failed.data);
    case.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
    case.until(installed()).await;
}

/// Found before anything is written, therefore not an `UpgradeFailed`.
#[tokio::test]
async fn a_pivot_that_the_dry_run_refuses_changes_nothing() {
    let case = Case::new("dryrun").await;
    let before = case.install(&[case.config_map("a")]).await;
    let object = case.get(&case.config_map_target("a")).await;
    let mut changed = case.config_map("a");
    changed["data"]["key"] = json!("new");
    let bad = case.push("v2", &[changed, case.config_map("b"), bad_config_map(&case)]).await;
    case.change_source(&bad).await;
    let failed = case.until(Expected::is_false("Installed", "ErrorGettingReleaseState").saying("Not_A_Name")).await;
    assert!(is_not_healthy(&failed), "{:#}", failed.data);
    assert_eq!(active(&failed), active(&before));
    let now = case.get(&case.config_map_target("a")).await;
    assert_eq!(now.metadata.resource_version, object.metadata.resource_version);
    assert!(verbs::get(&case.client, &case.config_map_target("b")).await.unwrap().is_none());

    // Another spec is tried at once. Until it is installed the failure stands, although the old version is whole.
    let good = case.push("v3", &[case.config_map("c")]).await;
    case.change_source(&good).await;
    let mended = case.until(installed()).await;
    assert_ne!(active(&mended), active(&before));
    case.get(&case.config_map_target("c")).await;
    case.until_gone(&case.config_map_target("a")).await;
    assert!(Expected::is_true("Ready", "Succeeded").met_by(&case.until(Expected::is_true("Healthy", "Healthy")).await));
}

#[tokio::test]
async fn a_pivot_to_missing_kinds_waits_without_the_prefix() {
    let case = Case::new("later").await;
    let before = case.install(&[case.config_map("a")]).await;
    let [definition, object] = widget(&case, 1);
    let v2 = case.push("v2", &[case.config_map("b"), object]).await;
    case.change_source(&v2).await;
    let text = format!("no matches for kind \"Widget\" in version \"{}.example.rukpak.io/v1\"", case.name);
    let failed = case.until(Expected::is_false("Installed", "ErrorGettingReleaseState").saying(&text)).await;
    assert!(!message(&failed, "Installed").contains("required resource not found"), "{:#}", failed.data);
    assert_eq!(active(&failed), active(&before));
    case.get(&case.config_map_target("a")).await;

    case.create(&definition).await;
    let healed = case.until(installed()).await;
    assert_ne!(active(&healed), active(&before));
    case.get(&case.config_map_target("b")).await;
    case.until_gone(&case.config_map_target("a")).await;
    case.delete(&case.target()).await;
    case.delete(&Target::of(&definition).unwrap()).await;
}

/// An object of a kind that the bundle brings cannot be tried before: the old version is put back.
#[tokio::test]
async fn a_pivot_that_fails_half_way_is_undone() {
    let case = Case::new("undone").await;
    let before = case.install(&[case.config_map("a")]).await;
    let [definition, object] = widget(&case, 7);
    let mut changed = case.config_map("a");
    changed["data"]["key"] = json!("new");
    let v2 = case.push("v2", &[changed, case.config_map("b"), definition.clone(), object]).await;
    case.change_source(&v2).await;
    let failed = case.until(Expected::is_false("Installed", "UpgradeFailed").saying("spec.size")).await;
    assert!(is_not_healthy(&failed), "{:#}", failed.data);
    assert_eq!(active(&failed), active(&before));
    assert!(!message(&failed, "Installed").contains("putting the previous version back failed"), "{:#}", failed.data);
    assert_eq!(case.get(&case.config_map_target("a")).await.data["data"]["key"], "value");
    case.until_gone(&case.config_map_target("b")).await;
    case.until_gone(&Target::of(&definition).unwrap()).await;
    assert_eq!(case.bundles().await.len(), 2, "the old Bundle stays, its content is installed");
}
