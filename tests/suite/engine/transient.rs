//! What passes by itself is waited for: an upgrade goes on, and does not turn back at the first word.

use std::sync::atomic::{AtomicUsize, Ordering};

use rukpak_tests::verbs::{Expected, Target};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::hook::{Hook, Verdict};

/// The webhook of an operator that is just being replaced: it refuses its first calls.
#[tokio::test]
async fn an_upgrade_goes_on_through_a_webhook_that_is_away_for_a_moment() {
    let case = Case::new("transient").await;
    let (crd, group) = definition("transient");
    let version = |number: i64| {
        let mut workload = case.workload("w", 0);
        workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("example.com/none:{number}"));
        [crd.clone(), gadget(&group, &case.namespace, "g", number), workload]
    };
    case.install(&version(1)).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let before = case.get(&target).await.unwrap().metadata.generation.unwrap();
    let active = case.status().await["activeBundle"].clone();
    let calls = AtomicUsize::new(0);
    let hook = Hook::start(&case, &[[group.as_str(), "gadgets"]], move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) < 3 { Verdict::Fail } else { Verdict::Allow }
    })
    .await;
    case.change("v2", &version(2)).await;
    // Whichever comes first.
    let is_decided = |object: &kube::api::DynamicObject| {
        Expected::is_false("Installed", "UpgradeFailed").met_by(object)
            || object.data["status"]["activeBundle"] != active
                && Expected::is_true("Installed", "InstallationSucceeded").met_by(object)
    };
    let g = Target::of(&gadget(&group, &case.namespace, "g", 2)).unwrap();
    let decided = case.until(&case.target(), "an outcome", |object| object.is_some_and(is_decided)).await.unwrap();
    let live = case.get(&g).await.unwrap();
    assert_eq!(live.data["spec"]["size"], 2, "{:#}", decided.data["status"]);
    let workload = case.get(&target).await.unwrap();
    assert_eq!(workload.data["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/none:2");
    assert_eq!(workload.metadata.generation, Some(before + 1), "it went forward, and never back");
    case.installed().await;
    hook.end().await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

/// A first installation has always done so.
#[tokio::test]
async fn an_installation_goes_on_through_a_webhook_that_is_away_for_a_moment() {
    let case = Case::new("transient-first").await;
    let calls = AtomicUsize::new(0);
    let hook = Hook::start(&case, &[["", "secrets"]], move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) < 3 { Verdict::Fail } else { Verdict::Allow }
    })
    .await;
    let secret: Value =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": case.namespace}});
    case.install(&[secret.clone(), case.config_map("a", json!({}))]).await;
    case.until_owned(&Target::of(&secret).unwrap()).await;
    hook.end().await;
}
