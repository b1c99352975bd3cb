//! From one version to the next, and the end: what keeps its name is changed in place, what loses it is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::kubelet::Kubelet;
use rukpak_tests::verbs::Expected;
use serde_json::Value;

use super::case::{Case, uid};
use super::listing;

/// Kinds of the fixture `mill`.
const KINDS: [(&str, &str); 12] = [
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
];

/// All objects of the deployment, by kind and name.
async fn objects(case: &Case<'_>) -> BTreeMap<String, DynamicObject> {
    let mut objects = BTreeMap::new();
    for (api_version, kind) in KINDS {
        for object in case.owned(api_version, kind).await {
            objects.insert(format!("{kind} {}", object.metadata.name.clone().unwrap_or_default()), object);
        }
    }
    objects
}

#[tokio::test]
async fn an_upgrade_changes_in_place_deletes_what_is_renamed_and_removes_what_is_gone() {
    let case = Case::new("upgrade").await;
    // What leaves the bundle is deleted when the new version is healthy.
    let _kubelet = Kubelet::play(case.client.clone(), &case.namespace());
    let first = case.install("mill/v1").await;
    let old = objects(&case).await;
    case.upgrade("v2", case.files("mill/v2")).await;
    case.until_pruned(&first).await;
    let new = objects(&case).await;
    let names = |objects: &BTreeMap<String, DynamicObject>| objects.keys().cloned().collect::<BTreeSet<_>>();
    let (old_names, new_names) = (names(&old), names(&new));
    let gone: Vec<&String> = old_names.difference(&new_names).collect();
    let come: Vec<&String> = new_names.difference(&old_names).collect();
    // The rules are part of a role's name: the one with other rules is renamed, the other one stays.
    assert_eq!(gone.iter().filter(|name| name.contains("Role")).count(), 2, "{gone:?}");
    assert_eq!(come.iter().filter(|name| name.contains("Role")).count(), 2, "{come:?}");
    let others = |names: &[&String]| {
        names.iter().filter(|name| !name.contains("Role")).map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(others(&gone), ["ConfigMap mill-defaults", "ConfigMap mill-old-name"]);
    assert_eq!(others(&come), ["ConfigMap mill-new-name"]);
    for name in old_names.intersection(&new_names) {
        assert_eq!(uid(&old[name]), uid(&new[name]), "{name} is changed in place");
    }
    assert_eq!(new["ConfigMap mill-settings"].data["data"]["wind"], "strong");
    let container = &new["Deployment mill-manager"].data["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], format!("{}/mill:1.1.0", case.group()));
    assert_eq!(container["env"].as_array().map(Vec::len), Some(2));
    let secret =
        |objects: &BTreeMap<String, DynamicObject>| objects["Secret mill-manager-service-cert"].data["data"].clone();
    assert_eq!(secret(&old), secret(&new), "an upgrade is no reason for another certificate");
}

/// A version whose objects the API server refuses leaves the old one whole.
#[tokio::test]
async fn a_broken_version_leaves_the_old_one_whole() {
    let case = Case::new("broken").await;
    let first = case.install("mill/v1").await;
    let old = objects(&case).await;
    let mut files = case.files("mill/v2");
    for (_, text) in &mut files {
        *text = text.replace("matchLabels: {app: mill}", "matchLabels: {app: other}");
    }
    case.upgrade("broken", files).await;
    case.until(Expected { kind: "Installed", status: "False", reason: None, message: "mill-manager" }).await;
    let now = objects(&case).await;
    assert_eq!(old.keys().collect::<Vec<_>>(), now.keys().collect::<Vec<_>>());
    for (name, object) in &old {
        assert_eq!((uid(object), &object.data), (uid(&now[name]), &without_status(&now[name], object)), "{name}");
    }
    let status = case.get(&case.target()).await;
    assert_eq!(status.data["status"]["activeBundle"], first.data["status"]["activeBundle"]);
}

/// The object's data, with the status of `other`: the control plane writes it when it likes.
fn without_status(object: &DynamicObject, other: &DynamicObject) -> Value {
    let mut data = object.data.clone();
    if let (Some(status), Some(data)) = (other.data.get("status"), data.as_object_mut()) {
        data.insert("status".to_owned(), status.clone());
    }
    data
}

#[tokio::test]
async fn removal_leaves_nothing() {
    let case = Case::new("removal").await;
    let is_mine = |line: &&String| line.contains(&case.name);
    let before = listing::everything(&case.client).await;
    assert_eq!(before.iter().filter(is_mine).count(), 0);
    let first = case.install("mill/v1").await;
    let with = listing::everything(&case.client).await;
    // Other tests come and go: what is of this one has its name, or lies in its namespace.
    assert!(with.iter().filter(is_mine).count() >= 12, "{with:#?}");
    case.upgrade("v2", case.files("mill/v2")).await;
    case.until_upgraded(&first).await;
    case.remove().await;
    let left = listing::left_over_of(&case.client, &case.name, Duration::from_mins(3)).await;
    assert_eq!(left, BTreeSet::new());
}
