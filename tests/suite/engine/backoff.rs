//! What fails is tried again ever less often: neither an upgrade nor a repair runs in circles.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::api::DynamicObject;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::until;
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

fn workload(case: &Case<'_>, image: &str) -> Value {
    let mut workload = case.workload("w", 0);
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    workload
}

/// Its definition is in the cluster as the bundle has it, so a dry run can tell.
#[tokio::test]
async fn an_invalid_custom_resource_is_found_before_an_upgrade_writes_anything() {
    let case = Case::new("brought").await;
    let (crd, group) = definition("brought");
    let version =
        |size: i64, image: &str| [crd.clone(), gadget(&group, &case.namespace, "g", size), workload(&case, image)];
    case.install(&version(1, "example.com/none:1")).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let before = case.get(&target).await.unwrap();
    case.change("v2", &version(0, "example.com/none:2")).await;
    until(
        &case.client,
        &case.name,
        Expected { kind: "Installed", status: "False", reason: None, message: "spec.size" },
    )
    .await;
    let after = case.get(&target).await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation, "the Deployment was replaced and put back");
    case.refused("ErrorGettingReleaseState", "spec.size").await;
}

/// After the second failure of the same kind the next try is hours away, and no Job runs once a minute.
#[tokio::test]
#[ignore = "takes five minutes: for `make soak`"]
async fn an_upgrade_that_fails_again_and_again_backs_off() {
    let case = Case::new("again").await;
    case.install(&[workload(&case, "example.com/none:1")]).await;
    let (crd, group) = definition("again");
    let bad = gadget(&group, &case.namespace, "bad", 0);
    case.change("v2", &[workload(&case, "example.com/none:2"), crd, bad]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let after_first = case.get(&target).await.unwrap().metadata.generation.unwrap();
    // One more try, there and back; the third would be the third in a row.
    let quiet = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.metadata.generation.is_some_and(|now| now <= after_first + 2))
    };
    verbs::holds_for(&case.client, &target, "at most one more try", Duration::from_mins(5), quiet).await.unwrap();
}

/// The text of a refusal is no news: it often has a counter, or a port, in it.
#[tokio::test]
async fn a_repair_that_is_refused_in_other_words_each_time_backs_off() {
    let case = Case::new("loop").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    let calls = AtomicUsize::new(0);
    let hook = Hook::start(&case, &[["", "configmaps"]], move |_| {
        Verdict::Deny(format!("quota is used up: {} of 7", calls.fetch_add(1, Ordering::SeqCst)))
    })
    .await;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "2"}})).await;
    until(&case.client, &case.name, Expected::is_false("Installed", "ReconcileFailed").saying("quota")).await;
    assert!(!hook.judges(12, Duration::from_secs(10)).await, "{} tries in ten seconds", hook.judged());
    hook.end().await;
    // Whoever asks for it wants it tried now.
    let request = json!({"metadata": {"annotations": {"core.rukpak.io/reconcile-requested-at": "now"}}});
    case.edit("user", &case.target(), request).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
    case.installed().await;
}

/// Nor is what happens to its siblings.
#[tokio::test]
async fn an_object_that_cannot_be_repaired_is_not_tried_at_each_event_of_its_siblings() {
    let case = Case::new("siblings").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({"x": "1"}))]).await;
    let hook = Hook::start(&case, &[["", "configmaps"]], |request| match request.name.as_str() {
        "a" => Verdict::Deny("never".to_owned()),
        _ => Verdict::Allow,
    })
    .await;
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "2"}})).await;
    until(&case.client, &case.name, Expected::is_false("Installed", "ReconcileFailed").saying("never")).await;
    let before = hook.judged();
    for round in 0..40 {
        let note = json!({"metadata": {"annotations": {"note": format!("{round}")}}});
        case.edit("user", &case.config_map_target("b"), note).await;
    }
    // What is new is repaired at once all the same, and is the proof that the notes have been seen.
    case.edit("intruder", &case.config_map_target("b"), json!({"data": {"x": "2"}})).await;
    case.until_value(&case.config_map_target("b"), "/data/x", &json!("1")).await;
    let tries = hook.judged() - before;
    assert!(tries <= 12, "{tries} tries for 40 notes on another object");
    hook.end().await;
}

/// What cannot be pruned is reported; the new version is installed and stays.
#[tokio::test]
async fn a_prune_that_is_refused_is_not_a_failed_upgrade() {
    let case = Case::new("prune-refused").await;
    case.install(&[case.config_map("dropped", json!({})), workload(&case, "example.com/none:1")]).await;
    let first = case.status().await["activeBundle"].clone();
    let hook = Hook::start(&case, &[["", "configmaps"]], |request| match request.operation.as_str() {
        "DELETE" => Verdict::Deny("protected by a policy".to_owned()),
        _ => Verdict::Allow,
    })
    .await;
    case.change("v2", &[workload(&case, "example.com/none:2")]).await;
    let said = |object: &DynamicObject| {
        let conditions = object.data["status"]["conditions"].to_string();
        conditions.contains("protected by a policy")
    };
    let told = case.until(&case.target(), "the refusal", |object| object.is_some_and(said)).await.unwrap();
    assert!(Expected::is_true("Installed", "InstallationSucceeded").met_by(&told), "{:#}", told.data["status"]);
    assert_ne!(told.data["status"]["activeBundle"], first);
    let ready = verbs::condition(&told, "Ready").unwrap();
    assert_eq!(ready["status"], "False", "{ready}");
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let image = case.get(&target).await.unwrap();
    assert_eq!(image.data["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/none:2");
    hook.end().await;
    case.edit("user", &case.target(), json!({"metadata": {"annotations": {"touched": "yes"}}})).await;
    case.until_gone(&case.config_map_target("dropped")).await;
    case.ready().await;
    assert_eq!(
        case.get(&target).await.unwrap().metadata.generation,
        image.metadata.generation,
        "only the prune is tried again"
    );
}

/// A back-off is for what is the same as before.
#[tokio::test]
async fn a_new_template_is_tried_at_once_whatever_back_off_holds() {
    let case = Case::new("news").await;
    case.install(&[workload(&case, "example.com/none:1")]).await;
    let (crd, group) = definition("news");
    let version =
        |size: i64| [workload(&case, "example.com/none:2"), crd.clone(), gadget(&group, &case.namespace, "g", size)];
    case.change("v2", &version(0)).await;
    case.refused("UpgradeFailed", "spec.size").await;
    case.pivot("v3", &version(1)).await;
    case.until_owned(&Target::of(&gadget(&group, &case.namespace, "g", 1)).unwrap()).await;
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

/// A namespace of somebody else is deleted with all that is in it, and stays for a while: what goes one by one is not tried again
/// as a whole each time.
#[tokio::test]
async fn a_namespace_that_is_deleted_with_many_objects_costs_few_requests() {
    const MANY: usize = 100;
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "emptied").await;
    let space = Target::cluster("v1", "Namespace", &case.namespace);
    case.install(&case.config_maps(MANY, "1")).await;
    case.ready().await;
    let mut held = case.config_map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["engine.test/hold"]);
    case.foreign(&held).await;
    let path = format!("/namespaces/{}/configmaps/", case.namespace);
    let before = proxy.count(&path);
    case.delete(&space).await;
    for index in 0..MANY {
        case.until_gone(&case.config_map_target(&format!("many-{index:04}"))).await;
    }
    let failed = Expected { kind: "Installed", status: "False", reason: Some("ReconcileFailed"), message: "" };
    until(&case.client, &case.name, failed).await;
    let asked = proxy.count(&path) - before;
    case.edit("user", &case.config_map_target("held"), json!({"metadata": {"finalizers": null}})).await;
    case.until_gone(&space).await;
    assert!(asked <= MANY * 8, "{asked} requests for {MANY} objects");
}

/// Many programs note on every object when they saw it last.
#[tokio::test]
async fn a_failed_upgrade_is_not_tried_again_for_annotations_of_others() {
    let case = Case::new("noted").await;
    case.install(&[workload(&case, "example.com/none:1")]).await;
    let (crd, group) = definition("noted");
    let bad = gadget(&group, &case.namespace, "bad", 0);
    case.change("v2", &[workload(&case, "example.com/none:2"), crd, bad]).await;
    case.refused("UpgradeFailed", "spec.size").await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let before = case.get(&target).await.unwrap().metadata.generation;
    for round in 0..5 {
        let note = json!({"metadata": {"annotations": {"example.com/last-seen": format!("{round}")}}});
        case.edit("user", &case.target(), note).await;
        // Proof that the note was seen: what is installed is guarded by the same reconcile.
        case.edit("intruder", &target, json!({"metadata": {"labels": {"core.rukpak.io/owner-name": "stolen"}}})).await;
        case.until_owned(&target).await;
    }
    assert_eq!(case.get(&target).await.unwrap().metadata.generation, before, "neither version was written again");
}

/// Nothing but another manifest mends it, though the API server answers 500.
#[tokio::test]
async fn an_item_that_is_twice_in_a_list_is_refused_for_good() {
    let case = Case::new("twice").await;
    case.install(&[workload(&case, "example.com/none:1")]).await;
    let mut twice = workload(&case, "example.com/none:2");
    let variable = json!({"name": "A", "value": "1"});
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = json!([variable, variable]);
    case.change("v2", &[twice]).await;
    let message = case.refused("ErrorGettingReleaseState", "duplicate").await;
    let told = until(&case.client, &case.name, Expected::is_true("Stalled", "ErrorGettingReleaseState")).await;
    assert!(verbs::condition(&told, "Reconciling").is_none(), "{message}");
}

/// Nobody tells that a quota was raised.
#[tokio::test]
async fn an_upgrade_that_a_quota_refuses_goes_on_soon_after_it_was_raised() {
    let case = Case::new("quota").await;
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    // `kube-root-ca.crt` counts, too, where it is.
    let quota = |most: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": case.namespace},
            "spec": {"hard": {"count/secrets": most}}})
    };
    case.foreign(&quota("0")).await;
    let target = case.in_namespace("v1", "ResourceQuota", "few");
    case.until_value(&target, "/status/hard/count~1secrets", &json!("0")).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": case.namespace}});
    case.change("v2", &[case.config_map("a", json!({"x": "2"})), secret.clone()]).await;
    case.refused("ErrorGettingReleaseState", "exceeded quota").await;
    assert_eq!(case.get(&case.config_map_target("a")).await.unwrap().data["data"]["x"], "1");
    case.edit("user", &target, json!({"spec": {"hard": {"count/secrets": "5"}}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("2")).await;
    case.ready().await;
}
