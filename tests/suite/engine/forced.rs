//! Objects that are deleted and created again where a field cannot be changed: `core.rukpak.io/force: enabled` in the manifest.

use rukpak_tests::verbs::Target;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, gadget};

fn forced(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({"core.rukpak.io/force": "enabled"});
    object
}

fn binding(case: &Case<'_>, role: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": case.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
}

fn selecting(case: &Case<'_>, label: &str) -> Value {
    let mut workload = case.workload("w", 0);
    let labels = json!({"app": label});
    workload["spec"]["selector"]["matchLabels"] = labels.clone();
    workload["spec"]["template"]["metadata"]["labels"] = labels;
    workload
}

fn claim(case: &Case<'_>, mode: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": case.namespace},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}})
}

async fn uid(case: &Case<'_>, target: &Target) -> Option<String> {
    case.get(target).await.expect("it is there").metadata.uid
}

/// Without it the author has to rename the object.
#[tokio::test]
async fn an_object_whose_field_cannot_be_changed_is_made_anew_where_its_manifest_says_so() {
    let case = Case::new("forced").await;
    case.install(&[binding(&case, "a"), selecting(&case, "a")]).await;
    let b = case.in_namespace("rbac.authorization.k8s.io/v1", "RoleBinding", "b");
    let w = case.in_namespace("apps/v1", "Deployment", "w");
    let before = (uid(&case, &b).await, uid(&case, &w).await);

    case.change("v2", &[binding(&case, "b"), selecting(&case, "a")]).await;
    case.refused("ErrorGettingReleaseState", "roleRef").await;
    assert_eq!(before, (uid(&case, &b).await, uid(&case, &w).await));

    case.pivot("v3", &[forced(binding(&case, "b")), forced(selecting(&case, "b"))]).await;
    case.ready().await;
    let after = case.until_owned(&b).await;
    assert_eq!(after.data["roleRef"]["name"], "b");
    let after = case.until_owned(&w).await;
    assert_eq!(after.data["spec"]["selector"]["matchLabels"]["app"], "b");
    assert!(before.0 != uid(&case, &b).await && before.1 != uid(&case, &w).await);

    // What can be changed is.
    let before = uid(&case, &w).await;
    let mut more = forced(selecting(&case, "b"));
    more["spec"]["replicas"] = json!(1);
    case.pivot("v4", &[forced(binding(&case, "b")), more]).await;
    case.until_value(&w, "/spec/replicas", &json!(1)).await;
    assert_eq!(before, uid(&case, &w).await);
}

/// The release before need not say so: it could not come back.
#[tokio::test]
async fn the_way_back_undoes_a_replacement() {
    let case = Case::new("forced-back").await;
    case.install(&[binding(&case, "a")]).await;
    let (crd, group) = definition("forced-poison");
    let poison = gadget(&group, &case.namespace, "poison", 0);
    case.change("v2", &[forced(binding(&case, "b")), crd, poison]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    let b = case.in_namespace("rbac.authorization.k8s.io/v1", "RoleBinding", "b");
    let back = case.until_value(&b, "/roleRef/name", &json!("a")).await;
    assert!(back.metadata.deletion_timestamp.is_none());
    case.until_owned(&b).await;
}

/// What hangs on it would go with it.
#[tokio::test]
async fn a_claim_is_never_made_anew() {
    let case = Case::new("forced-claim").await;
    case.install(&[claim(&case, "ReadWriteOnce")]).await;
    let target = case.in_namespace("v1", "PersistentVolumeClaim", "data");
    let before = uid(&case, &target).await;
    case.change("v2", &[forced(claim(&case, "ReadWriteMany"))]).await;
    let words = "is not replaced, whatever its annotation core.rukpak.io/force says, for its data would be lost";
    case.refused("ErrorGettingReleaseState", words).await;
    assert_eq!(before, uid(&case, &target).await);
}
