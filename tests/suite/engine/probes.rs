//! `spec.healthChecks`: when objects are healthy whose kind does not tell.

use rukpak_tests::verbs::{self, Expected, Target};
use rukpak_tests::world::{deployment, image, until};
use serde_json::{Value, json};

use crate::engine::case::{Case, definition, gadget};
use crate::engine::worlds;

async fn set_phase(case: &Case<'_>, target: &Target, phase: &str) {
    case.edit_sub("status", "operator", target, json!({"status": {"phase": phase}})).await;
}

async fn until_ill(case: &Case<'_>, text: &str) {
    until(&case.client, &case.name, Expected::is_false("Healthy", "Unhealthy").saying(text)).await;
}

fn checks(group: &str) -> Value {
    json!([{"group": group, "kind": "Gadget",
        "current": [{"jsonPointer": "/status/phase", "values": ["Running"]}],
        "failed": [{"jsonPointer": "/status/phase", "values": ["Broken"]}]}])
}

/// Without one, an object without conditions is healthy at once.
#[tokio::test]
async fn an_object_is_healthy_when_its_check_says_so() {
    let alone = worlds::alone().await;
    let case = alone.case("probes").await;
    let (crd, group) = definition("probes");
    let object = gadget(&group, &case.namespace, "a", 1);
    let target = Target::of(&object).unwrap();
    let reference = case.push("v1", &[crd, object]).await;
    let mut created = deployment(&case.name, image(&reference));
    created["spec"]["healthChecks"] = checks(&group);
    verbs::create(&case.client, &created).await.expect("the API server agrees");

    until_ill(&case, "object InProgress: /status/phase is not there").await;
    set_phase(&case, &target, "Broken").await;
    until_ill(&case, "object Failed: /status/phase is \"Broken\"").await;
    set_phase(&case, &target, "Running").await;
    case.ready().await;

    set_phase(&case, &target, "Starting").await;
    until_ill(&case, "object InProgress: /status/phase is \"Starting\"").await;
    alone.stop().await;
    alone.start().await;
    until_ill(&case, "object InProgress: /status/phase is \"Starting\"").await;

    // Without the check it is as healthy as any object without conditions, and with it again it is not.
    case.edit("user", &case.target(), json!({"spec": {"healthChecks": null}})).await;
    case.ready().await;
    case.edit("user", &case.target(), json!({"spec": {"healthChecks": checks(&group)}})).await;
    until_ill(&case, "object InProgress: /status/phase is \"Starting\"").await;
    set_phase(&case, &target, "Running").await;
    case.ready().await;
}

/// The deadline of an upgrade says nothing about resources whose health nobody knows.
#[tokio::test]
async fn an_upgrade_whose_check_does_not_hold_in_time_is_taken_back() {
    let case = Case::new("probes-late").await;
    let map = |phase: &str| case.config_map("a", json!({"phase": phase}));
    case.install(&[map("Running")]).await;
    let check = json!([{"kind": "ConfigMap", "current": [{"jsonPointer": "/data/phase", "values": ["Running"]}]}]);
    case.edit("user", &case.target(), json!({"spec": {"healthChecks": check, "progressDeadline": "5s"}})).await;
    case.ready().await;
    case.change("v2", &[map("Starting")]).await;
    let stalled = Expected::is_true("Stalled", "ProgressDeadlineExceeded").saying("/data/phase is \"Starting\"");
    until(&case.client, &case.name, stalled).await;
    case.until_value(&case.config_map_target("a"), "/data/phase", &json!("Running")).await;
}

#[tokio::test]
async fn a_probe_that_looks_at_nothing_is_refused() {
    let case = Case::new("probes-wrong").await;
    let reference = case.push("v1", &[case.config_map("a", json!({}))]).await;
    let mut object = deployment(&case.name, image(&reference));
    object["spec"]["healthChecks"] = json!([{"kind": "ConfigMap", "current": [{"values": ["True"]}]}]);
    let denial = verbs::create_expecting_denial(&case.client, &object).await.unwrap();
    assert!(denial.message.contains("spec.healthChecks[0].current[0]"), "{}", denial.message);
}
