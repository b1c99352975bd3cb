//! Marks by which the manager knows its objects, written by somebody in a namespace of theirs: they reach nothing of another namespace.

use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs;
use serde_json::json;

use super::case::{Case, text};

const UID: &str = "core.rukpak.io/deployment-uid";
/// Long enough for many passes.
const MOMENT: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_from_another_namespace_approves_nothing() {
    let case = Case::new("forged-yes").await;
    let elsewhere = Case::new("forged-from").await;
    case.subscribes(&["1.0.0"], &json!({"installPlanApproval": "Manual"})).await;
    let asked = case.until_planned("1.0.0", "RequiresApproval").await;
    let mut annotations = asked.metadata.annotations.clone().unwrap_or_default();
    let marked = annotations.get(UID).cloned();
    assert_eq!(marked, case.get(&case.target()).await.metadata.uid, "it is marked so");
    annotations.insert("why".to_owned(), "forged".to_owned());
    let mut spec = asked.data["spec"].clone();
    spec["approved"] = json!(true);
    let name = asked.metadata.name.clone().unwrap_or_default();
    let forged = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": elsewhere.space, "annotations": annotations}, "spec": spec});
    case.create(&forged).await;
    let waits = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| text(object, "/status/phase") == "RequiresApproval")
    };
    let plan = case.named("InstallPlan", &name);
    verbs::holds_for(&case.client, &plan, "RequiresApproval", MOMENT, waits).await.expect("nobody agreed");
    assert!(case.find(&case.csv("1.0.0")).await.is_none() && case.find(&case.settings()).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_in_another_namespace_is_neither_reported_nor_its_end_an_end() {
    let case = Case::new("forged-csv").await;
    let elsewhere = Case::new("forged-away").await;
    case.subscribes(&["1.0.0"], &json!({})).await;
    let real = case.until_succeeded("1.0.0").await;
    let forged = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": case.csv_name("1.0.0"), "namespace": elsewhere.space,
                     "annotations": real.metadata.annotations, "labels": real.metadata.labels},
        "spec": real.data["spec"]});
    case.create(&forged).await;
    let copy = elsewhere.named("ClusterServiceVersion", &case.csv_name("1.0.0"));
    let is_left = |object: Option<&DynamicObject>| object.is_some_and(|it| it.data.get("status").is_none());
    verbs::holds_for(&case.client, &copy, "no status", MOMENT, is_left).await.expect("it is nobody's");
    case.delete(&copy).await;
    let is_well = |object: Option<&DynamicObject>| {
        object.is_some_and(|it| {
            it.metadata.uid == real.metadata.uid
                && it.metadata.deletion_timestamp.is_none()
                && text(it, "/status/phase") == "Succeeded"
        })
    };
    let csv = case.csv("1.0.0");
    verbs::holds_for(&case.client, &csv, "Succeeded", MOMENT, is_well).await.expect("it goes on");
    assert!(case.get(&case.target()).await.metadata.deletion_timestamp.is_none());
}
