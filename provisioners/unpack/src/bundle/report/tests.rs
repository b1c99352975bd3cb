use rukpak_content::Digest;
use rukpak_crds::SourceType;
use rukpak_trust::Place;
use serde_json::json;

use super::super::pin::Revision;

use super::*;

const BASE: Option<&str> = Some("https://core.rukpak-system.svc");

fn bundle() -> Bundle {
    serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "b", "generation": 2},
        "spec": {"provisionerClassName": "core-rukpak-io-plain",
                 "source": {"type": "image", "image": {"ref": "h/r:v1", "pullSecret": "s"}}},
    }))
    .unwrap()
}

fn pinned() -> Pinned {
    Pinned { revision: Revision::Image(Digest::sha256(b"image")), content: Digest::sha256(b"tree") }
}

fn failed(retry: Option<Class>) -> Report {
    let (phase, message) = (BundlePhase::Failing, "why".to_owned());
    Report::Failed(failure::Verdict { phase, message, detail: None, retry, wants_watched_namespace: false })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The conditions as `Type=Status/Reason`.
fn shown(status: &BundleStatus) -> Vec<String> {
    let one = |c: &rukpak_crds::Condition| format!("{}={:?}/{}", c.type_, c.status, c.reason);
    status.conditions.iter().map(one).collect()
}

#[test]
fn every_report_has_its_conditions() {
    let table = [
        (
            Report::Waiting,
            "Pending",
            ["Unpacked=False/UnpackPending", "Ready=False/Progressing", "Reconciling=True/Progressing"].as_slice(),
        ),
        (
            Report::Unpacking,
            "Unpacking",
            &["Unpacked=False/Unpacking", "Ready=False/Progressing", "Reconciling=True/Progressing"],
        ),
        (
            Report::Received,
            "Pending",
            &["Unpacked=False/UnpackPending", "Ready=False/Progressing", "Reconciling=True/Progressing"],
        ),
        (Report::Unpacked(pinned()), "Unpacked", &["Unpacked=True/UnpackSuccessful", "Ready=True/Succeeded"]),
        (
            failed(Some(Class::Transient)),
            "Failing",
            &["Unpacked=False/UnpackFailed", "Ready=False/UnpackFailed", "Reconciling=True/ProgressingWithRetry"],
        ),
        (
            failed(Some(Class::Terminal)),
            "Failing",
            &["Unpacked=False/UnpackFailed", "Ready=False/UnpackFailed", "Stalled=True/UnpackFailed"],
        ),
        (
            failed(None),
            "Failing",
            &["Unpacked=False/UnpackFailed", "Ready=False/UnpackFailed", "Stalled=True/UnpackFailed"],
        ),
    ];
    for (report, phase, conditions) in table {
        let status = status(&bundle(), &BundleStatus::default(), &report, None, BASE, at(1));
        assert_eq!(status.phase.as_deref(), Some(phase));
        assert_eq!(shown(&status), conditions, "{report:?}");
        assert_eq!(status.observed_generation, Some(2));
        assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(2)));
        let is_unpacked = matches!(report, Report::Unpacked(_));
        let url = "https://core.rukpak-system.svc/bundles/b.tgz";
        assert_eq!(status.content_url.as_deref(), is_unpacked.then_some(url));
    }
}

#[test]
fn what_was_resolved_goes_with_success_and_the_pin_stays() {
    let good = status(&bundle(), &BundleStatus::default(), &Report::Unpacked(pinned()), None, BASE, at(1));
    let image = good.resolved_source.clone().unwrap().image.unwrap();
    assert_eq!(image.reference, format!("h/r@{}", Digest::sha256(b"image")));
    assert_eq!(good.conditions[0].message, "Successfully unpacked the image Bundle");
    let bad = status(&bundle(), &good, &failed(Some(Class::Transient)), None, BASE, at(2));
    assert_eq!((&bad.resolved_source, &bad.content_url), (&None, &None));
    assert_eq!(bad.pin, good.pin);
    let back = status(&bundle(), &bad, &Report::Unpacked(pinned()), None, BASE, at(3));
    assert_eq!(shown(&back), shown(&good));
    assert_eq!(back.conditions[0].last_transition_time, at(3));
}

#[test]
fn without_a_content_service_there_is_no_address() {
    let status = status(&bundle(), &BundleStatus::default(), &Report::Unpacked(pinned()), None, None, at(1));
    assert_eq!(status.content_url, None);
}

#[test]
fn saying_the_same_again_changes_nothing() {
    for report in [Report::Unpacked(pinned()), failed(Some(Class::Terminal)), Report::Unpacking] {
        let once = status(&bundle(), &BundleStatus::default(), &report, None, BASE, at(1));
        assert_eq!(status(&bundle(), &once, &report, None, BASE, at(2)), once);
    }
}

#[test]
fn a_failure_is_remembered_until_there_is_success_or_a_first_attempt() {
    let after = |report| status(&bundle(), &BundleStatus::default(), &report, None, BASE, at(1));
    assert_eq!(BundleStatus::default().failure(), None);
    assert_eq!(after(Report::Waiting).failure(), None);
    assert_eq!(after(Report::Unpacking).failure(), None);
    assert!(after(failed(None)).failure().is_some());
}

fn waiting(detail: &str) -> Report {
    let message = "Back-off pulling image \"h/r:v1\"".to_owned();
    let (phase, retry) = (BundlePhase::Pending, Some(Class::Transient));
    let detail = Some(detail.to_owned());
    Report::Failed(failure::Verdict { phase, message, detail, retry, wants_watched_namespace: false })
}

#[test]
fn what_upstreams_words_leave_out_is_in_the_other_conditions() {
    let status = status(&bundle(), &BundleStatus::default(), &waiting("404: MANIFEST_UNKNOWN"), None, BASE, at(1));
    assert_eq!(said(&status, UNPACKED), Some("Back-off pulling image \"h/r:v1\""));
    let whole = Some("Back-off pulling image \"h/r:v1\": 404: MANIFEST_UNKNOWN");
    assert_eq!((said(&status, READY), said(&status, RECONCILING)), (whole, whole));
    assert_eq!(status.failure(), whole);
}

#[test]
fn only_what_an_attempt_has_shown_is_passed_on() {
    for report in [Report::Waiting, Report::Unpacking, Report::Unpacked(pinned())] {
        assert_eq!(
            status(&bundle(), &BundleStatus::default(), &report, None, BASE, at(1)).failure(),
            None,
            "{report:?}"
        );
    }
}

#[test]
fn the_number_of_a_request_writes_no_status() {
    let first = waiting("busy (request 0c6f2a9e-77d1-4a27)");
    let once = status(&bundle(), &BundleStatus::default(), &first, None, BASE, at(1));
    assert_eq!(status(&bundle(), &once, &waiting("busy (request 1d7a3b0f-88e2-5b38)"), None, BASE, at(2)), once);
    assert_ne!(status(&bundle(), &once, &waiting("gone (request 0c6f2a9e-77d1-4a27)"), None, BASE, at(2)), once);
}

#[test]
fn what_is_said_of_signatures_stays_until_there_is_another_verdict() {
    let place = Place { source: SourceType::Image, location: Some("h/r".to_owned()), pinned: false, insecure: None };
    let verdict = Verdict::not_covered(&place);
    let good = status(&bundle(), &BundleStatus::default(), &Report::Unpacked(pinned()), Some(&verdict), BASE, at(1));
    let verified = good.conditions.find(VERIFIED).unwrap();
    assert_eq!((verified.status, verified.reason.as_str()), (ConditionStatus::Unknown, "NotRequired"));
    assert!(verified.message.contains("covers h/r"), "{}", verified.message);
    assert!(good.conditions.is(READY, ConditionStatus::True), "it says nothing against the Bundle");
    let later = status(&bundle(), &good, &failed(None), None, BASE, at(2));
    assert_eq!(later.conditions.find(VERIFIED), Some(verified));
    let signed = Verdict::searched(&[], &Digest::sha256(b"image").to_string(), Ok(vec!["somebody".to_owned()]));
    let later = status(&bundle(), &good, &Report::Unpacked(pinned()), Some(&signed), BASE, at(3));
    assert!(later.conditions.is(VERIFIED, ConditionStatus::True));
    assert_eq!(later.verification.unwrap().signed_by.as_deref(), Some("somebody"));
}
