//! Upgrades that wait for a window of `spec.windows`.

use std::time::Duration;

use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{Timestamp, ToSpan as _};
use rukpak_tests::verbs::{self, Expected};
use rukpak_tests::world::{deployment, image, until};
use serde_json::{Value, json};

use super::case::{Asked, until_ready};
use crate::engine::case::Case;

const WAITS: Expected<'_> =
    Expected { kind: "Ready", status: "Unknown", reason: Some("WaitingForWindow"), message: "the next opens at " };
/// A window that opens within the minute does so before this is over, on a busy machine too.
const MINUTES: Duration = Duration::from_mins(3);

/// A window of the 29th of February.
fn rare() -> Value {
    json!([{"schedule": "0 0 29 2 *", "duration": "1h"}])
}

/// Has `version` of two objects installed, with windows.
async fn install(case: &Case<'_>, windows: &Value, approval: Option<&str>) {
    let reference = case.push("v1", &[case.config_map("a", json!({"x": "1"}))]).await;
    let mut new = deployment(&case.name, image(&reference));
    new["spec"]["windows"] = windows.clone();
    if let Some(approval) = approval {
        new["spec"]["approval"] = json!(approval);
    }
    case.foreign(&new).await;
    until_ready(case).await;
}

#[tokio::test]
async fn an_upgrade_waits_for_its_window_and_what_is_installed_is_repaired_meanwhile() {
    let case = Case::new("window").await;
    install(&case, &rare(), None).await;
    let a = case.config_map_target("a");
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let waits = until(&case.client, &case.name, WAITS).await;
    assert!(verbs::condition(&waits, "Installed").is_some_and(|installed| installed["status"] == "True"));
    case.edit("user", &a, json!({"data": {"x": "edited"}})).await;
    case.until_value(&a, "/data/x", &json!("1")).await;

    // One that opens with the next minute, or the one after if that has nearly begun.
    let opens = Timestamp::now().checked_add(75.seconds()).expect("a time").to_zoned(TimeZone::UTC);
    let soon = json!([{"schedule": format!("{} {} * * *", opens.minute(), opens.hour()), "duration": "1h"}]);
    case.edit("user", &case.target(), json!({"spec": {"windows": soon}})).await;
    let opening = opens.strftime("%Y-%m-%dT%H:%M:00Z").to_string();
    let told = |object: &kube::api::DynamicObject| {
        let ready = verbs::condition(object, "Ready").and_then(|ready| ready["message"].as_str());
        ready.is_some_and(|text| text.contains(&opening))
    };
    case.until(&case.target(), "the time of the next window", |object| object.is_some_and(told)).await;
    let (target, ready) = (case.target(), Expected::is_true("Ready", "Succeeded"));
    let ready = verbs::await_condition(&case.client, &target, ready, MINUTES).await;
    ready.unwrap_or_else(|error| panic!("{error:#}"));
    case.until_value(&a, "/data/x", &json!("2")).await;
    assert!(Timestamp::now() >= opening.parse().expect("a time"));
}

#[tokio::test]
async fn a_plan_is_approved_before_the_window_and_asked_about_once() {
    let case = Case::new("window-plan").await;
    install(&case, &rare(), Some("Upgrades")).await;
    case.change("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    let plan = case.asked().await;
    case.answer(&plan, "Approved").await;
    until(&case.client, &case.name, WAITS).await;
    let a = case.config_map_target("a");
    assert_eq!(case.get(&a).await.expect("it is there").data["data"]["x"], "1");
    let open = json!([{"schedule": "* * * * *", "duration": "1h"}]);
    case.edit("user", &case.target(), json!({"spec": {"windows": open}})).await;
    until_ready(&case).await;
    case.until_value(&a, "/data/x", &json!("2")).await;
    case.until_phase(&plan, "Applied").await;
    assert_eq!(case.plans().await.len(), 1, "it is asked once");
}

#[tokio::test]
async fn a_rollback_waits_for_no_window_and_a_window_that_never_opens_is_named() {
    let case = Case::new("window-back").await;
    install(&case, &json!([]), None).await;
    case.pivot("v2", &[case.config_map("a", json!({"x": "2"}))]).await;
    case.edit("user", &case.target(), json!({"spec": {"windows": rare(), "rollbackTo": 1}})).await;
    case.until_value(&case.config_map_target("a"), "/data/x", &json!("1")).await;

    let short = json!([{"schedule": "0 2 * * *", "duration": "5m"}]);
    let wrong = json!({"spec": {"rollbackTo": null, "windows": short, "progressDeadline": "10m"}});
    case.edit("user", &case.target(), wrong).await;
    let never = Expected {
        status: "False",
        message: "spec.windows[0].duration: 5m is not longer than spec.progressDeadline",
        ..WAITS
    };
    until(&case.client, &case.name, never).await;
}
