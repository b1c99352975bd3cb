//! The record of a release: a ControllerRevision in the system namespace with what it declares and how that stands.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Target};
use rukpak_tests::world::SOON;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};

const REQUESTED: &str = "core.rukpak.io/reconcile-requested-at";

/// The records of the deployment, by the numbers of their revisions.
async fn records(case: &Case<'_>) -> Vec<DynamicObject> {
    let label = format!("core.rukpak.io/owner-name={}", case.name);
    let mut records =
        verbs::list(&case.client, "apps/v1", "ControllerRevision", &label).await.expect("the API server agrees");
    records.sort_by_key(|record| record.data["revision"].as_i64());
    records
}

/// Waits until there is a record of the revision; returns all of them.
async fn until_recorded(case: &Case<'_>, revision: i64) -> Vec<DynamicObject> {
    let recorded = async {
        loop {
            let records = records(case).await;
            if records.iter().any(|record| record.data["revision"] == revision) {
                return records;
            }
            // Its name has a hash, by which nothing can be watched.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let Ok(found) = tokio::time::timeout(SOON, recorded).await else {
        panic!("revision {revision} has no record: {:#?}", records(case).await)
    };
    found
}

fn target(record: &DynamicObject) -> Target {
    let name = record.metadata.name.as_deref().expect("it has a name");
    Target::namespaced("apps/v1", "ControllerRevision", "rukpak-system", name)
}

/// Kinds and names of what it declares.
fn declared(record: &DynamicObject) -> Vec<String> {
    let objects = record.data["data"]["objects"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    objects.iter().map(|object| format!("{} {}", text(&object["kind"]), text(&object["name"]))).collect()
}

fn standing(record: &DynamicObject) -> Value {
    let annotations = record.metadata.annotations.clone().unwrap_or_default();
    annotations
        .get("core.rukpak.io/object-states")
        .map_or(Value::Null, |text| serde_json::from_str(text).expect("it is JSON"))
}

#[tokio::test]
async fn keeps_record_of_each_revision_until_it_leaves_the_history() {
    let case = Case::new("record").await;
    let release = |x: &str| [case.config_map("a", json!({"x": x})), case.config_map("b", json!({"x": "1"}))];
    case.install(&release("1")).await;
    case.ready().await;
    let first = until_recorded(&case, 1).await.remove(0);
    assert_eq!(declared(&first), ["ConfigMap a", "ConfigMap b"]);
    assert_eq!(standing(&first), json!({"current": 2}));
    let owner = &first.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&owner.kind, &owner.uid), (&"BundleDeployment".to_owned(), &case.uid().await));

    // Nothing has changed, so nothing is written.
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {REQUESTED: "again"}}})).await;
    case.until_value(&case.target(), "/status/lastHandledReconcileAt", &json!("again")).await;
    case.edit("user", &case.target(), json!({"spec": {"revisionHistoryLimit": 2}})).await;
    case.pivot("v2", &release("2")).await;
    let second = until_recorded(&case, 2).await;
    assert_eq!(second.len(), 2);
    assert_eq!(second[0].metadata.resource_version, first.metadata.resource_version);
    case.pivot("v3", &[case.config_map("a", json!({"x": "3"}))]).await;
    let third = until_recorded(&case, 3).await;
    assert_eq!(declared(third.last().unwrap()), ["ConfigMap a"]);
    case.until_gone(&target(&first)).await;
    assert_eq!(records(&case).await.len(), 2, "as many as the history has");

    case.delete(&case.target()).await;
    for record in &third {
        case.until_gone(&target(record)).await;
    }
}

#[tokio::test]
async fn records_a_declared_object_whose_kind_is_not_served_any_more() {
    let case = Case::new("record-missing").await;
    let (crd, group) = definition("record");
    case.foreign(&crd).await;
    verbs::await_served(&case.client, &format!("{group}/v1"), "Gadget", SOON).await.unwrap();
    case.install(&[case.config_map("a", json!({"x": "1"})), gadget(&group, &case.namespace, "g", 1)]).await;
    let record = until_recorded(&case, 1).await.remove(0);
    assert_eq!(declared(&record), ["ConfigMap a", "Gadget g"]);
    case.delete(&definition_target(&group)).await;
    case.until_gone(&definition_target(&group)).await;
    let is_said = |record: Option<&DynamicObject>| {
        record.is_some_and(|record| standing(record).pointer("/missing/0/name") == Some(&json!("g")))
    };
    let said = case.until(&target(&record), "the missing object", is_said).await.unwrap();
    assert_eq!(standing(&said)["current"], 1);
    assert_eq!(said.data["data"], record.data["data"], "what is declared stays");
}

/// What was begun and did not come far is of interest most of all.
#[tokio::test]
async fn records_what_a_release_declares_that_cannot_be_installed() {
    let case = Case::new("record-failed").await;
    case.create(&[case.config_map("a", json!({"x": "1"})), gadget("none.engine.test", &case.namespace, "g", 1)]).await;
    case.refused("InstallFailed", "no matches for kind \"Gadget\"").await;
    // A release that is refused before anything is written is in no history; one of which something was written is.
    assert!(records(&case).await.is_empty());
    let other = case.sibling();
    other
        .create(&[
            other.config_map("b", json!({"x": "1"})),
            json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "there-is-none"}}),
        ])
        .await;
    other.refused("InstallFailed", "there-is-none").await;
    let record = until_recorded(&other, 0).await.remove(0);
    assert_eq!(declared(&record), ["ConfigMap b", "ConfigMap c"]);
    assert_eq!(standing(&record), Value::Null, "it is not installed");
}
