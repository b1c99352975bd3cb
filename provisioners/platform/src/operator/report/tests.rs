//! Tables: what the outcome of a pass becomes as `Installed`. The cases are those of OpenShift's unit tests.

use std::sync::Arc;

use jiff::Timestamp;
use rukpak_crds::{BundleDeploymentSpec, PlatformOperator, PlatformOperatorSpec};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn deployment(conditions: &[(&str, ConditionStatus, &str, &str)]) -> BundleDeployment {
    let mut deployment = BundleDeployment::new("a", BundleDeploymentSpec::default());
    deployment.metadata.generation = Some(2);
    let mut status = rukpak_crds::BundleDeploymentStatus { observed_generation: Some(2), ..Default::default() };
    for (type_, truth, reason, message) in conditions {
        status.conditions.set(NewCondition { type_, status: *truth, reason, message }, Some(2), NOW);
    }
    deployment.status = Some(status);
    deployment
}

fn said(deployment: &BundleDeployment) -> (bool, String, String, Readiness) {
    let verdict = of_deployment("a", deployment, false);
    (verdict.installed, verdict.reason, verdict.message, verdict.standing)
}

#[test]
fn a_bundle_deployment_speaks_for_its_platform_operator() {
    use ConditionStatus::{False, True, Unknown};
    let unpacked = (HAS_VALID_BUNDLE, True, "UnpackSuccessful", "");
    let installed = (INSTALLED, True, "InstallationSucceeded", "");
    let success = "Successfully applied the a BundleDeployment resource";
    let table: &[(&[_], bool, &str, &str, Readiness)] = &[
        (&[], false, "UnpackPending", "Waiting for the bundle to be unpacked", Readiness::Working),
        (&[installed], false, "UnpackPending", "Waiting for the bundle to be unpacked", Readiness::Working),
        (&[(HAS_VALID_BUNDLE, False, "UnpackFailed", "m")], false, "UnpackFailed", "m", Readiness::Retrying),
        (&[(HAS_VALID_BUNDLE, False, "Unpacking", "m"), installed], false, "Unpacking", "m", Readiness::Working),
        (&[(HAS_VALID_BUNDLE, Unknown, "ReconcileFailed", "m")], false, "ReconcileFailed", "m", Readiness::Retrying),
        (&[unpacked], false, "InstallPending", "Waiting for the bundle to be installed", Readiness::Working),
        (&[unpacked, (INSTALLED, False, "InstallFailed", "m")], false, "InstallFailed", "m", Readiness::Retrying),
        (
            &[unpacked, (INSTALLED, False, "UpgradeFailed", "m"), (STALLED, True, "x", "")],
            false,
            "UpgradeFailed",
            "m",
            Readiness::Stalled,
        ),
        (&[unpacked, installed], true, "InstallSuccessful", success, Readiness::Ready),
        (
            &[unpacked, installed, (READY, Unknown, "Progressing", "Deployment d is not available")],
            true,
            "InstallSuccessful",
            success,
            Readiness::Working,
        ),
        (
            &[unpacked, installed, (READY, False, "x", "m"), (STALLED, True, "x", "")],
            true,
            "InstallSuccessful",
            success,
            Readiness::Stalled,
        ),
        (&[unpacked, installed, (READY, True, "Succeeded", "")], true, "InstallSuccessful", success, Readiness::Ready),
        (&[unpacked, (INSTALLED, True, "Whatever", "")], true, "InstallSuccessful", success, Readiness::Ready),
    ];
    for (conditions, holds, reason, message, standing) in table {
        let expected = (*holds, (*reason).to_owned(), (*message).to_owned(), *standing);
        assert_eq!(said(&deployment(conditions)), expected, "{conditions:?}");
    }
}

#[test]
fn what_a_bundle_deployment_waits_for_is_passed_on() {
    let hint = |ready: &'static str| {
        let conditions = [(READY, ConditionStatus::Unknown, "Progressing", ready)];
        of_deployment("a", &deployment(&conditions), false).hint
    };
    assert_eq!(hint("no such image").as_deref(), Some("no such image"));
    assert_eq!(hint(""), None);
    assert_eq!(hint("Waiting for the bundle to be unpacked"), None, "it is said already");
}

#[test]
fn conditions_of_an_earlier_spec_say_nothing() {
    let installed = [
        (HAS_VALID_BUNDLE, ConditionStatus::True, "UnpackSuccessful", ""),
        (INSTALLED, ConditionStatus::True, "InstallationSucceeded", ""),
    ];
    let mut deployment = deployment(&installed);
    deployment.metadata.generation = Some(3);
    assert_eq!(said(&deployment).1, "UnpackPending");
    // What is installed stays installed while it is upgraded.
    let verdict = of_deployment("a", &deployment, true);
    assert_eq!((verdict.installed, verdict.standing), (true, Readiness::Working));
    // RukPak v0.16 does not tell which spec it speaks of.
    deployment.status.as_mut().unwrap().observed_generation = None;
    assert_eq!(said(&deployment).1, "InstallSuccessful");
}

#[test]
fn what_prevents_a_bundle_deployment_has_reasons_of_its_own() {
    let message = || "m".to_owned();
    let table = [
        (Outcome::Duplicate(message()), "PackageNotUnique", "m", Readiness::Stalled),
        (Outcome::Foreign(message()), "InstallFailed", "m", Readiness::Stalled),
        (Outcome::Waiting(message()), "InstallPending", "m", Readiness::Working),
        (Outcome::Unsupported(message()), "UnpackFailed", "m", Readiness::Stalled),
        (
            Outcome::NotSourced { message: message(), hint: None, class: Class::Transient, is_unwatched: true },
            "SourceFailed",
            "m: failed to run sourcing logic",
            Readiness::Retrying,
        ),
        (
            Outcome::NotSourced {
                message: message(),
                hint: Some("h".to_owned()),
                class: Class::Terminal,
                is_unwatched: false,
            },
            "SourceFailed",
            "m: failed to run sourcing logic",
            Readiness::Stalled,
        ),
        (Outcome::NotCreated { message: message(), class: Class::Terminal }, "InstallFailed", "m", Readiness::Stalled),
    ];
    for (outcome, reason, message, standing) in table {
        let verdict = verdict("a", &outcome, false);
        assert_eq!((verdict.reason.as_str(), verdict.message.as_str(), verdict.standing), (reason, message, standing));
        assert!(!verdict.installed);
    }
}

#[test]
fn only_what_a_watch_does_not_show_is_tried_again() {
    let not_sourced =
        |class, is_unwatched| retry(&Outcome::NotSourced { message: String::new(), hint: None, class, is_unwatched });
    assert_eq!(not_sourced(Class::Terminal, false), None);
    assert_eq!(not_sourced(Class::Transient, true), Some(Class::Transient));
    let deployed = |step, class| {
        let upgrade = UpgradeState { step, deprecations: None, retry: class };
        retry(&Outcome::Deployed { deployment: Arc::new(deployment(&[])), upgrade })
    };
    assert_eq!(deployed(Step::Newest, None), None);
    assert_eq!(deployed(Step::Unlooked, Some(Class::Transient)), Some(Class::Transient));
}

#[test]
fn a_platform_operator_fails_until_it_says_that_it_is_installed() {
    let mut operator = PlatformOperator::new("a", PlatformOperatorSpec::default());
    assert_eq!(operator.failing_reason(), Some("InstallPending"));
    operator.status = Some(PlatformOperatorStatus::default());
    assert_eq!(operator.failing_reason(), Some("InstallPending"));
    for (truth, reason, expected) in [
        (ConditionStatus::False, "SourceFailed", Some("SourceFailed")),
        (ConditionStatus::False, "InstallFailed", Some("InstallFailed")),
        (ConditionStatus::True, "InstallSuccessful", None),
        (ConditionStatus::True, "Odd", None),
    ] {
        let new = NewCondition { type_: INSTALLED, status: truth, reason, message: "" };
        operator.status.as_mut().unwrap().conditions.set(new, None, NOW);
        assert_eq!(operator.failing_reason(), expected);
    }
}
