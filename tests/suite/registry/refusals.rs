//! What a bundle needs of others, and what is never installed.

use kube::api::DynamicObject;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use super::case::{Case, Files, installed};
use crate::deployments::tired::tire;

/// A definition with any content.
fn definition(group: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

#[tokio::test]
async fn a_missing_api_is_waited_for_by_name() {
    let case = Case::new("gvk").await;
    case.deploy(case.files("gvk"), &Value::Null).await;
    let group = case.group();
    let text = format!(
        "the bundle depends on an API that is not served: no matches for kind \"Well\" in version \"{group}/v1\""
    );
    let missing = Expected::is_false("Installed", "InstallFailed").saying(&text);
    let waiting = case.until(missing).await;
    assert!(verbs::condition(&waiting, "HasValidBundle").is_some_and(|condition| condition["status"] == "True"));
    assert!(case.find(&Target::cluster("v1", "Namespace", &case.namespace())).await.is_none(), "nothing was written");

    // From here on it is the definition that must wake it.
    let tired = tire(&case.client, &case.name, missing).await;
    case.create(&definition(&group, "Well", "wells")).await;
    let established = Target::cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("wells.{group}"));
    let is_served = |object: &DynamicObject| {
        verbs::condition(object, "Established").is_some_and(|condition| condition["status"] == "True")
    };
    case.until_object(&established, "Established", is_served).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Well", SOON).await.unwrap();
    case.until(installed()).await;
    tired.was_woken();
}

#[tokio::test]
async fn a_package_is_refused_unless_the_user_has_it() {
    let case = Case::new("package").await;
    case.deploy(case.files("package"), &Value::Null).await;
    let text = format!(
        "bundle \"rukpak-example-{0}.v1.0.0\" has a dependency declared via property \"olm.package.required\" which is \
         currently not supported (rukpak-example-{0}-wells >=1.2.0 <2.0.0); install what it needs, and say so with the \
         annotation core.rukpak.io/ignore-dependencies=\"true\" on the BundleDeployment",
        case.name
    );
    case.until(Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(&text)).await;
    case.merge(&json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependencies": "true"}}})).await;
    case.until(installed()).await;
    case.until(Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
}

/// The same on an upgrade, where the installed version stays meanwhile: the annotation is no new generation, and counts at once.
#[tokio::test]
async fn an_upgrade_that_needs_a_package_waits_for_the_users_word() {
    let case = Case::new("package-later").await;
    // What leaves the bundle is deleted when the new version is healthy.
    let _kubelet = Kubelet::play(case.client.clone(), &case.namespace());
    let first = case.install("parts").await;
    case.upgrade("v2", case.files("package")).await;
    let expected = Expected::is_false("HasValidBundle", "BundleLoadFailed").saying("olm.package.required");
    let refused = case.until(expected).await;
    assert_eq!(refused.data["status"]["activeBundle"], first.data["status"]["activeBundle"]);
    assert!(installed().met_by(&refused), "{:#}", refused.data);
    assert_eq!(case.owned("v1", "Service").await.len(), 2, "the installed version is whole");
    case.merge(&json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependencies": "true"}}})).await;
    case.until_pruned(&first).await;
    assert_eq!(case.owned("v1", "Service").await.len(), 0);
    case.until(Expected::is_true("HasValidBundle", "UnpackSuccessful")).await;
}

/// The fixture `parts` for another Kubernetes.
fn parts_for(case: &Case<'_>, kubernetes: &str) -> Files {
    let mut files = case.files("parts");
    let csv = files.iter_mut().find(|(path, _)| path.contains("clusterserviceversion")).expect("the fixture has a CSV");
    let (before, spec) = ("\nspec:\n", format!("\nspec:\n  minKubeVersion: {kubernetes}\n"));
    assert_eq!(csv.1.matches(before).count(), 1, "{}", csv.1);
    csv.1 = csv.1.replace(before, &spec);
    files
}

#[tokio::test]
async fn a_bundle_for_a_newer_kubernetes_is_refused_before_anything_is_written() {
    let case = Case::new("newer").await;
    case.deploy(parts_for(&case, "1.999.0"), &Value::Null).await;
    let server = case.client.apiserver_version().await.unwrap().git_version;
    let (numbers, _) = server.trim_start_matches('v').split_once('-').unwrap_or((server.trim_start_matches('v'), ""));
    let text = format!(
        "CSV version requirement not met: minKubeVersion (1.999.0) > server version ({numbers}); upgrade the cluster, or say \
         that it will do with the annotation core.rukpak.io/ignore-dependencies=\"true\" on the BundleDeployment"
    );
    let refused = Expected::is_false("HasValidBundle", "BundleLoadFailed").saying(&text);
    case.until(refused).await;
    // What other packages provide is taken care of; that says nothing of the cluster.
    let annotations =
        json!({"core.rukpak.io/ignore-dependencies": "packages", "core.rukpak.io/reconcile-requested-at": "now"});
    case.merge(&json!({"metadata": {"annotations": annotations}})).await;
    let is_handled = |object: &DynamicObject| object.data["status"]["lastHandledReconcileAt"] == "now";
    let object = case.until_object(&case.target(), "the request is handled", is_handled).await;
    assert!(refused.met_by(&object), "{:#}", object.data);
    assert!(case.find(&Target::cluster("v1", "Namespace", &case.namespace())).await.is_none(), "nothing was written");
    case.merge(&json!({"metadata": {"annotations": {"core.rukpak.io/ignore-dependencies": "true"}}})).await;
    case.until(installed()).await;
}

#[tokio::test]
async fn a_kubernetes_version_that_nobody_can_read_is_in_nobodys_way() {
    let case = Case::new("unreadable").await;
    case.deploy(parts_for(&case, "newest"), &Value::Null).await;
    case.until(installed()).await;
}

#[tokio::test]
async fn an_optional_manifest_is_left_out_where_its_kind_is_not_served() {
    let case = Case::new("optional").await;
    case.install("optional").await;
    assert_eq!(case.owned("apps/v1", "Deployment").await.len(), 1);

    // The same bundle, where the kind is served.
    let served = Case::new("optional-served").await;
    let group = format!("monitoring.{}", served.group());
    served.create(&definition(&group, "ServiceMonitor", "servicemonitors")).await;
    let api_version = format!("{group}/v1");
    verbs::await_served(&served.client, &api_version, "ServiceMonitor", SOON).await.unwrap();
    served.install("optional").await;
    served.get(&served.inside(&api_version, "ServiceMonitor", "pump-monitor")).await;
}

/// What was left out is made up for when its kind comes.
#[tokio::test]
async fn an_optional_manifest_is_installed_when_its_kind_is_served_later() {
    let case = Case::new("optional-later").await;
    case.install("optional").await;
    let group = format!("monitoring.{}", case.group());
    case.create(&definition(&group, "ServiceMonitor", "servicemonitors")).await;
    let api_version = format!("{group}/v1");
    verbs::await_served(&case.client, &api_version, "ServiceMonitor", SOON).await.unwrap();
    let monitor = case.inside(&api_version, "ServiceMonitor", "pump-monitor");
    let soon = std::time::Duration::from_secs(30);
    let found =
        verbs::await_object(&case.client, &monitor, "the optional object", soon, |object| object.is_some()).await;
    found.unwrap_or_else(|error| panic!("{error:#}"));
    case.until(installed()).await;
}

#[tokio::test]
async fn a_manifest_that_is_not_optional_waits_for_its_kind() {
    let case = Case::new("needed").await;
    let mut files = case.files("optional");
    files.retain(|(path, _)| path != "metadata/properties.yaml");
    case.deploy(files, &Value::Null).await;
    let text = format!(
        "required resource not found: [resource mapping not found for name: \"pump-monitor\" namespace: \"{}\": no matches \
         for kind \"ServiceMonitor\" in version \"monitoring.{}/v1\"]",
        case.namespace(),
        case.group()
    );
    case.until(Expected::is_false("Installed", "InstallFailed").saying(&text)).await;
}
