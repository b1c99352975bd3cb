//! What passes by itself is waited for: an upgrade goes on, and does not turn back at the first word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::http::{Method, StatusCode};
use kube::api::DynamicObject;
use rukpak_tests::verbs::{Expected, Target};
use rukpak_tests::world::SOON;
use rukpak_tests::{Fault, Rule};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, definition_target, gadget};
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds;

const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// A definition, an object of it, and a Deployment that is written before that.
fn release(case: &Case<'_>, crd: &Value, group: &str, number: i64) -> [Value; 3] {
    let mut workload = case.workload("w", 0);
    workload["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(number));
    [crd.clone(), gadget(group, &case.namespace, "g", number), workload]
}

fn image(number: i64) -> String {
    format!("example.com/none:{number}")
}

/// The webhook of an operator that is just being replaced: it refuses its first calls.
#[tokio::test]
async fn an_upgrade_goes_on_through_a_webhook_that_is_away_for_a_moment() {
    let case = Case::new("transient").await;
    let (crd, group) = definition("transient");
    let version = |number: i64| release(&case, &crd, &group, number);
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
    let is_decided = |object: &DynamicObject| {
        Expected::is_false("Installed", "UpgradeFailed").met_by(object)
            || object.data["status"]["activeBundle"] != active
                && Expected::is_true("Installed", "InstallationSucceeded").met_by(object)
    };
    let g = Target::of(&gadget(&group, &case.namespace, "g", 2)).unwrap();
    let decided = case.until(&case.target(), "an outcome", |object| object.is_some_and(is_decided)).await.unwrap();
    let live = case.get(&g).await.unwrap();
    assert_eq!(live.data["spec"]["size"], 2, "{:#}", decided.data["status"]);
    let workload = case.get(&target).await.unwrap();
    assert_eq!(workload.data.pointer(IMAGE), Some(&json!(image(2))));
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

/// A token that counts no more, before the next one is read from its file: the API server does not know the controller for a moment.
#[tokio::test]
async fn an_upgrade_goes_on_when_the_controller_is_unknown_for_a_moment() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "unknown").await;
    let (crd, group) = definition("unknown");
    case.install(&release(&case, &crd, &group, 1)).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let before = case.get(&target).await.unwrap().metadata.generation.unwrap();
    let refusal = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    let headers = vec![("content-type", "application/json".to_owned())];
    let unknown = Fault::Answer(StatusCode::UNAUTHORIZED, headers, refusal.to_string().into_bytes());
    let turn = worlds::PROXY.lock().await;
    let gadgets = format!("/namespaces/{}/gadgets/g", case.namespace);
    proxy.forget();
    // The first asks whether the API server would take it.
    proxy.add(Rule::on(&gadgets, unknown).method(Method::PATCH).skip(1).times(2));
    case.change("v2", &release(&case, &crd, &group, 2)).await;
    let g = Target::of(&gadget(&group, &case.namespace, "g", 2)).unwrap();
    case.until_value(&g, "/spec/size", &json!(2)).await;
    case.installed().await;
    let asked = proxy.count(&gadgets);
    proxy.mend();
    drop(turn);
    assert!(asked > 3, "it was refused twice: {asked}");
    let workload = case.get(&target).await.unwrap();
    assert_eq!(workload.data.pointer(IMAGE), Some(&json!(image(2))));
    assert_eq!(workload.metadata.generation, Some(before + 1), "it went forward, and never back");
}

/// The last of the refusals is answered to a write after which nothing changes any more.
#[tokio::test]
async fn the_webhook_may_list_new_kinds_though_its_role_could_not_be_written_for_a_while() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "role").await;
    let (crd, group) = definition("role");
    let role = Target::cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "rukpak-webhook-objects");
    let turn = worlds::PROXY.lock().await;
    let begin = world.controller.log().len();
    let broken = Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, String::new());
    proxy.add(Rule::on("/clusterroles/rukpak-webhook-objects", broken).method(Method::PATCH).times(6));
    case.install(&[crd]).await;
    let is_listed = |object: Option<&DynamicObject>| {
        object.is_some_and(|role| role.data["rules"].to_string().contains(&format!("\"{group}\"")))
    };
    case.until(&role, "a rule for the new kind", is_listed).await;
    proxy.mend();
    drop(turn);
    let told = world.controller.log()[begin..].matches("ClusterRole; trying again").count();
    assert_eq!(told, 1, "one line, however often it is tried");
    case.delete(&case.target()).await;
    case.until_gone(&definition_target(&group)).await;
}

/// The mend of an upgrade that hangs follows it at once: the old version does not run for a moment between the two.
#[tokio::test]
async fn replaces_hanging_upgrade_without_going_back() {
    let case = Case::new("mended").await;
    let (crd, group) = definition("mended");
    case.install(&release(&case, &crd, &group, 1)).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let before = case.get(&target).await.unwrap().metadata.generation.unwrap();
    let hook = Hook::start(&case, &[[group.as_str(), "gadgets"]], |request| {
        if request.object["spec"]["size"] == 2 { Verdict::Fail } else { Verdict::Allow }
    })
    .await;

    case.change("v2", &release(&case, &crd, &group, 2)).await;
    case.until_value(&target, IMAGE, &json!(image(2))).await;
    assert!(hook.judges(1, SOON).await, "it hangs");
    case.change("v3", &release(&case, &crd, &group, 3)).await;

    let workload = case.until_value(&target, IMAGE, &json!(image(3))).await;
    assert_eq!(workload.metadata.generation, Some(before + 2), "the first version was there in between");
    let g = Target::of(&gadget(&group, &case.namespace, "g", 3)).unwrap();
    case.until_value(&g, "/spec/size", &json!(3)).await;
    case.installed().await;
    hook.end().await;
}

/// A node that was out for a while, and a webhook that starts at the same time as the controller.
#[tokio::test]
async fn continues_upgrade_after_long_interruption() {
    let alone = worlds::alone().await;
    let case = alone.case("interrupted").await;
    let (crd, group) = definition("interrupted");
    case.install(&release(&case, &crd, &group, 1)).await;
    let target = case.in_namespace("apps/v1", "Deployment", "w");
    let before = case.get(&target).await.unwrap().metadata.generation.unwrap();
    let is_away = Arc::new(AtomicBool::new(true));
    let asked = is_away.clone();
    let hook = Hook::start(&case, &[[group.as_str(), "gadgets"]], move |_| {
        if asked.load(Ordering::SeqCst) { Verdict::Fail } else { Verdict::Allow }
    })
    .await;
    case.change("v2", &release(&case, &crd, &group, 2)).await;
    case.until_value(&target, IMAGE, &json!(image(2))).await;
    assert!(hook.judges(1, SOON).await, "it hangs");

    alone.kill().await;
    let judged = hook.judged();
    let patch = json!({"status": {"inventory": {"pending": {"since": "2026-01-01T00:00:00Z"}}}});
    case.edit_sub("status", "user", &case.target(), patch).await;
    alone.start().await;

    assert!(hook.judges(judged + 1, SOON).await, "it is tried again");
    is_away.store(false, Ordering::SeqCst);
    let g = Target::of(&gadget(&group, &case.namespace, "g", 2)).unwrap();
    case.until_value(&g, "/spec/size", &json!(2)).await;
    case.installed().await;
    let workload = case.get(&target).await.unwrap();
    assert_eq!(workload.metadata.generation, Some(before + 1), "it went forward, and never back");
    hook.end().await;
}
