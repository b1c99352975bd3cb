//! The objects in the cluster: marks, namespaces, and text that is only text.

use rukpak_tests::ImageBuilder;
use rukpak_tests::verbs::Target;
use serde_json::json;

use super::case::{Case, installed, is_controlled_by, label};

#[tokio::test]
async fn objects_carry_marks_and_keep_their_users_labels() {
    let case = Case::new("marks").await;
    let mut object = case.config_map("a");
    object["metadata"]["labels"] = json!({"team": "red", "core.rukpak.io/owner-name": "somebody-else"});
    object["metadata"]["annotations"] = json!({"note": "mine"});
    let deployment = case.install(&[object]).await;
    let now = case.get(&case.config_map_target("a")).await;
    assert_eq!(label(&now, "team"), Some("red"));
    assert_eq!(label(&now, "core.rukpak.io/owner-kind"), Some("BundleDeployment"));
    assert_eq!(label(&now, "core.rukpak.io/owner-name"), Some(case.name.as_str()), "ours win");
    assert_eq!(now.metadata.annotations.clone().unwrap_or_default().get("note").map(String::as_str), Some("mine"));
    assert!(is_controlled_by(&now, &deployment), "{:#?}", now.metadata);
}

#[tokio::test]
async fn an_object_without_a_namespace_lands_in_the_system_namespace() {
    let case = Case::new("default").await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": case.name}, "data": {"a": "b"}});
    let deployment = case.install(&[object]).await;
    let target = Target::namespaced("v1", "ConfigMap", "rukpak-system", &case.name);
    let now = case.get(&target).await;
    assert!(is_controlled_by(&now, &deployment), "{:#?}", now.metadata);
    case.delete(&case.target()).await;
    case.until_gone(&target).await;
}

#[tokio::test]
async fn braces_are_plain_text() {
    let case = Case::new("braces").await;
    let text = "{{ .Values.none }} {{ fail \"never\" }} {{";
    let mut object = case.config_map("a");
    object["data"]["key"] = json!(text);
    case.install(&[object]).await;
    assert_eq!(case.get(&case.config_map_target("a")).await.data["data"]["key"], text);
}

#[tokio::test]
async fn hooks_are_plain_objects() {
    let case = Case::new("hooks").await;
    let mut hook = case.config_map("hook");
    hook["metadata"]["annotations"] =
        json!({"helm.sh/hook": "pre-install,post-delete", "helm.sh/hook-delete-policy": "hook-succeeded"});
    let deployment = case.install(&[hook, case.config_map("a")]).await;
    let now = case.get(&case.config_map_target("hook")).await;
    assert!(is_controlled_by(&now, &deployment), "{:#?}", now.metadata);
    // It is watched like any other object, and goes when it leaves the bundle.
    case.delete(&case.config_map_target("hook")).await;
    case.until_object(&case.config_map_target("hook"), "another UID", |object| object.metadata.uid != now.metadata.uid)
        .await;
    let without = case.push("v2", &[case.config_map("a")]).await;
    case.change_source(&without).await;
    case.until_gone(&case.config_map_target("hook")).await;
    case.until(installed()).await;
}

#[tokio::test]
async fn yaml_means_what_kubectl_means_by_it() {
    let case = Case::new("yaml").await;
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: {}\ndata:\n  on: \"1\"\n---\n# nothing\n",
        case.name
    );
    let source = case.push_image("v1", &ImageBuilder::of_files([("manifests/any.name", text)])).await;
    case.deploy(source).await;
    case.until(installed()).await;
    // An unquoted `on` is a boolean, and a boolean key is the text "true".
    assert_eq!(case.get(&case.config_map_target("a")).await.data["data"]["true"], "1");
}
