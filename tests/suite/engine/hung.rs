//! An answer that never comes holds up nobody: neither the deployment that asked nor the others.

use std::time::{Duration, Instant};

use axum::http::Method;
use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{SOON, World, WorldOptions, until};
use rukpak_tests::{Fault, Rule};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition_target};
use crate::engine::conversion::Converter;
use crate::engine::hook::{Hook, Verdict};
use crate::engine::worlds::{self, alone};

/// Longest that a request without an answer may hold up the deployment that made it: it is given up after 50 s, and the rest takes time.
const DEADLINE: Duration = Duration::from_secs(50 + 60);
/// Longest that anybody else may have to wait for those who are stuck.
const FAIR: Duration = Duration::from_secs(25);

/// One request of this kind is swallowed; the deployment is installed all the same, within the deadline of a request.
async fn goes_on_without_an_answer(prefix: &str, rule: impl Fn(&Case<'_>) -> Rule) {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, prefix).await;
    let turn = worlds::PROXY.lock().await;
    proxy.add(rule(&case).times(1));
    case.create(&[case.config_map("a", json!({"x": "1"}))]).await;
    let expected = Expected::is_true("Installed", "InstallationSucceeded");
    let installed = verbs::await_condition(&case.client, &case.target(), expected, DEADLINE).await;
    let hung = proxy.count(&case.name);
    proxy.mend();
    drop(turn);
    installed.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(hung > 0, "nothing of it went through the proxy");
    case.edit("intruder", &case.config_map_target("a"), json!({"data": {"x": "2"}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;
}

#[tokio::test]
async fn a_status_write_that_gets_no_answer_is_given_up() {
    let rule = |case: &Case<'_>| {
        Rule::on(&format!("/bundledeployments/{}/status", case.name), Fault::Hang).method(Method::PATCH)
    };
    goes_on_without_an_answer("hung-status", rule).await;
}

#[tokio::test]
async fn the_creation_of_a_bundle_that_gets_no_answer_is_given_up() {
    // Nobody else makes one in this world meanwhile: the turn is ours.
    let rule = |_: &Case<'_>| Rule::on("/apis/core.rukpak.io/v1alpha1/bundles?", Fault::Hang).method(Method::POST);
    goes_on_without_an_answer("hung-bundle", rule).await;
}

#[tokio::test]
async fn a_list_of_what_to_prune_that_gets_no_answer_is_given_up() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "hung-list").await;
    case.install(&[case.config_map("a", json!({"x": "1"})), case.config_map("b", json!({}))]).await;
    let turn = worlds::PROXY.lock().await;
    let named = format!("owner-name%3D{}", case.name);
    proxy.forget();
    proxy.add(Rule::on(&named, Fault::Hang).method(Method::GET).times(1));
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let b = case.config_map_target("b");
    let pruned = verbs::await_deleted(&case.client, &b, DEADLINE).await;
    let hung = proxy.count(&named);
    proxy.mend();
    drop(turn);
    pruned.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(hung > 0, "nothing was listed: {:?}", proxy.seen());
    case.installed().await;
}

/// As when a connection is lost behind a load balancer: the one who watches would see nothing more, and not know it.
#[tokio::test]
async fn a_watch_whose_beginning_gets_no_answer_begins_anew() {
    let options = WorldOptions { proxied: true, ..WorldOptions::default() };
    let world = World::start_with(options).await.unwrap_or_else(|error| panic!("no world: {error:#}"));
    let proxy = world.proxy.as_ref().expect("it has one");
    let case = Case::in_world(&world, "hung-watch").await;
    world.controller.terminate().await.expect("it obeys");
    proxy.add(Rule::on("/bundledeployments?&watch=true", Fault::Hang).method(Method::GET).times(1));
    proxy.forget();
    world.controller.restart().await.expect("it starts");
    proxy.asked("/bundledeployments?&watch=true", 1, SOON).await.unwrap();
    case.create(&[case.config_map("a", json!({"x": "1"}))]).await;

    // Who asks whether it is ready is told meanwhile.
    until_readiness(&world, "has not answered the watch /apis/core.rukpak.io/v1alpha1/bundledeployments for").await;
    let expected = Expected::is_true("Installed", "InstallationSucceeded");
    let installed = verbs::await_condition(&case.client, &case.target(), expected, DEADLINE).await;
    installed.unwrap_or_else(|error| panic!("{error:#}"));
    until_readiness(&world, "[+]watches ok").await;
}

/// Waits until `/readyz` of the controller says this.
async fn until_readiness(world: &World, wanted: &str) {
    let said = async {
        loop {
            let answer = reqwest::get(format!("{}/readyz", world.controller.health_url)).await.expect("an answer");
            if answer.text().await.expect("a text").contains(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await; // `/readyz` cannot be watched
        }
    };
    tokio::time::timeout(SOON, said).await.unwrap_or_else(|_| panic!("/readyz does not say {wanted:?}"));
}

/// One task writes all Events: each of them would be lost from then on.
#[tokio::test]
async fn an_event_that_gets_no_answer_holds_up_no_other() {
    let (world, proxy) = (worlds::troubled().await, worlds::proxy().await);
    let case = Case::in_world(world, "hung-event").await;
    let turn = worlds::PROXY.lock().await;
    proxy.forget();
    proxy.add(Rule::on("/namespaces/default/events", Fault::Hang).method(Method::POST).times(1));
    case.install(&[case.config_map("a", json!({"x": "1"}))]).await;
    let told = proxy.asked("/namespaces/default/events", 2, DEADLINE).await;
    proxy.mend();
    drop(turn);
    told.unwrap_or_else(|error| panic!("{error:#}"));
}

/// Installs one ConfigMap; returns how long that took, at most a little more than [`FAIR`].
async fn time_to_install(case: &Case<'_>) -> Duration {
    let since = Instant::now();
    case.create(&[case.config_map(&case.name, json!({}))]).await;
    let expected = Expected::is_true("Installed", "InstallationSucceeded");
    // How long it took says whether it was in time.
    let _ = verbs::await_condition(&case.client, &case.target(), expected, FAIR + Duration::from_secs(1)).await;
    since.elapsed()
}

/// Sixteen deployments share a kind that cannot be listed; one that has nothing to do with it is installed as ever, after a restart.
#[tokio::test]
async fn deployments_of_an_unlistable_kind_do_not_take_the_queue_at_a_restart() {
    let alone = worlds::alone().await;
    let world = alone.world;
    let first = Case::in_world(world, "fair").await;
    let converter = Converter::start();
    let (crd, group) = converter.definition("fair", "v2");
    first.foreign(&crd).await;
    for version in ["v1", "v2"] {
        verbs::await_served(&first.client, &format!("{group}/{version}"), "Gadget", SOON).await.unwrap();
    }
    let cases: Vec<Case<'_>> = (0..16).map(|_| first.sibling()).collect();
    let installs = cases.iter().enumerate().map(|(index, case)| {
        let group = &group;
        async move {
            let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
                "metadata": {"name": format!("g{index}"), "namespace": case.namespace}, "spec": {"size": 1}});
            case.install(&[object]).await
        }
    });
    futures::future::join_all(installs).await;
    alone.stop().await;
    converter.break_down();
    alone.start().await;
    // At the beginning all are looked at, and again and again later on: an innocent one at each time.
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        slowest = slowest.max(time_to_install(&first.sibling()).await);
    }
    let stuck: Value = cases[0].status().await;
    converter.mend();
    for case in &cases {
        case.delete(&case.target()).await;
    }
    first.delete(&definition_target(&group)).await;
    assert!(slowest < FAIR, "an innocent deployment waited {slowest:?}; meanwhile: {stuck:#}");
}

/// One deployment has two hundred objects whose webhook takes its time; another has one ConfigMap.
#[tokio::test]
async fn a_slow_webhook_of_one_deployment_does_not_starve_the_others() {
    let alone = alone().await;
    let case = alone.case("starving").await;
    let hook = Hook::start(&case, &[["", "secrets"]], |_| Verdict::AtGate).await;
    let secrets: Vec<Value> = (0..200)
        .map(|index| {
            json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": format!("s-{index:03}"), "namespace": case.namespace}})
        })
        .collect();
    case.create(&secrets).await;
    hook.until_at_gate().await;
    let mut slowest = Duration::ZERO;
    for _ in 0..2 {
        slowest = slowest.max(time_to_install(&case.sibling()).await);
    }
    // What is asked for in place of it is looked at as well, long before all the old objects had their turn.
    let since = Instant::now();
    case.change("v2", &[case.config_map("instead", json!({}))]).await;
    let target = case.config_map_target("instead");
    let instead =
        verbs::await_object(&case.client, &target, "the new version", FAIR * 2, |object| object.is_some()).await;
    let waited = since.elapsed();
    hook.end().await;
    assert!(slowest < FAIR, "the other deployment waited {slowest:?}");
    instead.unwrap_or_else(|error| panic!("the new version of the same deployment, after {waited:?}: {error:#}"));
    until(&case.client, &case.name, Expected::is_true("Installed", "InstallationSucceeded")).await;
    case.delete(&case.target()).await;
    case.until_gone(&Target::of(&secrets[0]).unwrap()).await;
}
