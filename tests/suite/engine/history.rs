//! Revisions: what was installed is remembered with its content, and comes back on request.

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, until};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::worlds;

const ROLLBACK: &str = "core.rukpak.io/rollback-to";

/// `status.history`, newest first.
fn history(object: &DynamicObject) -> Vec<Value> {
    object.data["status"]["history"].as_array().cloned().unwrap_or_default()
}

fn revisions(object: &DynamicObject) -> Vec<i64> {
    history(object).iter().filter_map(|entry| entry["revision"].as_i64()).collect()
}

/// The revision of what was installed last.
fn installed_revision(object: &DynamicObject) -> i64 {
    let good =
        history(object).into_iter().find(|entry| matches!(entry["result"].as_str(), Some("Installed" | "Healthy")));
    good.unwrap_or_else(|| panic!("no revision is installed: {:#}", object.data["status"]))["revision"]
        .as_i64()
        .expect("it is a number")
}

/// ConfigMap `a` of some version.
fn release(case: &Case<'_>, version: &str) -> [Value; 1] {
    [case.config_map("a", json!({"x": version}))]
}

async fn until_x(case: &Case<'_>, version: &str) {
    case.until_value(&case.config_map_target("a"), "/data/x", &json!(version)).await;
}

#[tokio::test]
async fn each_release_is_a_revision_with_its_pin_and_content() {
    let case = Case::new("history").await;
    case.install(&release(&case, "1")).await;
    let first = case.ready().await;
    case.pivot("v2", &release(&case, "2")).await;
    let second = case.ready().await;
    let entries = history(&second);
    assert_eq!(entries.len(), 2, "{:#}", second.data["status"]);
    let [new, old] = &entries[..] else { panic!("two were looked for") };
    assert_eq!(revisions(&second)[0], revisions(&second)[1] + 1, "newest first");
    assert_eq!(new["contentDigest"], second.data["status"]["inventory"]["contentDigest"]);
    assert_eq!(old["contentDigest"], first.data["status"]["inventory"]["contentDigest"]);
    assert_eq!(new["bundle"], second.data["status"]["activeBundle"]);
    assert_eq!(new["result"], "Healthy", "{new:#}");
    for entry in &entries {
        for field in ["templateHash", "pin", "format", "time"] {
            assert!(!entry[field].is_null(), "{field}: {entry:#}");
        }
    }
    assert_ne!(new["templateHash"], old["templateHash"]);
}

#[tokio::test]
async fn a_failed_upgrade_is_in_the_history() {
    let case = Case::new("history-failed").await;
    case.install(&release(&case, "1")).await;
    let (crd, group) = definition("history");
    let [a] = release(&case, "2");
    case.change("v2", &[a, crd, gadget(&group, &case.namespace, "bad", 0)]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    let failed = |object: &DynamicObject| {
        let entries = history(object);
        entries.len() == 2
            && matches!(entries[0]["result"].as_str(), Some("Failed" | "RolledBack"))
            && entries[0]["message"].as_str().is_some_and(|message| message.contains("spec.size"))
    };
    case.until(&case.target(), "the failure", |object| object.is_some_and(failed)).await;
    assert_eq!(installed_revision(&case.get(&case.target()).await.unwrap()), 1);
}

#[tokio::test]
async fn the_history_is_bounded_and_holds_what_is_installed() {
    let case = Case::new("history-limit").await;
    case.create(&release(&case, "1")).await;
    case.edit("user", &case.target(), json!({"spec": {"revisionHistoryLimit": 2}})).await;
    case.ready().await;
    for version in ["2", "3", "4"] {
        case.pivot(&format!("v{version}"), &release(&case, version)).await;
    }
    let done = case.ready().await;
    assert_eq!(revisions(&done), [4, 3], "{:#}", done.data["status"]);
    // Failures do not push out what is installed.
    let (crd, group) = definition("limit");
    for tag in ["f1", "f2", "f3"] {
        let bad = gadget(&group, &case.namespace, tag, 0);
        case.change(tag, &[case.config_map("a", json!({"x": tag})), crd.clone(), bad]).await;
        case.refused("UpgradeFailed", &format!("Gadget \"{tag}\"")).await;
    }
    let after = case.get(&case.target()).await.unwrap();
    assert!(history(&after).len() <= 2, "{:#}", after.data["status"]);
    assert!(revisions(&after).contains(&4), "{:#}", after.data["status"]);
}

#[tokio::test]
async fn a_rollback_gives_the_content_of_the_revision_though_its_bundle_is_gone_and_its_tag_has_moved() {
    let case = Case::new("rollback").await;
    let first = case.install(&release(&case, "1")).await;
    case.pivot("v2", &release(&case, "2")).await;
    case.ready().await;
    case.until_gone(&Target::bundle(first.data["status"]["activeBundle"].as_str().unwrap())).await;
    case.push("v1", &release(&case, "moved")).await;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    until_x(&case, "1").await;
    let back = case.installed().await;
    assert_eq!(back.data["status"]["inventory"]["contentDigest"], first.data["status"]["inventory"]["contentDigest"]);
    // As long as it is set, drift goes back to that, and the template changes nothing.
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    until_x(&case, "1").await;
    let ready = case.ready().await;
    assert!(revisions(&ready).contains(&1), "the revision is still found: {:#}", ready.data["status"]);
    // Without it the template is the target again.
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": null}})).await;
    until_x(&case, "2").await;
    case.ready().await;
}

#[tokio::test]
async fn a_rollback_by_annotation_does_the_same_and_the_spec_wins() {
    let case = Case::new("rollback-note").await;
    case.install(&release(&case, "1")).await;
    for version in ["2", "3"] {
        case.pivot(&format!("v{version}"), &release(&case, version)).await;
    }
    case.ready().await;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {ROLLBACK: "1"}}})).await;
    until_x(&case, "1").await;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 2}})).await;
    until_x(&case, "2").await;
    case.edit(
        "user",
        &case.target(),
        json!({"spec": {"rollbackTo": null}, "metadata": {"annotations": {ROLLBACK: null}}}),
    )
    .await;
    until_x(&case, "3").await;
}

/// The store was lost as well: the content is fetched by its pin, and no Bundle has to be there.
#[tokio::test]
async fn a_rollback_fetches_content_that_the_store_has_lost() {
    let case = Case::new("rollback-lost").await;
    let first = case.install(&release(&case, "1")).await;
    case.pivot("v2", &release(&case, "2")).await;
    case.ready().await;
    let digest = first.data["status"]["inventory"]["contentDigest"].as_str().unwrap();
    let digest = digest.strip_prefix("sha256:").unwrap();
    let file = case.world.controller.storage.join("v1/content/sha256").join(&digest[..2]).join(&digest[2..]);
    std::fs::remove_file(&file).expect("the content of a revision is kept");
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    until_x(&case, "1").await;
    case.installed().await;
}

#[tokio::test]
async fn a_rollback_to_a_revision_that_is_not_there_changes_nothing() {
    let case = Case::new("rollback-none").await;
    case.install(&release(&case, "1")).await;
    let before = case.ready().await;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 7}})).await;
    let expected = Expected::is_true("Stalled", "RevisionNotFound");
    let told = until(&case.client, &case.name, expected).await;
    assert!(verbs::condition(&told, "Stalled").unwrap()["message"].as_str().unwrap().contains('7'));
    assert!(Expected::is_true("Installed", "InstallationSucceeded").met_by(&told), "{:#}", told.data["status"]);
    assert_eq!(told.data["status"]["inventory"]["contentDigest"], before.data["status"]["inventory"]["contentDigest"]);
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "drift"}})).await;
    until_x(&case, "1").await;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": null}})).await;
    case.ready().await;
}

/// Objects are stored in a version that the old release does not know, with a field that it does not know either: it is refused before
/// anything is written.
#[tokio::test]
async fn a_rollback_that_would_strand_a_stored_version_is_refused() {
    let case = Case::new("rollback-crd").await;
    let (old, group) = definition("strand");
    let [a] = release(&case, "1");
    case.install(&[old.clone(), a]).await;
    let mut new = old.clone();
    let mut second = old["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["tint"] = json!({"type": "string"});
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"].as_array_mut().unwrap().push(second);
    let [a] = release(&case, "2");
    case.pivot("v2", &[new, a]).await;
    case.ready().await;
    verbs::await_served(&case.client, &format!("{group}/v2"), "Gadget", SOON).await.unwrap();
    case.foreign(&json!({"apiVersion": format!("{group}/v2"), "kind": "Gadget",
        "metadata": {"name": "red", "namespace": case.namespace}, "spec": {"size": 1, "tint": "red"}}))
        .await;
    let before = case.get(&case.config_map_target("a")).await.unwrap().metadata.resource_version;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    let told = until(&case.client, &case.name, Expected::is_true("Stalled", "RollbackRefused")).await;
    let message = verbs::condition(&told, "Stalled").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("gadgets.{group}")) && message.contains("spec.tint of version v2"), "{message}");
    let after = case.get(&case.config_map_target("a")).await.unwrap();
    assert_eq!(after.metadata.resource_version, before, "nothing was written");
    let live = case.get(&definition_target(&group)).await.unwrap();
    assert_eq!(live.data["spec"]["versions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_rollback_that_a_restart_interrupts_is_made() {
    let alone = worlds::alone().await;
    let case = alone.case("rollback-restart").await;
    case.install(&release(&case, "1")).await;
    case.pivot("v2", &release(&case, "2")).await;
    case.ready().await;
    alone.stop().await;
    case.edit("user", &case.target(), json!({"spec": {"rollbackTo": 1}})).await;
    alone.start().await;
    until_x(&case, "1").await;
    case.installed().await;
}
