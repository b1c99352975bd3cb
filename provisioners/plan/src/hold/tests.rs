//! When windows open, and what an OperatorCondition says.

use rukpak_content::Digest;
use rukpak_crds::{BundleDeployment, BundleDeploymentStatus};
use serde_json::json;

use super::*;
use crate::Format;
use crate::observed::Desired;

fn window(schedule: &str, duration: &str, zone: Option<&str>) -> UpgradeWindow {
    let [schedule, duration] = [schedule, duration].map(str::to_owned);
    UpgradeWindow { schedule, duration, time_zone: zone.map(str::to_owned) }
}

/// When there is time for 30 minutes, seen at a time; `open` if it is now.
fn at(now: &str, windows: &[UpgradeWindow]) -> String {
    let now: Timestamp = now.parse().unwrap();
    match opens(windows, Duration::from_mins(30), now).expect("there are windows") {
        Ok(opens) if opens <= now => "open".to_owned(),
        Ok(opens) => opens.to_string(),
        Err(message) => message,
    }
}

#[test]
fn a_window_is_open_from_its_time_until_the_deadline_would_pass_its_end() {
    // 2026-01-03 is a Saturday.
    let nights = [window("0 22 * * 6", "4h", None)];
    for (now, expected) in [
        ("2026-01-03T21:59:59Z", "2026-01-03T22:00:00Z"),
        ("2026-01-03T22:00:00Z", "open"),
        ("2026-01-04T01:29:59Z", "open"),
        ("2026-01-04T01:31:00Z", "2026-01-10T22:00:00Z"),
    ] {
        assert_eq!(at(now, &nights), expected, "{now}");
    }
}

#[test]
fn the_first_of_several_counts_and_each_has_its_zone() {
    let windows = [window("0 22 * * 6", "4h", None), window("30 2 * * *", "1h", Some("Europe/Prague"))];
    assert_eq!(at("2026-01-03T12:00:00Z", &windows), "2026-01-03T22:00:00Z");
    assert_eq!(at("2026-01-04T12:00:00Z", &windows), "2026-01-05T01:30:00Z");
    assert_eq!(at("2026-07-05T00:30:00Z", &windows[1..]), "open", "in summer it is two hours ahead");
    // Windows that follow each other closely.
    assert_eq!(at("2026-01-03T12:47:00Z", &[window("*/15 * * * *", "45m", None)]), "open");
}

#[test]
fn an_upgrade_waits_for_a_window_and_begins_in_it() {
    let spec = json!({"provisionerClassName": "c", "windows": [{"schedule": "0 22 * * 6", "duration": "4h"}],
        "template": {"spec": {"provisionerClassName": "c", "source": {"type": "upload", "upload": {}}}}});
    let deployment = BundleDeployment::new("pump", serde_json::from_value(spec).unwrap());
    let desired = Desired::Waiting { bundle: "pump-2".to_owned(), why: None, is_stalled: false };
    let observed = Observed::of(deployment, BundleDeploymentStatus::default(), desired);
    let release = Release::new(Digest::sha256(b"v2"), Format::Plain, None);
    let at = |now: &str, why| {
        closed(&observed, &release, why, now.parse().unwrap()).map(|problem| (problem.stage, problem.message))
    };

    let opens = "2026-01-03T22:00:00Z";
    let (stage, message) = at("2026-01-03T21:00:00Z", Why::Upgrade).expect("it waits");
    assert_eq!(stage, Stage::Closed(Some(opens.parse().unwrap())));
    assert!(message.ends_with(&format!("the next opens at {opens}")), "{message}");
    assert_eq!(at(opens, Why::Upgrade), None);
    assert_eq!(at("2026-01-03T21:00:00Z", Why::Repair), None, "repairs need no window");
}

#[test]
fn what_can_never_be_is_said_with_its_place() {
    let now = "2026-01-03T12:00:00Z";
    let daily = || window("0 2 * * *", "4h", None);
    let short = at(now, &[daily(), window("0 2 * * *", "30m", None)]);
    assert!(short.starts_with("spec.windows[1].duration: 30m is not longer than spec.progressDeadline"), "{short}");
    assert_eq!(at(now, &[window("0 2 30 2 *", "4h", None)]), "spec.windows[0].schedule: it never comes");
    for (schedule, zone) in [("0 25 * * *", None), ("0 2 * * *", Some("Mars/Base")), ("0 2 * * * UTC", None)] {
        let message = at(now, &[window(schedule, "4h", zone)]);
        assert!(message.starts_with("spec.windows[0].schedule: ") && !message.contains('\n'), "{message}");
    }
    assert!(at(now, &[window("0 2 * * *", "99999999999999999999h", None)]).contains("too long"));
}

fn said(status: &str) -> Value {
    json!([{"type": "Other", "status": "False"}, {"type": "Upgradeable", "status": status, "message": "m"}])
}

const NO: Option<&str> = Some("the operator is not upgradeable: m");

#[test]
fn a_condition_holds_up_an_upgrade_only_if_it_is_false() {
    let of = |status: &str| refusal(&json!({"spec": {"conditions": said(status)}}), Some(7));
    assert_eq!([of("False"), of("True"), of("Unknown")].each_ref().map(Option::as_deref), [NO, None, None]);
    let other = json!([{"type": "Other", "status": "False", "message": "m"}]);
    for nothing in [json!({}), json!({"spec": {}}), json!({"spec": {"conditions": other}})] {
        assert_eq!(refusal(&nothing, Some(1)), None, "{nothing}");
    }
}

#[test]
fn an_override_wins_over_the_condition() {
    let of = |override_: &str, condition: &str| {
        refusal(&json!({"spec": {"overrides": said(override_), "conditions": said(condition)}}), Some(1))
    };
    let found = [of("True", "False"), of("False", "True"), of("Unknown", "True")];
    assert_eq!(found.each_ref().map(Option::as_deref), [None, NO, NO]);
}

#[test]
fn only_what_is_in_the_status_alone_can_be_outdated() {
    let status = |status: &str, generation: i64| {
        let condition =
            json!([{"type": "Upgradeable", "status": status, "message": "m", "observedGeneration": generation}]);
        json!({"status": {"conditions": condition}})
    };
    let outdated = Some("the operatorcondition status \"Upgradeable\"=\"True\" is outdated".to_owned());
    assert_eq!(refusal(&status("True", 1), Some(2)), outdated);
    let found = [refusal(&status("True", 2), Some(2)), refusal(&status("False", 2), Some(2))];
    assert_eq!(found.each_ref().map(Option::as_deref), [None, NO]);
    let mut copied = status("False", 1);
    copied["spec"] = json!({"conditions": said("True")});
    assert_eq!(refusal(&copied, Some(2)), None, "OLM would copy it");
}
