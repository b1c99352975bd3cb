//! A migration that is cut short, disturbed, refused or called off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kube::api::{DynamicObject, Patch, PatchParams};
use rukpak_tests::verbs::Expected;
use serde_json::json;

use super::{Contents, SOME, content, contents, definitions, fill, gate, is_migrated, objects, recorded, versions};
use crate::engine::case::{Case, definition_target};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

/// Objects that are rewritten before the hundredth question of the API server: it asks twice about each, since what it has in its cache
/// looks as it would be stored. Some are under way.
const BEFORE_KILL: usize = 40;

/// The controller is killed before each step, and in the middle of the longest.
#[tokio::test]
async fn migration_goes_on_after_the_controller_was_killed_at_any_step() {
    let alone = worlds::alone().await;
    let case = alone.case("migration-kill").await;
    let ([old, new], group) = definitions("killed");
    case.install(&[old]).await;
    let before = fill(&case, &group, SOME).await;
    let crds = [group.as_str(), "customresourcedefinitions"];
    let crds_of_api = ["apiextensions.k8s.io", "customresourcedefinitions"];
    let gadgets = [group.as_str(), "gadgets"];

    let hook = gate(&case, crds, 1).await;
    case.change("v2", &[new]).await;
    hook.until_at_gate().await;
    assert_eq!(versions(&case, &group).await, ("v1* v2".to_owned(), json!(["v1"])), "nothing is switched yet");
    alone.kill().await;
    hook.end().await;

    let hook = gate(&case, gadgets, 100).await;
    alone.start().await;
    hook.until_at_gate().await;
    assert_eq!(versions(&case, &group).await, ("v1 v2*".to_owned(), json!(["v1", "v2"])), "objects are rewritten");
    alone.kill().await;
    hook.end().await;

    let said = recorded(&case).await;
    let written = Arc::new(Mutex::new(BTreeSet::new()));
    let (log, definition) = (Arc::clone(&written), format!("gadgets.{group}"));
    let hook = Hook::start(&case, &[crds_of_api, gadgets], move |request| {
        if request.name == definition {
            return Verdict::AtGate;
        }
        log.lock().expect("nobody panicked").insert(request.name.clone());
        Verdict::Allow
    })
    .await;
    alone.start().await;
    hook.until_at_gate().await;
    assert_eq!(versions(&case, &group).await, ("v1 v2*".to_owned(), json!(["v2"])), "nothing is dropped yet");
    let written = written.lock().expect("nobody panicked").len();
    assert!(written <= SOME - BEFORE_KILL, "what was rewritten before the kill is written again: {written}");
    assert!(recorded(&case).await >= said, "the status goes back");
    alone.kill().await;
    hook.end().await;

    alone.start().await;
    case.until_value(&definition_target(&group), "/spec/versions/0/name", &json!("v2")).await;
    case.ready().await;
    is_migrated(&case, &group, &before).await;
}

/// Others write in the old version until it is gone, and in the new one: what they wrote last is there.
#[tokio::test]
async fn writers_that_go_on_lose_nothing() {
    let case = Case::new("migration-writer").await;
    let ([old, new], group) = definitions("writer");
    case.install(&[old]).await;
    let mut expected = fill(&case, &group, SOME).await;
    let written = Arc::new(Mutex::new(Contents::new()));
    let (v1, v2) = (objects(&case, &group, "v1"), objects(&case, &group, "v2"));
    let (log, names) = (Arc::clone(&written), expected.keys().cloned().collect::<Vec<_>>());
    let writer = tokio::spawn(async move {
        for round in 0_usize.. {
            let api = if round % 2 == 0 { &v1 } else { &v2 };
            let name = &names[(round * 7) % names.len()];
            let patch = Patch::Merge(json!({"spec": {"size": 10_000 + round}}));
            match api.patch(name, &PatchParams::default(), &patch).await {
                Ok(object) => log.lock().expect("nobody panicked").extend([content(object)]),
                Err(kube::Error::Api(status)) if status.code == 404 => return round,
                Err(kube::Error::Api(status)) if status.code == 409 || status.code >= 500 => {}
                Err(error) => panic!("{error}"),
            }
        }
        0
    });
    case.pivot("v2", &[new]).await;
    let rounds = writer.await.expect("it ends when the old version is gone");
    assert!(rounds > 100, "it wrote all the time: {rounds}");
    expected.extend(written.lock().expect("nobody panicked").clone());
    is_migrated(&case, &group, &expected).await;
}

/// An object that nobody lets be written ends the upgrade, and the release before is back, with what it stores.
#[tokio::test]
async fn upgrade_whose_migration_is_refused_goes_back() {
    let case = Case::new("migration-back").await;
    let ([old, new], group) = definitions("back");
    case.install(&[old, case.config_map("a", json!({"x": "1"}))]).await;
    let before = fill(&case, &group, 20).await;
    let hook = Hook::start(&case, &[[group.as_str(), "gadgets"]], |request| match request.name.as_str() {
        "g-00007" => Verdict::Deny("hands off".to_owned()),
        _ => Verdict::Allow,
    })
    .await;
    case.change("v2", &[new, case.config_map("a", json!({"x": "2"}))]).await;
    let message = case.refused("UpgradeFailed", "hands off").await;
    assert!(message.contains(&format!("{}/g-00007: ", case.namespace)), "{message}");
    assert!(message.contains("no version is dropped"), "{message}");
    let is_back = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data.pointer("/spec/versions/0/storage") == Some(&json!(true)))
    };
    case.until(&definition_target(&group), "the version that was stored", is_back).await;
    assert_eq!(versions(&case, &group).await, ("v1* v2".to_owned(), json!(["v1", "v2"])));
    assert!(contents(&case, &group, "v1").await == before);
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1");
    assert!(message_is_of_migration(&case).await);
    hook.end().await;
}

async fn message_is_of_migration(case: &Case<'_>) -> bool {
    let object = case.get(&case.target()).await.expect("it is there");
    Expected::is_false("Ready", "MigrationFailed").met_by(&object)
}

/// The template goes back in the middle.
#[tokio::test]
async fn migration_that_is_called_off_goes_back() {
    let case = Case::new("migration-off").await;
    let ([old, new], group) = definitions("called");
    let reference = case.push("v1", std::slice::from_ref(&old)).await;
    case.install(&[old]).await;
    let before = fill(&case, &group, SOME).await;
    let hook = gate(&case, [&group, "gadgets"], 20).await;
    case.change("v2", &[new]).await;
    hook.until_at_gate().await;
    assert_eq!(versions(&case, &group).await.0, "v1 v2*");
    let source = json!({"image": {"ref": reference}});
    case.edit("user", &case.target(), json!({"spec": {"template": {"spec": {"source": source}}}})).await;
    hook.open_gate();
    case.until_value(&definition_target(&group), "/spec/versions/0/storage", &json!(true)).await;
    case.ready().await;
    assert_eq!(versions(&case, &group).await, ("v1* v2".to_owned(), json!(["v1", "v2"])));
    assert!(contents(&case, &group, "v1").await == before);
    hook.end().await;
}
